"""The fleet: counts by verdict, coverage, worst nodes, changes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest

from fleetridge.quantities import percent
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.health import HEALTH_CODES, HEALTH_STEPS, HealthCode
from fleetridge_server.engine.notices import NoticeKind
from fleetridge_server.engine.wording import counted
from fleetridge_server.fleet.changes import LongUnmeasured, MeasuredShare
from fleetridge_server.fleet.nodes import FleetNode
from fleetridge_server.responses.alert import AlertShown
from fleetridge_server.responses.node import WorstGpu, by_state, trouble
from fleetridge_server.responses.node_list import worst_of
from fleetridge_server.verdicts.evaluation_shapes import NodeHealth, SlowPlace, StragglerShown
from fleetridge_server.verdicts.roof_shapes import Answer


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the fleet was measured, without disturbance, in the last days; null share where there are no gpus."""

    days: int
    gpus: int
    measured: int
    share: float | None
    longest_unmeasured: tuple[LongUnmeasured, ...]


@dataclass(frozen=True, slots=True)
class DeviceVerdicts:
    """
    Verdicts on the gpus of one device by state.

    Attributes:
        noted: kinds of notices on groups of its gpus, such as those with a driver that makes them slower; no gpu is
            accused of that, and the device's ridge has them in full.
        evaluated_as_of: null before the first evaluation.
    """

    name: str
    slug: str
    gpus: int
    verdicts: dict[State, int]
    noted: tuple[NoticeKind, ...]
    evaluated_as_of: datetime | None


class WorstNode(Answer):
    """A node with gpus in trouble: how many, and the one that is worst off."""

    cluster: str
    name: str
    troubled: int
    worst: WorstGpu


@dataclass(frozen=True, slots=True)
class VerdictStep:
    """How often a gpu's verdict went from one state to another; `before` is null for gpus that are new."""

    before: State | None
    after: State | None
    gpus: int


class Changes(Answer):
    """What became different: alerts that were opened and resolved, the newest first; verdicts by their steps."""

    since: datetime
    opened: int
    resolved: int
    still_open: int
    alerts: tuple[AlertShown, ...]
    verdicts: tuple[VerdictStep, ...]


@dataclass(frozen=True, slots=True)
class ActionNeeded:
    """
    One thing that somebody has to look after whatever the rates are, such as a memory repair that waits.

    Attributes:
        gpus: how many have it; nodes: the first of those that they are on, by cluster and name.
    """

    code: HealthCode
    gpus: int
    nodes: tuple[str, ...]
    next_step: str


class FleetAnswer(Answer):
    """
    The one answer: is the fleet good, and if not, where.

    `nodes_never_reported` counts nodes that only the inventory knows, `unnamed` the gpus that it expects beyond those
    that anybody has seen. `slow_nodes` and `slow_racks` are those that are slow as a whole, the accused ones first,
    each once, in the roof in which it loses most. `differing` counts gpus that lie far below the fastest of two or
    three of their kind, which accuses none of them. `stragglers` are the jobs that lose most to their slowest gpu: over
    a device, a rack and a node, in one roof each. `action_needed` counts gpus that are
    ill, fast or not.
    """

    as_of: datetime
    sentence: str
    gpus: int
    verdicts: dict[State, int]
    differing: int
    devices: tuple[DeviceVerdicts, ...]
    coverage: Coverage
    nodes_never_reported: int
    unnamed: int
    worst_nodes: tuple[WorstNode, ...]
    slow_nodes: tuple[SlowPlace, ...]
    slow_racks: tuple[SlowPlace, ...]
    changes: Changes
    stragglers: tuple[StragglerShown, ...]
    action_needed: tuple[ActionNeeded, ...] = ()


# What somebody has to look after; too few peers, a busy gpu or a gap in the measurements is nobody's fault.
TROUBLED: frozenset[State] = frozenset({"missing", "outlier", "drifted", "implausible", "suspect"})

_MOST_NODES = 10


def total(devices: Iterable[DeviceVerdicts]) -> dict[State, int]:
    """Verdicts over all devices by state, in the order of the states."""
    return by_state(state for device in devices for state in Counter(device.verdicts).elements())


@dataclass(frozen=True, slots=True)
class Together:
    """
    What of the trouble belongs to whole racks and nodes.

    Attributes:
        racks, nodes: that are slow as a whole; rack_gpus, node_gpus: gpus in trouble that are counted as part of them.
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


def together(troubled: Iterable[FleetNode], nodes: Iterable[SlowPlace], racks: Iterable[SlowPlace]) -> Together:
    """Trouble of the accused racks and nodes, and how many of the troubled gpus are counted as part of them."""
    told = [gpu for node in troubled for gpu in node.gpus if gpu.said is not None]
    reasons = Counter(gpu.said.reason for gpu in told if gpu.said is not None)
    # Of a place that is known as a whole nobody is in trouble.
    in_trouble = {gpu.gpu_id for gpu in told}
    accused = [rack for rack in racks if rack.accused and in_trouble.intersection(rack.gpu_ids)]
    in_racks = {gpu_id for rack in accused for gpu_id in rack.gpu_ids}
    return Together(
        racks=len(accused),
        rack_gpus=reasons["whole_rack"],
        nodes=sum(
            node.accused and bool(in_trouble.intersection(node.gpu_ids)) and not in_racks.issuperset(node.gpu_ids)
            for node in nodes
        ),
        node_gpus=reasons["whole_node"],
    )


def sentence(
    verdicts: Mapping[State, int],
    coverage: Coverage,
    devices: Sequence[DeviceVerdicts],
    never_reported: int,
    shared: Together = NOTHING_TOGETHER,
    differing: int = 0,
    needed: Sequence[ActionNeeded] = (),
) -> str:
    """Whether the fleet is good, in a sentence; some devices may wait for their first evaluation."""
    gpus = sum(verdicts.values())
    if not gpus:
        return "nothing was evaluated yet" if coverage.gpus else "no gpu has reported yet"
    troubled: dict[str, int] = {state: count for state, count in verdicts.items() if state in TROUBLED}
    if differing:
        troubled["slower than its few peers" if differing == 1 else "slower than their few peers"] = differing
    known = verdicts.get("known", 0)
    judged = sum(verdicts.get(state, 0) for state in ("ok", "outlier", "drifted", "suspect"))
    said = _trouble(troubled, gpus, shared) if troubled else _good(gpus, judged, known, is_ill=bool(needed))
    said += f"; {counted(known, 'gpu')} known and decided about" if known else ""
    faults = ", ".join(f"{own.gpus} {own.code.replace('_', ' ')}" for own in needed)
    said += f"; action needed: {faults}" if needed else ""
    seen = "" if coverage.share is None else f"; {percent(coverage.share)} measured in {coverage.days} days"
    waiting = [device.name for device in devices if device.evaluated_as_of is None]
    late = f"; not evaluated yet: {', '.join(waiting)}" if waiting else ""
    silent = f"; {counted(never_reported, 'expected node')} never reported" if never_reported else ""
    kinds = {own.name: ", ".join(own.noted).replace("_", " ") for own in devices if own.noted}
    noted = "".join(f"; noted on {name}: {found}" for name, found in kinds.items())
    return f"{said}{noted}{silent}{seen}{late}"


def coverage(found: MeasuredShare, days: int) -> Coverage:
    """Coverage from what was measured."""
    return Coverage(
        days=days,
        gpus=found.gpus,
        measured=found.measured,
        share=found.measured / found.gpus if found.gpus else None,
        longest_unmeasured=found.longest,
    )


def worst_nodes(nodes: Iterable[FleetNode]) -> tuple[WorstNode, ...]:
    """Of nodes with gpus in trouble the worst first, of equal ones that with more such gpus."""
    first = nsmallest(_MOST_NODES, (node for node in nodes if any(gpu.said for gpu in node.gpus)), key=_order)
    return tuple(
        WorstNode(cluster=node.name.cluster, name=node.name.name, troubled=len(node.gpus), worst=worst)
        for node in first
        if (worst := worst_of(node.gpus)) is not None
    )


def action_needed(found: Iterable[NodeHealth], cluster: str | None) -> tuple[ActionNeeded, ...]:
    """What somebody has to look after, by kind; with a cluster only what is there."""
    gpus: Counter[HealthCode] = Counter()
    nodes: dict[HealthCode, dict[str, None]] = {}
    for own in found:
        if cluster in (None, own.cluster):
            gpus[own.code] += len(own.gpu_ids)
            nodes.setdefault(own.code, {}).update({} if own.node is None else {own.node: None})
    return tuple(
        ActionNeeded(code, gpus[code], tuple(sorted(nodes[code]))[:_MOST_NODES], HEALTH_STEPS[code])
        for code in HEALTH_CODES
        if code in gpus
    )


def slow_places(places: Iterable[SlowPlace], cluster: str | None) -> tuple[SlowPlace, ...]:
    """
    Nodes or racks that are slow as a whole, each once, in the roof in which it loses most; worst first.

    With a cluster only those that are there. One that is accused in any roof is shown as accused.
    """
    worst: dict[tuple[str, str], SlowPlace] = {}
    for place in sorted(places, key=lambda place: (not place.accused, -place.loss, place.cluster, place.name)):
        if cluster in (None, place.cluster):
            worst.setdefault((place.cluster, place.name), place)
    return tuple(worst.values())


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


def _trouble(troubled: Mapping[str, int], gpus: int, shared: Together) -> str:
    """Who needs a look: whole racks and nodes by themselves, not gpu by gpu."""
    count = sum(troubled.values())
    states = ", ".join(f"{number} {state}" for state, number in troubled.items())
    if not shared.gpus:
        return f"{count} of {gpus} gpus need a look: {states}"
    single = max(0, count - shared.gpus)
    parts = [
        f"{counted(places, word)} slow as a whole ({counted(own, 'gpu')})"
        for places, word, own in ((shared.racks, "rack", shared.rack_gpus), (shared.nodes, "node", shared.node_gpus))
        if places
    ]
    parts += [counted(single, "single gpu")] if single else []
    needs = "needs" if shared.racks + shared.nodes + single == 1 else "need"
    who = ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1]
    return f"{who} {needs} a look, of {gpus} gpus: {states}"


def _good(gpus: int, judged: int, known: int, *, is_ill: bool) -> str:
    if known == gpus:
        return "nothing new is wrong"
    if not judged:
        return f"none of {gpus} gpus could be judged"
    if is_ill:
        return f"none of the {judged} gpus that could be judged is slow, of {gpus}"
    if judged < gpus:
        return f"nothing is wrong with the {judged} of {gpus} gpus that could be judged"
    return f"all {gpus} gpus are good"


def _order(node: FleetNode) -> tuple[int, float, int, str, str]:
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    worst = min(trouble(own.state, own.last_state, own.loss) for own in said)
    return *worst, -len(node.gpus), node.name.cluster, node.name.name
