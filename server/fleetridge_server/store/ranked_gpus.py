"""
Gpus of a device as its newest evaluation ranks them, worst first, some at a time.

A list that began under the evaluation before goes on in that one's order: each verdict keeps the rank that it had until
it was last written. Where two evaluations were stored since, a gpu counts by the oldest rank that is kept of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    LargeBinary,
    Select,
    and_,
    bindparam,
    case,
    collate,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session

from fleetridge_server.compare.ranking import (
    NOT_ACCUSED,
    NOT_EVALUATED,
    Rank,
    first_rank_of,
    packed_rank,
    unpacked_rank,
)
from fleetridge_server.store.cohort_values import is_judged_row
from fleetridge_server.store.columns import UtcDateTime
from fleetridge_server.store.due import Population
from fleetridge_server.store.lookup import is_storable
from fleetridge_server.store.models import Gpu, GpuRoof, Node, Report
from fleetridge_server.store.places import Where, is_possible
from fleetridge_server.store.told import Head
from fleetridge_server.store.verdict_models import CurrentVerdict
from fleetridge_server.verdict.levels import level_name
from fleetridge_server.verdict.state import STATES, UNUSABLE


@dataclass(frozen=True, slots=True)
class RankedList:
    """
    What is listed.

    Attributes:
        evaluation_id: under which the list began; is_newest: whether none was stored since.
        as_of: gpus that were first seen later are left out.
        states: only gpus in one of these states, now or when they were last measured.
        driver: only gpus whose newest judged value was measured with it.
        is_rare: whether the states are so rare that gpus are found by them, and then sorted.
    """

    population: Population
    evaluation_id: int
    is_newest: bool
    as_of: datetime
    where: Where
    states: Collection[str] | None
    driver: str | None
    is_rare: bool


@dataclass(frozen=True, slots=True)
class RankedGpu:
    """
    A gpu in such a list.

    Attributes:
        row: of the gpu.
        last_seen: ordering time of its newest report; None where none has a time.
        head: what is said of it now, in a line; None where nothing is.
    """

    row: int
    last_seen: datetime | None
    rank: Rank
    head: Head | None


def ranked_gpus(
    session: Session, listed: RankedList, *, after: Rank | None, limit: int, accused_only: bool = False
) -> list[RankedGpu]:
    """The next gpus of a list after a place in it; those that the evaluation does not know come last."""
    if not _is_possible(listed):
        return []
    shape, given = _shape(listed), _given(session, listed)
    found: list[RankedGpu] = []
    if after is None or after.severity < NOT_EVALUATED:
        end = first_rank_of(NOT_ACCUSED if accused_only else NOT_EVALUATED)
        place = {"after": b"" if after is None else packed_rank(after), "end": end, "most": limit}
        rows = session.execute(_evaluated(shape), given | place)
        found = [
            RankedGpu(row, seen, unpacked_rank(rank), Head(gpu_id, *said)) for row, seen, gpu_id, rank, *said in rows
        ]
    if len(found) == limit or accused_only or listed.states is not None:
        return found
    beyond = "" if after is None or after.severity < NOT_EVALUATED else after.gpu_id
    rows = session.execute(
        _not_evaluated(shape, _code_order(session)), given | {"beyond": beyond, "most": limit - len(found)}
    )
    return [*found, *(RankedGpu(row, seen, _unranked(gpu_id), None) for row, seen, gpu_id in rows)]


def count_ranked(session: Session, listed: RankedList) -> int:
    """How many gpus there are in a list."""
    if not _is_possible(listed):
        return 0
    gpus = _there(select(func.count()).select_from(Gpu), _shape(listed))
    if listed.states is not None:
        gpus = gpus.join(CurrentVerdict, _is_of()).where(_in_states())
    return session.scalar(gpus, _given(session, listed)) or 0


def _is_possible(listed: RankedList) -> bool:
    return is_possible(listed.where) and (listed.driver is None or is_storable(listed.driver))


class _Shape(NamedTuple):
    """What a query is made of; each is put together once, which takes as long as running it."""

    is_newest: bool
    by_cluster: bool
    by_node: bool
    by_state: bool
    by_driver: bool
    is_rare: bool

    @property
    def is_sorted(self) -> bool:
        """Whether few gpus are found by something else and then sorted, instead of reading the index of ranks."""
        return self.by_node or self.is_rare


def _shape(listed: RankedList) -> _Shape:
    return _Shape(
        listed.is_newest,
        listed.where.cluster is not None,
        listed.where.node is not None,
        listed.states is not None,
        listed.driver is not None,
        listed.is_rare,
    )


def _given(session: Session, listed: RankedList) -> dict[str, Any]:
    """Parameters of the queries."""
    node = listed.where.node
    nodes = [] if node is None else session.scalars(select(Node.id).where(Node.name == node)).all()
    states = listed.states or ()
    return {
        "device_id": listed.population.device_id,
        "simulated": listed.population.simulated,
        "began": listed.evaluation_id,
        "as_of": listed.as_of,
        "cluster": listed.where.cluster,
        "nodes": nodes,
        "driver": listed.driver,
        "states": sorted(states),
        "state_ranks": [rank for rank, state in enumerate(STATES) if state in states or state in UNUSABLE],
    }


@cache
def _evaluated(shape: _Shape) -> Select[Any]:
    verdict, rank = CurrentVerdict, _rank_then(shape)
    said = (verdict.state, verdict.last_state, verdict.since, verdict.reason, verdict.loss)
    columns: list[Any] = [Gpu.id, Gpu.last_seen, verdict.identity, rank.label("place"), *said]
    query = select(*columns).select_from(verdict).join(Gpu, _is_of())
    query = _there(query, shape).where(
        rank > bindparam("after", type_=LargeBinary()),
        rank < bindparam("end", type_=LargeBinary()),
    )
    if shape.by_state:
        query = query.where(_in_states())
    return query.order_by(rank).limit(bindparam("most"))


@cache
def _not_evaluated(shape: _Shape, collation: str) -> Select[Any]:
    """Gpus of which nothing was said when the list began: new ones, and those that are retired."""
    known = select(CurrentVerdict.identity).where(_is_of())
    if not shape.is_newest:
        known = known.where(_rank_then(shape).is_not(None))
    columns: list[Any] = [Gpu.id, Gpu.last_seen, Gpu.identity]
    in_order = collate(Gpu.identity, collation)
    query = _there(select(*columns), shape).where(~known.correlate(Gpu).exists(), in_order > bindparam("beyond"))
    return query.order_by(in_order).limit(bindparam("most"))


def _code_order(session: Session) -> str:
    """Collation that sorts texts as Python does, whatever the language of the database."""
    return "C" if session.get_bind().dialect.name == "postgresql" else "BINARY"


def _unranked(gpu_id: str) -> Rank:
    return Rank(NOT_EVALUATED, unmeasured=True, deviation=0.0, gpu_id=gpu_id)


def _rank_then(shape: _Shape) -> ColumnElement[Any]:
    verdict = CurrentVerdict
    if shape.is_newest:
        # So that no index of it is used where gpus are found by something else.
        return func.coalesce(verdict.rank, verdict.rank) if shape.is_sorted else verdict.rank.expression
    return case((verdict.evaluation_id > bindparam("began"), verdict.former_rank), else_=verdict.rank)


def _is_of() -> ColumnElement[bool]:
    """Whether a verdict is on a gpu of the device."""
    verdict = CurrentVerdict
    return and_(
        verdict.identity == Gpu.identity,
        verdict.device_id == bindparam("device_id"),
        # Each table by itself: PostgreSQL does not read an index in its order where a boolean is joined on.
        verdict.simulated == bindparam("simulated"),
    )


def _in_states() -> ColumnElement[bool]:
    """By rank, which there is an index of; only the states that keep what was said before have a last one."""
    wanted: BindParameter[str] = bindparam("states", expanding=True)
    ranks: BindParameter[int] = bindparam("state_ranks", expanding=True)
    verdict = CurrentVerdict
    return and_(verdict.state_rank.in_(ranks), or_(verdict.state.in_(wanted), verdict.last_state.in_(wanted)))


def _there(query: Select[Any], shape: _Shape) -> Select[Any]:
    """Gpus that a list takes, by where they are now."""
    query = query.where(
        Gpu.device_id == bindparam("device_id"),
        Gpu.simulated == bindparam("simulated"),
        ~Gpu.quarantined,
        or_(Gpu.first_seen.is_(None), Gpu.first_seen <= bindparam("as_of", type_=UtcDateTime())),
    )
    if shape.by_cluster:
        query = query.where(Gpu.cluster == bindparam("cluster"))
    if shape.by_node:
        nodes: BindParameter[int] = bindparam("nodes", expanding=True)
        query = query.where(Gpu.node_id.in_(nodes))
    if shape.by_driver:
        query = query.where(_newest_driver() == bindparam("driver"))
    return query


def _newest_driver() -> ColumnElement[str]:
    """Driver that the newest judged value of a gpu was measured with, as people write it; null where it has none."""
    newest = (
        select(GpuRoof.report_id)
        .where(GpuRoof.gpu_id == Gpu.id, GpuRoof.device_id == Gpu.device_id, is_judged_row())
        .order_by(GpuRoof.ordered_at.desc(), GpuRoof.position)
        .limit(1)
        .correlate(Gpu)
        .scalar_subquery()
    )
    driver = func.coalesce(Report.driver, level_name(None))
    return select(driver).where(Report.id == newest).correlate(Gpu).scalar_subquery()
