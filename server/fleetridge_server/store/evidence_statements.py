"""
Statements that read reports as the verdict engine takes them, and where in their rows what stands.

Made once where they do not depend on the gpu: to make one takes as long as to read ten gpus.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from typing import Any, NamedTuple, get_args

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
from sqlalchemy.orm import aliased
from sqlalchemy.types import NullType

from fleetridge.report.identity import RunKind
from fleetridge_server.store.columns import UtcDateTime
from fleetridge_server.store.counting import counts
from fleetridge_server.store.models import Gpu, Node, Report, Roof
from fleetridge_server.store.roof_columns import CONDITION_COLUMNS, ROOF_COLUMNS
from fleetridge_server.verdict.evidence import Factors

_LINKS = ("pcie", "nvlink")
_COMPARED_KERNELS = ("gemm_reference", "read")
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

    Apart, as a report has many roofs: joined, each of them would carry what the report says by itself.
    """
    wanted = reports.subquery()
    compared = or_(
        Roof.level.in_(_LINKS),
        and_(Roof.level == "device", or_(Roof.kernel.is_(None), Roof.kernel.in_(_COMPARED_KERNELS))),
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
    return (report.ordered_at <= as_of if is_past else report.ordered_at.is_not(None), counts(report))
