"""
A small fleet in a database made a large one by SQL: copies of its gpus, nodes and reports.

A copy at a time, each in a transaction of a few seconds. No two gpus have the same values. The copies have all that an
answer or an evaluation reads; what there is besides (documents, rosters) has to be there already, or is added later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    FromClause,
    LargeBinary,
    Table,
    Text,
    Uuid,
    cast,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.db.document_months import make_months, month_of
from fleetridge_server.db.tables import Base
from fleetridge_server.ops.copy import set_sequence

# As the simulator names and places them.
_GPUS_PER_NODE = 8
_NODES_PER_RACK = 4
_GPU_DIGITS, _NODE_DIGITS, _RACK_DIGITS = 6, 5, 4

# How far the copies of one gpu lie from one another: as far as healthy gpus do.
_SPREAD = 0.01
# Primes, so that neighbours get factors that are not neighbours.
_STEP, _STEPS = 7919, 1009

# Digits of a report's id that say which copy it is of; the rest is the original's.
_COPY_DIGITS = 4
_VERSION_PLACE = 13  # no id that was made here before is of version 8
_COPIED_VERSION = "8"


@dataclass(frozen=True, slots=True)
class _Copy:
    """
    Numbers of one copy.

    Attributes:
        gpus, nodes: of the original, whose rows are 1, 2, 3 …
        most: gpus that there may be in the end.
    """

    number: int
    gpus: int
    nodes: int
    most: int

    def gpu(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Row of the copied gpu."""
        return column + self.number * self.gpus

    def node(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Row of the copied node."""
        return column + self.number * self.nodes

    def report(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Id of the copied report."""
        digits = func.replace(cast(column, Text), "-", "")
        middle = func.substr(digits, _COPY_DIGITS + 1, _VERSION_PLACE - _COPY_DIGITS - 1)
        own = literal(f"{self.number:0{_COPY_DIGITS}x}", Text)
        return cast(own + middle + _COPIED_VERSION + func.substr(digits, _VERSION_PLACE + 1), Uuid)

    def value(self, column: ColumnElement[Any], gpu: ColumnElement[Any]) -> ColumnElement[Any]:
        """The value that the copied gpu has in the place of the original's."""
        share = cast((self.gpu(gpu) * _STEP) % _STEPS, Double) / float(_STEPS)
        return column * (1 + _SPREAD * (share - 0.5))

    def takes(self, column: ColumnElement[Any]) -> list[ColumnElement[bool]]:
        """Whether a gpu of the original is copied."""
        return [column <= self.gpus, self.gpu(column) <= self.most]


def multiply(database: Database, gpus: int) -> None:
    """
    Copy a fleet, whose gpus fill their nodes, until there are so many gpus.

    Raises:
        ValueError: there is no such fleet.
    """
    with database.reading() as session:
        there, nodes = (session.scalar(select(func.count()).select_from(_table(name))) for name in ("gpus", "nodes"))
    if not there or there != (nodes or 0) * _GPUS_PER_NODE:
        raise ValueError(f"a fleet of whole nodes of {_GPUS_PER_NODE} gpus has to be there; store one first")
    for number in range(1, -(-gpus // there)):
        with database.writing() as session:
            _copy(session, _Copy(number, there, there // _GPUS_PER_NODE, gpus))
    with database.writing() as session:
        for name in ("nodes", "gpus"):
            set_sequence(session, _table(name))


def add_documents(database: Database, body: bytes, *, of_one_in: int) -> None:
    """Give all reports of one gpu in so many a document."""
    reports, documents = _table("reports"), _table("documents")
    with database.reading() as session:
        days = session.scalars(select(reports.c.received_at).where(reports.c.gpu_id == 1)).all()
    make_months(database.engine, {month_of(day) for day in days})
    given = {
        "received_at": reports.c.received_at,
        "report_id": reports.c.id,
        "body": literal(body, LargeBinary()),
    }
    with database.writing() as session:
        _insert(session, documents, given, reports, [reports.c.gpu_id % of_one_in == 0])


def _copy(session: Session, copy: _Copy) -> None:
    nodes, gpus, reports, roofs = (_table(name) for name in ("nodes", "gpus", "reports", "roofs"))
    node = {"id": copy.node(nodes.c.id), "name": _numbered("node-", copy.node(nodes.c.id) - 1, _NODE_DIGITS)}
    first_gpu = (nodes.c.id - 1) * _GPUS_PER_NODE + 1
    _insert(session, nodes, _all(nodes) | node, nodes, [nodes.c.id <= copy.nodes, *copy.takes(first_gpu)])
    gpu = {
        "id": copy.gpu(gpus.c.id),
        "identity": _numbered("GPU-simulated-", copy.gpu(gpus.c.id) - 1, _GPU_DIGITS),
        "node_id": copy.node(gpus.c.node_id),
        "last_report_id": copy.report(gpus.c.last_report_id),
    }
    _insert(session, gpus, _all(gpus) | gpu, gpus, copy.takes(gpus.c.id))
    report = {
        "id": copy.report(reports.c.id),
        "gpu_id": copy.gpu(reports.c.gpu_id),
        "node_id": copy.node(reports.c.node_id),
        "rack": _numbered("rack-", (copy.node(reports.c.node_id) - 1) // _NODES_PER_RACK, _RACK_DIGITS),
    }
    _insert(session, reports, _all(reports) | report, reports, copy.takes(reports.c.gpu_id))
    roof = {"report_id": copy.report(roofs.c.report_id), "value": copy.value(roofs.c.value, reports.c.gpu_id)}
    joined = reports.join(roofs, roofs.c.report_id == reports.c.id)
    _insert(session, roofs, _all(roofs) | roof, joined, copy.takes(reports.c.gpu_id))


def _insert(
    session: Session,
    table: Table,
    given: Mapping[str, Any],
    source: FromClause,
    chosen: list[ColumnElement[bool]],
) -> None:
    session.execute(insert(table).from_select(list(given), select(*given.values()).select_from(source).where(*chosen)))


def _numbered(before: str, number: ColumnElement[int], digits: int) -> ColumnElement[str]:
    """A name with a number of so many digits."""
    return literal(before, Text) + func.substr(cast(number + 10**digits, Text), 2)


def _all(table: Table) -> dict[str, Any]:
    return dict(table.c.items())


def _table(name: str) -> Table:
    return Base.metadata.tables[name]
