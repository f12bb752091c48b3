"""
Readings out of the histories of gpus, as the comparison takes them.

One query whatever the number of gpus, and bounded whatever the length of their history. What the gpus count for now is
kept beside it (`store.current`), so that only answers about the past come here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Result, Select, Subquery, bindparam, func, select
from sqlalchemy.orm import Session, aliased

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import NEWEST_REPORTS, Cohort, Conditions, Reading
from fleetridge_server.store.columns import UtcDateTime
from fleetridge_server.store.counting import counts, is_undisputed
from fleetridge_server.store.models import Gpu, Report, Roof

# How far back a gpu's newest readings of a roof are looked for: a month of daily sweeps. Kinds of run count apart, as
# hourly checks would hide the weekly sweep that alone measures some roofs.
DEPTH_REPORTS = 30

ROOF_COLUMNS = RoofKey._fields
CONDITION_COLUMNS = tuple(Conditions.__dataclass_fields__)

_GPU_ROWS = "gpu_rows"
_SINCE = "since"
_OF_REPORT = ("gpu_id", "device_id", "ordered_at", "measured_to", "temperature_c", "clock_ahead", *CONDITION_COLUMNS)
_OF_ROOF = (*ROOF_COLUMNS, "value", "sm_clock_mhz", "power_w", "converged")

_OF_OWNER = ("gpu_id", "device_id")
_OF_COHORT = (*ROOF_COLUMNS, *CONDITION_COLUMNS)
# Of a `Reading`, in its order, but for the cohort.
_OF_READING = (
    "identity", "report_id", "ordered_at", "measured_to", "value", "sm_clock_mhz", "power_w", "temperature_c",
    "converged", "clock_ahead",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a reading is: row of the gpu, and the device that it reported under then."""

    gpu_row: int
    device_id: int


def readings(
    session: Session, gpu_rows: Select[int], *, as_of: datetime | None = None, since: datetime | None = None
) -> dict[Owner, list[Reading]]:
    """
    Newest valid readings of some gpus in each roof and method.

    Valid: measured, not contended, undisputed, out of quarantine, with a time from `since` to `as_of` (None is no
    limit). At most NEWEST_REPORTS reports of a gpu count in one roof, out of its newest DEPTH_REPORTS of each kind of
    run. `gpu_rows` asks for the ids of the gpus' rows.
    """
    return _read(session.execute(_newest(gpu_rows, _Period(since, as_of))))


def newest_readings(
    session: Session, gpu_rows: Collection[int], *, since: datetime | None = None
) -> dict[Owner, list[Reading]]:
    """The same of some gpus up to now, by their rows: asked with every report that arrives."""
    connection = session.connection()
    if since is None:
        return _read(connection.execute(_newest_of_all_time(), {_GPU_ROWS: list(gpu_rows)}))
    return _read(connection.execute(_newest_since(), {_GPU_ROWS: list(gpu_rows), _SINCE: since}))


@cache
def _newest_of_all_time() -> Select[Any]:
    """Query that is put together once: that takes as long as running it."""
    return _newest(bindparam(_GPU_ROWS, expanding=True), _Period(None, None))


@cache
def _newest_since() -> Select[Any]:
    return _newest(bindparam(_GPU_ROWS, expanding=True), _Period(bindparam(_SINCE, type_=UtcDateTime()), None))


def _newest(gpu_rows: Select[int] | BindParameter[int], period: _Period) -> Select[Any]:
    ranked = _ranked(_recent_reports(gpu_rows, period))
    return select(ranked, Gpu.identity).join(Gpu, Gpu.id == ranked.c.gpu_id).where(ranked.c.place <= NEWEST_REPORTS)


def _read(result: Result[Any]) -> dict[Owner, list[Reading]]:
    """Readings out of rows, by position: by name each takes several times as long."""
    found: dict[Owner, list[Reading]] = defaultdict(list)
    places = {name: place for place, name in enumerate(result.keys())}
    owner_of, cohort_of, reading_of = (
        itemgetter(*(places[name] for name in names)) for names in (_OF_OWNER, _OF_COHORT, _OF_READING)
    )
    made = cache(_cohort)
    for row in result:
        identity, report_id, *rest = reading_of(row)
        found[Owner(*owner_of(row))].append(Reading(identity, report_id, made(*cohort_of(row)), *rest))
    return found


def cohort_reader() -> Callable[[Any], Cohort]:
    """Function from a row with the columns of a cohort to that cohort, made once for all rows that share it."""
    key_of = attrgetter(*_OF_COHORT)
    made = cache(_cohort)
    return lambda row: made(*key_of(row))


@dataclass(frozen=True, slots=True)
class _Period:
    since: datetime | BindParameter[datetime] | None
    until: datetime | None


def _cohort(*key: Any) -> Cohort:  # noqa: ANN401 # columns of several types
    return Cohort(RoofKey(*key[: len(ROOF_COLUMNS)]), Conditions(*key[len(ROOF_COLUMNS) :]))


def _recent_reports(gpu_rows: Select[int] | BindParameter[int], period: _Period) -> Subquery:
    """
    Valid reports from the newest DEPTH_REPORTS of each gpu, kind of run and device.

    Of several of one time all are among them, so that neither ids nor arrival decide what is looked at.
    """
    report = aliased(Report)
    newer = func.rank().over(
        partition_by=(report.gpu_id, report.run_kind, report.device_id), order_by=report.ordered_at.desc()
    )
    placed = (
        select(report.id.label("report_id"), *(getattr(report, name) for name in _OF_REPORT), newer.label("newer"))
        .where(report.gpu_id.in_(gpu_rows), *_valid(report, period))
        .subquery("placed")
    )
    return select(placed).where(placed.c.newer <= DEPTH_REPORTS).subquery("recent_reports")


def _ranked(recent: Subquery) -> Subquery:
    """Roofs of those reports with the place of their report among the gpu's in that roof and method, newest first."""
    roof_columns = {name: getattr(Roof, name) for name in _OF_ROOF}
    place = func.dense_rank().over(
        partition_by=(
            recent.c.gpu_id,
            recent.c.device_id,
            recent.c.method,
            *(roof_columns[name] for name in ROOF_COLUMNS),
        ),
        # Between reports of one time the node's own clock decides and then the id, so that arrival never does.
        order_by=(recent.c.ordered_at.desc(), recent.c.measured_to.desc(), recent.c.report_id.desc()),
    )
    return (
        select(recent, *roof_columns.values(), place.label("place"))
        .join(Roof, Roof.report_id == recent.c.report_id)
        .subquery("ranked")
    )


def _valid(report: type[Report], period: _Period) -> tuple[ColumnElement[bool], ...]:
    return (
        report.ordered_at.is_not(None),
        *(() if period.until is None else (report.ordered_at <= period.until,)),
        *(() if period.since is None else (report.ordered_at >= period.since,)),
        report.outcome == "measured",
        report.contended.is_not(True),
        counts(report),
        is_undisputed(report, period.until),
    )
