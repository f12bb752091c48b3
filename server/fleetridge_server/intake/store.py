"""
Storing of reports: those of one call or several in one transaction, each report once, with what changes beside them.

The same report may arrive in two calls at the same moment, at two servers. Whoever loses the race finds it stored and
calls it a duplicate (or a conflict, where the content differs) like anybody who comes later.

Conflicts of identity (`engine.evidence`) are written by the same transaction. Few gpus were ever reported by more than
one node, and only theirs are looked at; reports in quarantine claim nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal, TypeVar, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Table, bindparam, select, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from fleetridge_server.auth.tokens import is_in_quarantine, shared_token
from fleetridge_server.db.database import Database
from fleetridge_server.db.document_months import lacks_month, make_months, month_of
from fleetridge_server.db.rows import Row, insert_rows
from fleetridge_server.db.tables import Document, Gpu, Report, Roof, is_trusted
from fleetridge_server.engine.evidence import Claim, conflicts
from fleetridge_server.engine.rule import MOVING_TAKES
from fleetridge_server.intake.examine import Accepted
from fleetridge_server.intake.hardware import (
    gpu_key,
    node_key,
    refresh_measured_at,
    upsert_device_names,
    upsert_devices,
    upsert_gpus,
    upsert_nodes,
)
from fleetridge_server.intake.rows import document_row, report_row, roof_rows
from fleetridge_server.verdicts.series import device_groups_of, note_due

_REPORTS = cast("Table", Report.__table__)


def note_conflicts(session: Session, seen: Iterable[tuple[int, datetime]]) -> set[int]:
    """
    Note what new reports conflict with; the caller has locked the gpus and stored the reports.

    Args:
        session: to write in.
        seen: row of the gpu and ordering time of each; only gpus of `several_nodes` need be asked about.

    Returns:
        Rows of the gpus of which some report conflicts that did not before.
    """
    times: dict[int, list[datetime]] = defaultdict(list)
    for gpu_row, ordered_at in seen:
        times[gpu_row].append(ordered_at)
    changed = set()
    for gpu_row in sorted(times):
        first, last = min(times[gpu_row]) - MOVING_TAKES, max(times[gpu_row]) + MOVING_TAKES
        found = _kept(session, gpu_row, Report.ordered_at.between(first, last))
        # What lies near the ends may conflict with something beyond them, so that nothing known is taken back here.
        new: dict[UUID, datetime | None] = {
            report_id: known_from
            for report_id, known_from in conflicts(found.claims).items()
            if (known := found.known[report_id]) is None or known_from < known
        }
        if new:
            _write(session, new)
            changed.add(gpu_row)
    return changed


def rebuild_conflicts(session: Session, gpu_rows: Collection[int]) -> None:
    """Work out anew what conflicts among all reports of some gpus; the caller has locked them."""
    for gpu_row in _with_several_nodes(session, gpu_rows):
        found = _kept(session, gpu_row)
        now = conflicts(found.claims)
        _write(
            session,
            {report_id: now.get(report_id) for report_id, known in found.known.items() if now.get(report_id) != known},
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """Claims on one gpu, oldest first, and what is noted of each."""

    claims: list[Claim[UUID]]
    known: dict[UUID, datetime | None]


def _with_several_nodes(session: Session, gpu_rows: Iterable[int]) -> list[int]:
    rows = sorted(gpu_rows)
    return list(session.scalars(select(Gpu.id).where(Gpu.id.in_(rows), Gpu.several_nodes).order_by(Gpu.id)))


def _kept(session: Session, gpu_row: int, *chosen: ColumnElement[bool]) -> _Kept:
    query = (
        select(Report.id, Report.node_id, Report.ordered_at, Report.conflict_from)
        .where(
            Report.gpu_id == gpu_row,
            Report.ordered_at.is_not(None),
            Report.node_id.is_not(None),
            is_trusted(Report),
            *chosen,
        )
        .order_by(Report.ordered_at)
    )
    rows = session.execute(query).all()
    return _Kept(
        claims=[Claim(row.id, row.node_id, row.ordered_at) for row in rows],
        known={row.id: row.conflict_from for row in rows},
    )


def _write(session: Session, known_from: dict[UUID, datetime | None]) -> None:
    if known_from:
        statement = update(_REPORTS).where(_REPORTS.c.id == bindparam("key")).values(conflict_from=bindparam("at"))
        session.execute(statement, [{"key": report_id, "at": at} for report_id, at in known_from.items()])


Stored = Literal["created", "duplicate", "conflict"]

# A race is lost to a transaction that has ended by then, so that the second attempt finds its rows. More are only
# needed where several reports of one call race with several others.
_ATTEMPTS = 4

_DEADLOCK = "40P01"  # PostgreSQL's code

_IDS = "ids"
_AnyKey = TypeVar("_AnyKey")


_DOCUMENTS = cast("Table", Document.__table__)
_ROOFS = cast("Table", Roof.__table__)


class LostRaceError(RuntimeError):
    """Another transaction stored one of the reports meanwhile; nothing of this one may stay."""


def write_reports(database: Database, accepted: Sequence[Accepted]) -> list[Stored]:
    """Store what is new of the reports of one call, as `write_calls` does."""
    [outcomes] = write_calls(database, [accepted])
    return outcomes


def write_calls(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
    """
    Store what is new of the reports of some calls, in one transaction.

    Returns:
        What became of each report of each call, in their order.

    Raises:
        LostRaceError: others kept storing the same reports; nothing is stored.
        sqlalchemy.exc.OperationalError: the database does not take it just now; nothing is stored.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(LostRaceError), _transaction(database, calls) as session:
            return store_calls(session, calls)
    with _transaction(database, calls) as session:
        return store_calls(session, calls)


def store_calls(session: Session, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
    """
    Store what is new of the reports of some calls within a transaction of the caller's.

    Raises:
        LostRaceError: see there; the caller has to roll back.
    """
    known = _stored_hashes(session, [item.report.report_id for call in calls for item in call])
    new: list[Accepted] = []

    def outcome(item: Accepted) -> Stored:
        report_id = item.report.report_id
        if report_id not in known:
            known[report_id] = item.sha256
            new.append(item)
            return "created"
        return "duplicate" if known[report_id] == item.sha256 else "conflict"

    outcomes = [list(map(outcome, call)) for call in calls]
    if new:
        _insert(session, sorted(new, key=lambda item: item.report.report_id))
    return outcomes


@contextmanager
def _transaction(database: Database, calls: Sequence[Sequence[Accepted]]) -> Iterator[Session]:
    try:
        with database.writing() as session:
            yield session
    except IntegrityError as error:
        if not lacks_month(error):
            raise
        make_months(database.engine, {month_of(item.received_at) for call in calls for item in call})
        raise LostRaceError("the month was just begun; send them again") from error
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == _DEADLOCK:
            raise LostRaceError("two calls waited for each other; send them again") from error
        raise


def _stored_hashes(session: Session, ids: list[UUID]) -> dict[UUID, bytes]:
    found = session.connection().execute(_known_hashes(), {_IDS: ids})
    return {report_id: bytes(sha256) for report_id, sha256 in found}


@cache
def _known_hashes() -> Select[UUID, bytes]:
    return select(_REPORTS.c.id, _REPORTS.c.content_sha256).where(_REPORTS.c.id.in_(bindparam(_IDS, expanding=True)))


def _insert(session: Session, new: Sequence[Accepted]) -> None:
    quarantined = _in_quarantine(session, new)
    nodes = upsert_nodes(session, new, quarantined=quarantined)
    devices = upsert_devices(session, (item.device_name for item in new if item.device_name is not None))
    upsert_device_names(
        session, _raw_names((item for item in new if item.report.report_id not in quarantined), devices)
    )
    node_ids = {key: row["id"] for key, row in nodes.items()}
    gpus = upsert_gpus(session, new, devices=devices, nodes=node_ids, quarantined=quarantined)
    rows = [
        report_row(item)
        | {
            "node_id": _found(nodes, node_key(item)),
            "gpu_id": _found(gpus, gpu_key(item)),
            "device_id": None if item.device_name is None else devices[item.device_name],
            "token_id": item.token_id,
            "quarantined": item.report.report_id in quarantined,
        }
        for item in new
    ]
    if insert_rows(session, _REPORTS, rows, ignoring=True) < len(new):
        raise LostRaceError("other calls stored the same reports; send them again")
    insert_rows(session, _DOCUMENTS, [document_row(item) for item in new])
    insert_rows(session, _ROOFS, [row for item in new for row in roof_rows(item)])
    counted = [row for row in rows if not row["quarantined"]]
    if counted:
        _count(session, counted, gpus=gpus.values(), nodes=nodes.values())


def _in_quarantine(session: Session, new: Iterable[Accepted]) -> frozenset[UUID]:
    """Ids of the reports that count for nothing, since their token is in quarantine."""
    posted = [(item, item.token_id) for item in new if item.token_id is not None]
    tokens = {token_id: shared_token(session, token_id) for token_id in sorted({token_id for _, token_id in posted})}
    return frozenset(
        item.report.report_id for item, token_id in posted if is_in_quarantine(tokens[token_id], item.received_at)
    )


def _count(session: Session, reports: Sequence[Row], gpus: Collection[Row], nodes: Collection[Row]) -> None:
    """Bring what reports count for up to date, and have their devices judged anew."""
    in_several = {gpu["id"] for gpu in gpus if gpu["several_nodes"]}
    timed = [row for row in reports if row["gpu_id"] in in_several and row["ordered_at"] is not None]
    claimed = note_conflicts(session, ((row["gpu_id"], row["ordered_at"]) for row in timed))
    refresh_measured_at(session, claimed)
    device_groups = device_groups_of(session, [gpu["id"] for gpu in gpus], [node["id"] for node in nodes])
    note_due(session, device_groups, max(row["received_at"] for row in reports))


def _found(rows: Mapping[_AnyKey, Row], key: _AnyKey | None) -> int | None:
    return None if key is None else cast("int", rows[key]["id"])


def _raw_names(new: Iterable[Accepted], devices: dict[str, int]) -> Iterable[tuple[str, int]]:
    for item in new:
        raw = None if item.report.gpu is None else item.report.gpu.device
        if raw and item.device_name is not None:
            yield raw, devices[item.device_name]
