"""What an answer is about: up to when, from when on, and which gpus."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

# Cluster of the simulator, whose made-up gpus never share a cohort, a count or a list with real ones.
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Span:
    """
    What an answer is about.

    Attributes:
        as_of: nothing later than this counts.
        since: nothing measured earlier counts; None is no limit.
        simulated: made-up gpus instead of real ones.
    """

    as_of: datetime
    since: datetime | None = None
    simulated: bool = False
