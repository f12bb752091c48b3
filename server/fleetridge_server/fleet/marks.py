"""
Marks: what people decided about accusations. They are ended, never deleted, so that the past can be explained.

A mark changes nothing by itself; the next evaluation respects it, and making or ending one makes its devices due.
"""

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from fleetridge_server.db.tables import Gpu, Node
from fleetridge_server.db.verdict_tables import StoredMark
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.gpu_state import Mark, MarkKind
from fleetridge_server.verdicts.series import DeviceGroup, note_due


class MarkScopeError(ValueError):
    """A mark covers nothing, or more than it says; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class NewMark:
    """
    A decision to be kept.

    Attributes:
        author: who decided.
        until: end; None for ever.
        gpu: its id. cluster, node, rack: where; node and rack need their cluster. driver: of the newest report.
            All that are given must fit.
        simulated: whether it is about made-up gpus.
        loss: that is accepted, as a fraction; None for any.
    """

    kind: MarkKind
    reason: str
    author: str
    until: datetime | None = None
    gpu: str | None = None
    cluster: str | None = None
    node: str | None = None
    rack: str | None = None
    driver: str | None = None
    simulated: bool = False
    loss: float | None = None


def add_mark(session: Session, mark: NewMark, at: datetime) -> StoredMark:
    """
    Keep a mark from a time on, and have its devices judged anew.

    Raises:
        MarkScopeError: no scope, a node or rack without its cluster, a cluster of the other kind (real, simulated), a
            repair without an end, or a driver that is to be retired.
    """
    _require_scope(mark)
    stored = StoredMark(**asdict(mark), made_at=at)
    session.add(stored)
    session.flush()
    note_due(session, _device_groups(session, stored), at)
    return stored


def end_mark(session: Session, mark_id: int, at: datetime) -> StoredMark | None:
    """End a mark at a time; None where there is none. One that was ended before keeps its first end."""
    stored = session.get(StoredMark, mark_id, with_for_update=True)
    if stored is not None and stored.ended_at is None:
        stored.ended_at = at
        session.flush()
        note_due(session, _device_groups(session, stored), at)
    return stored


def mark_page(
    session: Session,
    *,
    simulated: bool = False,
    holding_at: datetime | None = None,
    before_id: int | None = None,
    limit: int,
) -> list[StoredMark]:
    """Marks, newest first; `holding_at` asks for those that hold at a time, `before_id` for the next page."""
    chosen = select(StoredMark).where(StoredMark.simulated.is_(simulated)).order_by(StoredMark.id.desc()).limit(limit)
    if holding_at is not None:
        chosen = chosen.where(
            StoredMark.made_at <= holding_at,
            or_(StoredMark.until.is_(None), StoredMark.until > holding_at),
            or_(StoredMark.ended_at.is_(None), StoredMark.ended_at > holding_at),
        )
    if before_id is not None:
        chosen = chosen.where(StoredMark.id < before_id)
    return list(session.scalars(chosen))


def marks_by_engine(session: Session, *, simulated: bool, as_of: datetime) -> dict[Mark, int]:
    """Marks that hold at a time for any real, or any simulated, gpu, as the engine takes them, with their ids."""
    chosen = select(StoredMark).where(StoredMark.simulated.is_(simulated), StoredMark.made_at <= as_of)
    marks = [(_engine_mark(stored), stored.id) for stored in session.scalars(chosen.order_by(StoredMark.id))]
    return {mark: mark_id for mark, mark_id in marks if mark.until is None or mark.until > as_of}


def _engine_mark(stored: StoredMark) -> Mark:
    ends = [end for end in (stored.until, stored.ended_at) if end is not None]
    has_node = stored.cluster is not None and stored.node is not None
    return Mark(
        kind=stored.kind,  # type: ignore[arg-type] # `add_mark` stores no other
        reason=stored.reason,
        made_at=stored.made_at,
        until=min(ends, default=None),
        gpu_id=stored.gpu,
        node=NodeName(stored.cluster or "", stored.node or "") if has_node else None,
        rack=stored.rack,
        cluster=stored.cluster,
        driver=stored.driver,
        loss=stored.loss,
    )


def _require_scope(mark: NewMark) -> None:
    if mark.gpu is None and mark.cluster is None and mark.driver is None:
        raise MarkScopeError(
            "a mark needs a scope: name a gpu, a driver, or a cluster with or without one of its nodes or racks"
        )
    if mark.kind == "known" and mark.until is None:
        raise MarkScopeError("what is known is being repaired until some time: give its end")
    if mark.kind == "retired" and mark.driver is not None:
        raise MarkScopeError("a driver is not retired, its gpus are: name them, or their node")
    if mark.cluster is not None and (mark.cluster == SIMULATED) is not mark.simulated:
        raise MarkScopeError(f"made-up gpus are those of cluster {SIMULATED!r}, and only they; change one of the two")


def _device_groups(session: Session, mark: StoredMark) -> set[DeviceGroup]:
    query = select(Gpu.device_id, Gpu.simulated).where(Gpu.simulated.is_(mark.simulated)).distinct()
    if mark.gpu is not None:
        query = query.where(Gpu.identity == mark.gpu)
    if mark.cluster is not None:
        query = query.where(Gpu.cluster == mark.cluster)
    if mark.node is not None:
        query = query.join(Node, Node.id == Gpu.node_id).where(Node.name == mark.node)
    return {DeviceGroup(*row) for row in session.execute(query)}
