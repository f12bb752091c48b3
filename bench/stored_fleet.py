"""
A simulated fleet written straight into a database, for benchmarks of what reads it.

In bulk and by SQL: posting a hundred thousand reports would time the posting. What the rows say is what the simulator
says; evaluations read no documents, so that there are few.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Table, insert
from sqlalchemy.orm import Session

from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Base, Device
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import GpuHealth, JudgedReport
from fleetridge_server.ops.copy import set_sequence
from fleetridge_server.verdicts.series import DeviceGroup

_NAMESPACE = UUID("6f1f6f4e-56a1-4f36-9a0e-1d6f5d0b7a10")
_ROWS_AT_ONCE = 5000

_HEALTH = tuple(GpuHealth.__dataclass_fields__)


def store_fleet(database: Database, device: str, reports: Iterable[JudgedReport]) -> DeviceGroup:
    """Write the reports of a fleet's gpus, which come gpu by gpu, oldest first."""
    with database.writing() as session:
        stored = Device(name=device, slug=device.lower().replace(" ", "-"))
        session.add(stored)
        session.flush()
        device_group = DeviceGroup(stored.id, simulated=True)
    nodes: dict[str, int] = {}
    numbered = enumerate(itertools.groupby(reports, key=lambda report: report.gpu_id), start=1)
    while batch := [(row, list(own)) for row, (_, own) in itertools.islice(numbered, _ROWS_AT_ONCE)]:
        with database.writing() as session:
            _store(session, batch, nodes, device_group)
    with database.writing() as session:
        for name in ("nodes", "gpus"):
            set_sequence(session, _table(name))
    return device_group


def add_reports(
    database: Database, device_group: DeviceGroup, reports: Sequence[JudgedReport], gpu_rows: Sequence[int]
) -> None:
    """Write one more report for some gpus, by their rows, and make them due."""
    with database.writing() as session:
        device_id = device_group.device_id
        rows = [_report_row(report, row, None, device_id) for report, row in zip(reports, gpu_rows, strict=True)]
        session.execute(insert(_table("reports")), rows)
        session.execute(insert(_table("roofs")), [row for report in reports for row in _roof_rows(report)])
        gpus = _table("gpus")
        session.execute(gpus.update().where(gpus.c.id.in_(gpu_rows)).values(is_due=True))


def _store(
    session: Session, batch: Sequence[tuple[int, list[JudgedReport]]], nodes: dict[str, int], device_group: DeviceGroup
) -> None:
    new = {own[-1].node.name for _, own in batch if own[-1].node is not None} - nodes.keys()
    numbers = {name: len(nodes) + place for place, name in enumerate(sorted(new), start=1)}
    nodes |= numbers
    if numbers:
        session.execute(insert(_table("nodes")), [_node_row(name, number) for name, number in numbers.items()])
    gpus = [_gpu_row(row, own, nodes, device_group.device_id) for row, own in batch]
    session.execute(insert(_table("gpus")), gpus)
    reports = [
        _report_row(report, gpu["id"], gpu["node_id"], device_group.device_id)
        for gpu, (_, own) in zip(gpus, batch, strict=True)
        for report in own
    ]
    session.execute(insert(_table("reports")), reports)
    session.execute(insert(_table("roofs")), [row for _, own in batch for report in own for row in _roof_rows(report)])


def _table(name: str) -> Table:
    return Base.metadata.tables[name]


def _id_of(report: JudgedReport) -> UUID:
    return uuid5(_NAMESPACE, report.report_id)


def _node_row(name: str, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "cluster": SIMULATED,
        "name": name,
        "labels": {},
        "last_report_id": _NAMESPACE,
        "last_rank": "",
    }


def _gpu_row(row: int, own: Sequence[JudgedReport], nodes: dict[str, int], device_id: int) -> dict[str, Any]:
    newest = own[-1]
    return {
        "id": row,
        "identity": newest.gpu_id,
        "simulated": True,
        "device_id": device_id,
        "cluster": SIMULATED,
        "node_id": None if newest.node is None else nodes[newest.node.name],
        "stated": {},
        "first_seen": own[0].ordered_at,
        "last_seen": newest.ordered_at,
        "last_report_id": _id_of(newest),
        "last_rank": "",
        "is_due": True,
    }


def _report_row(report: JudgedReport, gpu_row: int, node_id: int | None, device_id: int) -> dict[str, Any]:
    conditions = {name: getattr(report.conditions, name) for name in report.conditions.__dataclass_fields__}
    return {
        "id": _id_of(report),
        "content_sha256": b"",
        "received_at": report.ordered_at,
        "ordered_at": report.ordered_at,
        "measured_to": report.ordered_at,
        "clock_ahead": False,
        "outcome": report.outcome,
        "run_id": _NAMESPACE,
        "run_kind": "cron",
        "cluster": SIMULATED,
        "node_id": node_id,
        "gpu_id": gpu_row,
        "device_id": device_id,
        "device_certainty": 2,
        "agent_version": "bench",
        "contended": report.contended,
        "rack": report.rack,
        "health": {name: getattr(report.health, name) for name in _HEALTH},
        **conditions,
        **report.factors._asdict(),
    }


def _roof_rows(report: JudgedReport) -> Iterator[dict[str, Any]]:
    for position, (roof, reading) in enumerate(report.roofs.items()):
        readings = {name: getattr(reading, name) for name in reading.__dataclass_fields__}
        unit = "TFLOP/s" if roof.kind == "compute" else "GB/s"
        yield {"report_id": _id_of(report), "position": position, "unit": unit, **roof._asdict(), **readings}
