"""
One gpu beside its own past: a two-sided tabular CUSUM on clipped residuals against a pinned baseline.

Page (1954), with the usual reference value of half a scale and decision limit of 5. The floor on the scale, the clip
and the gate are what keeps a healthy gpu from an alarm within the first hundred runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.groups import effect_gate
from fleetridge_server.engine.limits import limits_of
from fleetridge_server.engine.statistics import median

DriftStatus = Literal["learning", "steady", "drifted"]


class Epoch(NamedTuple):
    """What must stay the same for a gpu to be compared with its own past."""

    factors: Factors
    conditions: Conditions

    def continues(self, earlier: Epoch) -> bool:
        """Whether nothing is known to have changed; a reading that one of the two lacks is no change."""
        if self is earlier or self == earlier:
            return True
        return self.conditions == earlier.conditions and all(
            own == before or own is None or before is None
            for own, before in zip(self.factors, earlier.factors, strict=True)
        )

    def shares_baseline(self, earlier: Epoch) -> bool:
        """
        Whether one baseline is for both: the conditions and what matters of the settings are the same.

        Of torch and cuBLAS the release matters, not the build: nightly ones change every day. A power limit does not
        begin anew: one that moves by itself would with every run, and one that was set lower is no excuse.
        """
        if self.continues(earlier):
            return True
        return self.conditions == earlier.conditions and all(
            own == before or own is None or before is None
            for own, before in zip(_that_matters(self.factors), _that_matters(earlier.factors), strict=True)
        )


# The first two numbers of a version, such as 2.12 of 2.12.0.dev20260101+cu130.
_RELEASE = re.compile(r"\d+\.\d+")


@lru_cache(maxsize=4096)
def _that_matters(factors: Factors) -> Factors:
    return factors._replace(torch=_release(factors.torch), cublas=_release(factors.cublas), power_limit_w=None)


def _release(version: str | None) -> str | None:
    found = None if version is None else _RELEASE.match(version)
    return version if found is None else found[0]


@fast_dataclass
class DriftSample:
    """Median of the runs of one gpu in one roof within an hour, with the time of the first."""

    at: datetime
    value: float
    epoch: Epoch


@fast_dataclass
class Drift:
    """
    How a gpu does beside its baseline.

    Attributes:
        status: `learning` while the baseline is short, `drifted` when it became slower, else `steady`.
        looks: in the current epoch.
        baseline: median of the first eight looks of the epoch; None while learning.
        scale: of the baseline, floored.
        low, high: CUSUM of slower and of faster looks, in scales.
        onset: first look of the change that the larger CUSUM saw; None where there is none.
        since: looks from the onset on.
        change: median of the newest (at most five) looks since the onset over the baseline, less 1.
        recent_change: the same of the newest (at most five) looks of the epoch, whether anything was seen or not.
        gate: smallest loss that counts.
        first: first look of the epoch; None while learning.
    """

    status: DriftStatus
    looks: int
    baseline: float | None = None
    scale: float | None = None
    low: float = 0.0
    high: float = 0.0
    onset: datetime | None = None
    since: int = 0
    change: float | None = None
    recent_change: float = 0.0
    gate: float = rule.SMALLEST_GATE
    first: datetime | None = None

    @property
    def has_changed(self) -> bool:
        """Whether the gpu became slower or faster for good; a faster one is steady all the same."""
        return self.change is not None and self.since >= rule.DRIFT_FEWEST_SINCE and abs(self.change) >= self.gate


def drift_samples(runs: Iterable[DriftSample]) -> list[DriftSample]:
    """Runs, oldest first, with those of one epoch within an hour of the first taken together."""
    looks: list[DriftSample] = []
    group: list[DriftSample] = []
    for run in runs:
        if group and (run.at - group[0].at >= rule.DRIFT_RUNS_APART or not run.epoch.continues(group[0].epoch)):
            looks.append(_together(group))
            group = []
        group.append(run)
    return [*looks, _together(group)] if group else looks


def current_epoch(looks: Sequence[DriftSample]) -> Sequence[DriftSample]:
    """The newest looks between which nothing is known to have changed."""
    start = len(looks) - 1
    while start > 0 and looks[start].epoch.continues(looks[start - 1].epoch):
        start -= 1
    return looks[max(0, start) :]


def comparable_looks(looks: Sequence[DriftSample]) -> Sequence[DriftSample]:
    """The newest looks that one baseline is for; it is carried over changes of settings that had no effect."""
    start = len(looks) - 1
    while start > 0 and (
        looks[start].epoch.shares_baseline(looks[start - 1].epoch) or _is_without_effect(looks, start)
    ):
        start -= 1
    return looks[max(0, start) :]


def _is_without_effect(looks: Sequence[DriftSample], cut: int) -> bool:
    """Whether a gpu did before a change as it does after it, by up to three looks on either side."""
    if looks[cut].epoch.conditions != looks[cut - 1].epoch.conditions:
        return False
    before = median(look.value for look in looks[max(0, cut - rule.NEWEST_REPORTS) : cut])
    after = median(look.value for look in looks[cut : cut + rule.NEWEST_REPORTS])
    return abs(after / before - 1) < rule.SMALLEST_UPGRADE_EFFECT


def drift_of_epoch(looks: Sequence[DriftSample], floor: float) -> Drift:
    """
    Drift of one gpu in one roof.

    Args:
        looks: of the current epoch, oldest first: the first eight are the baseline, of the rest the newest 192 count.
        floor: smallest scale f of its cohort, as a fraction.
    """
    if len(looks) > rule.MOST_RUNS:
        looks = [*looks[: rule.BASELINE_RUNS], *looks[rule.BASELINE_RUNS - rule.MOST_RUNS :]]
    if len(looks) < rule.BASELINE_RUNS:
        return Drift("learning", len(looks))
    values = [look.value for look in looks]
    limits = limits_of(values[: rule.BASELINE_RUNS], floor)
    low, high, low_from, high_from = _cusum(values, limits.median, limits.scale.value)
    start = low_from if low >= high else high_from
    since = values[start:] if max(low, high) > rule.CUSUM_DECISION else []
    change = median(since[-rule.DRIFT_RECENT :]) / limits.median - 1 if since else None
    found = Drift(
        "steady",
        len(looks),
        baseline=limits.median,
        scale=limits.scale.value,
        low=low,
        high=high,
        onset=looks[start].at if since else None,
        since=len(since),
        change=change,
        recent_change=median(values[-rule.DRIFT_RECENT :]) / limits.median - 1,
        gate=effect_gate(floor),
        first=looks[0].at,
    )
    is_slower = change is not None and change < 0 and found.has_changed
    return replace(found, status="drifted") if is_slower else found


def _together(group: Sequence[DriftSample]) -> DriftSample:
    if len(group) == 1:
        return group[0]
    return DriftSample(group[0].at, median(run.value for run in group), group[-1].epoch)


def _cusum(values: Sequence[float], center: float, scale: float) -> tuple[float, float, int, int]:
    """Sums of slower and of faster looks after the baseline, and the positions from which each is above 0."""
    low = high = 0.0
    low_from = high_from = len(values)
    for position, value in enumerate(values[rule.BASELINE_RUNS :], start=rule.BASELINE_RUNS):
        z = max(-rule.CUSUM_CLIP, min(rule.CUSUM_CLIP, (value - center) / scale))
        low = max(0.0, low - z - rule.CUSUM_SLACK)
        high = max(0.0, high + z - rule.CUSUM_SLACK)
        low_from = position + 1 if low == 0 else min(low_from, position)
        high_from = position + 1 if high == 0 else min(high_from, position)
    return low, high, low_from, high_from
