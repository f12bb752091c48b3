"""
Quarantine of a token: all its reports out of everything that is said, and back when it is released.

First the token's own row says so: whatever is stored with it from then on is in quarantine. Then what is stored already
follows, some gpus at a time; each gpu's reports and its row change together, so that whoever reads sees it either with
them or without. Whoever is interrupted goes on by doing the same again.

Rows of gpus and nodes are rebuilt from the reports that count. What a row says stays as long as the report that said it
counts, also where that report's document is gone; beside it the newest reports are taken again as if they arrived now.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from sqlalchemy import ColumnElement, CursorResult, Select, Table, and_, false, func, select, true, update
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from fleetridge_server.auth.tokens import locked_token, shared_token
from fleetridge_server.db.access_tables import StoredToken
from fleetridge_server.db.rows import Row, locked_rows, update_rows
from fleetridge_server.db.tables import DeviceCertainty, Document, Gpu, Node, Report, is_trusted
from fleetridge_server.intake.examine import Accepted, Ordering, examined, unpacked
from fleetridge_server.intake.hardware import (
    RACK_LABEL,
    gpu_key,
    merged_gpus,
    merged_nodes,
    node_key,
    rank,
    refresh_measured_at,
    seen_gpu,
    seen_node,
    unsaid_gpu,
    unsaid_node,
)
from fleetridge_server.intake.store import rebuild_conflicts
from fleetridge_server.verdicts.series import device_groups_of, note_due

_NODES = cast("Table", Node.__table__)
_GPUS = cast("Table", Gpu.__table__)

# Of each kind that is looked for: one is enough unless it failed, and documents take milliseconds to read.
_NEWEST = 4

# Nearly every report lists the gpus of its node; where none of these does, nobody knows which there should be.
_MOST_FOR_A_ROSTER = 64

_ID_CHARACTERS = 36
_ROSTER = ("roster", "roster_seen", "roster_report_id", "roster_rank")
_LAST = ("last_seen", "last_report_id", "last_rank")


def _renewed_node(session: Session, row: Row) -> Row:
    counted = _counted(session, {row["last_report_id"], row["roster_report_id"]})
    renewed = unsaid_node(row)
    if row["roster_report_id"] in counted:
        renewed |= {name: row[name] for name in _ROSTER}
    if row["last_report_id"] in counted:
        renewed |= {"labels": row["labels"], "quarantined": False, **{name: row[name] for name in _LAST}}
    newest = _newest(session, Report.node_id, row["id"], most=_MOST_FOR_A_ROSTER)
    for report, item in _with_documents(session, newest):
        seen = _known_of_node(report) if item is None else seen_node(item)
        renewed = merged_nodes(renewed, seen)
        if seen["roster"] is not None:
            break  # older reports have nothing newer to say of a node
    return renewed | {"first_seen": _first_seen(session, Report.node_id, row["id"])}


def _renewed_gpu(session: Session, row: Row) -> Row:
    said_by = {name: UUID(rank[-_ID_CHARACTERS:]) for name, rank in row["stated"].items()}
    counted = _counted(session, {row["last_report_id"], *said_by.values()})
    stated = {name: rank for name, rank in row["stated"].items() if said_by[name] in counted}
    renewed = unsaid_gpu(row) | {name: row[name] for name in stated} | {"stated": stated}
    if row["last_report_id"] in counted:
        renewed |= {"quarantined": False, **{name: row[name] for name in _LAST}}
    is_named = Report.device_certainty == DeviceCertainty.NAMED
    newest = _newest(session, Report.gpu_id, row["id"]) | _newest(session, Report.gpu_id, row["id"], is_named)
    for report, item in _with_documents(session, newest):
        renewed = merged_gpus(renewed, _known_of_gpu(report) if item is None else _said_of_gpu(report, item))
    first_seen = _first_seen(session, Report.gpu_id, row["id"])
    # Whoever was reported by several nodes stays so: it only means that their claims are looked at.
    return renewed | {"first_seen": first_seen, "several_nodes": row["several_nodes"] or renewed["several_nodes"]}


def _counted(session: Session, ids: set[UUID | None]) -> set[UUID]:
    """Those of some reports that count."""
    return set(session.scalars(select(Report.id).where(Report.id.in_(ids - {None}), is_trusted(Report))))


def _first_seen(session: Session, column: InstrumentedAttribute[int | None], row_id: int) -> datetime | None:
    return session.scalar(select(func.min(Report.ordered_at)).where(column == row_id, is_trusted(Report)))


def _newest(
    session: Session,
    column: InstrumentedAttribute[int | None],
    row_id: int,
    *chosen: ColumnElement[bool],
    most: int = _NEWEST,
) -> dict[UUID, Report]:
    order = (Report.ordered_at.desc().nulls_last(), Report.measured_to.desc(), Report.id.desc())
    query = select(Report).where(column == row_id, is_trusted(Report), *chosen).order_by(*order).limit(most)
    return {report.id: report for report in session.scalars(query)}


def _with_documents(session: Session, reports: Mapping[UUID, Report]) -> Iterator[tuple[Report, Accepted | None]]:
    """Reports, each with what it was when it arrived; None where its document is gone."""
    is_its = and_(Document.report_id == Report.id, Document.received_at == Report.received_at)
    query = select(Report.id, Document.body).join(Document, is_its).where(Report.id.in_(reports))
    bodies = {row.id: row.body for row in session.execute(query)}
    for report_id, report in reports.items():
        yield report, _as_it_arrived(report, bodies[report_id]) if report_id in bodies else None


def _as_it_arrived(report: Report, body: bytes) -> Accepted | None:
    item = examined(json.loads(unpacked(body)), sent_at=report.sent_at, received_at=report.received_at)
    if not isinstance(item, Accepted):  # by the rules of an older server it was a report
        return None
    return replace(item, ordering=Ordering(report.ordered_at, clock_ahead=report.clock_ahead))


def _said_of_gpu(report: Report, item: Accepted) -> Row:
    device, node, key = item.device_name, node_key(item), gpu_key(item)
    if device is None or key is None or report.device_id is None:
        return _known_of_gpu(report)
    nodes = {} if node is None or report.node_id is None else {node: report.node_id}
    return seen_gpu(item, {device: report.device_id}, nodes)


def _known_of_gpu(report: Report) -> Row:
    """What the summary of a report says of its gpu."""
    facts = {name: getattr(report, name) for name in ("memory_bytes", "sm_count", "mig_profile", "partition")}
    rank = _rank(report)
    stated = {name: rank for name, value in facts.items() if value is not None}
    return {
        "device_id": report.device_id,
        "cluster": report.cluster,
        "node_id": report.node_id,
        **facts,
        "stated": stated | {"device_id": f"{report.device_certainty or 0:d} {rank}"},
        "is_due": True,
        "several_nodes": False,
        "measured_at": None,
        **_seen(report),
    }


def _known_of_node(report: Report) -> Row:
    """What the summary of a report says of its node."""
    labels = {} if report.rack is None else {RACK_LABEL: report.rack}
    return {"labels": labels, **dict.fromkeys(_ROSTER), **_seen(report)}


def _seen(report: Report) -> Row:
    at = report.ordered_at
    seen = {"first_seen": at, "last_seen": at, "last_report_id": report.id, "last_rank": _rank(report)}
    return {**seen, "quarantined": False}


def _rank(report: Report) -> str:
    return rank(report.ordered_at, report.measured_to, report.id)


_REPORTS = cast("Table", Report.__table__)

# Some thousand reports: a second in which nobody can report these gpus.
GPUS_AT_ONCE = 10

# Reports about nodes as a whole; each names a node whose row is renewed.
_REPORTS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """What one step moved; no `last_gpu` where it was about nodes, and `is_last` where nothing is left."""

    reports: int
    last_gpu: int | None
    is_last: bool


def quarantine_token(session: Session, token_id: int, since: datetime | None, at: datetime) -> StoredToken:
    """
    Put a token into quarantine; reports that arrived before `since` (None for none) go on counting.

    Raises:
        UnknownTokenError: there is none.
    """
    token = locked_token(session, token_id)
    token.quarantined_at, token.quarantined_since = at, since
    return token


def release_token(session: Session, token_id: int) -> StoredToken:
    """Take a token out of quarantine. Raises UnknownTokenError: there is none."""
    token = locked_token(session, token_id)
    token.quarantined_at, token.quarantined_since = None, None
    return token


def move_some(session: Session, token_id: int, *, after_gpu: int, at: datetime) -> Moved:
    """
    Let some stored reports of a token follow it into quarantine, or out of it, in a transaction of the caller's.

    `after_gpu` is the row of the gpu that the step before ended with, 0 at first.
    """
    token = shared_token(session, token_id)
    report = aliased(Report)
    misplaced = and_(report.token_id == token_id, report.quarantined != _belongs_in_quarantine(token, report))
    query = select(report.gpu_id).where(misplaced, report.gpu_id > after_gpu).distinct()
    gpu_rows = [row for row in session.scalars(query.order_by(report.gpu_id).limit(GPUS_AT_ONCE)) if row is not None]
    if gpu_rows:
        of_gpus = select(report.id).where(misplaced, report.gpu_id.in_(gpu_rows))
        return Moved(_moved(session, token, of_gpus, gpu_rows, at), gpu_rows[-1], is_last=False)
    of_nodes = select(report.id).where(misplaced, report.gpu_id.is_(None)).order_by(report.id).limit(_REPORTS_AT_ONCE)
    moved = _moved(session, token, of_nodes, [], at)
    return Moved(moved, None, is_last=moved < _REPORTS_AT_ONCE)


def _belongs_in_quarantine(token: StoredToken, report: type[Report]) -> ColumnElement[bool]:
    if token.quarantined_at is None:
        return false()
    return true() if token.quarantined_since is None else report.received_at >= token.quarantined_since


def _moved(session: Session, token: StoredToken, reports: Select[Any], gpu_rows: list[int], at: datetime) -> int:
    """Move some reports, and bring all that rests on them up to date; how many they are."""
    node_rows = _nodes_of(session, reports)
    # Nodes before any gpu, as those lock them who store reports.
    nodes, gpus = (
        locked_rows(session, table, table.c.id.in_(rows)) for table, rows in ((_NODES, node_rows), (_GPUS, gpu_rows))
    )
    before = device_groups_of(session, gpu_rows, node_rows)
    belongs = _belongs_in_quarantine(token, Report)
    moving = update(_REPORTS).where(_REPORTS.c.id.in_(reports)).values(quarantined=belongs, conflict_from=None)
    moved = cast("CursorResult[Any]", session.execute(moving)).rowcount
    update_rows(session, _NODES, [_renewed_node(session, row) for row in nodes])
    update_rows(session, _GPUS, [_renewed_gpu(session, row) | {"is_due": True} for row in gpus])
    rebuild_conflicts(session, gpu_rows)
    refresh_measured_at(session, gpu_rows)
    note_due(session, before | device_groups_of(session, gpu_rows, node_rows), at)
    return moved


def _nodes_of(session: Session, reports: Select[Any]) -> list[int]:
    query = select(Report.node_id).where(Report.id.in_(reports), Report.node_id.is_not(None)).distinct()
    return [row for row in session.scalars(query) if row is not None]
