"""What a sweep has found so far, and the points and roofs that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fleetridge.report import GemmPoint, Point, Roof
from fleetridge_agent.device.product import Gemm, Product
from fleetridge_agent.measure.gemm import MeasuredGemm
from fleetridge_agent.measure.plan import ShapeStep
from fleetridge_agent.measure.roof_builder import compute_roof, memory_roof
from fleetridge_agent.measure.stream import MeasuredStreams


@dataclass(slots=True)
class Findings:
    """
    Collected while a sweep runs, so that whatever ends it early leaves what was measured before.

    Attributes:
        references: judged shapes, by way to multiply.
        streams: memory kernels, None until they were measured.
        shapes: other shapes, in the order of measuring.
        bests: the fastest shape of each way to multiply, measured once more.
    """

    references: dict[Product, Sequence[MeasuredGemm]] = field(default_factory=dict)
    streams: MeasuredStreams | None = None
    shapes: dict[ShapeStep, GemmPoint] = field(default_factory=dict)
    bests: dict[Product, MeasuredGemm] = field(default_factory=dict)

    def fastest(self, product: Product) -> Gemm | None:
        """The shape with the highest rate so far, None where no shape was measured."""
        points = [measured.point for measured in self.references.get(product, ())]
        points += [point for step, point in self.shapes.items() if step.gemm.product == product]
        if not points:
            return None
        point = max(points, key=lambda point: point.derived_tflops)
        return Gemm(point.M, point.K, point.N, product)

    def in_order_of(self, shapes: Sequence[ShapeStep]) -> tuple[tuple[Point, ...], tuple[Roof, ...]]:
        """Points and roofs for the report, with the shapes in the order given."""
        points: list[Point] = []
        roofs = [*self._reference_roofs(points), *self._memory_roofs(points)]
        points += [self.shapes[step] for step in shapes if step in self.shapes]
        roofs += self._best_roofs(points)
        return tuple(points), tuple(roofs)

    def _reference_roofs(self, points: list[Point]) -> Iterator[Roof]:
        for measured in self.references.values():
            positions = range(len(points), len(points) + len(measured))
            points += [one.point for one in measured]
            yield compute_roof(measured, kernel="gemm_reference", positions=positions)

    def _memory_roofs(self, points: list[Point]) -> Iterator[Roof]:
        for measured in () if self.streams is None else self.streams.streams:
            points.append(measured.point)
            yield memory_roof(measured, position=len(points) - 1)

    def _best_roofs(self, points: list[Point]) -> Iterator[Roof]:
        for measured in self.bests.values():
            points.append(measured.point)
            yield compute_roof([measured], kernel="gemm_best", positions=[len(points) - 1])
