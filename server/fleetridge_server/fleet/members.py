"""
Which gpus an answer about a device is of: those that its evaluation judged, and those that none judged yet.

A gpu that changed device stays with the one that it was judged of until it is judged anew. One in quarantine is left
out of lists and counts at once; figures of groups are those of the evaluation, with it.
"""

from collections import Counter

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.db.tables import Gpu
from fleetridge_server.engine.cohort import SIMULATED, Span
from fleetridge_server.engine.gpu_state import STATES, State
from fleetridge_server.fleet.locations import Where, gpu_rows_there
from fleetridge_server.verdicts.fleet_order import FleetOrder
from fleetridge_server.verdicts.stored import EvaluationRef, order_of


def judged_places(
    session: Session,
    ref: EvaluationRef,
    order: FleetOrder,
    where: Where,
    *,
    is_past: bool,
    with_quarantined: bool = False,
) -> dict[int, str]:
    """
    Ids of the gpus that an evaluation judged and that are there, by their places in its order.

    Args:
        session: to read in.
        ref: the evaluation.
        order: of it.
        where: the gpus are to be.
        is_past: whether a time was asked for, as of which they are to be there.
        with_quarantined: as figures of groups have them.
    """
    there = gpu_rows_there(
        session,
        ref.device_id,
        Span(ref.until, simulated=ref.simulated),
        where,
        is_past=is_past,
        by_verdict=ref.is_current,
        with_quarantined=with_quarantined,
    )
    return {order.places[row]: gpu_id for row, gpu_id in there.items() if row in order.places}


def differing_gpus(
    session: Session, ref: EvaluationRef | None, cluster: str | None = None, *, is_past: bool
) -> frozenset[str]:
    """Gpus that lie far below the fastest of their few peers; with a cluster only those that are there."""
    if ref is None or not ref.body.differing:
        return frozenset()
    where = Where(None if cluster == SIMULATED else cluster)
    there = judged_places(session, ref, order_of(session, ref), where, is_past=is_past)
    return frozenset(ref.body.differing).intersection(there.values())


def verdict_counts(
    session: Session, ref: EvaluationRef | None, cluster: str | None = None, *, is_past: bool
) -> dict[State, int]:
    """Gpus by state, in the order of the states; with a cluster only those that are there and known by a report."""
    if ref is None:
        return {}
    where = Where(None if cluster == SIMULATED else cluster)
    order = order_of(session, ref)
    if where.is_set:
        counts = Counter(map(order.state, judged_places(session, ref, order, where, is_past=is_past)))
    else:  # with those that only the inventory knows, which have no place
        held_back = session.scalars(select(Gpu.id).where(Gpu.quarantined, Gpu.simulated.is_(ref.simulated)))
        gone = Counter(order.state(order.places[row]) for row in held_back if row in order.places)
        counts = Counter(ref.body.counts) - gone
    return {state: counts[state] for state in STATES if counts[state]}
