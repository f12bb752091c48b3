"""
Histories of gpus as text, and back.

JSON in lists, as a fleet has millions of these values. What reports of a gpu have in common stands once in each text,
and what it has in common with other gpus in a part of its own, which is equal in the texts of most: it is taken apart
once for all texts that are read together. So these share the objects for what is equal in them, which the engine
compares fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import starmap
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.evaluating.gpu_history import GpuHistory
from fleetridge_server.verdict.drift import Drift, Epoch, Look
from fleetridge_server.verdict.evidence import Factors, Health, JudgedReport, NodeName, RoofReading

# Raised with every change of what is kept or how; texts of another format are made anew.
FORMAT = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

_DRIFT = tuple(Drift.__dataclass_fields__)
_TIMES_OF_DRIFT = tuple(_DRIFT.index(name) for name in ("onset", "first"))
_NOTHING_READ = Health()

_conditions_of = attrgetter(*Conditions.__dataclass_fields__)
_health_of = attrgetter(*Health.__dataclass_fields__)
_reading_of = attrgetter(*RoofReading.__dataclass_fields__)
_drift_of = attrgetter(*_DRIFT)


class _Setting(NamedTuple):
    """What reports of many gpus have in common; the roofs in their order."""

    conditions: Conditions
    factors: Factors
    outcome: Any
    reason: str | None
    contended: bool
    conflict: bool
    roofs: tuple[RoofKey, ...]


class _Common(NamedTuple):
    """What gpus of a fleet have in common, by the places at which a text speaks of it."""

    settings: tuple[_Setting, ...]
    roofs: tuple[RoofKey, ...]
    epochs: tuple[Epoch, ...]


def packed_history(history: GpuHistory) -> str:
    """Text of a history."""
    settings: dict[_Setting, int] = {}
    roofs: dict[RoofKey, int] = {}
    epochs: dict[Epoch, int] = {}
    reports = [_packed_report(report, _place(settings, _setting_of(report))) for report in history.reports]
    drifts = [[[_place(roofs, roof), _packed_drift(own)] for roof, own in part.items()] for part in history.drifts]
    steps = [
        [_place(roofs, roof), [[_packed_time(look.at), look.value, _place(epochs, look.epoch)] for look in own]]
        for roof, own in history.steps.items()
    ]
    common = [
        [[_conditions_of(own.conditions), *own[1:]] for own in settings],
        [*roofs],
        [[own.factors, _conditions_of(own.conditions)] for own in epochs],
    ]
    return _json([_json(common), reports, drifts, steps])


class HistoryReader:
    """Reads histories that are looked at together."""

    def __init__(self) -> None:
        self._common = lru_cache(maxsize=None)(self._read_common)
        self._conditions = lru_cache(maxsize=None)(Conditions)
        self._factors = lru_cache(maxsize=None)(Factors)
        self._node = lru_cache(maxsize=None)(NodeName)
        self._roof = lru_cache(maxsize=None)(RoofKey)

    def read(self, gpu_id: str, text: str) -> GpuHistory:
        """History of one gpu."""
        own, reports, drifts, steps = orjson.loads(text)
        common = self._common(own)
        roofs, epochs = common.roofs, common.epochs
        return GpuHistory(
            reports=tuple([self._report(gpu_id, row, common.settings) for row in reports]),
            drifts=tuple([{roofs[roof]: _drift(row) for roof, row in part} for part in drifts]),
            steps={
                roofs[roof]: tuple([Look(_time(at), value, epochs[epoch]) for at, value, epoch in looks])
                for roof, looks in steps
            },
        )

    def _report(self, gpu_id: str, row: Sequence[Any], settings: Sequence[_Setting]) -> JudgedReport:
        report_id, at, place, node, rack, health, readings = row
        conditions, factors, outcome, reason, contended, conflict, roofs = settings[place]
        return JudgedReport(
            report_id,
            gpu_id,
            _time(at),
            conditions,
            None if node is None else self._node(*node),
            rack,
            factors,
            outcome,
            reason,
            contended,
            conflict,
            _NOTHING_READ if health is None else Health(*health),
            dict(zip(roofs, starmap(RoofReading, readings), strict=True)),
        )

    def _read_common(self, text: str) -> _Common:
        settings, roofs, epochs = orjson.loads(text)
        return _Common(
            tuple([self._setting(row) for row in settings]),
            tuple([self._roof(*row) for row in roofs]),
            tuple([Epoch(self._factors(*factors), self._conditions(*conditions)) for factors, conditions in epochs]),
        )

    def _setting(self, row: Sequence[Any]) -> _Setting:
        conditions, factors, outcome, reason, contended, conflict, roofs = row
        keys = tuple([self._roof(*roof) for roof in roofs])
        return _Setting(
            self._conditions(*conditions), self._factors(*factors), outcome, reason, contended, conflict, keys
        )


def _json(value: list[Any]) -> str:
    # Named tuples are no JSON to orjson, tuples are.
    return orjson.dumps(value, default=tuple).decode()


def _setting_of(report: JudgedReport) -> _Setting:
    return _Setting(
        report.conditions,
        report.factors,
        report.outcome,
        report.reason,
        report.contended,
        report.conflict,
        tuple(report.roofs),
    )


def _place(places: dict[Any, int], value: Any) -> int:  # noqa: ANN401 # whatever stands in a table
    return places.setdefault(value, len(places))


def _packed_report(report: JudgedReport, setting: int) -> list[Any]:
    return [
        report.report_id,
        _packed_time(report.ordered_at),
        setting,
        report.node,
        report.rack,
        None if report.health == _NOTHING_READ else _health_of(report.health),
        [_reading_of(reading) for reading in report.roofs.values()],
    ]


def _packed_drift(drift: Drift) -> list[Any]:
    row = list(_drift_of(drift))
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else _packed_time(row[place])
    return row


def _drift(row: list[Any]) -> Drift:
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else _time(row[place])
    return Drift(*row)


def _packed_time(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
