from __future__ import annotations

from collections import Counter
from contextvars import copy_context

from fleetridge_server.telemetry.metrics import RequestStats, add_database_time, add_request_stats, begin_request_stats


def test_what_came_of_parts_of_a_request_is_added_up() -> None:
    """With what was noted before."""

    def noted() -> RequestStats:
        stats = begin_request_stats()
        add_database_time(1.0)
        add_request_stats(RequestStats(0.5, Counter(created=2), [10.0]))
        add_request_stats(RequestStats(0.25, Counter(created=1, rejected=3), [20.0]))
        return stats

    assert copy_context().run(noted) == RequestStats(1.75, Counter(created=3, rejected=3), [10.0, 20.0])


def test_a_part_stays_as_it_is() -> None:
    """Whoever did it may still tell of it."""
    part = RequestStats(0.5, Counter(created=2), [10.0])

    def noted() -> None:
        begin_request_stats()
        add_request_stats(part)
        add_request_stats(part)

    copy_context().run(noted)
    assert part == RequestStats(0.5, Counter(created=2), [10.0])


def test_a_part_of_no_request_is_noted_nowhere() -> None:
    """As in a command, which has none."""

    def noted() -> RequestStats:
        add_request_stats(RequestStats(0.5, Counter(created=2), [10.0]))
        return begin_request_stats()

    assert copy_context().run(noted) == RequestStats()
