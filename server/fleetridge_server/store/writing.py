"""
Reports into the database: all of one call in one transaction, each report once.

The same report may arrive in two calls at the same moment, at two servers. Whoever loses the race finds it stored and
calls it a duplicate (or a conflict, where the content differs) like anybody who comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

from sqlalchemy import CursorResult, Table, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from fleetridge.peaks import lacks_dtype
from fleetridge.report import Roof as ReportedRoof
from fleetridge.report.roofs import settled_dtype
from fleetridge_server.ingest.evidence import health_fields, is_implausible, phase_of
from fleetridge_server.ingest.intake import Accepted
from fleetridge_server.store.claims import Sighting, note_conflicts
from fleetridge_server.store.current import keep_values
from fleetridge_server.store.database import Database
from fleetridge_server.store.device_names import record_devices, record_names
from fleetridge_server.store.document_months import lacks_month, make_months, month_of
from fleetridge_server.store.due import note_due, populations_of
from fleetridge_server.store.models import Document, Report, Roof
from fleetridge_server.store.sightings import (
    RACK_LABEL,
    GpuKey,
    NodeKey,
    device_certainty,
    gpu_key,
    node_key,
    record_gpus,
    record_nodes,
)
from fleetridge_server.store.tokens import is_in_quarantine, shared_token
from fleetridge_server.store.upserts import Row, insert_ignoring

Stored = Literal["created", "duplicate", "conflict"]

# A race is lost to a transaction that has ended by then, so that the second attempt finds its rows. More are only
# needed where several reports of one call race with several others.
_ATTEMPTS = 4

_DEADLOCK = "40P01"  # PostgreSQL's code

_Key = TypeVar("_Key")

_REPORTS = cast("Table", Report.__table__)


class LostRaceError(RuntimeError):
    """Another transaction stored one of the reports meanwhile; nothing of this one may stay."""


def write_reports(database: Database, accepted: Sequence[Accepted], *, token_id: int | None = None) -> list[Stored]:
    """
    Store what is new of some reports, in one transaction.

    Args:
        database: where to.
        accepted: the reports.
        token_id: row of the token that they were posted with.

    Returns:
        What became of each, in their order.

    Raises:
        LostRaceError: others kept storing the same reports; nothing is stored.
        sqlalchemy.exc.OperationalError: the database does not take it just now; nothing is stored.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(LostRaceError), _transaction(database, accepted) as session:
            return store_reports(session, accepted, token_id=token_id)
    with _transaction(database, accepted) as session:
        return store_reports(session, accepted, token_id=token_id)


def store_reports(session: Session, accepted: Sequence[Accepted], *, token_id: int | None = None) -> list[Stored]:
    """
    Store what is new of some reports within a transaction of the caller's.

    Raises:
        LostRaceError: see there; the caller has to roll back.
    """
    known = _stored_hashes(session, [item.report.report_id for item in accepted])
    outcomes: list[Stored] = []
    new: list[Accepted] = []
    for item in accepted:
        report_id = item.report.report_id
        if report_id not in known:
            known[report_id] = item.sha256
            new.append(item)
            outcomes.append("created")
        else:
            outcomes.append("duplicate" if known[report_id] == item.sha256 else "conflict")
    if new:
        _insert(session, sorted(new, key=lambda item: item.report.report_id), token_id)
    return outcomes


@contextmanager
def _transaction(database: Database, accepted: Sequence[Accepted]) -> Iterator[Session]:
    try:
        with database.writing() as session:
            yield session
    except IntegrityError as error:
        if not lacks_month(error):
            raise
        make_months(database.engine, {month_of(item.received_at) for item in accepted})
        raise LostRaceError("the month was just begun; send them again") from error
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == _DEADLOCK:
            raise LostRaceError("two calls waited for each other; send them again") from error
        raise


def _stored_hashes(session: Session, ids: list[UUID]) -> dict[UUID, bytes]:
    found = session.execute(select(Report.id, Report.content_sha256).where(Report.id.in_(ids)))
    return {report_id: bytes(sha256) for report_id, sha256 in found}


def _insert(session: Session, new: Sequence[Accepted], token_id: int | None) -> None:
    quarantined = _in_quarantine(session, new, token_id)
    counted = [item for item in new if item.report.report_id not in quarantined]
    nodes = record_nodes(session, new, quarantined=quarantined)
    devices = record_devices(session, (item.device_name for item in new if item.device_name is not None))
    record_names(session, _raw_names(counted, devices))
    gpus = record_gpus(session, new, devices=devices, nodes=nodes, quarantined=quarantined)
    rows = [
        _report_row(item)
        | {
            "node_id": _found(nodes, node_key(item)),
            "gpu_id": _found(gpus, gpu_key(item)),
            "device_id": _found(devices, item.device_name),
            "token_id": token_id,
            "quarantined": item.report.report_id in quarantined,
        }
        for item in new
    ]
    inserted = session.execute(insert_ignoring(session, _REPORTS), rows, execution_options={"preserve_rowcount": True})
    if cast("CursorResult[Any]", inserted).rowcount < len(new):
        raise LostRaceError("other calls stored the same reports; send them again")
    session.execute(insert(Document.__table__), [_document_row(item) for item in new])  # type: ignore[arg-type] # a Table
    roofs = [row for item in new for row in _roof_rows(item)]
    if roofs:
        session.execute(insert(Roof.__table__), roofs)  # type: ignore[arg-type] # a Table
    if counted:
        _count(session, counted, gpus=gpus, nodes=nodes)


def _in_quarantine(session: Session, new: Sequence[Accepted], token_id: int | None) -> frozenset[UUID]:
    """Ids of the reports that count for nothing, since their token is in quarantine."""
    if token_id is None:
        return frozenset()
    token = shared_token(session, token_id)
    return frozenset(item.report.report_id for item in new if is_in_quarantine(token, item.received_at))


def _count(
    session: Session, counted: Sequence[Accepted], *, gpus: Mapping[GpuKey, int], nodes: Mapping[NodeKey, int]
) -> None:
    """Bring what reports count for up to date, and have their devices judged anew."""
    keys = [(item, key) for item in counted if (key := gpu_key(item)) is not None]
    seen = [Sighting(gpus[key], at) for item, key in keys if (at := item.place.ordered_at) is not None]
    claimed = note_conflicts(session, seen)
    keep_values(session, claimed | {gpus[key] for item, key in keys if item.report.roofs})
    populations = populations_of(session, list(gpus.values()), list(nodes.values()))
    note_due(session, populations, max(item.received_at for item in counted))


def _found(ids: Mapping[_Key, int], key: _Key | None) -> int | None:
    return None if key is None else ids[key]


def _raw_names(new: Iterable[Accepted], devices: dict[str, int]) -> Iterable[tuple[str, int]]:
    for item in new:
        raw = None if item.report.gpu is None else item.report.gpu.device
        if raw and item.device_name is not None:
            yield raw, devices[item.device_name]


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


def _report_row(item: Accepted) -> Row:
    report, gpu = item.report, item.report.gpu
    temperatures = [phase.temperature_c for phase in report.evidence.phases if phase.temperature_c is not None]
    return {
        "id": report.report_id,
        "content_sha256": item.sha256,
        "received_at": item.received_at,
        "sent_at": item.sent_at,
        "ordered_at": item.place.ordered_at,
        "clock_ahead": item.place.clock_ahead,
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


def _document_row(item: Accepted) -> Row:
    return {"report_id": item.report.report_id, "received_at": item.received_at, "body": item.body}


def _roof_rows(item: Accepted) -> Iterable[Row]:
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
