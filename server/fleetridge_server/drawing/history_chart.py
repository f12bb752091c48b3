"""What a history shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleetridge.quantities import quantity, significant
from fleetridge_server.verdict.state import State


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """
    One run's figure.

    Attributes:
        at: ordering time, in UTC.
        accused: whether it lies beyond the limit of its peers.
        note: what to know of it, such as "contended"; a run with a note is drawn hollow.
    """

    at: datetime
    value: float
    accused: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PeerBand:
    """Where the peers are now: 5th percentile, median, 95th percentile."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class HistoryPanel:
    """One figure over time, in `unit`; points in any order."""

    label: str
    unit: str
    points: tuple[HistoryPoint, ...]
    band: PeerBand | None = None

    @property
    def ordered(self) -> list[HistoryPoint]:
        """Points by time."""
        return sorted(self.points, key=lambda point: (point.at, point.value))

    @property
    def said(self) -> str:
        """The panel in a sentence."""
        if not self.points:
            return f"{self.label}: no reading"
        values = [point.value for point in self.ordered]
        runs = f"{len(values)} run{'' if len(values) == 1 else 's'}"
        span = f"from {significant(min(values))} to {quantity(max(values), self.unit)}"
        return f"{self.label}: {runs} {span}, newest {quantity(values[-1], self.unit)}"


@dataclass(frozen=True, slots=True)
class EpochMark:
    """A change of settings, such as "driver 550.54 → 560.28"."""

    at: datetime
    label: str


@dataclass(frozen=True, slots=True)
class VerdictMark:
    """What was said of the gpu from a time on; a null state where it was not spoken of."""

    at: datetime
    state: State | None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that measured nothing, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class HistoryChart:
    """
    What is drawn, from the first run to the last.

    Attributes:
        until: end of the axis, so that a gpu that fell silent shows it; None ends with the last run.
    """

    title: str
    panels: tuple[HistoryPanel, ...]
    epochs: tuple[EpochMark, ...] = ()
    verdicts: tuple[VerdictMark, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    until: datetime | None = None
