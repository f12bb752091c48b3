"""
What a sweep will measure, as data: made from the user's options and what the device says of itself.

The judged roofs come first, so that they are measured in the same state of the device whatever else was asked for and
survive whatever breaks later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from fleetridge.report import Sweep
from fleetridge.weight_shapes import served_model
from fleetridge_agent.device.contract import DeviceDescription, DeviceKind
from fleetridge_agent.device.product import MEASURED_DTYPES, Gemm, Product, products_of
from fleetridge_agent.errors import UsageError
from fleetridge_agent.measure.pace import Pace
from fleetridge_agent.measure.protocol import REPS, WARMUP
from fleetridge_agent.measure.reference_shapes import reference_gemms
from fleetridge_agent.measure.sweep_options import SweepOptions

_MIB = 1024**2
_GIB = 1024**3

# A buffer this many times the last-level cache leaves nothing of one pass for the next to find there.
_CACHES_PER_BUFFER = 16

# Three buffers must fit, beside whatever else lives on the device.
_MEMORY_PER_BUFFER = 0.25


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What stands for options that were not given: everything on a gpu, what fits 30 seconds on a CPU."""

    square: tuple[int, ...]
    m_sweep: tuple[int, ...]
    buffer_bytes: int
    budget_ms: float


_DEFAULTS: dict[DeviceKind, _Defaults] = {
    "cuda": _Defaults(
        square=(512, 1024, 2048, 4096, 8192, 16384),
        # Powers of two as engines batch them, and 345 as a batch that no tile divides.
        m_sweep=(1, 8, 32, 128, 256, 345, 512, 1024, 2048, 4096, 8192, 16384),
        buffer_bytes=4 * _GIB,
        budget_ms=2000.0,
    ),
    "cpu": _Defaults(square=(256, 512, 1024, 2048), m_sweep=(1, 8, 64), buffer_bytes=512 * _MIB, budget_ms=300.0),
}


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """Measure the judged compute roof of one way to multiply."""

    product: Product
    gemms: tuple[Gemm, ...]

    def __str__(self) -> str:
        return f"reference {self.product}"


@dataclass(frozen=True, slots=True)
class StreamStep:
    """Measure the memory roofs, with three buffers of this size."""

    buffer_bytes: int

    def __str__(self) -> str:
        return f"streams over {self.buffer_bytes // _MIB} MiB"


@dataclass(frozen=True, slots=True)
class ShapeStep:
    """Measure one product; the label is its name in a model, None for a square."""

    gemm: Gemm
    label: str | None

    def __str__(self) -> str:
        return f"{self.label or 'square'} {self.gemm}"


@dataclass(frozen=True, slots=True)
class BestStep:
    """Measure the fastest of all shapes so far once more, as the best of many noisy rates is too good to be true."""

    product: Product

    def __str__(self) -> str:
        return f"best {self.product}"


Step = ReferenceStep | StreamStep | ShapeStep | BestStep


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """
    What will be measured.

    Attributes:
        steps: in the order of measuring. Shapes are shuffled: in order of size each would inherit the heat of the one
            before, and that would look like an effect of size.
        shapes: the shapes among them in the order in which people read them.
        pace: how often each call is repeated.
        wire: the same for the report.
    """

    steps: tuple[Step, ...]
    shapes: tuple[ShapeStep, ...]
    pace: Pace
    wire: Sweep


def plan_sweep(options: SweepOptions, description: DeviceDescription, *, free_bytes: int) -> SweepPlan:
    """
    Plan a sweep of one device.

    Raises:
        UsageError: an option asks for a dtype, model or split that there is not.
    """
    defaults = _DEFAULTS[description.kind]
    dtypes = _dtypes(options, description) if options.mode != "bandwidth" else ()
    products = tuple(product for dtype in dtypes for product in products_of(dtype))
    buffer_bytes = _buffer_bytes(options, description, defaults, free_bytes)
    shapes = () if options.profile == "quick" else _shapes(options, defaults, products)
    steps: list[Step] = [_reference_step(product, description) for product in products]
    if options.mode != "gemm":
        steps.append(StreamStep(buffer_bytes))
    steps += _shuffled(shapes, options.fill.seed)
    if shapes:
        steps += [BestStep(product) for product in products]
    return SweepPlan(
        steps=tuple(steps),
        shapes=shapes,
        pace=_pace(options, defaults),
        wire=_wire(options, defaults, dtypes, buffer_bytes),
    )


def _dtypes(options: SweepOptions, description: DeviceDescription) -> tuple[str, ...]:
    unknown = [dtype for dtype in options.dtypes if dtype not in MEASURED_DTYPES]
    if unknown:
        raise UsageError(f"no way to measure dtype {', '.join(unknown)}; choose among {', '.join(MEASURED_DTYPES)}")
    chosen = options.dtypes or (description.default_dtype,)
    if options.profile == "full" and not options.dtypes:
        chosen += MEASURED_DTYPES
    return tuple(dict.fromkeys(chosen))


def _shapes(options: SweepOptions, defaults: _Defaults, products: tuple[Product, ...]) -> tuple[ShapeStep, ...]:
    try:
        weights = served_model(options.model).divided_by(options.tensor_parallel)
    except ValueError as error:
        raise UsageError(str(error)) from error
    square, m_sweep = _sizes(options, defaults)
    return tuple(
        step
        for product in products
        for step in (
            *(ShapeStep(Gemm(size, size, size, product), None) for size in square),
            *(ShapeStep(Gemm(m, weight.k, weight.n, product), weight.label) for weight in weights for m in m_sweep),
        )
    )


def _sizes(options: SweepOptions, defaults: _Defaults) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Squares and numbers of rows; an empty choice is one too."""
    square = defaults.square if options.square is None else options.square
    m_sweep = defaults.m_sweep if options.m_sweep is None else options.m_sweep
    return square, m_sweep


def _shuffled(shapes: tuple[ShapeStep, ...], seed: int) -> list[ShapeStep]:
    order = list(shapes)
    random.Random(seed).shuffle(order)  # noqa: S311 # an order of measuring, no secret
    return order


def _reference_step(product: Product, description: DeviceDescription) -> ReferenceStep:
    # A driver that does not say how many multiprocessors it has is treated as having one.
    sm_count = description.gpu.sm_count or 1
    return ReferenceStep(product, reference_gemms(product, kind=description.kind, sm_count=sm_count))


def _buffer_bytes(options: SweepOptions, description: DeviceDescription, defaults: _Defaults, free_bytes: int) -> int:
    if options.buffer_mib is not None:
        return options.buffer_mib * _MIB
    wanted = max(defaults.buffer_bytes, _CACHES_PER_BUFFER * description.cache_bytes)
    return max(1, min(wanted, int(free_bytes * _MEMORY_PER_BUFFER)) // _MIB) * _MIB


def _pace(options: SweepOptions, defaults: _Defaults) -> Pace:
    return Pace(
        warmup=WARMUP if options.warmup is None else options.warmup,
        reps=REPS if options.reps is None else options.reps,
        budget_ms=defaults.budget_ms,
        is_warmup_fixed=options.warmup is not None,
        is_reps_fixed=options.reps is not None,
    )


def _wire(options: SweepOptions, defaults: _Defaults, dtypes: tuple[str, ...], buffer_bytes: int) -> Sweep:
    square, m_sweep = _sizes(options, defaults)
    has_shapes = options.mode != "bandwidth" and options.profile != "quick"
    return Sweep(
        profile=options.profile,
        dtypes=dtypes,
        square=square if has_shapes else (),
        m_sweep=m_sweep if has_shapes else (),
        model=options.model if has_shapes else None,
        tensor_parallel=options.tensor_parallel if has_shapes else None,
        buffer_bytes=buffer_bytes if options.mode != "gemm" else None,
        warmup=WARMUP if options.warmup is None else options.warmup,
        reps=REPS if options.reps is None else options.reps,
        fill=options.fill.kind,
        seed=options.fill.seed,
    )
