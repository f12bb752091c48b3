"""
Verdicts worked out again from nothing but the JSON of answers, by arithmetic of its own.

Written from the rule as the documentation has it, not from the engine; what the two disagree about is wrong or untold.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

Judged = dict[str, Any]

_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_STEPS = 4_000


def recomputed(verdicts: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """
    Every number of the judged roofs of a device, by gpu and roof.

    Args:
        verdicts: field `verdict` of `GET /gpus/{gpu_id}`, of all gpus of the device.
    """
    cohorts: dict[str, dict[str, Judged]] = defaultdict(dict)
    for verdict in verdicts:
        for own in verdict["roofs"]:
            cohorts[_key(own)][verdict["gpu_id"]] = own
    numbers = {cohort: _cohort(gpus) for cohort, gpus in cohorts.items()}
    found = {(gpu, cohort): own for cohort, gpus in numbers.items() for gpu, own in gpus.items()}
    tested = sorted(own["p"] for own in found.values())
    believed = _believed(tested)
    for (gpu, cohort), own in found.items():
        judged = cohorts[cohort][gpu]
        own["q"] = min(p * len(tested) / rank for rank, p in enumerate(tested, start=1) if p >= own["p"])
        # What a whole node or a setting is accused of says the answer about them.
        by_itself = judged["with_group"] is None
        own["standing"] = _standing(judged["runs"], own, believed) if by_itself else judged["standing"]
    return found


def shown(verdicts: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The same numbers as the answers have them."""
    fields = ("n", "pooled_n", "median", "scale", "floor", "gate", "limit", "lowest")
    return {
        (verdict["gpu_id"], _key(own)): {name: own["band"][name] for name in fields}
        | {name: own[name] for name in ("value", "loss", "z", "p", "q", "standing", "runs_beyond")}
        for verdict in verdicts
        for own in verdict["roofs"]
    }


def _key(own: Judged) -> str:
    return json.dumps([own["roof"], own["conditions"]], sort_keys=True)


def _cohort(gpus: Mapping[str, Judged]) -> dict[str, dict[str, Any]]:
    values = {gpu: median(_counts_for(run) for run in own["runs"][: own["value_runs"]]) for gpu, own in gpus.items()}
    floor = _floor(gpus.values())
    groups: dict[str, list[str]] = defaultdict(list)
    for gpu, own in gpus.items():
        groups[json.dumps(own["band"]["levels"])].append(gpu)
    heaps = {level: sorted(values[gpu] for gpu in members if gpus[gpu]["counted"]) for level, members in groups.items()}
    centers = {
        level: _center(heap, is_upper=gpus[groups[level][0]]["band"]["of_faster_half"]) for level, heap in heaps.items()
    }
    residuals = [_b(len(heap)) * (v / centers[level] - 1) for level, heap in heaps.items() for v in heap]
    deviation = 1.4826 * median(map(abs, residuals))
    pooled_n = sum(map(len, heaps.values()))
    degrees = _degrees(pooled_n - (len(heaps) - 1)) if deviation > floor else None
    return {
        gpu: _numbers(values[gpu], centers[level], max(deviation, floor), degrees, floor, len(heaps[level]), pooled_n)
        | {"peers_lowest": _lowest(values[other] for other in members if other != gpu and gpus[other]["counted"])}
        | _beyond(gpus[gpu]["runs"], centers[level], max(deviation, floor), floor, pooled_n)
        for level, members in groups.items()
        for gpu in members
    }


def _lowest(values: Iterable[float]) -> float:
    return min(values, default=0.0)


def _numbers(
    value: float, center: float, relative: float, degrees: float | None, floor: float, n: int, pooled_n: int
) -> dict[str, Any]:
    limit = _limit(relative, floor, pooled_n)
    z = (value - center) / (relative * center)
    return {
        "n": n,
        "pooled_n": pooled_n,
        "median": center,
        "scale": relative * center,
        "floor": floor,
        "gate": max(0.03, 3 * floor),
        "limit": limit,
        "lowest": center * (1 - limit),
        "value": value,
        "loss": 1 - value / center,
        "z": z,
        "p": _two_sided(abs(z), degrees),
        "degrees": degrees,
    }


def _beyond(
    runs: Sequence[Mapping[str, Any]], center: float, relative: float, floor: float, pooled_n: int
) -> dict[str, int]:
    lowest = center * (1 - _limit(relative, floor, pooled_n))
    return {"runs_beyond": sum(_counts_for(run) < lowest for run in runs)}


def _limit(relative: float, floor: float, pooled_n: int) -> float:
    limit = max(0.03, 3 * floor, 3.5 * relative)
    return limit if pooled_n >= 16 and relative > 0.03 else min(limit, 0.10)


def _counts_for(run: Mapping[str, Any]) -> float:
    return float(run["value"] * run["carried"])


def _center(heap: Sequence[float], *, is_upper: bool) -> float:
    return median(heap[len(heap) // 2 :] if is_upper else heap)


def _floor(gpus: Iterable[Judged]) -> float:
    variances = [_variance([_counts_for(run) for run in own["runs"][:3]]) for own in gpus if own["value_runs"] == 3]
    if len(variances) < 8:
        return 0.01
    typical = median(variances)
    unequal = [variance for variance in variances if variance > 0]
    if typical == 0 and len(unequal) >= max(4, len(variances) / 10):
        typical = median(unequal)
    total = sum(min(variance, 10 * typical) for variance in variances)
    noise = math.sqrt((total + 8 * 0.005**2) / (len(variances) + 8))
    return min(0.02, max(0.005, 2 * noise))


def _variance(runs: Sequence[float]) -> float:
    mean = sum(runs) / 3
    return sum((run / mean - 1) ** 2 for run in runs) / 2


def _b(n: int) -> float:
    return 1.0 if n < 2 else _SMALL_SAMPLE.get(n, n / (n - 0.8))


def _degrees(n: int) -> float:
    return max(1.0, 0.443 * n + 0.75 - (0.65 if n % 2 else 0))


def _two_sided(z: float, degrees: float | None) -> float:
    if degrees is None:
        return math.erfc(z / math.sqrt(2))
    if z == 0:
        return 1.0
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    # The tail from z on, with t = z/u, so that the integral has an end: Simpson's rule over u from 0 to 1.
    width = 1 / _STEPS

    def height(u: float) -> float:
        if u == 0:
            return 0.0
        return float(constant * (1 + (z / u) ** 2 / degrees) ** (-(degrees + 1) / 2) * z / u**2)

    inner = sum((4 if step % 2 else 2) * height(step * width) for step in range(1, _STEPS))
    return 2 * width / 3 * (height(0) + inner + height(1))


def _believed(tested: Sequence[float]) -> float:
    n = len(tested)
    return max([0.05 / n, *(p for rank, p in enumerate(tested, start=1) if p <= 0.05 * rank / n)])


def _standing(runs: Sequence[Mapping[str, Any]], own: Mapping[str, Any], believed: float) -> str:
    """What the runs of the streak, which the newest two in a row clearly inside begin, accuse a gpu of."""
    losses = [1 - _counts_for(run) / own["median"] for run in runs]
    clear = [loss < 0.8 * own["limit"] for loss in losses]
    streak = next((place for place in range(len(runs) - 1) if clear[place] and clear[place + 1]), len(runs))
    order = ["clear", "suspect", "outlier"]
    said = [
        _accused(runs[newest : newest + 3], runs[newest:streak], own, believed)
        for newest in range(streak)
        # The oldest of ten runs was not alone.
        if len(runs) < 10 or newest + 3 <= len(runs)
    ]
    return max(said, key=order.index, default="clear")


def _accused(
    recent: Sequence[Mapping[str, Any]],
    streak: Sequence[Mapping[str, Any]],
    own: Mapping[str, Any],
    believed: float,
) -> str:
    most = "outlier" if own["n"] >= 6 else "suspect"
    beyond = [run for run in streak if _counts_for(run) < own["lowest"]]
    fallen = [run for run in beyond if 1 - _counts_for(run) / own["median"] >= 0.25]
    newest = recent[0]
    if newest in fallen and ((newest["converged"] is True and not newest["fell_with_node"]) or _are_apart(fallen)):
        return most
    value = median(map(_counts_for, recent))
    if not beyond or value >= own["lowest"] or (beyond == [newest] and recent[1:]):
        return "clear"
    far = [
        run for run in beyond if 1 - _counts_for(run) / own["median"] >= 0.10 and _counts_for(run) < own["peers_lowest"]
    ]
    is_unlikely = _two_sided(abs(value - own["median"]) / own["scale"], own["degrees"]) <= believed
    return most if _are_apart(far) or (_are_apart(beyond) and is_unlikely) else "suspect"


def _are_apart(runs: Sequence[Mapping[str, Any]]) -> bool:
    return len(runs) >= 2 and _time(runs[0]) - _time(runs[-1]) >= timedelta(hours=1)


def _time(run: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(run["ordered_at"].replace("Z", "+00:00"))
