"""What a sweep has found so far, the points and roofs that follow, and what a reader must know of single ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fleetridge.judged_kernels import BEST_GEMM, JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.quantities import percent, significant
from fleetridge.report import Evidence, GemmPoint, Point, Roof, Sweep
from fleetridge_agent.device.gemm_variants import GemmVariant
from fleetridge_agent.measurement_protocol import FALLING
from fleetridge_agent.sweep.gemm import MeasuredGemm
from fleetridge_agent.sweep.plan import ShapeStep
from fleetridge_agent.sweep.streams import MeasuredStream
from fleetridge_agent.sweep.timing_statistics import BlockTiming


@dataclass(frozen=True, slots=True)
class Note:
    """
    Something about one step.

    Attributes:
        what: the step.
        reason: `out_of_memory`, `unsupported`, `falling`, `two_states`, `unstable` or `preempted`.
        detail: sentence for people.
    """

    what: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sweep ended early: a word for programs and a sentence for people."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class SweepResult:
    """
    What a sweep measured.

    Attributes:
        points, roofs: everything measured before the end, early or not.
        notes: what was left out or measured otherwise, and why.
        failure: None where the sweep reached its end, or made room after all judged roofs had been measured.
        is_cut_short: whether the sweep made room before its end.
        is_standard: whether the judged roofs were measured as every agent measures them.
        sweep: what was asked for, with the buffers that were really used.
    """

    measured_from: datetime
    measured_to: datetime
    sweep: Sweep
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    evidence: Evidence
    notes: tuple[Note, ...] = ()
    failure: Failure | None = None
    is_cut_short: bool = False
    is_standard: bool = True


def compute_roof(measured: MeasuredGemm, *, kernel: str, position: int) -> Roof:
    """
    The roof that a shape of one GEMM variant set.

    Args:
        measured: the shape.
        kernel: `gemm_reference` or `gemm_best`.
        position: of its point in the report.
    """
    point = measured.point
    return Roof(
        kind="compute",
        dtype=point.dtype,
        out_dtype=point.out_dtype,
        fast_accumulation=point.fast_accumulation,
        regime=point.regime,
        level="device",
        kernel=kernel,
        value=point.derived_tflops,
        unit="TFLOP/s",
        sm_clock_mhz=point.sm_clock_mhz,
        power_w=point.power_w,
        points=(position,),
        **_rate_over_blocks(point.derived_tflops, measured.blocks),
    )


def memory_roof(measured: MeasuredStream, *, position: int) -> Roof:
    """The roof of one streaming kernel, whose point has this position in the report."""
    point = measured.point
    return Roof(
        kind="memory",
        dtype=point.dtype,
        regime=point.regime,
        level=point.level,
        kernel=point.kernel,
        value=point.derived_gbps,
        unit="GB/s",
        sm_clock_mhz=point.sm_clock_mhz,
        power_w=point.power_w,
        points=(position,),
        **({} if measured.blocks is None else _rate_over_blocks(point.derived_gbps, measured.blocks)),
    )


def _rate_over_blocks(value: float, blocks: BlockTiming) -> dict[str, float]:
    """Interval of the rate, and how it went from the first block to the last; a rate is the inverse of a time."""
    work = value * blocks.whole.ms
    first, last = work / blocks.first_ms, work / blocks.last_ms
    over_blocks = {"first_block": first, "last_block": last, "trend": (last - first) / first}
    if blocks.interval is not None:
        over_blocks |= {"ci_low": work / blocks.interval.high, "ci_high": work / blocks.interval.low}
        over_blocks["converged"] = blocks.interval.is_narrow(blocks.whole.ms)
    return over_blocks


@dataclass(slots=True)
class Results:
    """
    Collected while a sweep runs, so that whatever ends it early leaves what was measured before.

    Attributes:
        references, sustained: judged shapes, by GEMM variant.
        streams: memory kernels and copies over the link, by level and kernel.
        shapes: points of other shapes, cold and perhaps warm.
        bests: the fastest shape that a search found, measured once more.
    """

    references: dict[GemmVariant, MeasuredGemm] = field(default_factory=dict)
    sustained: dict[GemmVariant, MeasuredGemm] = field(default_factory=dict)
    streams: dict[tuple[str, str], MeasuredStream] = field(default_factory=dict)
    shapes: dict[ShapeStep, tuple[GemmPoint, ...]] = field(default_factory=dict)
    bests: dict[GemmVariant, MeasuredGemm] = field(default_factory=dict)

    @property
    def read(self) -> MeasuredStream | None:
        """The judged memory kernel, None until it was measured."""
        return self.streams.get((JUDGED_LEVEL, READ_STREAM))

    def add_streams(self, measured: Iterable[MeasuredStream]) -> None:
        """Keep some kernels, in place of earlier measurements of the same."""
        self.streams.update({(stream.point.level, stream.point.kernel): stream for stream in measured})

    def points_and_roofs(self, shapes: Sequence[ShapeStep]) -> tuple[tuple[Point, ...], tuple[Roof, ...]]:
        """Points and roofs for the report, with the shapes in the order given."""
        points: list[Point] = []
        roofs = [*_compute_roofs(self.references.values(), REFERENCE_GEMM, points)]
        roofs += _compute_roofs(self.sustained.values(), REFERENCE_GEMM, points)
        roofs += self._memory_roofs(points)
        points += [point for step in shapes for point in self.shapes.get(step, ())]
        roofs += _compute_roofs(self.bests.values(), BEST_GEMM, points)
        return tuple(points), tuple(roofs)

    def _memory_roofs(self, points: list[Point]) -> Iterator[Roof]:
        for measured in self.streams.values():
            points.append(measured.point)
            yield memory_roof(measured, position=len(points) - 1)


def _compute_roofs(found: Iterable[MeasuredGemm], kernel: str, points: list[Point]) -> Iterator[Roof]:
    for measured in found:
        points.append(measured.point)
        yield compute_roof(measured, kernel=kernel, position=len(points) - 1)


def notes_on(what: str, value: float, unit: str, blocks: BlockTiming) -> Iterator[Note]:
    """What the blocks behind a rate show beside the rate itself."""
    if blocks.interval is None:
        # The two or three blocks of a roof that is only shown say nothing of how it went.
        return
    work = value * blocks.whole.ms
    first, last = work / blocks.first_ms, work / blocks.last_ms
    if last < first * (1 - FALLING):
        fall = f"fell by {percent(1 - last / first)} while it was measured, from {significant(first)} to"
        yield Note(what, "falling", f"{fall} {significant(last)} {unit}")
    if blocks.groups is not None:
        groups = blocks.groups
        fast, slow = significant(work / groups.low), significant(work / groups.high)
        yield Note(
            what,
            "two_states",
            f"was found in two states, {groups.low_count} blocks at {fast} and {groups.high_count} at {slow} {unit}; "
            f"{significant(value)} is that of the more frequent",
        )


def summary(notes: Iterable[Note]) -> str | None:
    """All notes as one text, each sentence once with what it is about; None where there is nothing to say."""
    about: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        about[note.detail].append(note.what)
    return "; ".join(f"{', '.join(whats)}: {detail}" for detail, whats in about.items()) or None
