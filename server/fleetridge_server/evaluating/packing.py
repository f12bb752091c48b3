"""
Histories of gpus as text, and back.

JSON in lists, as a fleet has millions of these values; settings, nodes and roofs stand once in each text. All texts
that are read together share the objects for what is equal in them, which the engine compares fastest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.evaluating.gpu_history import GpuHistory
from fleetridge_server.verdict.drift import Drift, Epoch, Look
from fleetridge_server.verdict.evidence import Factors, Health, JudgedReport, NodeName, RoofReading

# Raised with every change of what is kept or how; texts of another format are made anew.
FORMAT = 2

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

_CONDITIONS = tuple(Conditions.__dataclass_fields__)
_HEALTH = tuple(Health.__dataclass_fields__)
_READING = tuple(RoofReading.__dataclass_fields__)
_DRIFT = tuple(Drift.__dataclass_fields__)
_TIMES_OF_DRIFT = tuple(_DRIFT.index(name) for name in ("onset", "first"))
_NOTHING_READ = Health()


def packed_history(history: GpuHistory) -> str:
    """Text of a history."""
    table = _Table()
    packed = {
        "reports": [_packed_report(report, table) for report in history.reports],
        "drifts": [[[table.place(roof), _packed_drift(own)] for roof, own in part.items()] for part in history.drifts],
        "steps": [
            [table.place(roof), [_packed_look(look, table) for look in own]] for roof, own in history.steps.items()
        ],
        "table": table.rows,
    }
    return json.dumps(packed, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class HistoryReader:
    """Reads histories that are looked at together."""

    def __init__(self) -> None:
        self._shared: dict[tuple[Any, ...], Any] = {}

    def read(self, gpu_id: str, text: str) -> GpuHistory:
        """History of one gpu."""
        packed = json.loads(text)
        table = [self._value(*row) for row in packed["table"]]
        return GpuHistory(
            reports=tuple([_report(gpu_id, row, table) for row in packed["reports"]]),
            drifts=tuple({table[roof]: _drift(row) for roof, row in part} for part in packed["drifts"]),
            steps={table[roof]: tuple(_look(row, table) for row in rows) for roof, rows in packed["steps"]},
        )

    def _value(self, kind: str, *fields: Any) -> Any:  # noqa: ANN401 # one of four types
        key = kind, fields
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = _MADE[kind](*fields)
        return found


class _Table:
    """Values that stand once in a text, by the place at which they stand."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._places: dict[Any, int] = {}

    def place(self, value: Conditions | Factors | NodeName | RoofKey | None) -> int | None:
        if value is None:
            return None
        key = type(value), value
        if key not in self._places:
            self._places[key] = len(self.rows)
            fields = [getattr(value, name) for name in _CONDITIONS] if isinstance(value, Conditions) else [*value]
            self.rows.append([type(value).__name__, *fields])
        return self._places[key]


_MADE: dict[str, Callable[..., Any]] = {made.__name__: made for made in (Conditions, Factors, NodeName, RoofKey)}


def _packed_report(report: JudgedReport, table: _Table) -> list[Any]:
    return [
        report.report_id,
        _packed_time(report.ordered_at),
        table.place(report.conditions),
        table.place(report.node),
        report.rack,
        table.place(report.factors),
        report.outcome,
        report.reason,
        report.contended,
        report.conflict,
        None if report.health == _NOTHING_READ else [getattr(report.health, name) for name in _HEALTH],
        [[table.place(roof), *(getattr(own, name) for name in _READING)] for roof, own in report.roofs.items()],
    ]


def _report(gpu_id: str, row: Sequence[Any], table: Sequence[Any]) -> JudgedReport:
    report_id, at, conditions, node, rack, factors, outcome, reason, contended, conflict, health, roofs = row
    return JudgedReport(
        report_id,
        gpu_id,
        _time(at),
        table[conditions],
        None if node is None else table[node],
        rack,
        table[factors],
        outcome,
        reason,
        contended,
        conflict,
        _NOTHING_READ if health is None else Health(*health),
        {table[own[0]]: RoofReading(*own[1:]) for own in roofs},
    )


def _packed_drift(drift: Drift) -> list[Any]:
    row = [getattr(drift, name) for name in _DRIFT]
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else _packed_time(row[place])
    return row


def _drift(row: list[Any]) -> Drift:
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else _time(row[place])
    return Drift(*row)


def _packed_look(look: Look, table: _Table) -> list[Any]:
    return [_packed_time(look.at), look.value, table.place(look.epoch.factors), table.place(look.epoch.conditions)]


def _look(row: Sequence[Any], table: Sequence[Any]) -> Look:
    at, value, factors, conditions = row
    return Look(_time(at), value, Epoch(table[factors], table[conditions]))


def _packed_time(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
