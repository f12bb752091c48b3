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
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from fleetridge.identity import canonical_device_name, distinct_device_slug
from fleetridge.quantities import MIB
from fleetridge.report import RoofKey
from fleetridge.report.roofs import Level, Regime, RoofKind
from fleetridge_agent.check.conditions import Conditions
from fleetridge_agent.durable_file import write_durably

# With fewer the median is hardly more than one gpu's own word.
FEWEST_PEERS = 4

# The rule by which a server judges, for an answer that has distributions and no limits: a loss of less than 3 % is
# nobody's trouble, a modified z beyond 3.5 is an outlier (Iglewicz and Hoaglin 1993), and a tenth lost is a fault
# however far the others scatter, unless so many scatter so widely that it is nothing special among them.
_SMALLEST_GATE = 0.03
_BEYOND_SCALES = 3.5
_PLAIN_LOSS = 0.10
_WIDE_SCALE = 0.03
_WIDE_FEWEST = 16

# Quartiles of a normal distribution lie 1.349 standard deviations apart.
_QUARTILES_APART = 1.349

_FOLDER = "check"

# The server itself looks no further back than this; a median of gpus does not move within days.
LONGEST_KEPT = timedelta(days=30)

# A clock that was set back by more than this since then tells no age.
_CLOCK_SLACK = timedelta(hours=1)

# Parts of an answer in which bands are; the list of gpus, its largest part, is not needed.
_PARTS = ("cohorts", "ridges", "bandwidths")

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
    """
    Bands in an answer to `GET /devices/{name}/ridge`.

    `cohorts` has them with their limits where the server evaluates its fleet. Of a roof that is not there, the
    distribution in `ridges` or `bandwidths` gives a band by the same rule.
    """
    judged = tuple(band for cohort in _entries(answer, "cohorts", _Cohort) for band in cohort.bands_here())
    told = {(band.key, band.conditions) for band in judged}
    plain = (
        *(entry.band() for entry in _entries(answer, "ridges", _Compute)),
        *(entry.band() for entry in _entries(answer, "bandwidths", _Memory)),
    )
    return judged + tuple(band for band in plain if (band.key, band.conditions) not in told)


def largest_loss(*, peers: int, median: float, q1: float, q3: float) -> float:
    """Loss against the median past which a gpu is degraded, as a fraction, where a server states no limit."""
    scale = (q3 - q1) / _QUARTILES_APART / median
    limit = max(_SMALLEST_GATE, _BEYOND_SCALES * scale)
    return limit if peers >= _WIDE_FEWEST and scale > _WIDE_SCALE else min(limit, _PLAIN_LOSS)


class KeptBands(BaseModel):
    """
    What a server once answered of a device.

    Attributes:
        answer: the parts of it in which bands are, as they came.
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
    parts = {name: answer[name] for name in _PARTS if name in answer}
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


_PartT = TypeVar("_PartT", bound=_Part)


class _Roof(_Part):
    kind: RoofKind
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: Regime
    level: Level
    kernel: str | None

    def key(self) -> RoofKey:
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
        for limits in self.bands:
            levels = frozenset((level.factor, level.name) for level in limits.levels)
            yield Band(self.roof.key(), self.conditions, limits.n, limits.median, limits.lowest, levels)


class _Distribution(_Part):
    n: int
    median: Annotated[float, Field(gt=0)]
    q1: float
    q3: float


class _Compared(_Part):
    dtype: str
    regime: Regime
    kernel: str | None
    conditions: Conditions


class _Compute(_Compared):
    out_dtype: str | None
    fast_accumulation: bool | None
    pi_tflops: _Distribution

    def band(self) -> Band:
        key = RoofKey("compute", self.dtype, self.out_dtype, self.fast_accumulation, self.regime, "device", self.kernel)
        return _by_distribution(key, self.conditions, self.pi_tflops)


class _Memory(_Compared):
    beta_gbps: _Distribution

    def band(self) -> Band:
        key = RoofKey("memory", self.dtype, None, None, self.regime, "device", self.kernel)
        return _by_distribution(key, self.conditions, self.beta_gbps)


def _by_distribution(key: RoofKey, conditions: Conditions, values: _Distribution) -> Band:
    loss = largest_loss(peers=values.n, median=values.median, q1=values.q1, q3=values.q3)
    return Band(key, conditions, values.n, values.median, (1 - loss) * values.median)


def _entries(answer: Mapping[str, Any], name: str, model: type[_PartT]) -> Iterator[_PartT]:
    listed = answer.get(name)
    for entry in listed if isinstance(listed, list) else ():
        with suppress(ValidationError):
            yield model.model_validate(entry)


def _path(state_dir: Path, device: str) -> Path:
    return state_dir / _FOLDER / f"bands-{distinct_device_slug(canonical_device_name(device))}.json"
