"""What reports say of their roofs beside the values: clock, power, temperature, and roofs that nobody judges."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Cohort, Conditions, Reading
from fleetridge_server.store.models import Report, Roof
from fleetridge_server.store.roof_columns import CONDITION_COLUMNS, ROOF_COLUMNS
from fleetridge_server.store.upserts import in_chunks

_IDS = "ids"


@dataclass(frozen=True, slots=True)
class ReportReadings:
    """
    What one report says of its roofs.

    Attributes:
        conditions: under which it measured.
        readings: by roof; of one that it states twice, the first.
    """

    conditions: Conditions
    readings: Mapping[RoofKey, Reading] = field(default_factory=dict)

    def cohort(self, roof: RoofKey) -> Cohort:
        """Cohort of one of its roofs."""
        return Cohort(roof, self.conditions)


def readings_of(session: Session, report_ids: Collection[UUID]) -> dict[UUID, ReportReadings]:
    """Readings of some reports, by their ids."""
    found: dict[UUID, ReportReadings] = {}
    roofs: dict[UUID, dict[RoofKey, Reading]] = {}
    connection = session.connection()
    for chunk in in_chunks(sorted(report_ids)):
        reports = {}
        for report_id, ordered_at, measured_to, temperature_c, clock_ahead, *own in connection.execute(
            _reports(), {_IDS: chunk}
        ):
            reports[report_id] = ordered_at, measured_to, temperature_c, clock_ahead
            roofs[report_id] = {}
            found[report_id] = ReportReadings(Conditions(*own), roofs[report_id])
        for report_id, value, sm_clock_mhz, power_w, converged, *key in connection.execute(_roofs(), {_IDS: chunk}):
            ordered_at, measured_to, temperature_c, clock_ahead = reports[report_id]
            roofs[report_id].setdefault(
                RoofKey(*key),
                Reading(
                    report_id=report_id,
                    ordered_at=ordered_at,
                    value=value,
                    measured_to=measured_to,
                    sm_clock_mhz=sm_clock_mhz,
                    power_w=power_w,
                    temperature_c=temperature_c,
                    converged=converged,
                    clock_ahead=clock_ahead,
                ),
            )
    return found


def _reports() -> Select[Any]:
    own = (Report.id, Report.ordered_at, Report.measured_to, Report.temperature_c, Report.clock_ahead)
    conditions = (getattr(Report, name) for name in CONDITION_COLUMNS)
    return select(*own, *conditions).where(Report.id.in_(bindparam(_IDS, expanding=True)))


def _roofs() -> Select[Any]:
    own = (Roof.report_id, Roof.value, Roof.sm_clock_mhz, Roof.power_w, Roof.converged)
    key = (getattr(Roof, name) for name in ROOF_COLUMNS)
    wanted = Roof.report_id.in_(bindparam(_IDS, expanding=True))
    return select(*own, *key).where(wanted).order_by(Roof.report_id, Roof.position)
