"""
From compared roofs to the shapes of the answers.

Pure: what a program or a person is told follows from its arguments alone, `as_of` included.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleetridge_server.answer import schemas
from fleetridge_server.answer.device_schemas import GpuRow
from fleetridge_server.answer.evaluated_schemas import VerdictShown
from fleetridge_server.compare.cohort import GpuValue
from fleetridge_server.compare.location import GpuLocation
from fleetridge_server.compare.ridge import Compared, GpuRoofs, Ridge
from fleetridge_server.store.summaries import NamedReport


def gpu_row(
    location: GpuLocation,
    roofs: GpuRoofs,
    verdict: VerdictShown | None,
    unjudged: NamedReport | None,
    as_of: datetime,
) -> GpuRow:
    """One gpu as it is listed; `unjudged` is its newest report that the evaluation does not know yet."""
    newest = newest_value(roofs)
    return GpuRow(
        gpu_id=location.gpu_id,
        cluster=location.cluster,
        node=location.node,
        index=location.index,
        pci_bus_id=location.pci_bus_id,
        mig_profile=location.mig_profile,
        partition=location.partition,
        outcome=location.outcome,
        reason=location.reason,
        not_judged_yet=None if unjudged is None else report_summary(unjudged),
        measured_to=None if newest is None or newest.newest is None else newest.newest.measured_to,
        age_s=None if newest is None else _age_s(newest, as_of),
        **gpu_figures(roofs, is_stale=verdict is not None and verdict.state == "stale", as_of=as_of),
        verdict=verdict,
    )


def gpu_figures(roofs: GpuRoofs, *, is_stale: bool, as_of: datetime) -> dict[str, Any]:
    """What is said alike of a gpu in a list and of one by itself."""
    return {
        "worst": _worst(roofs),
        "flags": _gpu_flags(roofs, is_stale=is_stale),
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
        median=compared.against.median,
        deviation=compared.deviation,
        peers=compared.against.n,
    )


def _gpu_flags(roofs: GpuRoofs, *, is_stale: bool) -> tuple[schemas.Flag, ...]:
    """What to know before trusting a gpu's figures; it is stale where its state says so, and nowhere else."""
    said: set[schemas.Flag] = {flag for compared in roofs.judged for flag in _flags(compared.own)}
    if not roofs.judged:
        said.add("unmeasured")
    if is_stale:
        said.add("stale")
    return tuple(sorted(said))


def newest_value(roofs: GpuRoofs) -> GpuValue | None:
    """The judged value measured last, by ordering time."""
    known = (compared.own for compared in roofs.judged if compared.own.newest is not None)
    return max(known, key=lambda own: own.newest.ordered_at, default=None)  # type: ignore[union-attr] # has one


def _gpu_ridge(ridge: Ridge, as_of: datetime) -> schemas.GpuRidge:
    """One gpu's ridge as it is shown."""
    roof, beta = ridge.pi.own.cohort.roof, ridge.beta
    return schemas.GpuRidge(
        dtype=roof.dtype,
        out_dtype=roof.out_dtype,
        fast_accumulation=roof.fast_accumulation,
        regime=roof.regime,
        kernel=roof.kernel,
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


def _gpu_bandwidth(beta: Compared, as_of: datetime) -> schemas.GpuBandwidth:
    """One gpu's judged bandwidth as it is shown."""
    roof = beta.own.cohort.roof
    return schemas.GpuBandwidth(
        dtype=roof.dtype,
        regime=roof.regime,
        kernel=roof.kernel,
        peers=beta.against.n,
        note=beta.against.note,
        beta_gbps=beta.own.value,
        beta_median_gbps=beta.against.median,
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


def _flags(value: GpuValue) -> tuple[schemas.Flag, ...]:
    newest = value.newest
    if newest is None:
        return ()
    flags: list[tuple[schemas.Flag, bool]] = [
        ("clock_ahead", newest.clock_ahead),
        ("not_converged", newest.converged is False),
    ]
    return tuple(flag for flag, holds in flags if holds)


def _age_s(value: GpuValue, as_of: datetime) -> float | None:
    return None if value.newest is None else (as_of - value.newest.ordered_at).total_seconds()
