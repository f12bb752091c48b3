"""What a strip shows."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.spread import Spread


@dataclass(frozen=True, slots=True)
class GpuDeviation:
    """One gpu on a strip: its value in the strip's unit, and value / median - 1."""

    gpu: DrawnGpu
    value: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Strip:
    """
    One figure of all gpus that may be compared.

    Attributes:
        label: such as "pi bfloat16 burst", "beta read", "I* bfloat16 burst".
        unit: of median, values and published figure.
        limit: loss, as a fraction of the median, beyond which a gpu is accused; None where there is no verdict.
        published: the maker's figure; None where it is not known.
        note: such as why there is no verdict.
        crowd: deviations of all, where `gpus` are only those of a large fleet that deserve a look.
    """

    label: str
    unit: str
    median: float
    gpus: tuple[GpuDeviation, ...]
    limit: float | None = None
    published: float | None = None
    note: str = ""
    crowd: Spread | None = None

    @property
    def count(self) -> int:
        """How many gpus it is about."""
        return len(self.gpus) if self.crowd is None else self.crowd.gpus

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest deviation."""
        found = [own.deviation for own in self.gpus]
        found += [] if self.crowd is None else [self.crowd.bottom, self.crowd.top]
        return min(found), max(found)


@dataclass(frozen=True, slots=True)
class StripChart:
    """Strips above one another on one axis."""

    title: str
    strips: tuple[Strip, ...]
