"""What a check compares of a report: the roofs that every agent measures alike, and what they were measured under."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from fleetridge.device_names import fallback_device_name
from fleetridge.judged_kernels import is_judged
from fleetridge.memory_size import nominal_memory_gib
from fleetridge.peaks import lacks_dtype
from fleetridge.report import Environment, Gpu, Report, Roof, RoofKey
from fleetridge.report.roofs import settled_dtype

_SYMBOL = {"compute": "pi", "memory": "beta"}


class Conditions(BaseModel):
    """
    What two gpus of one device must share to be compared; None equals only None.

    Also the form in which a server's answer states them.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    memory_gib: int | None
    sm_count: int | None
    mig_profile: str | None
    partition: str | None
    fill: str | None
    method: str | None
    protocol_version: int | None


@dataclass(frozen=True, slots=True)
class MeasuredRoof:
    """A judged roof; the value is in TFLOP/s or GB/s, as its kind says."""

    key: RoofKey
    value: float


@dataclass(frozen=True, slots=True)
class MeasuredGpu:
    """
    One gpu as a check sees it.

    Attributes:
        device: the driver's name of the model, or what stands for it.
        levels: factors that do not decide who may be compared but may set gpus apart, as text.
        roofs: at least one of each kind in a whole sweep.
    """

    device: str
    conditions: Conditions
    levels: frozenset[tuple[str, str]]
    roofs: tuple[MeasuredRoof, ...]


def measured_gpu(report: Report) -> MeasuredGpu:
    """What a report of a sweep says of its gpu; without roofs where nothing judged was measured."""
    gpu = report.gpu or Gpu()
    return MeasuredGpu(
        device=device_of(gpu),
        conditions=Conditions(
            memory_gib=nominal_memory_gib(gpu.memory_bytes),
            sm_count=gpu.sm_count,
            mig_profile=gpu.mig_profile,
            partition=gpu.partition,
            fill=None if report.sweep is None else report.sweep.fill,
            method=report.agent.method,
            protocol_version=report.agent.protocol_version,
        ),
        levels=frozenset(_levels(report.environment)),
        roofs=tuple(
            MeasuredRoof(_settled(roof, report), roof.value)
            for roof in report.roofs
            if is_judged(roof.kind, level=roof.level, kernel=roof.kernel)
        ),
    )


def device_of(gpu: Gpu) -> str:
    """Name by which a server knows the model of a gpu."""
    return (gpu.device or "").strip() or fallback_device_name(gpu.architecture, gpu.memory_bytes)


def roof_name(key: RoofKey) -> str:
    """A roof in words, such as "pi bfloat16 burst"; the dtype in which memory is read tells nobody anything."""
    dtype = (key.dtype,) if key.kind == "compute" else ()
    accumulation = ("fast",) if key.fast_accumulation else ()
    return " ".join((_SYMBOL[key.kind], *dtype, *accumulation, *(() if key.regime == "unspecified" else (key.regime,))))


def _settled(roof: Roof, report: Report) -> RoofKey:
    """Key under which a server compares this roof."""
    if roof.kind != "compute" or report.gpu is None:
        return roof.key
    without_tf32 = lacks_dtype(device_of(report.gpu), "tf32")
    dtype = settled_dtype(
        roof.dtype, allow_tf32=report.environment.allow_tf32, chip_has_tf32=False if without_tf32 else None
    )
    return roof.key._replace(dtype=dtype)


def _levels(environment: Environment) -> Iterator[tuple[str, str]]:
    for factor in ("driver", "torch", "cublas", "power_limit_w", "ecc_enabled", "vbios"):
        yield factor, _level_name(getattr(environment, factor))


def _level_name(reading: str | float | bool | None) -> str:
    """A factor as the server writes it: power limits to the whole watt."""
    if reading is None:
        return "unknown"
    if isinstance(reading, bool):
        return "on" if reading else "off"
    return reading if isinstance(reading, str) else f"{reading:.0f}"
