"""
What a sweep will measure, as data: made from the user's options and what the device says of itself.

The judged burst and memory roofs come first, so that they are measured in the same state of the device whatever else
was asked for and survive whatever breaks later; the sustained ones bring the device into a state of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fleetridge.quantities import MIB
from fleetridge.report import Sweep
from fleetridge.weight_shapes import served_model
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES, Gemm, GemmVariant, variants_of
from fleetridge_agent.device.interface import DeviceDescription
from fleetridge_agent.errors import UsageError
from fleetridge_agent.measurement_protocol import DECODE_ROWS, LOOKS, REPS, WARMUP, DeviceKind
from fleetridge_agent.sweep.call_timer import Pace
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.shapes import candidates, reference_gemm
from fleetridge_agent.sweep.streams import affordable_bytes, standard_bytes

# Rows of decode steps in a standard sweep.
_DECODE_M = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """Measure the judged burst roof of one GEMM variant."""

    gemm: Gemm

    def __str__(self) -> str:
        return f"reference {self.gemm.variant}"


@dataclass(frozen=True, slots=True)
class SustainedStep:
    """Measure the judged sustained roof of one GEMM variant."""

    gemm: Gemm

    def __str__(self) -> str:
        return f"sustained {self.gemm.variant}"


@dataclass(frozen=True, slots=True)
class StreamStep:
    """
    Measure the memory roofs, with three buffers of this size.

    Attributes:
        standard_bytes: size that the protocol asks for on this device; with any other nothing is judged.
    """

    buffer_bytes: int
    standard_bytes: int

    def __str__(self) -> str:
        return f"streams over {self.buffer_bytes // MIB} MiB"


@dataclass(frozen=True, slots=True)
class LinkStep:
    """Measure copies over the link to the host."""

    def __str__(self) -> str:
        return "link to the host"


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Look for the fastest of these shapes of one GEMM variant."""

    gemms: tuple[Gemm, ...]

    def __str__(self) -> str:
        return f"search {self.gemms[0].variant}"


@dataclass(frozen=True, slots=True)
class ShapeStep:
    """Measure one product; the label is its name in a model, None for a square."""

    gemm: Gemm
    label: str | None

    def __str__(self) -> str:
        return f"{self.label or 'square'} {self.gemm}"


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """Measure one weight with several small numbers of rows."""

    shapes: tuple[ShapeStep, ...]

    def __str__(self) -> str:
        rows = [shape.gemm.m for shape in self.shapes]
        return f"decode {self.shapes[0].label} M={min(rows)}…{max(rows)} {self.shapes[0].gemm.variant}"


@dataclass(frozen=True, slots=True)
class CanaryStep:
    """Measure judged roofs again, to see whether the device is still what it was."""

    gemm: Gemm | None
    has_streams: bool

    def __str__(self) -> str:
        return "the same again"


Step = ReferenceStep | SustainedStep | StreamStep | LinkStep | SearchStep | ShapeStep | DecodeStep | CanaryStep


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What stands for options that were not given: everything on a gpu, what fits 30 seconds on a CPU."""

    square: tuple[int, ...]
    m_sweep: tuple[int, ...]
    decode_m: tuple[int, ...]
    budget_ms: float
    looks: tuple[int, ...]


_DEFAULTS: dict[DeviceKind, _Defaults] = {
    "cuda": _Defaults(
        square=(512, 1024, 2048, 4096, 8192, 16384),
        # Powers of two as engines batch them, and 345 as a batch that no tile divides.
        m_sweep=(1, 8, 32, 128, 256, 345, 512, 1024, 2048, 4096, 8192, 16384),
        decode_m=_DECODE_M,
        budget_ms=2000.0,
        looks=LOOKS,
    ),
    "cpu": _Defaults(
        square=(256, 512, 1024, 2048), m_sweep=(1, 8, 64), decode_m=(1, 8), budget_ms=300.0, looks=LOOKS[:1]
    ),
}


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
    references = tuple(_reference(variant, description) for dtype in dtypes for variant in variants_of(dtype))
    shapes = _shapes(options, defaults, tuple(gemm.variant for gemm in references))
    streams = None if options.mode == "gemm" else _stream_step(options, description, free_bytes)
    return SweepPlan(
        steps=tuple(_steps(options, description, references, streams, shapes)),
        shapes=shapes,
        pace=_pace(options, defaults),
        wire=_wire(options, defaults, dtypes, streams),
    )


def _steps(
    options: SweepOptions,
    description: DeviceDescription,
    references: tuple[Gemm, ...],
    streams: StreamStep | None,
    shapes: tuple[ShapeStep, ...],
) -> Iterator[Step]:
    yield from (ReferenceStep(gemm) for gemm in references)
    if streams is not None:
        yield streams
    if options.profile != "quick":
        yield from _beyond_quick(options, description, references, streams)
    yield from _shuffled(shapes, options.fill.seed)
    yield CanaryStep(references[0] if references else None, has_streams=streams is not None)


def _beyond_quick(
    options: SweepOptions, description: DeviceDescription, references: tuple[Gemm, ...], streams: StreamStep | None
) -> Iterator[Step]:
    # On a CPU neither waves nor regimes can be told apart.
    if description.burst_regime == "burst":
        for gemm in references:
            found = candidates(gemm, sm_count=description.gpu.sm_count or 1, seed=options.fill.seed)
            yield SearchStep(found)
    if streams is not None and description.has_link:
        yield LinkStep()
    if description.burst_regime == "burst":
        yield from (SustainedStep(gemm) for gemm in references)


def _dtypes(options: SweepOptions, description: DeviceDescription) -> tuple[str, ...]:
    unknown = [dtype for dtype in options.dtypes if dtype not in MEASURED_DTYPES]
    if unknown:
        raise UsageError(f"no way to measure dtype {', '.join(unknown)}; choose among {', '.join(MEASURED_DTYPES)}")
    chosen = options.dtypes or (description.default_dtype,)
    if options.profile == "full" and not options.dtypes:
        chosen += MEASURED_DTYPES
    return tuple(dict.fromkeys(chosen))


def _shapes(options: SweepOptions, defaults: _Defaults, variants: tuple[GemmVariant, ...]) -> tuple[ShapeStep, ...]:
    try:
        weights = served_model(options.model).divided_by(options.tensor_parallel)
    except ValueError as error:
        raise UsageError(str(error)) from error
    square, m_sweep = _sizes(options, defaults)
    return tuple(
        step
        for variant in variants
        for step in (
            *(ShapeStep(Gemm(size, size, size, variant), None) for size in square),
            *(ShapeStep(Gemm(m, weight.k, weight.n, variant), weight.label) for weight in weights for m in m_sweep),
        )
    )


def _sizes(options: SweepOptions, defaults: _Defaults) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Squares and numbers of rows: what was given, even if it is nothing, else what the profile has."""
    if options.has_all_shapes:
        square, m_sweep = defaults.square, defaults.m_sweep
    else:
        square, m_sweep = (), () if options.profile == "quick" else defaults.decode_m
    return (
        square if options.square is None else options.square,
        m_sweep if options.m_sweep is None else options.m_sweep,
    )


def _shuffled(shapes: tuple[ShapeStep, ...], seed: int) -> list[Step]:
    """Shapes in random order; the decode steps of one weight are one step, as they share its copies."""
    weights: dict[Gemm, list[ShapeStep]] = {}
    order: list[Step] = []
    for shape in shapes:
        if shape.label is not None and shape.gemm.m <= DECODE_ROWS:
            weights.setdefault(replace(shape.gemm, m=DECODE_ROWS), []).append(shape)
        else:
            order.append(shape)
    order += [DecodeStep(tuple(of_weight)) for of_weight in weights.values()]
    random.Random(seed).shuffle(order)  # noqa: S311 # an order of measuring, no secret
    return order


def _reference(variant: GemmVariant, description: DeviceDescription) -> Gemm:
    # A driver that does not say how many multiprocessors it has is treated as having one.
    sm_count = description.gpu.sm_count or 1
    return reference_gemm(variant, kind=description.kind, sm_count=sm_count)


def _stream_step(options: SweepOptions, description: DeviceDescription, free_bytes: int) -> StreamStep:
    standard = standard_bytes(description)
    if options.buffer_mib is not None:
        return StreamStep(options.buffer_mib * MIB, options.buffer_mib * MIB)
    return StreamStep(min(standard, affordable_bytes(free_bytes)), standard)


def _pace(options: SweepOptions, defaults: _Defaults) -> Pace:
    return Pace(
        warmup=WARMUP if options.warmup is None else options.warmup,
        reps=REPS if options.reps is None else options.reps,
        budget_ms=defaults.budget_ms,
        looks=defaults.looks,
        is_warmup_fixed=options.warmup is not None,
        is_reps_fixed=options.reps is not None,
    )


def _wire(options: SweepOptions, defaults: _Defaults, dtypes: tuple[str, ...], streams: StreamStep | None) -> Sweep:
    square, m_sweep = _sizes(options, defaults) if dtypes else ((), ())
    has_weights = bool(m_sweep)
    return Sweep(
        profile=options.profile,
        dtypes=dtypes,
        square=square,
        m_sweep=m_sweep,
        model=options.model if has_weights else None,
        tensor_parallel=options.tensor_parallel if has_weights else None,
        buffer_bytes=None if streams is None else streams.buffer_bytes,
        warmup=WARMUP if options.warmup is None else options.warmup,
        reps=REPS if options.reps is None else options.reps,
        fill=options.fill.kind,
        seed=options.fill.seed,
    )
