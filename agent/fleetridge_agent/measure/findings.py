"""What a sweep has found so far, and the points and roofs that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fleetridge.judged import BEST_GEMM, JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.report import GemmPoint, Point, Roof
from fleetridge_agent.device.product import Product
from fleetridge_agent.measure.gemm import MeasuredGemm
from fleetridge_agent.measure.roof_builder import compute_roof, memory_roof
from fleetridge_agent.measure.steps import ShapeStep
from fleetridge_agent.measure.stream import MeasuredStream


@dataclass(slots=True)
class Findings:
    """
    Collected while a sweep runs, so that whatever ends it early leaves what was measured before.

    Attributes:
        references, sustained: judged shapes, by way to multiply.
        streams: memory kernels and copies over the link, by level and kernel.
        shapes: points of other shapes, cold and perhaps warm.
        bests: the fastest shape that a search found, measured once more.
    """

    references: dict[Product, MeasuredGemm] = field(default_factory=dict)
    sustained: dict[Product, MeasuredGemm] = field(default_factory=dict)
    streams: dict[tuple[str, str], MeasuredStream] = field(default_factory=dict)
    shapes: dict[ShapeStep, tuple[GemmPoint, ...]] = field(default_factory=dict)
    bests: dict[Product, MeasuredGemm] = field(default_factory=dict)

    @property
    def read(self) -> MeasuredStream | None:
        """The judged memory kernel, None until it was measured."""
        return self.streams.get((JUDGED_LEVEL, READ_STREAM))

    def add_streams(self, measured: Iterable[MeasuredStream]) -> None:
        """Keep some kernels, in place of earlier measurements of the same."""
        self.streams.update({(stream.point.level, stream.point.kernel): stream for stream in measured})

    def in_order_of(self, shapes: Sequence[ShapeStep]) -> tuple[tuple[Point, ...], tuple[Roof, ...]]:
        """Points and roofs for the report, with the shapes in the order given."""
        points: list[Point] = []
        roofs = [*_compute(self.references.values(), REFERENCE_GEMM, points)]
        roofs += _compute(self.sustained.values(), REFERENCE_GEMM, points)
        roofs += self._memory_roofs(points)
        points += [point for step in shapes for point in self.shapes.get(step, ())]
        roofs += _compute(self.bests.values(), BEST_GEMM, points)
        return tuple(points), tuple(roofs)

    def _memory_roofs(self, points: list[Point]) -> Iterator[Roof]:
        for measured in self.streams.values():
            points.append(measured.point)
            yield memory_roof(measured, position=len(points) - 1)


def _compute(found: Iterable[MeasuredGemm], kernel: str, points: list[Point]) -> Iterator[Roof]:
    for measured in found:
        points.append(measured.point)
        yield compute_roof(measured, kernel=kernel, position=len(points) - 1)
