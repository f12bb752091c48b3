"""How large the buffers of streams are, so that every gpu of a model reads the same bytes."""

from __future__ import annotations

from fleetridge.quantities import GIB, MIB
from fleetridge_agent.device.contract import DeviceDescription
from fleetridge_agent.protocol import BUFFERS_IN_MEMORY, CACHES_PER_BUFFER, LARGEST_BUFFER_BYTES

# Where three buffers of a quarter each would not leave room for others, they shrink and are not the judged ones.
_SHARE_OF_FREE = 0.25

# What stands for a device that does not say how much memory it has.
_UNKNOWN_MEMORY_BYTES = 8 * GIB

# A CPU reads an eighth of what a gpu does, in an eighth of its memory or less: its memory is some 100 times slower.
_LARGEST_BUFFER_BYTES_OF_CPU = 512 * MIB


def standard_bytes(description: DeviceDescription) -> int:
    """
    Size that the protocol asks for, from the memory and the cache that the device has, not from what is free today.

    The largest power of two of which six fit the memory, 4 GiB at most; more only where the cache asks for it.
    """
    largest = _LARGEST_BUFFER_BYTES_OF_CPU if description.kind == "cpu" else LARGEST_BUFFER_BYTES
    fitting = max((description.gpu.memory_bytes or _UNKNOWN_MEMORY_BYTES) // BUFFERS_IN_MEMORY, MIB)
    by_memory = min(largest, 1 << (fitting.bit_length() - 1))
    by_cache = -(-CACHES_PER_BUFFER * description.cache_bytes // MIB) * MIB
    return max(by_memory, by_cache)


def affordable_bytes(free_bytes: int) -> int:
    """Largest size that leaves memory to others."""
    return max(1, int(free_bytes * _SHARE_OF_FREE) // MIB) * MIB
