"""Rows that one report amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleetridge.peaks import lacks_dtype
from fleetridge.report import Roof as ReportedRoof
from fleetridge.report.roofs import settled_dtype
from fleetridge_server.ingest.evidence import health_fields, is_implausible, phase_of
from fleetridge_server.ingest.intake import Accepted
from fleetridge_server.store.sightings import RACK_LABEL, device_certainty
from fleetridge_server.store.upserts import Row

_OF_REPORT = ("outcome", "reason", "detail", "measured_from", "measured_to")
_OF_GPU = ("memory_bytes", "sm_count", "mig_profile", "partition")
_OF_SWEEP = ("profile", "fill")
_OF_ENVIRONMENT = ("torch", "runtime", "driver", "cublas", "vbios", "ecc_enabled", "power_limit_w")
_OF_EVIDENCE = ("contended", "unstable")
_OF_PHASE = ("memory_clock_mhz", "temperature_c")
_OF_ROOF = (
    "kind", "out_dtype", "fast_accumulation", "regime", "level", "kernel", "value", "unit", "ci_low", "ci_high",
    "converged", "first_block", "last_block", "trend", "sm_clock_mhz", "power_w",
)  # fmt: skip


def report_row(item: Accepted) -> Row:
    """Row of `reports`, without the columns that say where its node, gpu and device are, and whose it is."""
    report, gpu = item.report, item.report.gpu
    temperatures = [phase.temperature_c for phase in report.evidence.phases if phase.temperature_c is not None]
    return {
        "id": report.report_id,
        "content_sha256": item.sha256,
        "received_at": item.received_at,
        "sent_at": item.sent_at,
        "ordered_at": item.ordering.ordered_at,
        "clock_ahead": item.ordering.clock_ahead,
        "run_id": report.run.run_id,
        "run_kind": report.run.kind,
        "cluster": report.node.cluster,
        "device_certainty": None if gpu is None else device_certainty(gpu),
        "agent_version": report.agent.version,
        "protocol_version": report.agent.protocol_version,
        "method": report.agent.method,
        "temperature_c": max(temperatures, default=None),
        "rack": report.node.labels.get(RACK_LABEL),
        "health": health_fields(report),
        **_fields(report, _OF_REPORT),
        **_fields(gpu, _OF_GPU),
        **_fields(report.sweep, _OF_SWEEP),
        **_fields(report.environment, _OF_ENVIRONMENT),
        **_fields(report.evidence, _OF_EVIDENCE),
    }


def _fields(part: object | None, names: Iterable[str]) -> Row:
    """Fields of a part of a report under their own names; nulls where the report does not have the part."""
    return {name: None if part is None else getattr(part, name) for name in names}


def document_row(item: Accepted) -> Row:
    """Row of `documents`."""
    return {"report_id": item.report.report_id, "received_at": item.received_at, "body": item.body}


def roof_rows(item: Accepted) -> Iterable[Row]:
    """Rows of `roofs`; none of a report that is about a node."""
    if item.gpu_id is None:
        return
    for position, roof in enumerate(item.report.roofs):
        phase, dtype = phase_of(roof, item.report), _compared_dtype(roof, item)
        yield {
            "report_id": item.report.report_id,
            "position": position,
            "dtype": dtype,
            "throttle_ms": None if phase is None else _counted(phase.throttle_ms),
            "implausible": is_implausible(roof, dtype, item.report, item.device_name or ""),
            **_fields(phase, _OF_PHASE),
            **_fields(roof, _OF_ROOF),
        }


def _counted(throttle_ms: Mapping[str, float | None] | None) -> dict[str, float] | None:
    """Counters that could be read."""
    return None if throttle_ms is None else {name: ms for name, ms in throttle_ms.items() if ms is not None}


def _compared_dtype(roof: ReportedRoof, item: Accepted) -> str:
    if roof.kind != "compute":
        return roof.dtype  # reading memory does not multiply
    without_tf32 = lacks_dtype(item.device_name or "", "tf32")
    return settled_dtype(
        roof.dtype, allow_tf32=item.report.environment.allow_tf32, chip_has_tf32=False if without_tf32 else None
    )
