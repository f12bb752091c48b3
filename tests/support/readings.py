"""Readings of roofs for tests of the comparison, complete by default."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Cohort, Conditions, Reading

START = datetime(2026, 11, 20, 2, tzinfo=timezone.utc)

PI = RoofKey("compute", "bfloat16", None, None, "burst", "device", "gemm_reference")
BETA = RoofKey("memory", "float32", None, None, "burst", "device", "read")
STANDARD = Conditions(
    memory_bytes=150754820096,
    sm_count=132,
    mig_profile=None,
    partition=None,
    fill="normal",
    method="standard",
    protocol_version=1,
)


def reading(
    gpu_id: str,
    value: float,
    *,
    day: int = 0,
    roof: RoofKey = PI,
    conditions: Conditions = STANDARD,
    report: int = 0,
    **figures: Any,
) -> Reading:
    """A reading some days after START; `report` tells reports of one gpu and day apart."""
    moment = START + timedelta(days=day)
    fields = {"ordered_at": moment, "measured_to": moment, **figures}
    report_id = uuid5(NAMESPACE_OID, f"{gpu_id} {day} {report}")
    return Reading(gpu_id=gpu_id, report_id=report_id, cohort=Cohort(roof, conditions), value=value, **fields)
