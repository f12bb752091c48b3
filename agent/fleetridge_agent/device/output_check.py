"""Whether a product is right: a tile of it against float64. A fast kernel that computes something else is no roof."""

from __future__ import annotations

import torch

from fleetridge_agent.device.contract import DeviceFaultError
from fleetridge_agent.device.torch_kernels import GemmOperands, Multiply

# Side of the tile; from the end of the matrix, where kernels treat edges apart.
_TILE = 64

# Largest difference over the largest expected value. An output is off by half its last place at least (bfloat16 0.2 %,
# float16 0.02 %), and sums of 13,568 products in float32 by some millionths. The bound of float32 lies between those
# and the 0.04 % that TF32 rounds its inputs by, so that TF32 under the name of float32 is caught. Fast accumulation
# keeps 14 bits of a partial sum.
_TOLERANCE = {
    "bfloat16": 0.02,
    "float16": 0.002,
    "float32": 2e-5,
    "tf32": 0.002,
    "float8_e4m3fn": 0.02,
    "int8": 0.0,
}
_TOLERANCE_OF_FAST_ACCUMULATION = 0.05


def require_right(operands: GemmOperands, launch: Multiply) -> float:
    """
    Multiply once over poisoned memory and check that every element was written and a tile is right.

    Args:
        operands: of the product.
        launch: makes it.

    Returns:
        The largest difference in the tile over its largest expected value.

    Raises:
        DeviceFaultError: with reason `wrong_output`, when the product is wrong.
    """
    operands.poison()
    gemm, product = operands.gemm, launch()
    error = tile_error(operands, product)
    allowed = _TOLERANCE_OF_FAST_ACCUMULATION if gemm.product.fast_accumulation else _TOLERANCE[gemm.product.dtype]
    # Written so that NaN, which no comparison holds for, counts as wrong.
    if not (error <= allowed and _is_written(product)):
        raise DeviceFaultError(
            f"the product {gemm} differs from float64 by {error:.2g} of its largest value, where {allowed:g} is "
            "allowed: do not trust this device; run the vendor's diagnostics",
            reason="wrong_output",
        )
    return error


def tile_error(operands: GemmOperands, product: torch.Tensor) -> float:
    """Largest difference between a tile of a product and the same in float64, over the tile's largest value."""
    a, b = _exact(operands.a[-_TILE:]), _exact(operands.b[-_TILE:])
    expected = a @ b.t()
    difference = (_exact(product[-_TILE:, -_TILE:]) - expected).abs().max()
    largest = expected.abs().max()
    return float(difference / largest) if largest > 0 else float(difference)


def _exact(values: torch.Tensor) -> torch.Tensor:
    # By way of float32, as float8 converts to little else.
    return (values if values.dtype == torch.int32 else values.to(torch.float32)).to(torch.float64)


def _is_written(product: torch.Tensor) -> bool:
    if product.dtype.is_floating_point:
        return bool(product.isfinite().all())
    return bool((product != torch.iinfo(product.dtype).min).all())
