"""
Reports out of the database as the verdict engine takes them, and the statements that read them.

Bounded whatever the length of a gpu's history: its newest reports of each kind of run, and, where those do not reach
back to the beginning of its epoch, the first ones after it, from which drift takes its baseline. Statements are made
once where they do not depend on the gpu: to make one takes as long as to read ten gpus.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache, lru_cache
from typing import Any, NamedTuple, get_args
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    Subquery,
    and_,
    bindparam,
    func,
    literal,
    or_,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.orm import Session, aliased
from sqlalchemy.types import NullType

from fleetridge.judged_kernels import JUDGED_KERNEL, JUDGED_LEVEL
from fleetridge.memory_size import memory_bytes_range, nominal_memory_gib
from fleetridge.report import RoofKey
from fleetridge.report.origin import RunKind
from fleetridge_server.db.column_types import UtcDateTime
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.tables import Gpu, Node, Report, Roof, is_trusted
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.drift import Epoch
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading, with_conflicts
from fleetridge_server.engine.rule import BASELINE_RUNS, LINK_LEVELS, MOST_RUNS
from fleetridge_server.engine.statistics import median
from fleetridge_server.fleet.reports import CONDITION_COLUMNS, ROOF_COLUMNS

BEGINNING = datetime.min.replace(tzinfo=timezone.utc)

_OF_REPORT = (
    "gpu_id", "device_id", "run_kind", "ordered_at", "outcome", "reason", "contended", "rack", "health", "cluster",
)  # fmt: skip
_OF_READING = (
    "value", "converged", "implausible", "trend", "sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c",
    "throttle_ms",
)  # fmt: skip

# Where the parts of a row begin: of a report's, after its id and its node's name; of a roof's, after the report's id.
OF_REPORT_AT = 2
CONDITIONS_AT = OF_REPORT_AT + len(_OF_REPORT)
FACTORS_AT = CONDITIONS_AT + len(CONDITION_COLUMNS)
ROOF_AT = 1
READING_AT = ROOF_AT + len(ROOF_COLUMNS)

GPU_ROWS = "gpu_rows"
AS_OF = "as_of"
PAST_DEPTH = "past_depth"


class Evidence(NamedTuple):
    """Statements that read the same reports: what each says by itself, and its roofs."""

    reports: Select[Any]
    roofs: Select[Any]


@cache
def evidence_of_newest(*, is_past: bool) -> Evidence:
    """Statements on the newest reports of some gpus: made once, as to make them takes as long as to read ten gpus."""
    return evidence_of(_newest_of_each_kind(is_past=is_past))


def evidence_of(reports: Select[Any]) -> Evidence:
    """
    Statements on some reports, of which `reports` asks for the ids.

    Apart, as a report has many roofs: joined, each of them would repeat what the report says by itself.
    """
    wanted = reports.subquery()
    compared = or_(
        Roof.level.in_(LINK_LEVELS),
        and_(Roof.level == JUDGED_LEVEL, or_(Roof.kernel.is_(None), Roof.kernel.in_(JUDGED_KERNEL.values()))),
    )
    columns = (getattr(Report, name) for name in (*_OF_REPORT, *CONDITION_COLUMNS, *Factors._fields))
    return Evidence(
        select(type_coerce(Report.id, NullType()), Node.name, *columns)
        .join(wanted, wanted.c.id == Report.id)
        .outerjoin(Node, Node.id == Report.node_id),
        select(
            type_coerce(Roof.report_id, NullType()), *(getattr(Roof, name) for name in (*ROOF_COLUMNS, *_OF_READING))
        )
        .join(wanted, and_(wanted.c.id == Roof.report_id, compared))
        .order_by(Roof.report_id, Roof.position),
    )


def _newest_of_each_kind(*, is_past: bool) -> Select[Any]:
    """Ids of the newest DEPTH_REPORTS reports of each of some gpus and kind of run."""
    kinds = _kinds()
    report = aliased(Report)
    return (
        select(report.id)
        .select_from(Gpu)
        .join(kinds, literal(1) == 1)
        .join(report, and_(report.gpu_id == Gpu.id, report.run_kind == kinds.c.kind))
        .where(
            Gpu.id.in_(bindparam(GPU_ROWS, expanding=True)),
            *_up_to(report, is_past=is_past),
            report.ordered_at >= func.coalesce(_oldest_wanted(kinds, is_past=is_past), BEGINNING),
        )
    )


def _oldest_wanted(kinds: Subquery, *, is_past: bool) -> ScalarSelect[datetime | None]:
    peer = aliased(Report)
    return (
        select(peer.ordered_at)
        .where(peer.gpu_id == Gpu.id, peer.run_kind == kinds.c.kind, *_up_to(peer, is_past=is_past))
        .order_by(peer.ordered_at.desc())
        .limit(1)
        .offset(bindparam(PAST_DEPTH, type_=Integer()))
        .correlate(Gpu, kinds)
        .scalar_subquery()
    )


def _kinds() -> Subquery:
    return union_all(*(select(literal(kind).label("kind")) for kind in get_args(RunKind))).subquery("kinds")


def _up_to(report: type[Report], *, is_past: bool) -> tuple[ColumnElement[bool], ...]:
    as_of = bindparam(AS_OF, type_=UtcDateTime())
    return (report.ordered_at <= as_of if is_past else report.ordered_at.is_not(None), is_trusted(report))


# Of each kind of run: as many as drift looks at. Kinds count apart, as hourly checks would hide the weekly sweep that
# alone measures some roofs.
DEPTH_REPORTS = MOST_RUNS

# Some of the first reports of an epoch fail, are disturbed, or share an hour.
_BASELINE_REPORTS = 3 * BASELINE_RUNS

# Factors of which every change begins anew; of the others `Epoch.shares_baseline` says which do, once they are read.
_ALWAYS_NEW = ("driver", "vbios", "ecc_enabled")

# Gpus whose reports one query asks for; with full histories that is a second or two of reading.
_GPUS_PER_QUERY = 50


# Ids as the driver gives them: a gpu has many roofs, and a UUID takes as long to make as all else of one.
_DriverId = Any
_RoofReadings = dict[RoofKey, RoofReading]


class GpuOfDevice(NamedTuple):
    """A gpu whose reports are wanted: its row, its id, and the device whose roofs count."""

    gpu_row: int
    gpu_id: str
    device_id: int


class _Loaded(NamedTuple):
    report: JudgedReport
    kind: str


def judged_reports(
    session: Session, subjects: Collection[GpuOfDevice], *, as_of: datetime | None = None
) -> dict[int, list[JudgedReport]]:
    """
    Reports of some gpus, newest first, by the gpu's row; none without a time, and none later than `as_of`.

    What a gpu measured under the name of another device is left out; that it could not measure counts always.
    """
    found: dict[int, list[JudgedReport]] = {subject.gpu_row: [] for subject in subjects}
    for chunk in in_chunks(sorted(subjects), _GPUS_PER_QUERY):
        by_row = {subject.gpu_row: subject for subject in chunk}
        newest = {GPU_ROWS: list(by_row), PAST_DEPTH: DEPTH_REPORTS - 1} | ({} if as_of is None else {AS_OF: as_of})
        loaded = _loaded(session, evidence_of_newest(is_past=as_of is not None), newest, by_row)
        for gpu_row, own in loaded.items():
            first = _first_of_epoch(gpu_row, own)
            earlier = {} if first is None else _loaded(session, evidence_of(first), {}, by_row).get(gpu_row, {})
            reports = (item.report for item in {**own, **earlier}.values())
            found[gpu_row] = with_conflicts(sorted(reports, key=_recency, reverse=True))
    return found


def _recency(report: JudgedReport) -> tuple[datetime, str]:
    return report.ordered_at, report.report_id


def _loaded(
    session: Session, evidence: Evidence, parameters: Mapping[str, Any], by_row: Mapping[int, GpuOfDevice]
) -> dict[int, dict[str, _Loaded]]:
    """Reports by the gpu's row and their id."""
    # By the connection, as a session passes each row through loaders of objects, of which there are none here.
    connection = session.connection()
    roofs = _roofs(connection.execute(evidence.roofs, parameters).all())
    found: dict[int, dict[str, _Loaded]] = defaultdict(dict)
    for row in connection.execute(evidence.reports, parameters).all():
        driver_id, node, gpu_row, device_id, kind = row[:5]
        subject = by_row[gpu_row]
        report = _report(row, subject.gpu_id, node, roofs.get(driver_id, {}))
        if device_id == subject.device_id or not report.is_measured:
            found[gpu_row][report.report_id] = _Loaded(report, kind)
    return found


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
        (place for place in range(1, len(epochs)) if not epochs[place - 1].shares_baseline(epochs[place])), len(epochs)
    )


def _beginning_of(gpu_row: int, oldest: JudgedReport, kinds: Sequence[str]) -> Select[Any]:
    """Ids of the first reports after the newest one before `oldest` that is of another epoch, some of each kind."""
    other = aliased(Report)
    size, *conditions = zip(CONDITION_COLUMNS, _values(oldest.conditions), strict=True)
    factors = zip(Factors._fields, oldest.factors, strict=True)
    differs = or_(
        _has_other_memory(other, size[1]),
        *(getattr(other, name).is_distinct_from(value) for name, value in conditions),
        *(getattr(other, name) != value for name, value in factors if name in _ALWAYS_NEW and value is not None),
    )
    start = (
        select(func.max(other.ordered_at))
        .where(
            other.gpu_id == gpu_row,
            other.ordered_at < oldest.ordered_at,
            other.outcome == "measured",
            other.contended.is_not(True),
            is_trusted(other),
            differs,
        )
        .scalar_subquery()
    )
    parts = [
        select(Report.id)
        .where(
            Report.gpu_id == gpu_row,
            Report.run_kind == kind,
            Report.ordered_at > func.coalesce(start, BEGINNING),
            Report.outcome == "measured",
            is_trusted(Report),
        )
        .order_by(Report.ordered_at)
        .limit(_BASELINE_REPORTS)
        .subquery()
        for kind in kinds
    ]
    return select(union_all(*(select(part.c.id) for part in parts)).subquery().c.id)


def _has_other_memory(report: type[Report], nominal_gib: int | None) -> ColumnElement[bool]:
    if nominal_gib is None:
        return report.memory_bytes.is_not(None)
    return or_(report.memory_bytes.is_(None), ~report.memory_bytes.between(*memory_bytes_range(nominal_gib)))


def _values(conditions: Conditions) -> Iterator[Any]:
    return (getattr(conditions, name) for name in Conditions.__dataclass_fields__)


def _report(row: Sequence[Any], gpu_id: str, node: str | None, roofs: _RoofReadings) -> JudgedReport:
    ordered_at, outcome, reason, contended, rack, health, cluster = row[OF_REPORT_AT + 3 : CONDITIONS_AT]
    return JudgedReport(
        report_id=_written(row[0]),
        gpu_id=gpu_id,
        ordered_at=ordered_at,
        conditions=_conditions_known(nominal_memory_gib(row[CONDITIONS_AT]), *row[CONDITIONS_AT + 1 : FACTORS_AT]),
        node=None if node is None else _node(cluster, node),
        rack=rack,
        factors=_factors(*row[FACTORS_AT:]),
        outcome=outcome,
        reason=reason,
        contended=bool(contended),
        health=GpuHealth(**health) if health else _NOTHING_READ,
        roofs=roofs,
    )


def _written(driver_id: _DriverId) -> str:
    """An id as it is written: SQLite holds its digits without hyphens."""
    return str(UUID(driver_id) if isinstance(driver_id, str) else driver_id)


_NOTHING_READ = GpuHealth()

# Reports of a fleet share these; the engine compares them fastest where they are the same objects.
_conditions_known = lru_cache(maxsize=4096)(Conditions)
_factors = lru_cache(maxsize=4096)(Factors)
_node = lru_cache(maxsize=65536)(NodeName)
_roof_key = lru_cache(maxsize=4096)(RoofKey)


def _roofs(rows: Iterable[Any]) -> dict[_DriverId, _RoofReadings]:
    """Readings by report and roof; a report that states one roof twice has one vote, the median of its values."""
    found: dict[_DriverId, _RoofReadings] = defaultdict(dict)
    twice: dict[tuple[_DriverId, RoofKey], list[RoofReading]] = {}
    for row in rows:
        driver_id, roof, reading = row[0], _roof_key(*row[ROOF_AT:READING_AT]), RoofReading(*row[READING_AT:])
        own = found[driver_id]
        if roof in own:
            twice.setdefault((driver_id, roof), [own[roof]]).append(reading)
        else:
            own[roof] = reading
    for (driver_id, roof), readings in twice.items():
        found[driver_id][roof] = _together(readings)
    return found


def _together(readings: Sequence[RoofReading]) -> RoofReading:
    lowest = min(readings, key=lambda reading: reading.value)
    is_implausible = any(reading.implausible for reading in readings)
    return replace(lowest, value=median(reading.value for reading in readings), implausible=is_implausible)
