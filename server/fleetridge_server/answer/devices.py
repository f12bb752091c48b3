"""
From compared roofs to the shapes of the answers.

Pure: what a program or a person is told follows from its arguments alone, `as_of` included.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fleetridge_server.answer import schemas
from fleetridge_server.answer.device_schemas import GpuRow
from fleetridge_server.answer.told_schemas import VerdictShown
from fleetridge_server.compare.cohort import GpuValue
from fleetridge_server.compare.ranking import Standing
from fleetridge_server.compare.ridge import Compared, GpuRoofs, Ridge, too_few
from fleetridge_server.store.summaries import NamedReport

# A daily sweep that failed twice in a row is still no news; after three days somebody should look.
STALE_AFTER = timedelta(days=3)


def gpu_row(gpu: Standing, verdict: VerdictShown | None, as_of: datetime) -> GpuRow:
    """One gpu as it is listed."""
    place, roofs = gpu.place, gpu.roofs
    newest = newest_value(roofs)
    return GpuRow(
        gpu_id=place.gpu_id,
        cluster=place.cluster,
        node=place.node,
        index=place.index,
        pci_bus_id=place.pci_bus_id,
        mig_profile=place.mig_profile,
        partition=place.partition,
        outcome=place.outcome,
        reason=place.reason,
        measured_to=None if newest is None else newest.newest.measured_to,
        age_s=None if newest is None else _age_s(newest, as_of),
        **gpu_figures(roofs, as_of),
        verdict=verdict,
    )


def gpu_figures(roofs: GpuRoofs, as_of: datetime) -> dict[str, Any]:
    """What is said alike of a gpu in a list and of one by itself."""
    return {
        "worst": _worst(roofs),
        "flags": _gpu_flags(roofs, as_of),
        "ridges": tuple(_gpu_ridge(ridge, as_of) for ridge in roofs.ridges),
        "bandwidths": tuple(_gpu_bandwidth(beta, as_of) for beta in roofs.bandwidths),
    }


def _worst(roofs: GpuRoofs) -> schemas.Worst | None:
    """The judged roof in which a gpu lies furthest below its peers."""
    compared = roofs.worst
    if compared is None:
        return None
    roof = compared.own.cohort.roof
    return schemas.Worst(
        roof="pi" if roof.kind == "compute" else "beta",
        dtype=roof.dtype,
        regime=roof.regime,
        value=compared.own.value,
        median=compared.peers.median,
        deviation=compared.deviation,
        peers=compared.peers.n,
    )


def _gpu_flags(roofs: GpuRoofs, as_of: datetime) -> tuple[schemas.Flag, ...]:
    """What to know before trusting a gpu's figures; it is stale only where its newest figure is."""
    newest = newest_value(roofs)
    if newest is None:
        return ("unmeasured",)
    said = {flag for compared in roofs.judged for flag in _flags(compared.own, as_of)} - {"stale"}
    return tuple(sorted(said | set(_flags(newest, as_of))))


def newest_value(roofs: GpuRoofs) -> GpuValue | None:
    """The judged value measured last, by ordering time."""
    return max((compared.own for compared in roofs.judged), key=lambda own: own.newest.ordered_at, default=None)


def _gpu_ridge(ridge: Ridge, as_of: datetime) -> schemas.GpuRidge:
    """One gpu's ridge as it is shown."""
    roof, beta = ridge.pi.own.cohort.roof, ridge.beta
    return schemas.GpuRidge(
        dtype=roof.dtype,
        out_dtype=roof.out_dtype,
        fast_accumulation=roof.fast_accumulation,
        regime=roof.regime,
        kernel=roof.kernel,
        peers=ridge.pi.peers.n,
        note=too_few(ridge.pi.peers.n),
        pi_tflops=ridge.pi.own.value,
        pi_median_tflops=ridge.pi.peers.median,
        pi_deviation=ridge.pi.deviation,
        best_pi_tflops=ridge.best_pi_tflops,
        beta_regime=None if beta is None else beta.own.cohort.roof.regime,
        beta_gbps=None if beta is None else beta.own.value,
        beta_median_gbps=None if beta is None else beta.peers.median,
        beta_deviation=None if beta is None else beta.deviation,
        ridge_flop_per_byte=ridge.flop_per_byte,
        **_basis(ridge.pi.own, as_of),
    )


def _gpu_bandwidth(beta: Compared, as_of: datetime) -> schemas.GpuBandwidth:
    """One gpu's judged bandwidth as it is shown."""
    roof = beta.own.cohort.roof
    return schemas.GpuBandwidth(
        dtype=roof.dtype,
        regime=roof.regime,
        kernel=roof.kernel,
        peers=beta.peers.n,
        note=too_few(beta.peers.n),
        beta_gbps=beta.own.value,
        beta_median_gbps=beta.peers.median,
        beta_deviation=beta.deviation,
        **_basis(beta.own, as_of),
    )


def shown_roof(value: GpuValue, as_of: datetime) -> schemas.ShownRoof:
    """A roof that is never compared."""
    roof = value.cohort.roof
    unit = "TFLOP/s" if roof.kind == "compute" else "GB/s"
    return schemas.ShownRoof(**roof._asdict(), value=value.value, unit=unit, **_basis(value, as_of))


def report_summary(named: NamedReport) -> schemas.ReportSummary:
    """A report in a line."""
    report = named.report
    return schemas.ReportSummary(
        report_id=report.id,
        ordered_at=report.ordered_at,
        measured_from=report.measured_from,
        measured_to=report.measured_to,
        received_at=report.received_at,
        run_kind=report.run_kind,
        outcome=report.outcome,
        reason=report.reason,
        detail=report.detail,
        cluster=report.cluster,
        node=named.node,
        driver=report.driver,
        contended=report.contended,
        clock_ahead=report.clock_ahead,
    )


def _basis(value: GpuValue, as_of: datetime) -> dict[str, Any]:
    newest = value.newest
    return {
        "method": value.cohort.conditions.method,
        "reports": value.reports,
        "report_id": newest.report_id,
        "measured_to": newest.measured_to,
        "age_s": _age_s(value, as_of),
        "sm_clock_mhz": newest.sm_clock_mhz,
        "power_w": newest.power_w,
        "temperature_c": newest.temperature_c,
        "flags": _flags(value, as_of),
    }


def _flags(value: GpuValue, as_of: datetime) -> tuple[schemas.Flag, ...]:
    newest = value.newest
    flags: list[schemas.Flag] = []
    if newest.clock_ahead:
        flags.append("clock_ahead")
    if newest.converged is False:
        flags.append("not_converged")
    if as_of - newest.ordered_at > STALE_AFTER:
        flags.append("stale")
    return tuple(flags)


def _age_s(value: GpuValue, as_of: datetime) -> float:
    return (as_of - value.newest.ordered_at).total_seconds()
