"""
Nodes, racks and gpus of one setting that are slow as a whole, by a test of significance.

Power, cooling and settings belong to a node: where its gpus are slow together the node is named, once.

    share  = value of a gpu (median of its newest ten runs) / median of its group
    place  = median of its gpus' shares
    scale  = max(1.4826·b_n·MAD of all places, floor/√gpus)
    p      = one-sided, of (place - median of places) / scale, from t(ν_n), normal where floored
    slow   = q ≤ 5 % (Benjamini–Hochberg over the device's places and roofs) and a loss of at least 3 %

A node whose gpus are all accused by themselves is slow without any test, and so is a rack all of whose nodes are.

Slow once is a note. A place is accused where it is slow with q ≤ 0.25 %, and so are, with q ≤ 5 %, both halves of its
newest runs by themselves, an hour or more apart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.group_shares import halves_of, share_of
from fleetridge_server.engine.slow_settings import SlowSetting
from fleetridge_server.engine.statistics import (
    floored_scale,
    median,
    robust_deviation,
    small_sample_factor,
    two_sided,
)
from fleetridge_server.engine.verdict import (
    AccusationLevel,
    GroupWord,
    PlaceWord,
    Verdict,
    largest_significant,
    q_values,
)


class RackName(NamedTuple):
    """A rack by the nodes' reserved label, within its cluster."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class PlaceVerdict:
    """
    A node or a rack that is slow as a whole in one roof.

    Attributes:
        loss: of the place, against the median of the places of its kind.
        q: share of healthy ones to expect among all that are as unlikely; where nothing was tested, the largest of its
            gpus.
        of: places that were compared, or that there are.
        gpu_ids: of its gpus that share the loss, worst first; who lies within half a gate of the peers does not.
        is_accused: both halves of its runs say so, and chance would in one healthy place of four hundred.
        is_suspect: both halves say so, and chance would more often; else it is a note.
    """

    place: NodeName | RackName
    cohort: Cohort
    loss: float
    q: float
    of: int
    gpu_ids: tuple[str, ...]
    is_accused: bool
    is_suspect: bool = False

    @property
    def word(self) -> PlaceWord:
        """What it is."""
        return "rack" if isinstance(self.place, RackName) else "node"


@fast_dataclass
class _Measured:
    """A place in one roof, with the center and the scale that all places of the roof give it."""

    place: NodeName | RackName
    verdicts: Sequence[Verdict]
    share: float
    center: float
    scale: float
    degrees: float | None
    of: int

    def p(self, share: float) -> float:
        """One-sided probability that a healthy place has so small a share."""
        tail = two_sided((share - self.center) / self.scale, self.degrees) / 2
        return tail if share < self.center else 1 - tail

    def loss(self, share: float) -> float:
        """Part of the center that a share lacks."""
        return 1 - share / self.center


def slow_nodes(verdicts: Iterable[Verdict]) -> list[PlaceVerdict]:
    """
    Nodes that are slow as a whole, worst first.

    By the test where there are five or more. Whatever it says, and of however many, a node is slow too whose gpus (two
    or more) are all accused by their own runs; chance has no part in that.
    """
    known = list(verdicts)
    tested = _slow(known, _node_of)
    found = {(slow.place, slow.cohort): slow for slow in tested}
    for node in _nodes_of_accused_gpus(known):
        if (held := found.get((node.place, node.cohort))) is None or (node.is_accused and not held.is_accused):
            found[node.place, node.cohort] = node if held is None else replace(held, is_accused=True)
    return sorted(found.values(), key=_worst_first)


def slow_racks(nodes: Iterable[PlaceVerdict], verdicts: Iterable[Verdict]) -> list[PlaceVerdict]:
    """
    Racks that are slow as a whole, worst first.

    By the same test where there are five or more; a rack of two nodes or more is slow too where all of them are.
    """
    known = list(verdicts)
    tested = _slow(known, _rack_of)
    found = {(slow.place, slow.cohort) for slow in tested}
    racks = [rack for rack in _racks_of_slow_nodes(nodes, known) if (rack.place, rack.cohort) not in found]
    return sorted([*tested, *racks], key=_worst_first)


def accused_together(
    verdicts: Iterable[Verdict], places: Iterable[PlaceVerdict], settings: Iterable[SlowSetting]
) -> list[Verdict]:
    """Verdicts with those of gpus accused that share the loss of an accused place or setting; the last one is named."""
    groups: dict[tuple[str, Cohort], tuple[AccusationLevel, GroupWord]] = {}
    known = list(places)
    for place in sorted(known, key=lambda place: place.is_accused):
        if place.is_accused or place.is_suspect:
            level = AccusationLevel.OUTLIER if place.is_accused else AccusationLevel.SUSPECT
            groups |= {(gpu_id, place.cohort): (level, place.word) for gpu_id in place.gpu_ids}
    for slow in settings:
        groups |= {(gpu_id, slow.cohort): (AccusationLevel.OUTLIER, "setting") for gpu_id in slow.gpu_ids}
    if not groups:
        return list(verdicts)
    return [_accused_with(verdict, groups.get((verdict.gpu_id, verdict.cohort))) for verdict in verdicts]


def _accused_with(verdict: Verdict, group: tuple[AccusationLevel, GroupWord] | None) -> Verdict:
    """The verdict of a gpu with its group; with one that is suspect only where the gpu's own loss counts, too."""
    if group is None or verdict.finding.level >= group[0]:
        return verdict
    level, word = group
    if level is AccusationLevel.SUSPECT and verdict.loss < verdict.limits.gate:
        return verdict
    return replace(verdict, finding=replace(verdict.finding, level=level, retest=False, with_group=word))


def _slow(verdicts: Iterable[Verdict], place_of: Callable[[Verdict], NodeName | RackName | None]) -> list[PlaceVerdict]:
    by_cohort: dict[Cohort, dict[NodeName | RackName, list[Verdict]]] = defaultdict(lambda: defaultdict(list))
    for verdict in verdicts:
        if verdict.limits.has_verdict and verdict.member.in_window and verdict.member.is_stable:
            place = place_of(verdict)
            if place is not None:
                by_cohort[verdict.cohort][place].append(verdict)
    measured = [own for places in by_cohort.values() for own in _measured(places)]
    probabilities = [own.p(own.share) for own in measured]
    believed = largest_significant(probabilities)
    found = [
        _slow_place(own, q, believed)
        for own, p, q in zip(measured, probabilities, q_values(probabilities), strict=True)
        if p <= believed and own.loss(own.share) >= rule.PLACE_LOSS
    ]
    return sorted(found, key=_worst_first)


def _measured(places: dict[NodeName | RackName, list[Verdict]]) -> list[_Measured]:
    """Places of one cohort with two gpus or more, beside one another; none where they are fewer than five."""
    shares = {
        place: median(share_of(verdict, verdict.member.runs) for verdict in own)
        for place, own in places.items()
        if len(own) >= rule.NODE_FEWEST_GPUS
    }
    n = len(shares)
    if n < rule.FEWEST_PLACES:
        return []
    center = median(shares.values())
    deviation = small_sample_factor(n) * robust_deviation([share - center for share in shares.values()])
    found: list[_Measured] = []
    for place, share in shares.items():
        own = places[place]
        scale = floored_scale(deviation, center, n=n, floor=own[0].limits.floor / math.sqrt(len(own)))
        found.append(_Measured(place, own, share, center, scale.value, scale.degrees, n))
    return found


def _slow_place(own: _Measured, q: float, believed_p: float) -> PlaceVerdict:
    sharing = [verdict for verdict in own.verdicts if verdict.loss >= rule.NODE_GATE_PART * verdict.limits.gate]
    sharing.sort(key=lambda verdict: (-verdict.loss, verdict.gpu_id))
    halves = halves_of(own.verdicts) or (own.center,)
    is_confirmed = all(own.p(half) <= believed_p and own.loss(half) >= rule.PLACE_LOSS for half in halves)
    is_accused = is_confirmed and q <= rule.FALSE_PLACES
    loss, gpu_ids = own.loss(own.share), tuple(verdict.gpu_id for verdict in sharing)
    return PlaceVerdict(
        own.place, own.verdicts[0].cohort, loss, q, own.of, gpu_ids, is_accused, is_confirmed and not is_accused
    )


def _nodes_of_accused_gpus(verdicts: Iterable[Verdict]) -> Iterator[PlaceVerdict]:
    by_node: dict[tuple[NodeName, Cohort], list[Verdict]] = defaultdict(list)
    nodes: dict[Cohort, set[NodeName]] = defaultdict(set)
    healthy: set[tuple[NodeName, Cohort]] = set()
    for verdict in verdicts:
        node = _node_of(verdict)
        if node is None or not verdict.limits.has_verdict:
            continue
        nodes[verdict.cohort].add(node)
        if verdict.is_accused:
            by_node[node, verdict.cohort].append(verdict)
        else:
            healthy.add((node, verdict.cohort))
    for (node, cohort), own in by_node.items():
        if len(own) >= rule.NODE_FEWEST_GPUS and (node, cohort) not in healthy:
            own.sort(key=lambda verdict: (-verdict.loss, verdict.gpu_id))
            yield PlaceVerdict(
                node,
                cohort,
                loss=median(verdict.loss for verdict in own),
                q=max(1.0 if verdict.q is None else verdict.q for verdict in own),
                of=len(nodes[cohort]),
                gpu_ids=tuple(verdict.gpu_id for verdict in own),
                is_accused=all(verdict.finding.level is AccusationLevel.OUTLIER for verdict in own),
            )


def _racks_of_slow_nodes(nodes: Iterable[PlaceVerdict], verdicts: Iterable[Verdict]) -> list[PlaceVerdict]:
    slow = {(node.place, node.cohort): node for node in nodes}
    if not slow:
        return []
    members: dict[tuple[RackName, Cohort], set[NodeName]] = defaultdict(set)
    for verdict in verdicts:
        rack, node = _rack_of(verdict), verdict.member.newest.report.node
        if rack is not None and node is not None:
            members[rack, verdict.cohort].add(node)
    found: list[PlaceVerdict] = []
    racks = Counter(cohort for _, cohort in members)
    for (rack, cohort), names in members.items():
        parts = [slow[name, cohort] for name in sorted(names) if (name, cohort) in slow]
        if len(names) >= rule.RACK_FEWEST_NODES and len(parts) == len(names):
            found.append(
                replace(
                    max(parts, key=lambda part: part.q),
                    place=rack,
                    loss=median(part.loss for part in parts),
                    of=racks[cohort],
                    gpu_ids=tuple(gpu_id for part in parts for gpu_id in part.gpu_ids),
                    is_accused=all(part.is_accused for part in parts),
                )
            )
    return found


def _node_of(verdict: Verdict) -> NodeName | None:
    return verdict.member.newest.report.node


def _rack_of(verdict: Verdict) -> RackName | None:
    report = verdict.member.newest.report
    return None if report.node is None or report.rack is None else RackName(report.node.cluster, report.rack)


def _worst_first(slow: PlaceVerdict) -> tuple[float, NodeName | RackName]:
    return -slow.loss, slow.place
