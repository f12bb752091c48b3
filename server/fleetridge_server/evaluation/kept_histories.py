"""
Histories of gpus: brought up to date for those that reported, read for all.

One row for each gpu, so that an evaluation after few new reports reads the reports of few gpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, exists, or_, select, update
from sqlalchemy.orm import Session

from fleetridge_server.db.rows import in_chunks, insert_or_replace
from fleetridge_server.db.tables import Gpu
from fleetridge_server.db.verdict_tables import GpuHistoryRow as KeptHistory
from fleetridge_server.engine.cohort import Span
from fleetridge_server.evaluation.gpu_history import FORMAT, GpuHistory, HistoryReader, gpu_history, packed_history
from fleetridge_server.evaluation.judged_reports import GpuOfDevice, judged_reports
from fleetridge_server.fleet.locations import device_then
from fleetridge_server.verdicts.series import DeviceGroup

_KEPT = cast("Table", KeptHistory.__table__)

# Gpus whose rows one transaction holds: whoever reports one of them meanwhile waits for it.
GPUS_AT_ONCE = 50

# Gpus whose histories one statement reads: far below a second, and below the number of parameters that either takes.
_ROWS_PER_QUERY = 500

_GPU_ROWS = "gpu_rows"


def due_gpus(session: Session, device_group: DeviceGroup) -> list[int]:
    """
    Rows of all gpus whose histories are to be made anew, in their order.

    To be asked once: it passes over all gpus of the device group.
    """
    due = select(Gpu.id).where(_is_in(device_group), _is_due()).order_by(Gpu.id)
    return [row[0] for row in session.connection().execute(due)]


def refresh_histories(session: Session, device_group: DeviceGroup, gpu_rows: Sequence[int]) -> int:
    """
    Bring the histories of at most GPUS_AT_ONCE gpus up to date, in a transaction of the caller's; how many were.

    Args:
        session: to write in.
        device_group: gpus that are of another one by now are left to it.
        gpu_rows: at most GPUS_AT_ONCE; those that somebody else did meanwhile are left alone.
    """
    chosen = select(Gpu.id, Gpu.identity, Gpu.device_id).where(Gpu.id.in_(gpu_rows), _is_due())
    found = session.execute(chosen.order_by(Gpu.id).with_for_update())
    subjects = [subject for row in found if (subject := GpuOfDevice(*row)).device_id == device_group.device_id]
    if not subjects:
        return 0
    reports = judged_reports(session, subjects)
    rows = [
        {
            "gpu_id": subject.gpu_row,
            "device_id": subject.device_id,
            "format": FORMAT,
            "body": packed_history(gpu_history(reports[subject.gpu_row])),
        }
        for subject in subjects
    ]
    session.execute(insert_or_replace(session, _KEPT), rows)
    done = update(Gpu).where(Gpu.id.in_(subject.gpu_row for subject in subjects))
    session.execute(done.values(is_due=False))
    return len(subjects)


def histories(session: Session, device_group: DeviceGroup, as_of: datetime) -> dict[str, GpuHistory]:
    """
    Histories of the gpus that were of a device at a time, by their ids; of gpus that reported by then.

    What is kept is read where it holds for that time; the other gpus' reports are asked for.
    """
    found: dict[str, GpuHistory] = {}
    reader = HistoryReader()
    others: list[GpuOfDevice] = []
    for row in _rows(session, device_group, as_of):
        if row.body is None:
            others.append(GpuOfDevice(row.id, row.identity, device_group.device_id))
        else:
            found[row.identity] = reader.read(row.identity, row.body)
    reports = judged_reports(session, others, as_of=as_of)
    found |= {subject.gpu_id: gpu_history(reports[subject.gpu_row]) for subject in others}
    return {gpu_id: history for gpu_id, history in found.items() if history.reports}


def device_groups_with_due_gpus(session: Session) -> set[DeviceGroup]:
    """Device groups of which some gpu reported something that its history does not know."""
    query = select(Gpu.device_id, Gpu.simulated).where(Gpu.is_due).distinct()
    return {DeviceGroup(*row) for row in session.execute(query)}


def _rows(session: Session, device_group: DeviceGroup, as_of: datetime) -> Iterator[Any]:
    """
    Gpus that were of a device at a time, in the order of their rows, with their history where it holds for that time.

    They are named row by row: asked for those after the last one, either database may pass over all gpus each time.
    """
    connection = session.connection()
    candidates = [row[0] for row in connection.execute(_candidates(device_group, as_of))]
    wanted = _wanted(device_group, as_of)
    for gpu_rows in in_chunks(candidates, _ROWS_PER_QUERY):
        yield from connection.execute(wanted, {_GPU_ROWS: gpu_rows}).all()


def _candidates(device_group: DeviceGroup, as_of: datetime) -> Select[int]:
    """Rows of the gpus that may have been of a device at a time: those that are, and all that reported since."""
    may_be = or_(Gpu.device_id == device_group.device_id, Gpu.last_seen > as_of)
    return select(Gpu.id).where(Gpu.simulated.is_(device_group.simulated), may_be).order_by(Gpu.id)


def _wanted(device_group: DeviceGroup, as_of: datetime) -> Select[int, str, str]:
    """Statement on some of these."""
    was_there = device_then(Span(as_of, simulated=device_group.simulated)) == device_group.device_id
    holds = and_(
        KeptHistory.gpu_id == Gpu.id,
        KeptHistory.device_id == device_group.device_id,
        KeptHistory.format == FORMAT,
        ~Gpu.is_due,
        or_(Gpu.last_seen.is_(None), Gpu.last_seen <= as_of),
    )
    return (
        select(Gpu.id, Gpu.identity, KeptHistory.body)
        .outerjoin(KeptHistory, holds)
        .where(Gpu.id.in_(bindparam(_GPU_ROWS, expanding=True)), was_there)
        .order_by(Gpu.id)
    )


def _is_in(device_group: DeviceGroup) -> ColumnElement[bool]:
    return and_(Gpu.device_id == device_group.device_id, Gpu.simulated.is_(device_group.simulated))


def _is_due() -> ColumnElement[bool]:
    holds = KeptHistory.gpu_id == Gpu.id, KeptHistory.device_id == Gpu.device_id, KeptHistory.format == FORMAT
    return or_(Gpu.is_due, ~exists().where(*holds))
