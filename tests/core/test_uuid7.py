"""Report ids."""

from __future__ import annotations

import time
import uuid

from fleetridge.uuid7 import uuid7


def test_an_id_is_a_uuid_of_version_7_and_the_standard_variant() -> None:
    """As RFC 9562 lays it out."""
    made = uuid7()

    assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_an_id_begins_with_the_time_in_milliseconds() -> None:
    """Which keeps a database's index local; nothing is ordered by it."""
    before = time.time_ns() // 1_000_000
    made = uuid7()
    after = time.time_ns() // 1_000_000

    assert before <= made.int >> 80 <= after


def test_ids_do_not_repeat() -> None:
    """Also within one millisecond."""
    assert len({uuid7() for _ in range(10_000)}) == 10_000
