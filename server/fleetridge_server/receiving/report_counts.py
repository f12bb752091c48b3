"""What became of the reports of a call, noted for metrics and the log."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge_server.course import Course
from fleetridge_server.ingest.intake import Accepted, IntakeOutcome, Item


def note_reports(course: Course, items: Sequence[Item], outcomes: Sequence[IntakeOutcome]) -> None:
    """
    Note what became of each item, in the same order, once the answer is certain.

    The lag of a report that is new goes from the end of its measurement, by a clock put right, to its arrival.
    """
    course.outcomes.update(outcomes)
    course.lags_s += [
        (item.received_at - item.ordering.ordered_at).total_seconds()
        for item, outcome in zip(items, outcomes, strict=True)
        if outcome == "created" and isinstance(item, Accepted) and item.ordering.ordered_at is not None
    ]
