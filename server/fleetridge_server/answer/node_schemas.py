"""Shape of the answer about a node."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from fleetridge_server.answer.evaluated_schemas import VerdictShown
from fleetridge_server.answer.schemas import Answer, ReportSummary
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.verdict.state import State


class NodeGpu(Answer):
    """
    A gpu whose newest report came from this node, with that report's outcome.

    `verdict` is null before the first evaluation and for a gpu that is `retired`.
    """

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
    retired: bool
    verdict: VerdictShown | None


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

    `missing` are gpus that reported from here and are absent from a newer complete roster, and those that the inventory
    names and nobody ever saw; without a roster or an inventory nothing is concluded. `unnamed` counts what the
    inventory expects beyond that. `never_reported` is set for a node that only the inventory knows. `worst` is the id
    of the gpu that is worst off; `stragglers` is what a job over the node loses to its slowest gpu, in each roof.
    `reports` are those about the node as a whole, newest first. Verdicts are those of now, `evaluated_as_of` the oldest
    of the evaluations that they come from.
    """

    cluster: str
    name: str
    never_reported: bool
    labels: dict[str, str]
    evaluated_as_of: datetime | None
    verdicts: dict[State, int]
    worst: str | None
    first_seen: datetime | None
    last_seen: datetime | None
    gpus: tuple[NodeGpu, ...]
    missing: tuple[str, ...]
    unnamed: int
    stragglers: tuple[StragglerShown, ...]
    notes: tuple[str, ...]
    roster: Roster | None
    reports: tuple[ReportSummary, ...]


class WorstGpu(Answer):
    """The gpu of a node that is worst off, by its state and then by its loss."""

    gpu_id: str
    device: str
    index: int | None
    state: State
    last_state: State | None
    since: datetime
    reason: str | None
    loss: float | None


class NodeRow(Answer):
    """
    One node of the fleet.

    `gpus` counts those that are there and those that are missing. `verdicts` counts them by state; a node that never
    reported has none and is `never_reported`.
    """

    cluster: str
    name: str
    rack: str | None
    gpus: int
    devices: dict[str, int]
    verdicts: dict[State, int]
    worst: WorstGpu | None
    missing: tuple[str, ...]
    unnamed: int
    never_reported: bool
    last_seen: datetime | None


class NodeList(Answer):
    """Nodes by cluster and name, as they are now."""

    as_of: datetime
    nodes: tuple[NodeRow, ...]
    next: str | None
