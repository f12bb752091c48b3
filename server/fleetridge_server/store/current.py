"""
What gpus count for in their roofs: kept by the transaction that stores reports, read in one row for each roof.

A kept value is right for every answer as of a time since which its gpu reported nothing. For the gpus that reported
later, and for those whose kept value rests on reports from before `since`, the history is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, Table, Update, and_, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from fleetridge_server.compare.cohort import Cohort, GpuValue, Reading, current_values
from fleetridge_server.compare.span import Span
from fleetridge_server.store.batches import insert_rows
from fleetridge_server.store.history import (
    CONDITION_COLUMNS,
    ROOF_COLUMNS,
    Owner,
    cohort_reader,
    newest_readings,
    readings,
)
from fleetridge_server.store.models import Gpu, GpuRoof
from fleetridge_server.store.places import device_then
from fleetridge_server.store.upserts import Row

_GPU_ROOFS = cast("Table", GpuRoof.__table__)
_GPU_ROWS = "gpu_rows"
_OF_NEWEST = (
    "report_id", "ordered_at", "measured_to", "sm_clock_mhz", "power_w", "temperature_c", "converged", "clock_ahead",
)  # fmt: skip


def keep_values(session: Session, gpu_rows: Collection[int], *, since: datetime | None = None) -> None:
    """
    Bring the kept values of some gpus up to date, and when each was measured last.

    The caller has locked their rows in `gpus`.

    `since` is the ordering time of the oldest report that can count (`reaching_back`); None where any may.
    """
    if not gpu_rows:
        return
    found = newest_readings(session, gpu_rows, since=since)
    rows: dict[int, list[Row]] = defaultdict(list)
    for owner, own in found.items():
        rows[owner.gpu_row] += [_row(owner, value) for value in current_values(own)]
    session.connection().execute(delete(_GPU_ROOFS).where(_GPU_ROOFS.c.gpu_id.in_(gpu_rows)))
    numbered = [row | {"position": position} for own in rows.values() for position, row in enumerate(own)]
    insert_rows(session, _GPU_ROOFS, numbered)
    session.execute(_noting_measured_at(), {_GPU_ROWS: list(gpu_rows)})


@cache
def _noting_measured_at() -> Update:
    """Statement that says of some gpus when they were measured last; put together once, as every report needs it."""
    newest = select(func.max(GpuRoof.ordered_at)).where(GpuRoof.gpu_id == Gpu.id).scalar_subquery()
    of_gpus = Gpu.id.in_(bindparam(_GPU_ROWS, expanding=True))
    return update(Gpu).where(of_gpus).values(measured_at=newest).execution_options(synchronize_session=False)


def values_of_devices(session: Session, device_ids: Sequence[int], span: Span) -> dict[int, list[GpuValue]]:
    """Values of the gpus that are of these devices at that time, by device, in no order."""
    by_device: dict[int, list[GpuValue]] = {device_id: [] for device_id in device_ids}
    cohort_of = cohort_reader()
    for row in session.execute(kept(device_ids, span)):
        by_device[row.device_id].append(_value(row, cohort_of(row)))
    for owner, own in from_history(session, device_ids, span).items():
        by_device[owner.device_id] += current_values(own)
    return by_device


def kept_values(session: Session, device_id: int, gpu_rows: Collection[int]) -> list[GpuValue]:
    """Kept values of some gpus in one device, in no order: for times since which they reported nothing."""
    cohort_of = cohort_reader()
    found = session.execute(_kept_of_gpus(), {"device_id": device_id, _GPU_ROWS: list(gpu_rows)})
    return [_value(row, cohort_of(row)) for row in found]


@cache
def _kept_of_gpus() -> Select[Any]:
    """Query that is put together once: that takes as long as running it."""
    return (
        select(GpuRoof.__table__, Gpu.identity)
        .join(Gpu, Gpu.id == GpuRoof.gpu_id)
        .where(GpuRoof.gpu_id.in_(bindparam(_GPU_ROWS, expanding=True)), GpuRoof.device_id == bindparam("device_id"))
    )


def values_of_gpus(session: Session, device_id: int, gpu_rows: Collection[int], span: Span) -> list[GpuValue]:
    """Values of some gpus, by their rows, as far as they are of this device at that time, in no order."""
    cohort_of = cohort_reader()
    rows = session.execute(kept([device_id], span, GpuRoof.gpu_id.in_(gpu_rows)))
    values = [_value(row, cohort_of(row)) for row in rows]
    for own in from_history(session, [device_id], span, Gpu.id.in_(gpu_rows)).values():
        values += current_values(own)
    return values


def kept(device_ids: Sequence[int], span: Span, *only: ColumnElement[bool]) -> Select[Any]:
    """Query for the kept roofs that hold for a time, of the gpus that are of these devices; `only` are conditions."""
    since = () if span.since is None else (GpuRoof.ordered_at >= span.since,)
    return (
        select(GpuRoof.__table__, Gpu.identity)
        .join(Gpu, and_(Gpu.id == GpuRoof.gpu_id, Gpu.device_id == GpuRoof.device_id))
        .where(GpuRoof.device_id.in_(device_ids), Gpu.simulated.is_(span.simulated), ~_needs_history(span), *since)
        .where(*only)
    )


def from_history(
    session: Session, device_ids: Sequence[int], span: Span, *only: ColumnElement[bool]
) -> dict[Owner, list[Reading]]:
    """Readings of the gpus for which `kept` does not hold, as far as they are of these devices at that time."""
    then = device_then(span)
    gpus = select(Gpu.id, then.label("device_id")).where(
        Gpu.simulated.is_(span.simulated), _needs_history(span), then.in_(device_ids), *only
    )
    owners = {Owner(row.id, row.device_id) for row in session.execute(gpus)}
    if not owners:
        return {}
    rows = gpus.with_only_columns(Gpu.id, maintain_column_froms=True)
    found = readings(session, rows, as_of=span.as_of, since=span.since)
    return {owner: own for owner, own in found.items() if owner in owners}


def _needs_history(span: Span) -> ColumnElement[bool]:
    later = and_(Gpu.last_seen.is_not(None), Gpu.last_seen > span.as_of)
    if span.since is None:
        return later
    roof = aliased(GpuRoof)
    reaches_back = exists().where(roof.gpu_id == Gpu.id, roof.oldest_at < span.since, roof.ordered_at >= span.since)
    return or_(later, reaches_back)


def _row(owner: Owner, value: GpuValue) -> Row:
    roof, conditions = value.cohort
    return {
        "gpu_id": owner.gpu_row,
        "device_id": owner.device_id,
        **{name: getattr(roof, name) for name in ROOF_COLUMNS},
        **{name: getattr(conditions, name) for name in CONDITION_COLUMNS},
        "value": value.value,
        "reports": value.reports,
        "oldest_at": value.oldest_at,
        "newest_value": value.newest.value,
        **{name: getattr(value.newest, name) for name in _OF_NEWEST},
    }


def _value(row: Any, cohort: Cohort) -> GpuValue:  # noqa: ANN401 # a row of gpu_roofs with the gpu's identity
    newest = Reading(
        gpu_id=row.identity,
        report_id=row.report_id,
        cohort=cohort,
        ordered_at=row.ordered_at,
        measured_to=row.measured_to,
        value=row.newest_value,
        sm_clock_mhz=row.sm_clock_mhz,
        power_w=row.power_w,
        temperature_c=row.temperature_c,
        converged=row.converged,
        clock_ahead=row.clock_ahead,
    )
    return GpuValue(row.identity, cohort, row.value, row.reports, row.oldest_at, newest)
