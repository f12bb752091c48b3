"""Values of gpus for tests of the comparison, complete by default."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from uuid import NAMESPACE_OID, uuid5

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, Conditions, GpuValue, Reading

START = datetime(2026, 11, 20, 2, tzinfo=timezone.utc)

PI = RoofKey("compute", "bfloat16", None, None, "burst", "device", "gemm_reference")
BETA = RoofKey("memory", "float32", None, None, "burst", "device", "read")
STANDARD = Conditions(
    memory_gib=141,
    sm_count=132,
    mig_profile=None,
    partition=None,
    fill="normal",
    method="standard",
    protocol_version=1,
)


def gpu_value(
    gpu_id: str, value: float, *, day: int = 0, roof: RoofKey = PI, conditions: Conditions = STANDARD
) -> GpuValue:
    """What a gpu counts for by a report some days after START."""
    moment = START + timedelta(days=day)
    newest = Reading(uuid5(NAMESPACE_OID, f"{gpu_id} {day}"), moment, value, measured_to=moment)
    return GpuValue(gpu_id, Cohort(roof, conditions), value, newest=newest)
