"""Shape of one gpu beside its own past."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.record import json_record
from fleetridge_server.verdict.drift import DriftStatus


@json_record
class DriftShown:
    """
    One gpu beside its own past in one roof.

    Attributes:
        looks: runs an hour or more apart in the current epoch.
        baseline: median of the first eight of them; scale of those, floored. Null while learning.
        low, high: sums (CUSUM) of slower and faster looks in scales; beyond 5 something changed.
        onset: first look of the change.
        change: median of the newest (at most five) looks since the onset over the baseline, less 1.
        recent_change: the same of the newest looks, changed or not.
        gate: smallest loss that counts.
        first: first look of the current epoch; null while learning.
        counts: whether it makes the gpu `drifted`: no mark excuses it and its peers did not lose as much.
    """

    roof: RoofName
    status: DriftStatus
    looks: int
    baseline: float | None
    scale: float | None
    low: float
    high: float
    onset: datetime | None
    looks_since: int
    change: float | None
    recent_change: float
    gate: float
    counts: bool
    first: datetime | None = None
