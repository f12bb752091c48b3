"""Where a gpu is, and how its newest report ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GpuLocation:
    """
    A gpu as its newest report up to some time describes it.

    Attributes:
        row: of the gpu.
        node: None where an import never said.
        index: in the driver's order, for people.
        ordered_at, received_at, outcome, reason: of the newest report with a time, measured or not; None where none
            has a time.
        is_due: whether it reported something that its history does not know yet.
    """

    row: int
    gpu_id: str
    device_id: int
    cluster: str
    node: str | None
    index: int | None
    pci_bus_id: str | None
    mig_profile: str | None
    partition: str | None
    ordered_at: datetime | None
    received_at: datetime | None
    outcome: str | None
    reason: str | None
    is_due: bool
