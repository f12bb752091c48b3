"""Which gpus nodes say that they have, as the verdict engine takes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge.identity import canonical_device_name
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Device, Node
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.nodes import Roster


def rosters_of(session: Session, population: Population, gpu_ids: Collection[str], as_of: datetime) -> list[Roster]:
    """
    Newest complete roster of every node, with its gpus of one device.

    Args:
        session: to read with.
        population: of which device.
        gpu_ids: gpus that are known to be of it; others count where the roster says that they are.
        as_of: rosters that are newer say nothing of that time.
    """
    name = session.scalars(select(Device.name).where(Device.id == population.device_id)).one()
    in_population = Node.cluster == SIMULATED if population.simulated else Node.cluster != SIMULATED
    query = select(Node.cluster, Node.name, Node.roster_seen, Node.roster).where(
        in_population, Node.roster_seen.is_not(None), Node.roster_seen <= as_of
    )
    return [
        Roster(
            NodeName(row.cluster, row.name), row.roster_seen, _listed(row.roster or (), name, gpu_ids), complete=True
        )
        for row in session.execute(query)
    ]


def _listed(roster: Collection[Mapping[str, Any]], device: str, gpu_ids: Collection[str]) -> frozenset[str]:
    return frozenset(
        entry["gpu_id"]
        for entry in roster
        if entry["gpu_id"] is not None
        and (entry["gpu_id"] in gpu_ids or canonical_device_name(entry["device"] or "") in ("", device))
    )
