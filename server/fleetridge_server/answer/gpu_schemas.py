"""Shapes of the answers about one gpu."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fleetridge_server.answer.drift_schemas import DriftShown
from fleetridge_server.answer.evaluated_schemas import EvaluatedAnswer
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.schemas import (
    Answer,
    DeviceName,
    Flag,
    GpuBandwidth,
    GpuRidge,
    ReportSummary,
    ShownRoof,
    Worst,
)
from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.verdict.state import State


class GpuAnswer(EvaluatedAnswer):
    """
    One gpu: who and where it is, what it reaches against its peers, and its newest reports, newest first.

    `verdict` has every number that it rests on; `verdict_since` is when its state began. Both are null before the first
    evaluation. `not_judged_yet` is the newest report since the evaluation, of which no number here knows.
    """

    gpu_id: str
    as_of: datetime
    device: DeviceName
    cluster: str
    node: str | None
    index: int | None
    pci_bus_id: str | None
    architecture: str | None
    memory_bytes: int | None
    sm_count: int | None
    mig_profile: str | None
    partition: str | None
    first_seen: datetime | None
    last_seen: datetime | None
    verdict_since: datetime | None
    verdict: GpuVerdict | None
    latest: ReportSummary | None
    not_judged_yet: ReportSummary | None
    worst: Worst | None
    flags: tuple[Flag, ...]
    ridges: tuple[GpuRidge, ...]
    bandwidths: tuple[GpuBandwidth, ...]
    other_roofs: tuple[ShownRoof, ...]
    reports: tuple[ReportSummary, ...]


@dataclass(frozen=True, slots=True)
class RunRoof:
    """One judged roof of one report, in `unit`, with what the device said of itself meanwhile."""

    roof: RoofName
    unit: str
    value: float
    converged: bool | None
    implausible: bool
    trend: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle_ms: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One report of a gpu, measured or not; `epoch` is the number of the span that it belongs to, null where none."""

    report_id: UUID
    ordered_at: datetime
    run_kind: str
    cluster: str
    node: str | None
    outcome: str
    reason: str | None
    contended: bool | None
    epoch: int | None
    roofs: tuple[RunRoof, ...]


@dataclass(frozen=True, slots=True)
class EpochShown:
    """
    A span in which nothing is known to have changed: software, settings, and how was measured.

    Attributes:
        number: 1 for the oldest that is known.
        first, last: ordering times of its runs.
        settings: what is known of it, as people write it.
    """

    number: int
    first: datetime
    last: datetime
    runs: int
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class OwnEffect:
    """A roof before and after a change: medians of at most three runs each, and their ratio less 1."""

    roof: RoofName
    unit: str
    before: float
    after: float
    effect: float


@dataclass(frozen=True, slots=True)
class ChangeShown:
    """What changed between two epochs (`before` and `after` by setting), and what the gpu's own roofs did."""

    ordered_at: datetime
    before: dict[str, str]
    after: dict[str, str]
    effects: tuple[OwnEffect, ...]


@dataclass(frozen=True, slots=True)
class VerdictChangeShown:
    """What was said of the gpu from a time on; a null state where it was no longer spoken of."""

    as_of: datetime
    state: State | None
    last_state: State | None
    reason: str | None
    loss: float | None
    text: str | None


class GpuHistoryAnswer(Answer):
    """
    One gpu's past, newest first: its runs page by page, and what is known of all of it.

    `epochs` and `changes` rest on its newest 1000 measured reports; `drifts` is as of the newest evaluation.
    """

    gpu_id: str
    device: DeviceName
    as_of: datetime
    epochs: tuple[EpochShown, ...]
    changes: tuple[ChangeShown, ...]
    drifts: tuple[DriftShown, ...]
    verdict_changes: tuple[VerdictChangeShown, ...]
    runs: tuple[HistoryRun, ...]
    next: str | None
