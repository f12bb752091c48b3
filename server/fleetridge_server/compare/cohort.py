"""
Who may be compared with whom, and the one value by which a gpu enters the comparison.

Pure: rows in, values out. All functions work on the readings of one device; gpus of different devices never meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from fleetridge.report import RoofKey
from fleetridge_server.compare import stats
from fleetridge_server.record import json_record

# Three reports outvote one disturbed sweep, and a gpu that became slower shows after two.
NEWEST_REPORTS = 3

# With fewer the median is hardly more than one gpu's own word.
FEWEST_PEERS = 4

# A roof of an import may not say by which kernel it was measured; it is compared with its like only.
JUDGED_KERNELS = {"compute": ("gemm_reference", None), "memory": ("read", None)}
_BEST_KERNEL = "gemm_best"


@json_record
class Conditions:
    """
    What two gpus of one device must share, besides the roof's key, to be compared.

    A null is a value of its own: unknown equals only unknown.

    Attributes:
        memory_bytes, sm_count, mig_profile, partition: of the gpu when it was measured.
        fill: of the operands; zeros draw less power and run faster.
        method, protocol_version: of the measuring agent.
    """

    memory_bytes: int | None
    sm_count: int | None
    mig_profile: str | None
    partition: str | None
    fill: str | None
    method: str | None
    protocol_version: int | None


class Cohort(NamedTuple):
    """Key of the gpus of one device that may be compared in one roof."""

    roof: RoofKey
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One roof of one valid report: measured, not contended, with a time.

    Attributes:
        ordered_at: the report's ordering time.
        measured_to: by the node's clock.
        value: in TFLOP/s or GB/s, as the roof's kind says.
        temperature_c: highest over the report's phases.
    """

    gpu_id: str
    report_id: UUID
    cohort: Cohort
    ordered_at: datetime
    measured_to: datetime | None
    value: float
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    converged: bool | None = None
    clock_ahead: bool = False


@dataclass(frozen=True, slots=True)
class GpuValue:
    """
    What one gpu counts for in one cohort.

    Attributes:
        value: median over its newest reports.
        reports: how many they are, 1 to NEWEST_REPORTS.
        oldest_at: ordering time of the oldest of them.
        newest: reading of the newest of them.
    """

    gpu_id: str
    cohort: Cohort
    value: float
    reports: int
    oldest_at: datetime
    newest: Reading


def current_values(readings: Iterable[Reading]) -> list[GpuValue]:
    """
    Values of each gpu, one for each roof and method, sorted by gpu and roof.

    A gpu counts under the conditions of its newest report: what it did before it was split, refilled or measured by an
    older protocol is history. The method stands apart, as one sweep with options of one's own must not take a gpu out
    of the comparison.
    """
    groups: dict[tuple[str, RoofKey, str | None], list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.gpu_id, reading.cohort.roof, reading.cohort.conditions.method].append(reading)
    return sorted(
        (_value_of(group) for group in groups.values()), key=lambda value: (value.gpu_id, cohort_order(value.cohort))
    )


def distributions(values: Iterable[GpuValue]) -> dict[Cohort, stats.Distribution]:
    """Distribution of the gpus' values in every cohort that has one."""
    members: dict[Cohort, list[float]] = defaultdict(list)
    for value in values:
        members[value.cohort].append(value.value)
    return {cohort: stats.distribution(group) for cohort, group in members.items()}


def is_judged(roof: RoofKey) -> bool:
    """Whether the roof is measured alike everywhere, so that a deviation says something about the gpu."""
    return roof.level == "device" and roof.kernel in JUDGED_KERNELS[roof.kind]


def is_best_pi(roof: RoofKey) -> bool:
    """Whether the roof is the best rate that a search found: shown beside pi, never compared."""
    return roof.kind == "compute" and roof.kernel == _BEST_KERNEL


def cohort_order(cohort: Cohort) -> tuple[str, ...]:
    """Order of cohorts in an answer, the same however the reports arrived."""
    roof, conditions = cohort
    words = (
        roof.kind,
        roof.dtype,
        roof.out_dtype,
        roof.fast_accumulation,
        roof.regime,
        roof.level,
        roof.kernel,
        conditions.mig_profile,
        conditions.partition,
        conditions.method,
        conditions.fill,
        conditions.protocol_version,
        conditions.memory_bytes,
        conditions.sm_count,
    )
    return tuple("" if word is None else str(word) for word in words)


def _value_of(group: list[Reading]) -> GpuValue:
    """Value from all readings of one gpu, roof and method."""
    newest = max(group, key=_recency)
    by_report: dict[UUID, list[Reading]] = defaultdict(list)
    for reading in group:
        if reading.cohort == newest.cohort:
            by_report[reading.report_id].append(reading)
    recent = sorted(by_report.values(), key=lambda readings: _recency(readings[0]), reverse=True)[:NEWEST_REPORTS]
    return GpuValue(
        gpu_id=newest.gpu_id,
        cohort=newest.cohort,
        # A report that states one roof twice still has one vote.
        value=stats.median(stats.median(reading.value for reading in readings) for readings in recent),
        reports=len(recent),
        oldest_at=recent[-1][0].ordered_at,
        newest=newest,
    )


def _recency(reading: Reading) -> tuple[datetime, datetime, UUID, float]:
    # Between reports of one time the node's own clock decides and then the id, so that the order of arrival never does.
    return reading.ordered_at, reading.measured_to or reading.ordered_at, reading.report_id, reading.value
