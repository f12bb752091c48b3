"""Ways to multiply, and the matrix products that a sweep measures."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.dtypes import Dtype, dtype_named
from fleetridge.roofline import gemm_bytes

# All that the agent knows how to multiply; which of them a device can do, the device says.
MEASURED_DTYPES = ("bfloat16", "float16", "float32", "tf32", "float8_e4m3fn", "int8")

# Element of the streams. It does not matter to memory, so it is the same whatever is multiplied: one beta per gpu.
STREAM_DTYPE = "float32"

# Only here may partial sums stay in reduced precision, which is a faster and less exact product: a roof of its own.
_WITH_FAST_ACCUMULATION = frozenset({"float8_e4m3fn"})


@dataclass(frozen=True, slots=True)
class Product:
    """
    A way to multiply.

    Attributes:
        dtype: what is multiplied, such as `bfloat16` or `tf32`.
        fast_accumulation: whether partial sums may stay in reduced precision; None where there is no such choice.
        out_dtype: element of the output; None for the one that goes with the dtype.
    """

    dtype: str
    fast_accumulation: bool | None = None
    out_dtype: str | None = None

    @property
    def format(self) -> Dtype:
        """Element sizes of inputs and output."""
        dtype = dtype_named(self.dtype)
        return dtype if self.out_dtype is None else dtype.with_output(self.out_dtype)

    @property
    def output(self) -> str:
        """Element of the output."""
        return self.format.output

    @property
    def title(self) -> str:
        """Name for headings, with the output where it is wider or narrower than the inputs."""
        sizes = self.format
        output = "" if sizes.output_bytes == sizes.input_bytes else f" to {sizes.output}"
        return f"{self.dtype}{output}{', fast accumulation' if self.fast_accumulation else ''}"

    def __str__(self) -> str:
        return f"{self.dtype} fast accumulation" if self.fast_accumulation else self.dtype


@dataclass(frozen=True, slots=True)
class Gemm:
    """The matrix product [M,K] × [K,N] in one way to multiply."""

    m: int
    k: int
    n: int
    product: Product

    @property
    def bytes(self) -> int:
        """Memory that inputs and output take together."""
        sizes = self.product.format
        return int(gemm_bytes(self.m, self.k, self.n, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes))

    def __str__(self) -> str:
        return f"[{self.m},{self.k}]×[{self.k},{self.n}] {self.product}"


def products_of(dtype: str) -> tuple[Product, ...]:
    """Ways to multiply a dtype, each of which has a roof of its own."""
    if dtype in _WITH_FAST_ACCUMULATION:
        return (Product(dtype, fast_accumulation=False), Product(dtype, fast_accumulation=True))
    return (Product(dtype),)
