"""
Nominal sizes of memory: which gpus of one name have the same memory.

Drivers report what is left after ECC, firmware and tables: an H100 of 80 GB has 81,082, 81,089 or 81,090 MiB by driver,
an A10 of 24 GB has 22,731 with ECC and 24,564 without, and parts that share the memory of their machine differ by as
much as the machine took. What is left lies below the size that was sold, at most a tenth or so. So a size is the
smallest marketed one that is not exceeded, and two gpus of one name with the same size may be compared.
"""

from __future__ import annotations

from bisect import bisect_left

_GIB = 1024**3

# Sizes at which gpus, and machines that share their memory with one, are sold. Sizes that no reader could tell from a
# neighbour less its reserve (120 beside 128) are left out: it is the device's name that tells products apart.
MARKETED_GIB = (
    1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 112, 128, 141, 144, 160, 180, 186, 192, 256,
    288, 384, 512,
)  # fmt: skip

# Beyond them sizes are those of machines: multiples of this.
_STEP_GIB = 128

# Some drivers report a little more than was sold; a hundredth is less than half of the least distance of two sizes.
_ABOVE = 1.01


def nominal_memory_gib(memory_bytes: int | None) -> int | None:
    """Nominal size of a memory in GiB, at least 1; None for an unknown one."""
    if memory_bytes is None:
        return None
    size = memory_bytes / _GIB / _ABOVE
    place = bisect_left(MARKETED_GIB, size)
    return MARKETED_GIB[place] if place < len(MARKETED_GIB) else -int(-size // _STEP_GIB) * _STEP_GIB


def memory_bytes_range(nominal_gib: int) -> tuple[int, int]:
    """Smallest and largest number of bytes that have a nominal size."""
    smaller = max((size for size in MARKETED_GIB if size < nominal_gib), default=0)
    if nominal_gib > MARKETED_GIB[-1]:
        smaller = max(smaller, nominal_gib - _STEP_GIB)
    return _most_bytes(smaller) + 1 if smaller else 0, _most_bytes(nominal_gib)


def _most_bytes(gib: int) -> int:
    return int(gib * _GIB * _ABOVE)
