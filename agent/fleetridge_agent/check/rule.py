"""The rule by which a gpu is ok, degraded or unknown: its report against bands. Pure: no network, no disk, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fleetridge.report import Gpu, Report
from fleetridge_agent.check.bands import FEWEST_PEERS, Band
from fleetridge_agent.check.measured_gpu import MeasuredGpu, MeasuredRoof, measured_gpu, roof_name
from fleetridge_agent.check.verdict import GpuVerdict, RoofVerdict, State, worst_state

# Words of a report for a gpu that was left alone because somebody else needs it; they say nothing of the gpu.
PASSING_REASONS = frozenset({"busy", "already_running", "preempted"})

_UNIT = {"compute": "TFLOP/s", "memory": "GB/s"}
_KINDS = frozenset(_UNIT)


def verdict_on(report: Report, bands: Sequence[Band], *, at: datetime) -> GpuVerdict:
    """
    Verdict on the gpu of a report.

    It is `ok` only if every judged roof lies in a band that says something: no band, one of too few peers, and a sweep
    in company or broken off are unknown.

    Args:
        report: of a sweep, measured or not.
        bands: of the gpu's device.
        at: when the verdict is given.
    """
    subject = measured_gpu(report)
    state, reason, roofs = _compared(report, subject, bands)
    gpu = report.gpu or Gpu()
    return GpuVerdict(
        uuid=gpu.uuid,
        pci_bus_id=gpu.pci_bus_id,
        index=gpu.index,
        device=subject.device,
        state=state,
        reason=reason,
        passing=report.reason in PASSING_REASONS or bool(report.evidence.contended),
        judged_at=at,
        roofs=roofs,
    )


def confirmed(first: GpuVerdict, second: GpuVerdict) -> GpuVerdict:
    """
    Verdict after a second sweep of a gpu that the first found degraded: one disturbed sweep accuses nobody.

    A second sweep that says nothing leaves the accusation open, which is unknown.
    """
    if second.state != "unknown":
        return second
    return _unconfirmed(first, second.reason)


def confirmed_by_past(now: GpuVerdict, past: GpuVerdict | None) -> GpuVerdict:
    """
    Verdict from a sweep that is not repeated: it accuses a gpu only if the last verdict on it already found it slow.

    Args:
        now: from the sweep.
        past: the last verdict on the same gpu.
    """
    if now.state != "degraded" or (past is not None and past.is_below_band):
        return now
    return _unconfirmed(now, "once")


def _unconfirmed(verdict: GpuVerdict, why: str) -> GpuVerdict:
    return verdict.model_copy(update={"state": "unknown", "reason": f"not confirmed: {why}"})


def _compared(
    report: Report, subject: MeasuredGpu, bands: Sequence[Band]
) -> tuple[State, str, tuple[RoofVerdict, ...]]:
    """State, reason and roofs."""
    if report.outcome != "measured":
        return "unknown", report.reason or report.outcome, ()
    roofs = tuple(_roof_verdict(roof, subject, bands) for roof in subject.roofs)
    if report.evidence.contended:
        return "unknown", "contended", roofs
    if {roof.key.kind for roof in subject.roofs} != _KINDS:
        return "unknown", "half measured", roofs
    state = worst_state(roof.state for roof in roofs)
    if state == "degraded" and report.evidence.unstable:
        return "unknown", "unstable", roofs
    return state, next((roof.reason for roof in roofs if roof.state == "unknown" == state), ""), roofs


def _roof_verdict(roof: MeasuredRoof, subject: MeasuredGpu, bands: Sequence[Band]) -> RoofVerdict:
    band = _fitting(roof, subject, bands)
    verdict = RoofVerdict(
        roof=roof_name(roof.key), unit=_UNIT[roof.key.kind], value=roof.value, state="unknown", reason="no band"
    )
    if band is None:
        return verdict.model_copy(update={"reason": _why_none(roof, subject, bands)})
    state, reason = _beside(roof.value, band)
    return verdict.model_copy(
        update={
            "state": state,
            "reason": reason,
            "median": band.median,
            "lowest": band.lowest,
            "peers": band.peers,
        }
    )


def _beside(value: float, band: Band) -> tuple[State, str]:
    if not band.has_verdict:
        return "unknown", f"{band.peers} of {FEWEST_PEERS} peers"
    return ("degraded" if value < band.lowest else "ok"), ""


def _fitting(roof: MeasuredRoof, subject: MeasuredGpu, bands: Sequence[Band]) -> Band | None:
    """
    The band of gpus that were measured as this one was.

    Where a driver or another factor splits them into several, it is that of the gpu's own kind; and where none is, the
    one that asks least, as nobody is accused for a setting.
    """
    alike = [band for band in bands if band.key == roof.key and band.conditions == subject.conditions]
    own = [band for band in alike if band.levels <= subject.levels]
    return min(own or alike, key=lambda band: (-len(band.levels) if own else 0, band.lowest), default=None)


def _why_none(roof: MeasuredRoof, subject: MeasuredGpu, bands: Sequence[Band]) -> str:
    others = [band.conditions for band in bands if band.key == roof.key]
    if not others:
        return "no band"
    own = subject.conditions
    if own.method != "standard":
        return "method custom"
    if own.protocol_version not in {conditions.protocol_version for conditions in others}:
        return "other protocol"
    return "no peers alike"
