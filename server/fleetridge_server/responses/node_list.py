"""
Nodes in a list: rows, and the host list that schedulers read, `n[01-03,07],login`.

As Slurm reads it (slurm.conf, NodeName): one pair of brackets, at the end of a name; leading zeros keep the number of
digits. Names that end otherwise are not folded. Names that no host could have are left out, since one with a bracket
or a comma in it would stand for other nodes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.health import HEALTH_CODES, HealthCode
from fleetridge_server.fleet.nodes import FleetNode, GpuVerdictRow
from fleetridge_server.responses.node import NodeRow, WorstGpu, by_state, trouble
from fleetridge_server.verdicts.evaluation_shapes import AbsenceShown, NodeHealth
from fleetridge_server.verdicts.roof_shapes import shape_of
from fleetridge_server.verdicts.stored import VerdictSummary

RACK = "rack"


def node_row(node: FleetNode, absences: Sequence[AbsenceShown], health: Iterable[NodeHealth] = ()) -> NodeRow:
    """One node of a list."""
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    return NodeRow(
        cluster=node.name.cluster,
        name=node.name.name,
        rack=None if node.row is None else node.row.labels.get(RACK),
        gpus=len(node.gpus),
        devices=dict(sorted(Counter(gpu.device for gpu in node.gpus).items())),
        verdicts=by_state(own.state for own in said),
        worst=worst_of(node.gpus),
        missing=tuple(sorted(own.gpu_id for own in said if own.state == "missing")),
        unnamed=sum(absence.unnamed for absence in absences),
        never_reported=node.row is None,
        last_seen=None if node.row is None else node.row.last_seen,
        action_needed=_needed(health),
    )


def _needed(health: Iterable[NodeHealth]) -> dict[HealthCode, int]:
    gpus: Counter[HealthCode] = Counter()
    for own in health:
        gpus[own.code] += len(own.gpu_ids)
    return {code: gpus[code] for code in HEALTH_CODES if gpus[code]}


def health_by_node(health: Iterable[NodeHealth]) -> Mapping[NodeName, list[NodeHealth]]:
    """What needs action on each node, over all devices."""
    found: dict[NodeName, list[NodeHealth]] = {}
    for own in health:
        if own.cluster is not None and own.node is not None:
            found.setdefault(NodeName(own.cluster, own.node), []).append(own)
    return found


def absences_by_node(absences: Iterable[AbsenceShown]) -> Mapping[NodeName, list[AbsenceShown]]:
    """What is missing from each node, over all devices."""
    found: dict[NodeName, list[AbsenceShown]] = {}
    for absence in absences:
        found.setdefault(NodeName(absence.cluster, absence.node), []).append(absence)
    return found


def worst_of(gpus: Iterable[GpuVerdictRow]) -> WorstGpu | None:
    """The gpu that is worst off; None where nothing is said of any."""
    worst = min(((gpu, gpu.said) for gpu in gpus if gpu.said is not None), key=_trouble, default=None)
    if worst is None:
        return None
    gpu, said = worst
    return shape_of(WorstGpu, said, gpu_id=gpu.gpu_id, device=gpu.device, index=gpu.index)


def _trouble(judged: tuple[GpuVerdictRow, VerdictSummary]) -> tuple[int, float, str]:
    """Key by which gpus come worst first."""
    gpu, said = judged
    return *trouble(said.state, said.last_state, said.loss), gpu.gpu_id


# Letters, digits, dots, hyphens and underscores, as schedulers take them; a leading hyphen would read as an option.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_NUMBERED = re.compile(r"(.*?)([0-9]+)")

# Longer numbers are dates or serials, and Slurm counts in machine words.
_MOST_DIGITS = 9


def is_host(name: str) -> bool:
    """Whether a name can stand in a host list."""
    return _HOST.fullmatch(name) is not None


def folded(names: Iterable[str]) -> str:
    """Host list of some names, each once, sorted; without those that no host could have."""
    numbered: dict[str, list[str]] = defaultdict(list)
    parts: list[tuple[str, str]] = []
    for name in {name for name in names if is_host(name)}:
        found = _NUMBERED.fullmatch(name)
        if found is None or len(found[2]) > _MOST_DIGITS:
            parts.append((name, name))
        else:
            numbered[found[1]].append(found[2])
    parts += [(prefix, _bracketed(prefix, digits)) for prefix, digits in numbered.items()]
    return ",".join(part for _, part in sorted(parts))


def _bracketed(prefix: str, digits: Iterable[str]) -> str:
    runs = list(_runs(digits))
    if len(runs) == 1 and "-" not in runs[0]:
        return f"{prefix}{runs[0]}"
    return f"{prefix}[{','.join(runs)}]"


def _runs(digits: Iterable[str]) -> Iterator[str]:
    """Numbers that follow one another as "03-07", others by themselves; each run keeps its number of digits."""
    known = set(digits)
    padded_widths = {len(number) for number in known if number.startswith("0") and len(number) > 1}
    widths: dict[int, list[int]] = defaultdict(list)
    for number in known:
        widths[len(number) if len(number) in padded_widths else 1].append(int(number))
    for width in sorted(widths):
        for first, last in _spans(sorted(widths[width])):
            low, high = f"{first:0{width}}", f"{last:0{width}}"
            yield low if first == last else f"{low}-{high}"


def _spans(values: list[int]) -> Iterator[tuple[int, int]]:
    first = last = values[0]
    for value in values[1:]:
        if value != last + 1:
            yield first, last
            first = value
        last = value
    yield first, last
