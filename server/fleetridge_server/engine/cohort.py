"""
Cohorts: which gpus may be compared with which, and which roofs are judged.

A cohort is a roof key with the conditions that its gpus share. Beside it stand `Span` (which times, and real or
simulated gpus, an answer is about), `Reading` and `GpuValue`. What a gpu counts for in a cohort says `engine.values`,
what it is held against `engine.limits`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from fleetridge.judged_kernels import BEST_GEMM, JUDGED_LEVEL
from fleetridge.report import RoofKey
from fleetridge_server.engine.fast_dataclass import json_dataclass
from fleetridge_server.engine.rule import JUDGED_KERNELS

# Cluster of the simulator, whose made-up gpus never share a cohort, a count or a list with real ones.
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Span:
    """What an answer is about: real or made-up gpus, nothing later than `as_of` and nothing measured before `since`."""

    as_of: datetime
    since: datetime | None = None
    simulated: bool = False


@json_dataclass
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
    What the newest report behind a value says of it.

    Attributes:
        measured_to: by the node's clock.
        value: as it was measured, in TFLOP/s or GB/s, as the roof's kind says.
        temperature_c: highest over the report's phases.
    """

    report_id: UUID
    ordered_at: datetime
    value: float
    measured_to: datetime | None = None
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
        value: median over its newest reports, each times what upgrades did since.
        reports: how many they are, 1 to NEWEST_REPORTS.
        newest: reading of the newest of them; None for those who only draw the value.
    """

    gpu_id: str
    cohort: Cohort
    value: float
    reports: int = 1
    newest: Reading | None = None


def is_judged(roof: RoofKey) -> bool:
    """Whether the roof is measured alike everywhere, so that a deviation says something about the gpu."""
    return roof.level == JUDGED_LEVEL and roof.kernel in JUDGED_KERNELS[roof.kind]


def is_best_pi(roof: RoofKey) -> bool:
    """Whether the roof is the best rate that a search found: shown beside pi, never compared."""
    return roof.kind == "compute" and roof.kernel == BEST_GEMM


def cohort_order(cohort: Cohort) -> tuple[str, ...]:
    """Order of cohorts in an answer, the same however the reports arrived."""
    roof, conditions = cohort
    words = (
        *roof,
        conditions.mig_profile,
        conditions.partition,
        conditions.method,
        conditions.fill,
        conditions.protocol_version,
        conditions.memory_bytes,
        conditions.sm_count,
    )
    return tuple("" if word is None else str(word) for word in words)
