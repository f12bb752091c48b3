"""
Published dense peaks: what vendors say that a device multiplies and reads, with source and date for each figure.

A device is found by its exact name or not at all. Names that contain one another are other products ("A10" and "A100",
"H200" and "GH200"), and a MIG slice, whose name has a suffix, is a part of a device without a published peak. What is
not known is None: a wrong reference is worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fleetridge.device_names import canonical_device_name
from fleetridge.dtypes import DTYPES

_DATA = "peaks.json"

Certainty = Literal["cited", "derived", "disputed", "recalled"]

_Figure = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Peak:
    """
    One published figure.

    Attributes:
        value: TFLOP/s for compute (TOP/s for int8), GB/s for memory; dense, decimal prefixes.
        source: where it was read.
        read_on: when; None for a figure from memory.
        certainty: `cited` from the source; `derived` from a figure there, as the note says; `disputed` where sources
            disagree, as the note says; `recalled` from a datasheet that is not at hand.
        note: what a reader should know, or "".
    """

    value: float
    source: str
    read_on: date | None
    certainty: Certainty
    note: str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Strict):
    """Where figures were read, and when; never, where they come from memory."""

    title: str
    read_on: date | None


class Figures(_Strict):
    """Figures of one device that share source and certainty; compute by dtype in TFLOP/s, memory in GB/s."""

    source: str
    certainty: Certainty
    pi_tflops: dict[str, _Figure] = {}
    beta_gbps: _Figure | None = None
    note: str = ""


class Device(_Strict):
    """
    A product and its figures.

    Attributes:
        names: canonical names that drivers give it; figures hold for each.
        part: what it is, for people.
        lacks: dtypes that the chip has no instructions for.
        figures: what is published, grouped by source.
    """

    names: tuple[str, ...] = Field(min_length=1)
    part: str
    lacks: tuple[str, ...]
    figures: tuple[Figures, ...]

    @model_validator(mode="after")
    def _says_each_thing_once(self) -> Device:
        dtypes = [dtype for group in self.figures for dtype in group.pi_tflops]
        _require_distinct(f"dtypes of {self.part}", [*dtypes, *self.lacks])
        for dtype in (*dtypes, *self.lacks):
            # float32_or_tf32 says that a switch is unknown; no vendor publishes a peak for that.
            if dtype not in DTYPES or dtype == "float32_or_tf32":
                raise ValueError(f"{self.part}: {dtype!r} is no dtype that a peak is published for")
        if sum(group.beta_gbps is not None for group in self.figures) > 1:
            raise ValueError(f"{self.part}: more than one memory bandwidth; keep one and say so in its note")
        return self


class LeftOut(_Strict):
    """Devices that are known by name and have no figures, and why."""

    names: tuple[str, ...]
    why: str


class PeaksTable(_Strict):
    """The whole table as it is stored."""

    sources: dict[str, Source]
    devices: tuple[Device, ...]
    left_out: tuple[LeftOut, ...]

    @model_validator(mode="after")
    def _names_are_canonical_and_sources_known(self) -> PeaksTable:
        names = [name for device in self.devices for name in device.names]
        names += [name for entry in self.left_out for name in entry.names]
        _require_distinct("device names", names)
        for name in names:
            if canonical_device_name(name) != name:
                raise ValueError(f"{name!r} is not canonical; store {canonical_device_name(name)!r}")
        for group in (group for device in self.devices for group in device.figures):
            if group.source not in self.sources:
                raise ValueError(f"source {group.source!r} is not listed; add it to sources")
        return self


def published_pi(device_name: str, dtype: str) -> Peak | None:
    """
    Published compute peak of a device for a dtype, in TFLOP/s.

    Args:
        device_name: as the driver reports it, or its canonical form; whole devices only.
        dtype: what is multiplied; a float32 whose TF32 switch is unknown has no peak.
    """
    for group in _figures(device_name):
        if dtype in group.pi_tflops:
            return _peak(group.pi_tflops[dtype], group)
    return None


def published_beta(device_name: str) -> Peak | None:
    """Published memory bandwidth of a device, in GB/s."""
    for group in _figures(device_name):
        if group.beta_gbps is not None:
            return _peak(group.beta_gbps, group)
    return None


def lacks_dtype(device_name: str, dtype: str) -> bool:
    """Whether the chip is known to have no instructions for a dtype, as a V100 has none for bfloat16."""
    device = _devices().get(canonical_device_name(device_name))
    return device is not None and dtype in device.lacks


def why_left_out(device_name: str) -> str | None:
    """Why a device that drivers do name has no figures here; None where nothing is known of it."""
    name = canonical_device_name(device_name)
    return next((entry.why for entry in _table().left_out if name in entry.names), None)


@cache
def _table() -> PeaksTable:
    text = resources.files("fleetridge").joinpath(_DATA).read_text(encoding="utf-8")
    return PeaksTable.model_validate_json(text)


@cache
def _devices() -> dict[str, Device]:
    return {name: device for device in _table().devices for name in device.names}


def _figures(device_name: str) -> tuple[Figures, ...]:
    device = _devices().get(canonical_device_name(device_name))
    return () if device is None else device.figures


def _peak(value: float, group: Figures) -> Peak:
    source = _table().sources[group.source]
    return Peak(value, source.title, source.read_on, group.certainty, group.note)


def _require_distinct(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} listed twice: {', '.join(twice)}")
