"""Whether there is anything that a scope names: a typing error would cover nothing, and nobody would notice."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.store.models import Gpu, Node
from fleetridge_server.store.verdict_models import InventoryEntry


def is_expected(
    session: Session, *, gpu_id: str | None, cluster: str | None, node: str | None, rack: str | None
) -> bool:
    """
    Whether a gpu or node that reported, or that the inventory expects, fits all that are given.

    The inventory knows no racks, and a gpu may be marked before it is where the scope says.
    """
    if gpu_id is not None and not _knows_gpu(session, gpu_id, simulated=cluster == SIMULATED):
        return False
    if cluster is None:
        return True
    nodes = select(Node).where(Node.cluster == cluster, ~Node.quarantined)
    if node is not None:
        nodes = nodes.where(Node.name == node)
    if any(rack in (None, own.labels.get("rack")) for own in session.scalars(nodes)):
        return True
    entries = select(InventoryEntry.id).where(InventoryEntry.cluster == cluster)
    if node is not None:
        entries = entries.where(InventoryEntry.node == node)
    in_cluster = select(Gpu.id).where(Gpu.cluster == cluster, Gpu.simulated.is_(cluster == SIMULATED), ~Gpu.quarantined)
    return rack is None and any(
        session.scalars(query.limit(1)).first() is not None
        for query in ((entries,) if node is not None else (entries, in_cluster))
    )


def _knows_gpu(session: Session, gpu_id: str, *, simulated: bool) -> bool:
    known = select(Gpu.id).where(Gpu.identity == gpu_id, Gpu.simulated.is_(simulated), ~Gpu.quarantined)
    is_simulated = InventoryEntry.cluster == SIMULATED
    expected = select(InventoryEntry.id).where(
        InventoryEntry.gpu == gpu_id, is_simulated if simulated else ~is_simulated
    )
    return any(session.scalars(query.limit(1)).first() is not None for query in (known, expected))
