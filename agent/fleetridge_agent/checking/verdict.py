"""What a check says of one gpu and of a node; also the form in which it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

State = Literal["ok", "degraded", "unknown"]

# Decimals of a deviation that people are shown (0.1 %). Gpus and roofs that look alike to them keep their order, as
# what lies below is the noise of arithmetic.
_SHOWN_DECIMALS = 3

# The worst first: a gpu known to be slow says more of a node than one of which nothing is known.
_WORST_FIRST: tuple[State, ...] = ("degraded", "unknown", "ok")


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RoofVerdict(_Kept):
    """
    One judged roof beside its band.

    Attributes:
        roof: in words.
        value, median, lowest: in `unit`; median and lowest are None where there is no band.
        peers: gpus behind the band; None where a baseline stands in for them.
        reason: why the state is unknown.
    """

    roof: str
    unit: str
    value: float
    state: State
    median: Annotated[float, Field(gt=0)] | None = None
    lowest: float | None = None
    peers: int | None = None
    reason: str = ""

    @property
    def deviation(self) -> float | None:
        """Part by which the value lies above (positive) or below (negative) the median; None without a band."""
        return None if self.median is None else self.value / self.median - 1

    @property
    def standing(self) -> float:
        """The deviation as it is shown, by which roofs and gpus are put in order; 0 without a band."""
        return round(self.deviation or 0.0, _SHOWN_DECIMALS)


class GpuVerdict(_Kept):
    """
    What a check says of one gpu.

    Attributes:
        uuid, pci_bus_id, index: identity, place, and the driver's number by place, as far as each is known.
        reason: a few words, where the state is unknown.
        passing: whether it is unknown only because somebody else needed the gpu.
    """

    uuid: str | None = None
    pci_bus_id: str | None = None
    index: int | None = None
    device: str | None = None
    state: State
    reason: str = ""
    passing: bool = False
    judged_at: AwareDatetime
    roofs: Annotated[tuple[RoofVerdict, ...], Field(max_length=512)] = ()

    @property
    def worst(self) -> RoofVerdict | None:
        """The roof furthest below its band's median, degraded ones before others; None where none has a band."""
        placed = [roof for roof in self.roofs if roof.deviation is not None]
        return min(placed, key=lambda roof: (roof.state != "degraded", roof.standing), default=None)

    @property
    def identity(self) -> str:
        """By which two verdicts are of one gpu."""
        return self.uuid or self.pci_bus_id or f"index {self.index}"

    @property
    def is_beyond(self) -> bool:
        """Whether a roof lay below its band, confirmed or not."""
        return any(roof.state == "degraded" for roof in self.roofs)

    @property
    def name(self) -> str:
        """The gpu in a word or two: its number by place, else its UUID or its address."""
        return f"gpu {self.index}" if self.index is not None else self.uuid or self.pci_bus_id or "gpu"


def worst_state(states: Iterable[State]) -> State:
    """State of a node with gpus in these states; unknown where there is none."""
    present = set(states)
    return next((state for state in _WORST_FIRST if state in present), "unknown")
