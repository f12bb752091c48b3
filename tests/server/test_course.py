from __future__ import annotations

from collections import Counter
from contextvars import copy_context

from fleetridge_server.course import Course, begin_course, note_database, note_part


def test_what_came_of_parts_of_a_request_is_added_up() -> None:
    """With what was noted before."""

    def noted() -> Course:
        course = begin_course()
        note_database(1.0)
        note_part(Course(0.5, Counter(created=2), [10.0]))
        note_part(Course(0.25, Counter(created=1, rejected=3), [20.0]))
        return course

    assert copy_context().run(noted) == Course(1.75, Counter(created=3, rejected=3), [10.0, 20.0])


def test_a_part_stays_as_it_is() -> None:
    """Whoever did it may still tell of it."""
    part = Course(0.5, Counter(created=2), [10.0])

    def noted() -> None:
        begin_course()
        note_part(part)
        note_part(part)

    copy_context().run(noted)
    assert part == Course(0.5, Counter(created=2), [10.0])


def test_a_part_of_no_request_is_noted_nowhere() -> None:
    """As in a command, which has none."""

    def noted() -> Course:
        note_part(Course(0.5, Counter(created=2), [10.0]))
        return begin_course()

    assert copy_context().run(noted) == Course()
