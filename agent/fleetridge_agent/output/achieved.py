"""The two numbers of a device, and their ratio, as one report found them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleetridge.judged import JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.report import GemmPoint, Report, Roof, StreamPoint
from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_agent.device.product import Product
from fleetridge_agent.output.point_groups import product_of


@dataclass(frozen=True, slots=True)
class MemoryRoofs:
    """
    Bandwidths of the device's own memory.

    Attributes:
        beta: the one that counts.
        others: the rest, the highest first.
    """

    beta: Roof
    others: tuple[Roof, ...]


@dataclass(frozen=True, slots=True)
class Achieved:
    """
    Roofs of one way to multiply.

    Attributes:
        pis: compute roofs by which gpus are compared, one for each regime, the highest first; at least one.
        best: the fastest shape of the sweep, shown only; None where it is among `pis` or was not looked for.
        memory: None where memory was not measured.
    """

    product: Product
    pis: tuple[Roof, ...]
    best: Roof | None
    memory: MemoryRoofs | None

    @property
    def pi(self) -> Roof:
        """Compute roof that counts: the highest by which gpus are compared."""
        return self.pis[0]

    @property
    def beta(self) -> Roof | None:
        """Memory roof that counts; None where memory was not measured."""
        return None if self.memory is None else self.memory.beta

    @property
    def ridge(self) -> float | None:
        """Ridge point pi / beta in FLOP/byte; None where memory was not measured."""
        return self.ridge_under(self.pi)

    def ridge_under(self, pi: Roof) -> float | None:
        """Ridge point under one of the compute roofs, in FLOP/byte; None where memory was not measured."""
        return None if self.beta is None else ridge_flop_per_byte(pi.value, self.beta.value)


def achieved(report: Report, product: Product) -> Achieved:
    """
    Roofs of one way to multiply that the report measured, and the memory roofs.

    A sweep that ended early may have points and no roof yet; then the best of the points stands in.
    """
    compute = _highest_first(_compute_roofs(report, product))
    judged = tuple(roof for roof in compute if roof.kernel == REFERENCE_GEMM)
    others = tuple(roof for roof in compute if roof.kernel != REFERENCE_GEMM)
    return Achieved(
        product=product,
        pis=judged or others[:1],
        best=others[0] if judged and others else None,
        memory=memory_roofs(report),
    )


def memory_roofs(report: Report) -> MemoryRoofs | None:
    """Memory roofs of a report; None where memory was not measured."""
    roofs = _highest_first(_memory_roofs(report))
    if not roofs:
        return None
    beta = next((roof for roof in roofs if roof.kernel == READ_STREAM), roofs[0])
    return MemoryRoofs(beta, tuple(roof for roof in roofs if roof is not beta))


def _highest_first(roofs: Iterable[Roof]) -> tuple[Roof, ...]:
    return tuple(sorted(roofs, key=lambda roof: -roof.value))


def _compute_roofs(report: Report, product: Product) -> list[Roof]:
    found = [roof for roof in report.roofs if roof.kind == "compute" and product_of(roof) == product]
    if found:
        return found
    return [
        Roof(
            kind="compute",
            dtype=point.dtype,
            out_dtype=point.out_dtype,
            fast_accumulation=point.fast_accumulation,
            regime=point.regime,
            value=point.derived_tflops,
            unit="TFLOP/s",
            points=(position,),
        )
        for position, point in enumerate(report.points)
        if isinstance(point, GemmPoint) and product_of(point) == product
    ]


def _memory_roofs(report: Report) -> list[Roof]:
    found = [roof for roof in report.roofs if roof.kind == "memory" and roof.level == JUDGED_LEVEL]
    if found:
        return found
    return [
        Roof(
            kind="memory",
            dtype=point.dtype,
            regime=point.regime,
            kernel=point.kernel,
            value=point.derived_gbps,
            unit="GB/s",
            points=(position,),
        )
        for position, point in enumerate(report.points)
        if isinstance(point, StreamPoint) and point.level == JUDGED_LEVEL
    ]
