"""UUIDs of version 7 (RFC 9562, section 5.7), which `uuid` of the standard library makes only from Python 3.14 on."""

from __future__ import annotations

import os
import time
import uuid

_RANDOM_BITS_A = 12
_RANDOM_BITS_B = 62
_VERSION = 7
_VARIANT = 0b10


def uuid7() -> uuid.UUID:
    """
    New UUID whose first 48 bits are the Unix time in milliseconds, the rest random.

    Used as an idempotency key only: clocks of nodes differ, so nothing may be ordered by it.
    """
    unix_ms = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10), "big")
    random_a = random_bits >> (80 - _RANDOM_BITS_A)
    random_b = random_bits & ((1 << _RANDOM_BITS_B) - 1)
    value = (unix_ms & ((1 << 48) - 1)) << 80
    value |= _VERSION << 76 | random_a << 64 | _VARIANT << 62 | random_b
    return uuid.UUID(int=value)
