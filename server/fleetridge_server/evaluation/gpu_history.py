"""
The history of a gpu: what verdicts need of its past (few reports, drifts, the newest upgrade), and its packed text.

It is a function of the gpu's reports alone, so that it can be kept until the gpu reports again, and that the order in
which reports arrive never matters.

The text is JSON in lists, as a fleet has millions of these values. What reports of a gpu have in common stands once in
each text, and what it has in common with other gpus in a part of its own, which is equal in the texts of most: it is
taken apart once for all texts that are read together. So these share the objects for what is equal in them, which the
engine compares fastest.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import starmap
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from fleetridge.report import RoofKey
from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort, Conditions, is_judged
from fleetridge_server.engine.drift import (
    Drift,
    DriftSample,
    Epoch,
    comparable_looks,
    current_epoch,
    drift_of_epoch,
    drift_samples,
)
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect, epoch_effects
from fleetridge_server.verdicts.fleet_order import EPOCH, microseconds

# Drift is worked out beside both, since the scale of the cohort is known only when all gpus are looked at: the usual
# floor, at which a healthy gpu gives no alarm in a hundred runs, and the largest, for fleets noisier than that.
DRIFT_FLOORS = (rule.FLOOR_WHEN_UNKNOWN, rule.HIGHEST_FLOOR)


@fast_dataclass
class GpuHistory:
    """
    One gpu's past, as far as verdicts need it.

    Newest first all reports that `evaluate` would look at, drifts by roof beside each of DRIFT_FLOORS, and by roof the
    looks around the newest change of epoch, oldest first.
    """

    reports: tuple[JudgedReport, ...]
    drifts: tuple[Mapping[RoofKey, Drift], ...]
    steps: Mapping[RoofKey, tuple[DriftSample, ...]]


def gpu_history(reports: Sequence[JudgedReport]) -> GpuHistory:
    """What to keep of a gpu's reports, newest first."""
    looks = {roof: drift_samples(runs) for roof, runs in runs_by_roof(reports).items()}
    epochs = {roof: comparable_looks(own) for roof, own in looks.items()}
    drifts = tuple({roof: drift_of_epoch(own, floor) for roof, own in epochs.items()} for floor in DRIFT_FLOORS)
    steps = {roof: step for roof, own in looks.items() if (step := _around_change(own, len(current_epoch(own))))}
    return GpuHistory(tuple(_kept(reports)), drifts, steps)


def runs_by_roof(reports: Sequence[JudgedReport]) -> dict[RoofKey, list[DriftSample]]:
    """Valid runs of one gpu in every judged roof, oldest first."""
    found: dict[RoofKey, list[DriftSample]] = defaultdict(list)
    for report in reversed(reports):
        if report.is_valid:
            epoch = Epoch(report.factors, report.conditions)
            for roof, reading in report.roofs.items():
                if is_judged(roof) and not reading.implausible:
                    found[roof].append(DriftSample(report.ordered_at, reading.value, epoch))
    return found


def fleet_drifts(
    histories: Mapping[str, GpuHistory], floors: Mapping[Cohort, float]
) -> dict[str, dict[RoofKey, Drift]]:
    """Drifts of all gpus, each beside the scale of its cohort; the usual one where no scale is known."""
    if not floors:
        return {gpu_id: dict(history.drifts[0]) for gpu_id, history in histories.items() if history.drifts[0]}
    return {gpu_id: found for gpu_id, history in histories.items() if (found := _drifts(history, floors))}


def fleet_upgrades(histories: Mapping[str, GpuHistory]) -> dict[RoofKey, dict[EpochChange, PairedEffect]]:
    """Effects of the newest change of each factor, by roof."""
    looks: dict[RoofKey, dict[str, Sequence[DriftSample]]] = defaultdict(dict)
    for gpu_id, history in histories.items():
        for roof, steps in history.steps.items():
            looks[roof][gpu_id] = steps
    return {roof: effects for roof, by_gpu in looks.items() if (effects := epoch_effects(by_gpu))}


def has_drifts(histories: Iterable[GpuHistory]) -> bool:
    """Whether any gpu has a baseline; without one the scales of the cohorts decide nothing about drift."""
    return any(drift.status != "learning" for history in histories for drift in history.drifts[0].values())


def _drifts(history: GpuHistory, floors: Mapping[Cohort, float]) -> dict[RoofKey, Drift]:
    found: dict[RoofKey, Drift] = {}
    for roof, usual in history.drifts[0].items():
        newest = next((report for report in history.reports if report.is_valid and roof in report.roofs), None)
        floor = None if newest is None else floors.get(Cohort(roof, newest.conditions))
        is_noisy = floor is not None and floor > DRIFT_FLOORS[0]
        found[roof] = history.drifts[-1][roof] if is_noisy else usual
    return found


def _around_change(looks: Sequence[DriftSample], since: int) -> tuple[DriftSample, ...]:
    """Looks next to the newest change of epoch, `since` which there were some, as many as its effect is made from."""
    cut = len(looks) - since
    return tuple(looks[max(0, cut - rule.NEWEST_REPORTS) : cut + rule.NEWEST_REPORTS]) if cut else ()


def _kept(reports: Sequence[JudgedReport]) -> list[JudgedReport]:
    """All reports that can decide anything, in their order."""
    kept = _runs_kept(reports) | _states_kept(reports)
    return [report for report in reports if report.report_id in kept]


def _states_kept(reports: Sequence[JudgedReport]) -> set[str]:
    """Those that tell where a gpu is, and whether it is measured: the newest of each kind."""
    tried = [report for report in reports if report.outcome != "skipped"][: rule.FAILURES_IN_A_ROW]
    kinds: tuple[Callable[[JudgedReport], bool], ...] = (
        lambda _report: True,
        lambda report: report.is_measured,
        lambda report: report.is_measured and report.contended,
        lambda report: report.is_valid,
        lambda report: report.conflict,
    )
    newest = (next((report for report in reports if is_of_kind(report)), None) for is_of_kind in kinds)
    return {report.report_id for report in (*tried, *newest) if report is not None}


def _runs_kept(reports: Sequence[JudgedReport]) -> set[str]:
    """Those whose values count: some for each roof and method, and the newest that cannot be right."""
    kept: set[str] = set()
    counted: dict[tuple[str | None, RoofKey], tuple[Conditions, int]] = {}
    doubted: set[RoofKey] = set()
    for report in reports:
        if not report.is_valid:
            continue
        for roof, reading in report.roofs.items():
            if reading.implausible:
                if roof not in doubted:
                    doubted.add(roof)
                    kept.add(report.report_id)
                continue
            key = report.conditions.method, roof
            conditions, count = counted.get(key, (report.conditions, 0))
            if count < rule.REMEMBERED_REPORTS and conditions == report.conditions:
                counted[key] = conditions, count + 1
                kept.add(report.report_id)
    return kept


# Raised with every change of what is kept or how; texts of another format are made anew.
FORMAT = 5


_DRIFT = tuple(Drift.__dataclass_fields__)
_TIMES_OF_DRIFT = tuple(_DRIFT.index(name) for name in ("onset", "first"))
_NOTHING_READ = GpuHealth()

_conditions_of = attrgetter(*Conditions.__dataclass_fields__)
_health_of = attrgetter(*GpuHealth.__dataclass_fields__)
_reading_of = attrgetter(*RoofReading.__dataclass_fields__)
_drift_of = attrgetter(*_DRIFT)


class _SharedContext(NamedTuple):
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

    settings: tuple[_SharedContext, ...]
    roofs: tuple[RoofKey, ...]
    epochs: tuple[Epoch, ...]


def packed_history(history: GpuHistory) -> str:
    """Text of a history."""
    settings: dict[_SharedContext, int] = {}
    roofs: dict[RoofKey, int] = {}
    epochs: dict[Epoch, int] = {}
    reports = [_packed_report(report, _place(settings, _setting_of(report))) for report in history.reports]
    drifts = [[[_place(roofs, roof), _packed_drift(own)] for roof, own in part.items()] for part in history.drifts]
    steps = [
        [_place(roofs, roof), [[microseconds(look.at), look.value, _place(epochs, look.epoch)] for look in own]]
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
                roofs[roof]: tuple([DriftSample(_time(at), value, epochs[epoch]) for at, value, epoch in looks])
                for roof, looks in steps
            },
        )

    def _report(self, gpu_id: str, row: Sequence[Any], settings: Sequence[_SharedContext]) -> JudgedReport:
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
            _NOTHING_READ if health is None else GpuHealth(*health),
            dict(zip(roofs, starmap(RoofReading, readings), strict=True)),
        )

    def _read_common(self, text: str) -> _Common:
        settings, roofs, epochs = orjson.loads(text)
        return _Common(
            tuple([self._setting(row) for row in settings]),
            tuple([self._roof(*row) for row in roofs]),
            tuple([Epoch(self._factors(*factors), self._conditions(*conditions)) for factors, conditions in epochs]),
        )

    def _setting(self, row: Sequence[Any]) -> _SharedContext:
        conditions, factors, outcome, reason, contended, conflict, roofs = row
        keys = tuple([self._roof(*roof) for roof in roofs])
        return _SharedContext(
            self._conditions(*conditions), self._factors(*factors), outcome, reason, contended, conflict, keys
        )


def _json(value: list[Any]) -> str:
    # Named tuples are no JSON to orjson, tuples are.
    return orjson.dumps(value, default=tuple).decode()


def _setting_of(report: JudgedReport) -> _SharedContext:
    return _SharedContext(
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
        microseconds(report.ordered_at),
        setting,
        report.node,
        report.rack,
        None if report.health == _NOTHING_READ else _health_of(report.health),
        [_reading_of(reading) for reading in report.roofs.values()],
    ]


def _packed_drift(drift: Drift) -> list[Any]:
    row = list(_drift_of(drift))
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else microseconds(row[place])
    return row


def _drift(row: list[Any]) -> Drift:
    for place in _TIMES_OF_DRIFT:
        row[place] = None if row[place] is None else _time(row[place])
    return Drift(*row)


def _time(since_epoch_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=since_epoch_us)
