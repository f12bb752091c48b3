"""
Groups within a cohort: gpus that are judged against one median, because what they run makes a difference.

A fleet half upgraded to a slower driver has two medians. Against one median between them every fault hides in the
spread; against that of its own level (value of a factor) it shows, and the step between levels is one notice instead
of n accusations. That holds for versions, ECC and the power limits with which boards are sold, and only where a level
is on three nodes or more, or gpus met the change in place: else the node is what is slow. A setting below what a board
was sold with is no level: `engine.settings`.

- Half-slow levels (`level_centers`): of four gpus on one driver two may be faulty, and the median then lies between
  the halves and accuses nobody. Where the whole cohort shows that like gpus lie close together, a slower half that is
  set apart is left out of the level's center: faults make silicon slower, never faster.
- Two products under one name (`mixed_products_boundary`): half of a cohort cannot be called broken by the other half.
  Where no known factor separates two modes of like size, each is judged by itself, with one notice.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.engine import rule
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.statistics import (
    NORMAL_CONSISTENCY,
    floored_scale,
    median,
    robust_deviation,
    small_sample_factor,
    two_sided,
)
from fleetridge_server.engine.values import Member


def level_centers(levels: Sequence[Sequence[float]], floor: float) -> list[float]:
    """
    Center of each level of a cohort: its median, or that of its faster half where the slower half is set apart.

    A half is set apart where its median lies at least 8 scales, 3.5 floors and 3 % below that of the faster half, with
    a gap of half that distance between them. The scale is the root mean square of all residuals within levels and
    halves. Together such halves are at most a quarter of the cohort, else none is.

    Args:
        levels: values of each level, above 0.
        floor: smallest scale, as a fraction.
    """
    centers = [median(values) for values in levels]
    apart = [place for place, values in enumerate(levels) if _has_gap(values, floor)]
    total = sum(map(len, levels))
    if not apart or sum(len(levels[place]) // 2 for place in apart) > rule.HALF_SLOW_LARGEST_SHARE * total:
        return centers
    parts = [part for place, values in enumerate(levels) for part in (_halves(values) if place in apart else [values])]
    scale = _pooled_scale(parts)
    for place in apart:
        slower, faster = _halves(levels[place])
        if _distance(slower, faster) >= rule.HALF_SLOW_SCALES * scale:
            centers[place] = median(faster)
    return centers


def _has_gap(values: Sequence[float], floor: float) -> bool:
    """Whether a level falls into halves far enough apart to be looked at."""
    if len(values) % 2 or not rule.FEWEST_PEERS <= len(values) < rule.HALF_SLOW_FEWEST:
        return False
    slower, faster = _halves(values)
    gap = faster[0] - slower[-1]
    is_far = _distance(slower, faster) >= max(rule.HALF_SLOW_NEAREST, rule.HALF_SLOW_FLOORS * floor)
    return is_far and gap >= rule.HALF_SLOW_GAP * (median(faster) - median(slower))


def _halves(values: Sequence[float]) -> tuple[list[float], list[float]]:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[:half], ordered[half:]


def _distance(slower: Sequence[float], faster: Sequence[float]) -> float:
    return 1 - median(slower) / median(faster)


def _pooled_scale(parts: Sequence[Sequence[float]]) -> float:
    """Relative standard deviation about the parts' own medians, each of which costs a degree of freedom."""
    squares = [(value / median(part) - 1) ** 2 for part in parts for value in part]
    return math.sqrt(math.fsum(squares) / max(1, len(squares) - len(parts)))


def mixed_products_boundary(values: Sequence[float], floor: float) -> float | None:
    """
    Value between two modes; None where the values have one.

    The modes are parted at the widest gap that leaves each at least 40 % of the values, and four.

    Args:
        values: of one group, above 0.
        floor: smallest scale, as a fraction of the median.
    """
    ordered = sorted(values)
    fewest = max(rule.FEWEST_PEERS, -int(-rule.MIXED_SMALLEST_SHARE * len(ordered) // 1))
    if len(ordered) < 2 * fewest:
        return None
    cut = max(range(fewest, len(ordered) - fewest + 1), key=lambda place: ordered[place] - ordered[place - 1])
    low, high = ordered[:cut], ordered[cut:]
    if high[0] - low[-1] < rule.MIXED_GAP * (median(high) - median(low)):
        return None
    distance = median(high) / median(low) - 1
    scale = max(_deviation(low), _deviation(high), floor)
    if distance < rule.MIXED_NEAREST or distance < rule.MIXED_SCALES * scale:
        return None
    return (low[-1] + high[0]) / 2


def _deviation(values: Sequence[float]) -> float:
    center = median(values)
    factor = NORMAL_CONSISTENCY * small_sample_factor(len(values)) / center
    return factor * median(abs(value - center) for value in values)


# Factor of a split that no recorded factor explains.
UNEXPLAINED = "product"

# 95 % of a normal distribution, and the standard error of a median in units of that of a mean.
_Z_95 = 1.96
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


class Level(NamedTuple):
    """Value of one factor, as people write it; "unknown" for a reading that is missing."""

    factor: str
    name: str


class LevelFigures(NamedTuple):
    """A level with the number of its gpus and their median, that of the faster half where the slower is set apart."""

    level: Level
    n: int
    median: float


@dataclass(frozen=True, slots=True)
class Step:
    """
    A factor whose levels differ.

    Attributes:
        levels: with at least four gpus, slowest first.
        effect: slowest median over fastest, less 1.
        low, high: 95 % interval of the effect, from the pooled scale and the standard error of medians.
        gpu_ids: of the slowest level.
    """

    factor: str
    levels: tuple[LevelFigures, ...]
    effect: float
    low: float
    high: float
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """
    Gpus that are judged against one median, that of `counted`; `levels`, that they share, are empty without a split.

    Attributes:
        levels: that they share; empty where the cohort was not split.
        counted: whose values make the median.
        uncounted: members without a vote, judged beside the others: of a level too small for a median, or not
            measured lately.
    """

    levels: tuple[Level, ...]
    counted: tuple[Member, ...]
    uncounted: tuple[Member, ...]


# Levels of a factor between which gpus of a cohort changed, each measured before and after, at a cost that counts.
Proven = frozenset[frozenset[Level]]


@dataclass(frozen=True, slots=True)
class StepRule:
    """
    When a step between two levels is believed.

    Attributes:
        floor: smallest scale, as a fraction of the median.
        believed_p: largest probability of a step by chance that is believed.
        proven: steps that gpus met in place; they need neither three nodes nor a probability.
    """

    floor: float
    believed_p: float = 0.0
    proven: Proven = frozenset()


def effect_gate(floor: float) -> float:
    """Smallest loss that counts beside a floor, as a fraction."""
    return max(rule.SMALLEST_GATE, rule.FLOORS_PER_GATE * floor)


def grouped(
    counted: Sequence[Member], uncounted: Sequence[Member], believed: StepRule
) -> tuple[list[Group], list[Step]]:
    """
    Groups of a cohort, and the steps between them.

    The factor whose levels lie furthest apart, in within-level scales, splits the cohort; its levels are then looked at
    in the same way. Last, a group whose values have two modes is two products of one name.

    Args:
        counted: members whose values make medians.
        uncounted: the others.
        believed: which steps count.
    """
    if not counted:
        return [], []
    return _split(Group((), tuple(counted), tuple(uncounted)), Factors._fields, believed)


def step_probabilities(counted: Sequence[Member], floor: float) -> list[float]:
    """Of each factor with levels to compare, how probable so large a step is by chance."""
    if len(counted) < 2 * rule.FEWEST_PEERS:
        return []
    group, every = Group((), tuple(counted), ()), StepRule(floor, believed_p=1.0)
    candidates = (
        _candidate(group, factor, _level_reader(factor), every) for factor in _varied(counted, Factors._fields)
    )
    return [found.probability for found in candidates if found is not None]


def pooled_deviation(groups: Sequence[Sequence[float]], centers: Sequence[float]) -> float:
    """
    Relative robust deviation of values about their own group's center.

    Each residual is raised by its group's small-sample factor; the result is 1.4826·median over all.
    """
    residuals: list[float] = []
    for values, center in zip(groups, centers, strict=True):
        factor = small_sample_factor(len(values)) / center
        residuals.extend(factor * (value - center) for value in values)
    return robust_deviation(residuals)


def _split(group: Group, factors: Sequence[str], believed: StepRule) -> tuple[list[Group], list[Step]]:
    if len(group.counted) < 2 * rule.FEWEST_PEERS:
        return [group], []
    factors = _varied(group.counted, factors)
    found = [own for factor in factors if (own := _candidate(group, factor, _level_reader(factor), believed))]
    if not found:
        products = _products(group, believed.floor)
        return (products.parts, [products.step]) if products else ([group], [])
    best = max(found, key=lambda candidate: candidate.distance)
    rest = [factor for factor in factors if factor != best.step.factor]
    groups: list[Group] = []
    steps = [best.step]
    for part in best.parts:
        parts, further = _split(part, rest, believed)
        groups += parts
        steps += further
    return groups, steps


def _varied(members: Sequence[Member], factors: Iterable[str]) -> list[str]:
    """Factors that are not the same for all; most are, so that nothing else need be looked at."""
    settings = {member.newest.report.factors for member in members}
    positions = {factor: Factors._fields.index(factor) for factor in factors}
    return [factor for factor, place in positions.items() if len({setting[place] for setting in settings}) > 1]


@dataclass(frozen=True, slots=True)
class _Candidate:
    step: Step
    parts: list[Group]
    distance: float
    probability: float


def _candidate(group: Group, factor: str, level_of: Callable[[Member], str], believed: StepRule) -> _Candidate | None:
    """Split of a group by a factor; None where its levels do not differ, or are too small to compare."""
    by_level: dict[str, list[Member]] = defaultdict(list)
    for member in group.counted:
        by_level[level_of(member)].append(member)
    met = {level.name for pair in believed.proven for level in pair if level.factor == factor}
    large = {
        name: tuple(members)
        for name, members in by_level.items()
        if len(members) >= rule.FEWEST_PEERS and (name in met or len(_by_node(members)) >= rule.LEVEL_FEWEST_NODES)
    }
    if len(large) < 2:  # noqa: PLR2004 # a step has two sides
        return None
    found = _between(group, factor, large, level_of, believed.floor)
    slowest, fastest = found.step.levels[0].level, found.step.levels[-1].level
    is_proven = frozenset({slowest, fastest}) in believed.proven
    is_believed = -found.step.effect >= rule.SMALLEST_STEP and (is_proven or found.probability <= believed.believed_p)
    return found if is_believed else None


def _by_node(members: Iterable[Member]) -> dict[object, list[float]]:
    """Values by node; a gpu of no known node stands for itself."""
    found: dict[object, list[float]] = defaultdict(list)
    for member in members:
        found[member.newest.report.node or member.gpu_id].append(member.value)
    return found


def _probability(levels: Sequence[Iterable[Member]], effect: float, floor: float) -> float:
    """How probable a step is by chance where nodes, not gpus, are what was drawn: a version is a node's."""
    nodes = [[median(own) for own in _by_node(members).values()] for members in levels]
    deviation = pooled_deviation(nodes, level_centers(nodes, floor))
    scale = floored_scale(deviation, 1.0, n=sum(map(len, nodes)), floor=floor)
    error = _MEDIAN_ERROR * scale.value * math.sqrt(math.fsum(1 / len(own) for own in nodes))
    return two_sided(effect / error, scale.degrees)


def _between(
    group: Group, factor: str, large: dict[str, tuple[Member, ...]], level_of: Callable[[Member], str], floor: float
) -> _Candidate:
    values = [[member.value for member in members] for members in large.values()]
    centers = level_centers(values, floor)
    figures = sorted(
        (
            LevelFigures(Level(factor, name), len(members), center)
            for (name, members), center in zip(large.items(), centers, strict=True)
        ),
        key=lambda level: (level.median, level.level),
    )
    deviation = max(pooled_deviation(values, centers), floor)
    distance = (figures[-1].median / figures[0].median - 1) / deviation
    # A gpu of a level without a median is held to the slowest: it must not be accused for a setting of its own.
    slowest = figures[0].level.name
    uncounted: dict[str, list[Member]] = defaultdict(list)
    chosen = {member.gpu_id for members in large.values() for member in members}
    for member in (*group.counted, *group.uncounted):
        if member.gpu_id in chosen:
            continue
        name = level_of(member)
        uncounted[name if name in large else slowest].append(member)
    parts = [
        Group((*group.levels, level.level), large[level.level.name], tuple(uncounted[level.level.name]))
        for level in figures
    ]
    step = _step(factor, figures, deviation, large[slowest])
    probability = _probability([large[slowest], large[figures[-1].level.name]], step.effect, floor)
    return _Candidate(step, parts, distance, probability)


def _step(factor: str, figures: Sequence[LevelFigures], deviation: float, slowest: Sequence[Member]) -> Step:
    low_side, high_side = figures[0], figures[-1]
    effect = low_side.median / high_side.median - 1
    margin = _Z_95 * _MEDIAN_ERROR * deviation * math.sqrt(1 / low_side.n + 1 / high_side.n)
    gpu_ids = tuple(member.gpu_id for member in slowest)
    return Step(factor, tuple(figures), effect, effect - margin, effect + margin, gpu_ids)


def _products(group: Group, floor: float) -> _Candidate | None:
    """The two products whose values make up a group; None where it is one."""
    border = mixed_products_boundary([member.value for member in group.counted], floor)
    if border is None:
        return None

    def product_of(member: Member) -> str:
        return "slower" if member.value < border else "faster"

    by_product: dict[str, list[Member]] = defaultdict(list)
    for member in group.counted:
        by_product[product_of(member)].append(member)
    return _between(
        group, UNEXPLAINED, {name: tuple(members) for name, members in by_product.items()}, product_of, floor
    )


def _level_reader(factor: str) -> Callable[[Member], str]:
    position = Factors._fields.index(factor)

    def level_of(member: Member) -> str:
        return level_name(member.newest.report.factors[position])

    return level_of


def level_name(reading: str | float | bool | None) -> str:
    """A factor's reading as people write it; power limits to the whole watt."""
    if reading is None:
        return "unknown"
    if isinstance(reading, bool):
        return "on" if reading else "off"
    return reading if isinstance(reading, str) else f"{reading:.0f}"
