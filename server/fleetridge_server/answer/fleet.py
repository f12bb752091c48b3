"""From what is said of all devices to the one answer about the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from fleetridge.quantities import percent
from fleetridge_server.answer.fleet_nodes import trouble, worst_of
from fleetridge_server.answer.fleet_schemas import Coverage, DeviceVerdicts, LongUnmeasured, VerdictStep, WorstNode
from fleetridge_server.answer.place_schemas import SlowPlace
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.store.coverage import MeasuredShare
from fleetridge_server.store.fleet_nodes import FleetNode
from fleetridge_server.verdict.notices import NoticeKind
from fleetridge_server.verdict.state import STATES, State

# What somebody has to look after; too few peers, a busy gpu or a gap in the measurements is nobody's fault.
TROUBLED: frozenset[State] = frozenset({"missing", "outlier", "drifted", "implausible", "suspect"})

_MOST_NODES = 10
_MOST_PLACES = 10


def total(devices: Iterable[DeviceVerdicts]) -> dict[State, int]:
    """Verdicts over all devices by state, in the order of the states."""
    counts: Counter[State] = Counter()
    for device in devices:
        counts.update(device.verdicts)
    return {state: counts[state] for state in STATES if counts[state]}


@dataclass(frozen=True, slots=True)
class Together:
    """
    What of the trouble belongs to whole racks and nodes.

    Attributes:
        racks, nodes: that are slow as a whole; rack_gpus, node_gpus: gpus in trouble that are told of as part of them.
    """

    racks: int = 0
    rack_gpus: int = 0
    nodes: int = 0
    node_gpus: int = 0

    @property
    def gpus(self) -> int:
        """Gpus that nobody need look at one by one."""
        return self.rack_gpus + self.node_gpus


NOTHING_TOGETHER = Together()


def together(nodes: Iterable[FleetNode], racks: Iterable[SlowPlace]) -> Together:
    """
    Trouble of whole racks and nodes.

    Args:
        nodes: each with its gpus in trouble.
        racks: slow ones, any number of times.
    """
    reasons = [[gpu.said.reason for gpu in node.gpus if gpu.said is not None] for node in nodes]
    of_nodes = [own.count("whole_node") for own in reasons]
    rack_gpus = sum(own.count("whole_rack") for own in reasons)
    return Together(
        racks=len({(rack.cluster, rack.name) for rack in racks}) if rack_gpus else 0,
        rack_gpus=rack_gpus,
        nodes=sum(count > 0 for count in of_nodes),
        node_gpus=sum(of_nodes),
    )


def sentence(
    verdicts: Mapping[State, int],
    coverage: Coverage,
    devices: Sequence[DeviceVerdicts],
    never_reported: int,
    shared: Together = NOTHING_TOGETHER,
) -> str:
    """
    Whether the fleet is good, in a sentence.

    Args:
        verdicts: of all gpus.
        coverage: of the fleet.
        devices: of which some may wait for their first evaluation.
        never_reported: nodes that only the inventory knows.
        shared: what of the trouble belongs to whole racks and nodes.
    """
    gpus = sum(verdicts.values())
    if not gpus:
        return "nothing was evaluated yet" if coverage.gpus else "no gpu has reported yet"
    troubled = {state: count for state, count in verdicts.items() if state in TROUBLED}
    judged = sum(verdicts.get(state, 0) for state in ("ok", "outlier", "drifted", "suspect"))
    said = _trouble(troubled, gpus, shared) if troubled else _good(gpus, judged)
    seen = "" if coverage.share is None else f"; {percent(coverage.share)} measured in {coverage.days} days"
    waiting = [device.name for device in devices if device.evaluated_as_of is None]
    late = f"; not evaluated yet: {', '.join(waiting)}" if waiting else ""
    silent = f"; {_counted(never_reported, 'expected node')} never reported" if never_reported else ""
    noted = "".join(f"; noted on {own.name}: {', '.join(map(_spoken, own.noted))}" for own in devices if own.noted)
    return f"{said}{noted}{silent}{seen}{late}"


def coverage(found: MeasuredShare, days: int) -> Coverage:
    """Coverage from what was measured."""
    return Coverage(
        days=days,
        gpus=found.gpus,
        measured=found.measured,
        share=found.measured / found.gpus if found.gpus else None,
        longest_unmeasured=tuple(
            LongUnmeasured(gpu.gpu_id, gpu.device, gpu.cluster, gpu.node, gpu.measured_at) for gpu in found.longest
        ),
    )


def worst_nodes(nodes: Iterable[FleetNode]) -> tuple[WorstNode, ...]:
    """
    Nodes with gpus in trouble: the worst first, of equal ones that with more such gpus.

    Args:
        nodes: each with its gpus in trouble alone.
    """
    first = nsmallest(_MOST_NODES, (node for node in nodes if any(gpu.said for gpu in node.gpus)), key=_order)
    return tuple(
        WorstNode(cluster=node.name.cluster, name=node.name.name, troubled=len(node.gpus), worst=worst)
        for node in first
        if (worst := worst_of(node.gpus)) is not None
    )


def slow_places(places: Iterable[SlowPlace], cluster: str | None) -> tuple[SlowPlace, ...]:
    """
    Nodes or racks that are slow as a whole, each once, in the roof in which it loses most; worst first.

    With a cluster only those that are there.
    """
    worst: dict[tuple[str, str], SlowPlace] = {}
    for place in sorted(places, key=lambda place: (-place.loss, place.cluster, place.name)):
        if cluster in (None, place.cluster):
            worst.setdefault((place.cluster, place.name), place)
    return tuple(worst.values())[:_MOST_PLACES]


def costliest_jobs(costs: Sequence[StragglerShown], cluster: str | None) -> tuple[StragglerShown, ...]:
    """The jobs over a device, a rack and a node that lose most; with a cluster only those that are there."""
    found: list[StragglerShown] = []
    for scope in ("device", "rack", "node"):
        jobs = [cost for cost in costs if cost.scope == scope and cluster in (None, cost.cluster)]
        worst = max(jobs, key=lambda cost: cost.loss, default=None)
        found += [] if worst is None else [worst]
    return tuple(found)


def steps_shown(steps: Counter[tuple[State | None, State | None]]) -> tuple[VerdictStep, ...]:
    """Steps of verdicts, the most frequent first."""
    order = sorted(steps.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(VerdictStep(before, after, gpus) for (before, after), gpus in order)


def _trouble(troubled: Mapping[State, int], gpus: int, shared: Together) -> str:
    """Who needs a look: whole racks and nodes by themselves, not gpu by gpu."""
    count = sum(troubled.values())
    states = ", ".join(f"{number} {state}" for state, number in troubled.items())
    if not shared.gpus:
        return f"{count} of {gpus} gpus need a look: {states}"
    single = max(0, count - shared.gpus)
    parts = [
        f"{_counted(places, word)} slow as a whole ({_counted(own, 'gpu')})"
        for places, word, own in ((shared.racks, "rack", shared.rack_gpus), (shared.nodes, "node", shared.node_gpus))
        if places
    ]
    parts += [_counted(single, "single gpu")] if single else []
    needs = "needs" if shared.racks + shared.nodes + single == 1 else "need"
    who = ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1]
    return f"{who} {needs} a look, of {gpus} gpus: {states}"


def _spoken(kind: NoticeKind) -> str:
    return kind.replace("_", " ")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _good(gpus: int, judged: int) -> str:
    if not judged:
        return f"none of {gpus} gpus could be judged"
    if judged < gpus:
        return f"nothing is wrong with the {judged} of {gpus} gpus that could be judged"
    return f"all {gpus} gpus are good"


def _order(node: FleetNode) -> tuple[int, float, int, str, str]:
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    worst = min(trouble(own.state, own.last_state, own.loss) for own in said)
    return *worst, -len(node.gpus), node.name.cluster, node.name.name
