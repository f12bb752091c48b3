"""
The band in which the fleet's gpus lie, read from a server's answer, and the last one on disk for when it is silent.

Pure and patient: whatever of the answer has not the expected shape is passed over, so that an answer of a later
version, or of none, gives fewer bands and never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from fleetridge.device_names import canonical_device_name, distinct_device_slug
from fleetridge.quantities import MIB
from fleetridge.report import RoofKey
from fleetridge.report.roofs import Level, Regime, RoofKind
from fleetridge_agent.check.measured_gpu import Conditions
from fleetridge_agent.durable_file import write_durably

# With fewer the median is hardly more than one gpu's own word.
FEWEST_PEERS = 4

_FOLDER = "check"

# The server itself looks no further back than this; a median of gpus does not move within days.
LONGEST_KEPT = timedelta(days=30)

# A clock that was set back by more than this since then tells no age.
_CLOCK_SLACK = timedelta(hours=1)

# Part of an answer in which bands are; the list of gpus, its largest part, is not needed.
_PART = "cohorts"

_MOST_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class Band:
    """
    What gpus that were measured alike reach in one roof.

    Attributes:
        peers: how many gpus are behind it; None where a baseline stands in for them, which is believed as it is.
        median, lowest: in the unit of the roof; a gpu below `lowest` is degraded.
        levels: factors such as a driver, each with the value that all of these gpus share.
    """

    key: RoofKey
    conditions: Conditions
    peers: int | None
    median: float
    lowest: float
    levels: frozenset[tuple[str, str]] = frozenset()

    @property
    def has_verdict(self) -> bool:
        """Whether there are peers enough to say anything."""
        return self.peers is None or self.peers >= FEWEST_PEERS


def bands_of(answer: Mapping[str, Any]) -> tuple[Band, ...]:
    """Bands in an answer to `GET /devices/{name}/ridge`; none where the server has not evaluated its fleet."""
    return tuple(band for cohort in _cohorts(answer) for band in cohort.bands_here())


class KeptBands(BaseModel):
    """
    What a server once answered of a device.

    Attributes:
        answer: the part of it in which bands are, as it came.
    """

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    server: str
    device: str
    fetched_at: AwareDatetime
    answer: dict[str, Any]

    def is_usable(self, now: datetime) -> bool:
        """Whether it is young enough to judge by."""
        return -_CLOCK_SLACK <= now - self.fetched_at <= LONGEST_KEPT


def keep_bands(state_dir: Path, *, server: str, device: str, answer: Mapping[str, Any], at: datetime) -> None:
    """
    Write down what a server answered.

    Raises:
        OSError: the state directory cannot be written.
    """
    parts = {_PART: answer[_PART]} if _PART in answer else {}
    kept = KeptBands(server=server, device=device, fetched_at=at, answer=parts)
    write_durably(_path(state_dir, device), kept.model_dump_json().encode())


def kept_bands(state_dir: Path, device: str, *, server: str | None) -> KeptBands | None:
    """
    What was written down of a device; None where nothing was that can be read.

    Args:
        state_dir: where state is kept.
        device: name of the model.
        server: address whose answer is wanted; None for any.
    """
    try:
        with _path(state_dir, device).open("rb") as file:
            kept = KeptBands.model_validate_json(file.read(_MOST_BYTES))
    except (OSError, ValidationError):
        return None
    return kept if kept.device == device and server in (None, kept.server) else None


class _Part(BaseModel):
    """Part of an answer; numbers are finite, and what is not known here is passed over."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


class _Roof(_Part):
    kind: RoofKind
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: Regime
    level: Level
    kernel: str | None

    def key(self) -> RoofKey:
        """The key under which a roof of a report finds its band."""
        return RoofKey(**{name: getattr(self, name) for name in RoofKey._fields})


class _LevelName(_Part):
    factor: str
    name: str


class _Limits(_Part):
    n: int
    median: Annotated[float, Field(gt=0)]
    lowest: float
    levels: list[_LevelName] = []


class _Cohort(_Part):
    roof: _Roof
    conditions: Conditions
    bands: list[_Limits]

    def bands_here(self) -> Iterator[Band]:
        """The bands of this roof, one for each group of its cohort."""
        for limits in self.bands:
            levels = frozenset((level.factor, level.name) for level in limits.levels)
            yield Band(self.roof.key(), self.conditions, limits.n, limits.median, limits.lowest, levels)


def _cohorts(answer: Mapping[str, Any]) -> Iterator[_Cohort]:
    listed = answer.get(_PART)
    for entry in listed if isinstance(listed, list) else ():
        with suppress(ValidationError):
            yield _Cohort.model_validate(entry)


def _path(state_dir: Path, device: str) -> Path:
    return state_dir / _FOLDER / f"bands-{distinct_device_slug(canonical_device_name(device))}.json"
