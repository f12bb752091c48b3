"""Shapes of the answers about devices."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.evaluated_schemas import EvaluatedAnswer, VerdictShown
from fleetridge_server.answer.notice_schemas import NoticeShown
from fleetridge_server.answer.schemas import (
    Answer,
    DeviceName,
    Flag,
    FleetBandwidth,
    FleetRidge,
    GpuBandwidth,
    GpuRidge,
    ReportSummary,
    Worst,
)
from fleetridge_server.verdict.state import State


class GpuRow(Answer):
    """
    One gpu of a device.

    `outcome` and `reason` are those of its newest report, measured or not; a gpu without a value is flagged
    `unmeasured`, for no data is neither good nor bad. `verdict` is null before the first evaluation.
    All numbers are those of one evaluation (`evaluated_as_of`); `not_judged_yet` is the newest report since, of which
    it knows nothing.
    """

    gpu_id: str
    cluster: str
    node: str | None
    index: int | None
    pci_bus_id: str | None
    mig_profile: str | None
    partition: str | None
    outcome: str | None
    reason: str | None
    not_judged_yet: ReportSummary | None
    measured_to: datetime | None
    age_s: float | None
    worst: Worst | None
    flags: tuple[Flag, ...]
    verdict: VerdictShown | None
    ridges: tuple[GpuRidge, ...]
    bandwidths: tuple[GpuBandwidth, ...]


class DeviceRidge(EvaluatedAnswer):
    """
    The main question: how fast this device's gpus are, and which of them are slower than their peers.

    Filters choose what is listed; peers are always all gpus of the device. `gpus` is worst first: those that are
    accused, then by deviation; `next` is the token of the next page. `verdicts` counts all gpus of the device by state,
    `cohorts` has the bands that they are held against, `notices` what is said once of many.
    """

    device: DeviceName
    as_of: datetime
    verdicts: dict[State, int]
    notices: tuple[NoticeShown, ...]
    cohorts: tuple[CohortShown, ...]
    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]
    gpus: tuple[GpuRow, ...]
    next: str | None


class DeviceSummary(EvaluatedAnswer, DeviceName):
    """
    One device of the fleet.

    `newest_report` is the ordering time of the newest report, whatever its outcome; null where none has a time.
    `verdicts` counts the gpus by state.
    """

    gpus: int
    nodes: int
    newest_report: datetime | None
    verdicts: dict[State, int]
    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]


class DeviceList(Answer):
    """Every device, by name."""

    as_of: datetime
    devices: tuple[DeviceSummary, ...]
    next: str | None
