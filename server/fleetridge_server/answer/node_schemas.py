"""Shape of the answer about a node."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from fleetridge_server.answer.schemas import Answer, ReportSummary


class NodeGpu(Answer):
    """A gpu whose newest report came from this node, with that report's outcome."""

    gpu_id: str
    device: str
    index: int | None
    pci_bus_id: str | None
    mig_profile: str | None
    partition: str | None
    outcome: str
    reason: str | None
    contended: bool | None
    ordered_at: datetime | None
    missing: bool


class RosterEntry(Answer):
    """A gpu as the driver listed it, and whether it ever reported; `gpu_id` is null where the entry identifies none."""

    gpu_id: str | None
    device: str | None
    index: int | None
    pci_bus_id: str | None
    reported: bool


class Roster(Answer):
    """All gpus that the newest complete run of the node listed."""

    seen: datetime | None
    report_id: UUID
    gpus: tuple[RosterEntry, ...]


class NodeAnswer(Answer):
    """
    One node: its gpus, what it reported about itself, and which gpus are missing.

    `missing` are gpus that reported from here and are absent from a newer complete roster; without such a roster
    nothing is concluded. `reports` are those about the node as a whole, newest first.
    """

    cluster: str
    name: str
    labels: dict[str, str]
    first_seen: datetime | None
    last_seen: datetime | None
    gpus: tuple[NodeGpu, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    roster: Roster | None
    reports: tuple[ReportSummary, ...]
