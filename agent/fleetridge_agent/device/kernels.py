"""
Operands and kernels in torch, the same for a gpu and a CPU; whether a product is right; what torch's errors mean.

Imported by devices only, as torch takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fleetridge_agent.device.gemm_variants import STREAM_DTYPE, Fill, Gemm
from fleetridge_agent.device.interface import DeviceFaultError, Launch, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.errors import SweepError
from fleetridge_agent.measurement_protocol import READ_ROW

# STREAM's own factor; any but 0 and 1 costs a multiplication.
_TRIAD_FACTOR = 3.0

# int8 operands are normal numbers too, scaled so that one in 14,000 meets the limit of the type.
_INT8_SCALE = 32.0
_INT8_LIMIT = 127

# Random numbers of a stream buffer repeat after this many: drawing gigabytes of them takes a CPU half a minute.
_STREAM_BLOCK = 2**24

Multiply = Callable[[], torch.Tensor]

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

# Torch gives allocation failures of its own allocator a type, those of CUDA, cuBLAS and the CPU a text only.
_MEMORY_MARKS = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "HIPBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")
_UNSUPPORTED_MARKS = ("STATUS_NOT_SUPPORTED", "STATUS_ARCH_MISMATCH")
_FAULT_MARKS = ("CUDA error", "HIP error", "cuDNN error")

# Words for programs, by what the driver says (CUDA Runtime API, cudaError_t).
_FAULT_REASONS = {
    "uncorrectable ECC": "ecc_uncorrectable",
    "illegal memory access": "illegal_memory_access",
    "unspecified launch failure": "launch_failure",
    "busy or unavailable": "busy",
    "system not yet initialized": "cuda_not_ready",
    "system has unsupported display driver": "driver_library_mismatch",
    "fallen off the bus": "gpu_lost",
}


@dataclass(frozen=True, slots=True)
class GemmOperands:
    """
    One product, ready to be made.

    Attributes:
        a: [M,K].
        b: the weights, [N,K].
        out: where the product goes; None where torch writes it to a tensor of its own.
    """

    gemm: Gemm
    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor | None

    def launch(self) -> torch.Tensor:
        """Start a·bᵀ and give back the tensor that holds it."""
        return self.with_rows(self.gemm.m)()

    def with_rows(self, rows: int) -> Multiply:
        """The product of the first rows of a alone."""
        a, b = self.a[:rows], self.b.t()
        if self.out is None:
            return _scaled_product(a, b, fast_accumulation=bool(self.gemm.variant.fast_accumulation))
        out = self.out[:rows]
        multiply: Any = torch._int_mm if self.gemm.variant.dtype == "int8" else torch.mm  # noqa: SLF001 # torch's only int8 GEMM
        return lambda: multiply(a, b, out=out)

    def poison(self) -> None:
        """Make sure that no earlier product is left where the next will lie."""
        if self.out is None:
            # The allocator hands the memory that was freed last to the next product of the same size.
            out_dtype = _torch_dtype(self.gemm.variant.output)
            torch.full((self.gemm.m, self.gemm.n), torch.nan, dtype=out_dtype, device=self.a.device)
        else:
            self.out.fill_(_poison(self.out.dtype))


def gemm_operands(gemm: Gemm, fill: Fill, device: torch.device) -> GemmOperands:
    """Operands of a product, allocated and filled on a device: a [M,K] and b [N,K], which is multiplied transposed."""
    generator = torch.Generator(device).manual_seed(fill.seed)
    a = _filled((gemm.m, gemm.k), gemm.variant.dtype, fill, generator)
    b = _filled((gemm.n, gemm.k), gemm.variant.dtype, fill, generator)
    if gemm.variant.dtype == "float8_e4m3fn":
        return GemmOperands(gemm, a, b, out=None)
    out = torch.empty((gemm.m, gemm.n), dtype=_torch_dtype(gemm.variant.output), device=device)
    return GemmOperands(gemm, a, b, out)


def _scaled_product(a: torch.Tensor, b: torch.Tensor, *, fast_accumulation: bool) -> Multiply:
    """Float8 with one scale a tensor."""
    one = torch.ones((), dtype=torch.float32, device=a.device)

    def multiply() -> torch.Tensor:
        """One product of the operands in float8, accumulated as chosen; a call only queues it on a gpu."""
        product: Any = torch._scaled_mm(  # noqa: SLF001 # torch's only float8 GEMM before 2.15
            a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast_accumulation
        )
        # torch 2.4 gives back the largest absolute value as well.
        tensor: torch.Tensor = product[0] if isinstance(product, tuple) else product
        return tensor

    return multiply


def stream_launches(buffer_bytes: int, fill: Fill, device: torch.device) -> dict[str, Launch]:
    """Every stream kernel over three buffers, of which only the third is ever written."""
    a, b, c = (_stream_buffer(buffer_bytes, Fill(fill.kind, fill.seed + number), device) for number in range(3))
    return {
        "read": _read_launch(a),
        "write": lambda: c.fill_(_TRIAD_FACTOR),
        "copy": lambda: c.copy_(a),
        "add": lambda: torch.add(a, b, out=c),
        "triad": lambda: torch.add(a, b, alpha=_TRIAD_FACTOR, out=c),
    }


def flush_launch(buffer_bytes: int, device: torch.device) -> Launch:
    """
    Emptying of a cache that a buffer of this size exceeds.

    It reads: lines that it had written would have to leave the cache while the next call is timed, at its cost.
    """
    return _read_launch(_stream_buffer(buffer_bytes, Fill(), device))


def link_launches(buffer_bytes: int, device: torch.device) -> dict[str, Launch]:
    """Copies between the host, in memory that its kernel may not move, and a gpu."""
    host = torch.zeros(buffer_bytes, dtype=torch.uint8).pin_memory(device)
    own = torch.zeros(buffer_bytes, dtype=torch.uint8, device=device)
    return {
        "h2d": lambda: own.copy_(host, non_blocking=True),
        "d2h": lambda: host.copy_(own, non_blocking=True),
    }


def _read_launch(buffer: torch.Tensor) -> Launch:
    """Adds up every row of a buffer; a buffer that rows do not divide is one row."""
    row = READ_ROW if buffer.numel() % READ_ROW == 0 else buffer.numel()
    rows = buffer.view(-1, row)
    sums = torch.empty(rows.shape[0], dtype=buffer.dtype, device=buffer.device)
    return lambda: torch.sum(rows, dim=1, out=sums)


def _filled(shape: Sequence[int], dtype: str, fill: Fill, generator: torch.Generator) -> torch.Tensor:
    stored = _torch_dtype(dtype)
    if fill.kind == "zeros":
        return torch.zeros(shape, dtype=stored, device=generator.device)
    # Neither float8 nor int8 can be drawn; bfloat16 holds every value of both.
    drawn = torch.bfloat16 if dtype in {"float8_e4m3fn", "int8"} else stored
    numbers = torch.randn(shape, generator=generator, dtype=drawn, device=generator.device)
    if dtype == "int8":
        numbers.mul_(_INT8_SCALE).round_().clamp_(-_INT8_LIMIT, _INT8_LIMIT)
    return numbers.to(stored)


def _stream_buffer(buffer_bytes: int, fill: Fill, device: torch.device) -> torch.Tensor:
    dtype = _torch_dtype(STREAM_DTYPE)
    buffer = torch.empty(buffer_bytes // dtype.itemsize, dtype=dtype, device=device)
    generator = torch.Generator(device).manual_seed(fill.seed)
    block = _filled((min(_STREAM_BLOCK, buffer.numel()),), STREAM_DTYPE, fill, generator)
    for start in range(0, buffer.numel(), block.numel()):
        part = buffer[start : start + block.numel()]
        part.copy_(block[: part.numel()])
    return buffer


def _torch_dtype(name: str) -> torch.dtype:
    """Element in memory: TF32 is a way to multiply float32."""
    dtype = getattr(torch, "float32" if name == "tf32" else name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is no dtype of torch")
    return dtype


def _poison(dtype: torch.dtype) -> float:
    """A value that no product can have."""
    return torch.nan if dtype.is_floating_point else torch.iinfo(dtype).min


def require_correct(operands: GemmOperands, launch: Multiply) -> float:
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
    allowed = _TOLERANCE_OF_FAST_ACCUMULATION if gemm.variant.fast_accumulation else _TOLERANCE[gemm.variant.dtype]
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


@contextmanager
def device_errors() -> Iterator[None]:
    """Raise torch's errors as those of `device.interface`; anything else that goes wrong is left as it is."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise sweep_error_of(error) from error


def sweep_error_of(error: RuntimeError | MemoryError) -> SweepError:
    """Error of the sweep that one of torch amounts to: of this shape, of this GEMM variant, or of the device."""
    text = str(error)
    if isinstance(error, MemoryError) or any(mark in text for mark in _MEMORY_MARKS):
        return OutOfDeviceMemoryError(f"out of memory: {_first_line(text)}")
    if isinstance(error, NotImplementedError) or any(mark in text for mark in _UNSUPPORTED_MARKS):
        return UnsupportedError(_first_line(text))
    if any(mark in text for mark in _FAULT_MARKS) or type(error).__name__ == "AcceleratorError":
        return DeviceFaultError(_first_line(text), reason=_fault_reason(text))
    # Torch refused the call before the device saw it.
    return UnsupportedError(_first_line(text))


def _fault_reason(text: str) -> str:
    """Word for programs for what a driver says."""
    return next((reason for mark, reason in _FAULT_REASONS.items() if mark in text), "device_fault")


def _first_line(text: str) -> str:
    """The error itself; the lines after it are advice for programmers and a stack."""
    return text.strip().partition("\n")[0] or "no text"
