"""
Answers about a device: its gpus and their ridges, and the rows that answers about gpus share.

Pure: what a program or a person is shown follows from its arguments alone, `as_of` included.
"""

from datetime import datetime
from typing import Any

from fleetridge_server.engine.cohort import GpuValue
from fleetridge_server.engine.gpu_state import UNUSABLE, State
from fleetridge_server.engine.ridge import Compared, GpuRoofs, Ridge
from fleetridge_server.fleet.locations import GpuLocation
from fleetridge_server.fleet.reports import NamedReport
from fleetridge_server.responses.verdict import EvaluatedAnswer, VerdictShown
from fleetridge_server.verdicts.evaluation_shapes import NoticeShown
from fleetridge_server.verdicts.roof_shapes import (
    Answer,
    DeviceName,
    Flag,
    FleetBandwidth,
    FleetRidge,
    GpuBandwidth,
    GpuRidge,
    ReportSummary,
    ShownRoof,
    Worst,
    shape_of,
)
from fleetridge_server.verdicts.sentence import unit_of
from fleetridge_server.verdicts.verdict_shapes import CohortShown, GpuVerdict


class GpuRow(Answer):
    """
    One gpu of a device.

    `outcome` and `reason` are those of its newest report, measured or not; a gpu is flagged `unmeasured` where its
    verdict says so, for no data is neither good nor bad. `verdict` is null before the first evaluation.
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


def gpu_row(
    location: GpuLocation, roofs: GpuRoofs, verdict: VerdictShown | None, unjudged: NamedReport | None, as_of: datetime
) -> GpuRow:
    """One gpu as it is listed; `unjudged` is its newest report that the evaluation does not know yet."""
    newest = newest_value(roofs)
    return shape_of(
        GpuRow,
        location,
        not_judged_yet=None if unjudged is None else report_summary(unjudged),
        measured_to=None if newest is None or newest.newest is None else newest.newest.measured_to,
        age_s=None if newest is None else _age_s(newest, as_of),
        **gpu_figures(roofs, verdict, as_of),
        verdict=verdict,
    )


def gpu_figures(roofs: GpuRoofs, verdict: VerdictShown | GpuVerdict | None, as_of: datetime) -> dict[str, Any]:
    """What is said alike of a gpu in a list and of one by itself."""
    return {
        "worst": _worst(roofs),
        "flags": _gpu_flags(roofs, verdict),
        "ridges": tuple(_gpu_ridge(ridge, as_of) for ridge in roofs.ridges),
        "bandwidths": tuple(_gpu_bandwidth(beta, as_of) for beta in roofs.bandwidths),
    }


def _worst(roofs: GpuRoofs) -> Worst | None:
    """The judged roof in which a gpu lies furthest below its peers."""
    compared = roofs.worst
    if compared is None:
        return None
    roof = compared.own.cohort.roof
    return Worst(
        roof="pi" if roof.kind == "compute" else "beta",
        dtype=roof.dtype,
        regime=roof.regime,
        value=compared.own.value,
        median=compared.against.median,
        deviation=compared.deviation,
        peers=compared.against.n,
    )


def _gpu_flags(roofs: GpuRoofs, verdict: VerdictShown | GpuVerdict | None) -> tuple[Flag, ...]:
    """What to know before trusting a gpu's figures; stale or unmeasured it is where its verdict says so alone."""
    said: set[Flag] = {flag for compared in roofs.judged for flag in _flags(compared.own)}
    if verdict is None:
        return tuple(sorted(said))
    # What is known may be so because nobody can measure it.
    states = {verdict.state, verdict.last_state} if verdict.state == "known" else {verdict.state}
    if "stale" in states:
        said.add("stale")
    # Whose runs say nothing never gave a value that counts, whatever else it is.
    if "unmeasured" in states or (verdict.state in UNUSABLE and verdict.last_state is None):
        said.add("unmeasured")
    return tuple(sorted(said))


def newest_value(roofs: GpuRoofs) -> GpuValue | None:
    """The judged value measured last, by ordering time."""
    known = (compared.own for compared in roofs.judged if compared.own.newest is not None)
    return max(known, key=lambda own: own.newest.ordered_at, default=None)  # type: ignore[union-attr] # has one


def _gpu_ridge(ridge: Ridge, as_of: datetime) -> GpuRidge:
    """One gpu's ridge as it is shown."""
    roof, beta = ridge.pi.own.cohort.roof, ridge.beta
    return shape_of(
        GpuRidge,
        roof,
        peers=ridge.pi.against.n,
        note=ridge.pi.against.note,
        pi_tflops=ridge.pi.own.value,
        pi_median_tflops=ridge.pi.against.median,
        pi_deviation=ridge.pi.deviation,
        best_pi_tflops=ridge.best_pi_tflops,
        beta_regime=None if beta is None else beta.own.cohort.roof.regime,
        beta_gbps=None if beta is None else beta.own.value,
        beta_median_gbps=None if beta is None else beta.against.median,
        beta_deviation=None if beta is None else beta.deviation,
        ridge_flop_per_byte=ridge.flop_per_byte,
        **_basis(ridge.pi.own, as_of),
    )


def _gpu_bandwidth(beta: Compared, as_of: datetime) -> GpuBandwidth:
    """One gpu's judged bandwidth as it is shown."""
    roof = beta.own.cohort.roof
    return shape_of(
        GpuBandwidth,
        roof,
        peers=beta.against.n,
        note=beta.against.note,
        beta_gbps=beta.own.value,
        beta_median_gbps=beta.against.median,
        beta_deviation=beta.deviation,
        **_basis(beta.own, as_of),
    )


def shown_roof(value: GpuValue, as_of: datetime) -> ShownRoof:
    """A roof that is never compared."""
    roof = value.cohort.roof
    return ShownRoof(**roof._asdict(), value=value.value, unit=unit_of(roof), **_basis(value, as_of))


def report_summary(named: NamedReport) -> ReportSummary:
    """A report in a line."""
    report = named.report
    return shape_of(ReportSummary, report, report_id=report.id, node=named.node)


def _basis(value: GpuValue, as_of: datetime) -> dict[str, Any]:
    newest = value.newest
    assert newest is not None  # noqa: S101 # only charts draw values without
    return {
        "method": value.cohort.conditions.method,
        "reports": value.reports,
        "report_id": newest.report_id,
        "measured_to": newest.measured_to,
        "age_s": _age_s(value, as_of),
        "sm_clock_mhz": newest.sm_clock_mhz,
        "power_w": newest.power_w,
        "temperature_c": newest.temperature_c,
        "flags": _flags(value),
    }


def _flags(value: GpuValue) -> tuple[Flag, ...]:
    newest = value.newest
    if newest is None:
        return ()
    flags: list[tuple[Flag, bool]] = [
        ("clock_ahead", newest.clock_ahead),
        ("not_converged", newest.converged is False),
    ]
    return tuple(flag for flag, holds in flags if holds)


def _age_s(value: GpuValue, as_of: datetime) -> float | None:
    return None if value.newest is None else (as_of - value.newest.ordered_at).total_seconds()
