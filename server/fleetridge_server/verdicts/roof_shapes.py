"""
Shapes of roofs and ridges in answers, and the maker's published figures beside them.

As programs read them and the API description states them: frozen, finite numbers only, times in UTC with "Z". Units
stand in the names; a null is a reading that does not exist. Fields may be added later, so that a reader should pass
over those that it does not know.
"""

from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.fast_dataclass import json_dataclass
from fleetridge_server.engine.plausibility import is_whole_card, published_peak
from fleetridge_server.engine.statistics import Distribution


@json_dataclass
class RoofName:
    """A roof by its key."""

    kind: str
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    level: str
    kernel: str | None


@json_dataclass
class LevelName:
    """Value of one factor that sets gpus of a cohort apart, such as a driver."""

    factor: str
    name: str


Flag = Literal["clock_ahead", "not_converged", "stale", "unmeasured"]


class Answer(BaseModel):
    """Base of every part of an answer."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


_Shape = TypeVar("_Shape")


def shape_of(shape: type[_Shape], source: object, **others: Any) -> _Shape:  # noqa: ANN401 # fields are checked by pydantic
    """A part of an answer whose fields a row, or another value, has under the same names, but for the `others`."""
    names = shape.model_fields if issubclass(shape, BaseModel) else shape.__annotations__
    return shape(**{name: getattr(source, name) for name in names if name not in others}, **others)


class DeviceName(Answer):
    """A device: its canonical name, the form that is easy to type, and every name that drivers gave it."""

    name: str
    slug: str
    names: tuple[str, ...]


class Published(Answer):
    """What the maker publishes for the whole card, dense; null where it is not known."""

    pi_tflops: float | None
    beta_gbps: float | None
    ridge_flop_per_byte: float | None


class FleetRidge(Answer):
    """
    Ridge of a group of gpus that may be compared: one dtype, variant, regime and set of conditions.

    `beta_gbps` is that of the same gpus in the same regime, else burst, else unspecified; `ridge_flop_per_byte` is the
    distribution of the gpus' own ridges, not a ratio of medians. `peers` counts the gpus.
    """

    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    kernel: str | None
    conditions: Conditions
    peers: int
    note: str | None
    pi_tflops: Distribution
    beta_gbps: Distribution | None
    ridge_flop_per_byte: Distribution | None
    published: Published
    pi_share_of_published: float | None
    beta_share_of_published: float | None


class FleetBandwidth(Answer):
    """Memory bandwidth of a group of gpus that may be compared."""

    dtype: str
    regime: str
    kernel: str | None
    conditions: Conditions
    peers: int
    note: str | None
    beta_gbps: Distribution
    published_beta_gbps: float | None
    share_of_published: float | None


class Basis(Answer):
    """
    What a gpu's value rests on.

    The value is the median of the newest `reports` reports; the rest is said of the newest one: when it was taken by
    the node's clock, how old it is by the server's, and at which clock, power and highest temperature.
    """

    # Named first among the parents of a figure, since the fields of the first parent come last in the answer.

    method: str | None
    reports: int
    report_id: UUID
    measured_to: datetime | None
    age_s: float
    sm_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    flags: tuple[Flag, ...]


class _GpuRidge(Answer):
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    kernel: str | None
    peers: int
    note: str | None
    pi_tflops: float
    pi_median_tflops: float
    pi_deviation: float
    best_pi_tflops: float | None
    beta_regime: str | None
    beta_gbps: float | None
    beta_median_gbps: float | None
    beta_deviation: float | None
    ridge_flop_per_byte: float | None


class GpuRidge(Basis, _GpuRidge):
    """
    One gpu's ridge in one dtype, variant and regime.

    A deviation is value / median that the gpu is held against - 1, negative where the gpu is slower: `peers` gpus are
    behind that median, those of its cohort, or of its own level where the cohort has some. `best_pi_tflops` is what a
    search over shapes found in the newest of these reports: shown, never compared.
    """


class _GpuBandwidth(Answer):
    dtype: str
    regime: str
    kernel: str | None
    peers: int
    note: str | None
    beta_gbps: float
    beta_median_gbps: float
    beta_deviation: float


class GpuBandwidth(Basis, _GpuBandwidth):
    """One gpu's bandwidth from its own memory, compared with its peers'."""


class Worst(Answer):
    """The judged roof in which a gpu lies furthest below its peers; the value is in TFLOP/s (pi) or GB/s (beta)."""

    roof: Literal["pi", "beta"]
    dtype: str
    regime: str
    value: float
    median: float
    deviation: float
    peers: int


class ReportSummary(Answer):
    """A report in a line; `GET /reports/{report_id}` has the whole."""

    report_id: UUID
    ordered_at: datetime | None
    measured_from: datetime | None
    measured_to: datetime | None
    received_at: datetime
    run_kind: str
    outcome: str
    reason: str | None
    detail: str | None
    cluster: str
    node: str | None
    driver: str | None
    contended: bool | None
    clock_ahead: bool


class RoofValue(Answer):
    """One roof and its value in `unit`."""

    kind: str
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    level: str
    kernel: str | None
    value: float
    unit: str


class ShownRoof(Basis, RoofValue):
    """A roof that is shown and never compared: another stream, another level, the best of a search."""


def published_roofs(device_name: str, dtype: str, conditions: Conditions) -> Published:
    """Published roofs of a device for a dtype, null where nothing is known, and for a part of a card."""
    pi, beta = _published("compute", dtype, device_name, conditions), published_beta_gbps(device_name, conditions)
    ridge = None if pi is None or beta is None else ridge_flop_per_byte(pi, beta)
    return Published(pi_tflops=pi, beta_gbps=beta, ridge_flop_per_byte=ridge)


def published_beta_gbps(device_name: str, conditions: Conditions) -> float | None:
    """Published memory bandwidth of a device, null where it is not known, and for a part of a card."""
    return _published("memory", "", device_name, conditions)


def _published(kind: str, dtype: str, device_name: str, conditions: Conditions) -> float | None:
    is_whole = is_whole_card(conditions.mig_profile, conditions.partition)
    return published_peak(kind, dtype, device_name) if is_whole else None
