"""
Reports out of the database as the verdict engine takes them.

Bounded whatever the length of a gpu's history: its newest reports of each kind of run, and, where those do not reach
back to the beginning of its epoch, the first ones after it, from which drift takes its baseline.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, get_args

from sqlalchemy import ColumnElement, ScalarSelect, Select, Subquery, and_, func, literal, or_, select, union_all
from sqlalchemy.orm import Session, aliased

from fleetridge.report import RoofKey
from fleetridge.report.identity import RunKind
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.compare.stats import median
from fleetridge_server.store.counting import counts
from fleetridge_server.store.history import CONDITION_COLUMNS, ROOF_COLUMNS
from fleetridge_server.store.models import Gpu, Node, Report, Roof
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.verdict.drift import BASELINE_RUNS, MOST_RUNS, Epoch
from fleetridge_server.verdict.evidence import Factors, Health, JudgedReport, NodeName, RoofReading
from fleetridge_server.verdict.identities import with_conflicts

# Of each kind of run: as many as drift looks at. Kinds count apart, as hourly checks would hide the weekly sweep that
# alone measures some roofs.
DEPTH_REPORTS = MOST_RUNS

# Some of the first reports of an epoch fail, are disturbed, or share an hour.
_BASELINE_REPORTS = 3 * BASELINE_RUNS

# Gpus whose reports one query asks for; with full histories that is a second or two of reading.
_GPUS_PER_QUERY = 50

_LINKS = ("pcie", "nvlink")
_COMPARED_KERNELS = ("gemm_reference", "read")
_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)

_OF_REPORT = (
    "gpu_id", "id", "device_id", "run_kind", "ordered_at", "outcome", "reason", "contended", "rack", "health",
    "cluster",
)  # fmt: skip
_OF_READING = (
    "value", "converged", "implausible", "trend", "sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c",
    "throttle_ms",
)  # fmt: skip

# Where the parts of a row begin; the node's name comes last.
_CONDITIONS_AT = len(_OF_REPORT)
_FACTORS_AT = _CONDITIONS_AT + len(CONDITION_COLUMNS)
_ROOF_AT = _FACTORS_AT + len(Factors._fields)
_READING_AT = _ROOF_AT + len(ROOF_COLUMNS)
_NODE_AT = _READING_AT + len(_OF_READING)

_gpu_of = itemgetter(0)


class Subject(NamedTuple):
    """A gpu whose reports are wanted: its row, its id, and the device whose roofs count."""

    gpu_row: int
    gpu_id: str
    device_id: int


class _Loaded(NamedTuple):
    report: JudgedReport
    kind: str


def judged_reports(
    session: Session, subjects: Collection[Subject], *, as_of: datetime | None = None
) -> dict[int, list[JudgedReport]]:
    """
    Reports of some gpus, newest first, by the gpu's row; none without a time, and none later than `as_of`.

    What a gpu measured under the name of another device is left out; that it could not measure counts always.
    """
    found: dict[int, list[JudgedReport]] = {subject.gpu_row: [] for subject in subjects}
    for chunk in in_chunks(sorted(subjects), _GPUS_PER_QUERY):
        by_row = {subject.gpu_row: subject for subject in chunk}
        loaded = _loaded(session, _newest_of_each_kind(by_row, as_of), by_row)
        for gpu_row, own in loaded.items():
            first = _first_of_epoch(gpu_row, own)
            earlier = {} if first is None else _loaded(session, first, by_row).get(gpu_row, {})
            reports = (item.report for item in {**own, **earlier}.values())
            found[gpu_row] = with_conflicts(sorted(reports, key=_recency, reverse=True))
    return found


def _recency(report: JudgedReport) -> tuple[datetime, str]:
    return report.ordered_at, report.report_id


def _loaded(session: Session, reports: Select[Any], by_row: Mapping[int, Subject]) -> dict[int, dict[str, _Loaded]]:
    """Reports by the gpu's row and their id; `reports` asks for the ids of their rows."""
    found: dict[int, dict[str, _Loaded]] = defaultdict(dict)
    for gpu_row, rows in _by_gpu(session.execute(_evidence(reports))):
        found[gpu_row] = dict(_of_gpu(rows, by_row[gpu_row]))
    return found


def _evidence(reports: Select[Any]) -> Select[Any]:
    """One row for each compared roof of each report, and one for each report without any."""
    wanted = reports.subquery()
    compared = or_(
        Roof.level.in_(_LINKS),
        and_(Roof.level == "device", or_(Roof.kernel.is_(None), Roof.kernel.in_(_COMPARED_KERNELS))),
    )
    return (
        select(
            *(getattr(Report, name) for name in (*_OF_REPORT, *CONDITION_COLUMNS, *Factors._fields)),
            *(getattr(Roof, name) for name in (*ROOF_COLUMNS, *_OF_READING)),
            Node.name,
        )
        .join(wanted, wanted.c.id == Report.id)
        .outerjoin(Roof, and_(Roof.report_id == Report.id, compared))
        .outerjoin(Node, Node.id == Report.node_id)
    )


def _newest_of_each_kind(gpu_rows: Collection[int], as_of: datetime | None) -> Select[Any]:
    """Ids of the newest DEPTH_REPORTS reports of each gpu and kind of run."""
    kinds = _kinds()
    report = aliased(Report)
    return (
        select(report.id)
        .select_from(Gpu)
        .join(kinds, literal(1) == 1)
        .join(report, and_(report.gpu_id == Gpu.id, report.run_kind == kinds.c.kind))
        .where(
            Gpu.id.in_(gpu_rows),
            *_up_to(report, as_of),
            report.ordered_at >= func.coalesce(_oldest_wanted(kinds, as_of), _BEGINNING),
        )
    )


def _oldest_wanted(kinds: Subquery, as_of: datetime | None) -> ScalarSelect[datetime | None]:
    peer = aliased(Report)
    return (
        select(peer.ordered_at)
        .where(peer.gpu_id == Gpu.id, peer.run_kind == kinds.c.kind, *_up_to(peer, as_of))
        .order_by(peer.ordered_at.desc())
        .limit(1)
        .offset(DEPTH_REPORTS - 1)
        .correlate(Gpu, kinds)
        .scalar_subquery()
    )


def _kinds() -> Subquery:
    return union_all(*(select(literal(kind).label("kind")) for kind in get_args(RunKind))).subquery("kinds")


def _up_to(report: type[Report], as_of: datetime | None) -> tuple[ColumnElement[bool], ...]:
    return (report.ordered_at.is_not(None) if as_of is None else report.ordered_at <= as_of, counts(report))


def _first_of_epoch(gpu_row: int, loaded: Mapping[str, _Loaded]) -> Select[Any] | None:
    """
    Ids of the first reports of a gpu's epoch, of the kinds of run of which there are older ones than were loaded.

    None where all of the epoch was loaded.
    """
    counts = Counter(item.kind for item in loaded.values())
    deep = sorted(kind for kind, count in counts.items() if count >= DEPTH_REPORTS)
    valid = sorted(
        (item for item in loaded.values() if item.report.is_valid),
        key=lambda item: item.report.ordered_at,
        reverse=True,
    )
    if not deep or not valid:
        return None
    begin = _epoch_in(valid)
    if begin < len(valid) and all(any(item.kind == kind for item in valid[begin:]) for kind in deep):
        return None
    return _beginning_of(gpu_row, valid[begin - 1].report, deep)


def _epoch_in(valid: Sequence[_Loaded]) -> int:
    """How many reports, from the newest on, are of one epoch."""
    epochs = [Epoch(item.report.factors, item.report.conditions) for item in valid]
    return next(
        (place for place in range(1, len(epochs)) if not epochs[place - 1].continues(epochs[place])), len(epochs)
    )


def _beginning_of(gpu_row: int, oldest: JudgedReport, kinds: Sequence[str]) -> Select[Any]:
    """Ids of the first reports after the newest one before `oldest` that is of another epoch, some of each kind."""
    other = aliased(Report)
    conditions = zip(CONDITION_COLUMNS, _values(oldest.conditions), strict=True)
    factors = zip(Factors._fields, oldest.factors, strict=True)
    differs = or_(
        *(getattr(other, name).is_distinct_from(value) for name, value in conditions),
        *(getattr(other, name) != value for name, value in factors if value is not None),
    )
    start = (
        select(func.max(other.ordered_at))
        .where(
            other.gpu_id == gpu_row,
            other.ordered_at < oldest.ordered_at,
            other.outcome == "measured",
            other.contended.is_not(True),
            counts(other),
            differs,
        )
        .scalar_subquery()
    )
    parts = [
        select(Report.id)
        .where(
            Report.gpu_id == gpu_row,
            Report.run_kind == kind,
            Report.ordered_at > func.coalesce(start, _BEGINNING),
            Report.outcome == "measured",
            counts(Report),
        )
        .order_by(Report.ordered_at)
        .limit(_BASELINE_REPORTS)
        .subquery()
        for kind in kinds
    ]
    return select(union_all(*(select(part.c.id) for part in parts)).subquery().c.id)


def _values(conditions: Conditions) -> Iterator[Any]:
    return (getattr(conditions, name) for name in CONDITION_COLUMNS)


def _by_gpu(rows: Iterable[Any]) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        found[_gpu_of(row)].append(row)
    yield from found.items()


def _of_gpu(rows: Iterable[tuple[Any, ...]], subject: Subject) -> Iterator[tuple[str, _Loaded]]:
    by_report: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_report[row[1]].append(row)
    for report_rows in by_report.values():
        _gpu, report_id, device_id, kind, *_rest = report_rows[0]
        report = _report(report_rows, subject.gpu_id)
        if device_id == subject.device_id or not report.is_measured:
            yield str(report_id), _Loaded(report, kind)


def _report(rows: Sequence[tuple[Any, ...]], gpu_id: str) -> JudgedReport:
    _gpu, report_id, _device, _kind, ordered_at, outcome, reason, contended, rack, health, cluster = rows[0][
        :_CONDITIONS_AT
    ]
    name = rows[0][_NODE_AT]
    return JudgedReport(
        report_id=str(report_id),
        gpu_id=gpu_id,
        ordered_at=ordered_at,
        conditions=_conditions(*rows[0][_CONDITIONS_AT:_FACTORS_AT]),
        node=None if name is None else _node(cluster, name),
        rack=rack,
        factors=_factors(*rows[0][_FACTORS_AT:_ROOF_AT]),
        outcome=outcome,
        reason=reason,
        contended=bool(contended),
        health=Health(**health) if health else _NOTHING_READ,
        roofs=_readings(rows),
    )


_NOTHING_READ = Health()

# Reports of a fleet share these; the engine compares them fastest where they are the same objects.
_conditions = lru_cache(maxsize=4096)(Conditions)
_factors = lru_cache(maxsize=4096)(Factors)
_node = lru_cache(maxsize=65536)(NodeName)
_roof_key = lru_cache(maxsize=4096)(RoofKey)


def _readings(rows: Iterable[tuple[Any, ...]]) -> dict[RoofKey, RoofReading]:
    """Readings by roof; a report that states one roof twice has one vote, the median of its values."""
    found: dict[RoofKey, list[RoofReading]] = defaultdict(list)
    for row in rows:
        if row[_READING_AT] is not None:
            found[_roof_key(*row[_ROOF_AT:_READING_AT])].append(RoofReading(*row[_READING_AT:_NODE_AT]))
    return {roof: readings[0] if len(readings) == 1 else _together(readings) for roof, readings in found.items()}


def _together(readings: Sequence[RoofReading]) -> RoofReading:
    lowest = min(readings, key=lambda reading: reading.value)
    is_implausible = any(reading.implausible for reading in readings)
    return replace(lowest, value=median(reading.value for reading in readings), implausible=is_implausible)
