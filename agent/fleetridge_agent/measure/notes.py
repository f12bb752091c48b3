"""What a reader must know of single results: left out, measured otherwise, or not what it seems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleetridge.quantities import percent, significant
from fleetridge_agent.measure.timing import BlockTiming
from fleetridge_agent.protocol import FALLING


@dataclass(frozen=True, slots=True)
class Note:
    """
    Something about one step.

    Attributes:
        what: the step.
        reason: `out_of_memory`, `unsupported`, `falling`, `two_states` or `unstable`.
        detail: sentence for people.
    """

    what: str
    reason: str
    detail: str


def notes_on(what: str, value: float, unit: str, blocks: BlockTiming) -> Iterator[Note]:
    """What the blocks behind a rate show beside the rate itself."""
    if blocks.interval is None:
        # The two or three blocks of a roof that is only shown say nothing of a course.
        return
    work = value * blocks.whole.ms
    first, last = work / blocks.first_ms, work / blocks.last_ms
    if last < first * (1 - FALLING):
        fall = f"fell by {percent(1 - last / first)} while it was measured, from {significant(first)} to"
        yield Note(what, "falling", f"{fall} {significant(last)} {unit}")
    if blocks.groups is not None:
        groups = blocks.groups
        fast, slow = significant(work / groups.low), significant(work / groups.high)
        yield Note(
            what,
            "two_states",
            f"was found in two states, {groups.low_count} blocks at {fast} and {groups.high_count} at {slow} {unit}; "
            f"{significant(value)} is that of the more frequent",
        )


def summary(notes: Iterable[Note]) -> str | None:
    """All notes as one text, each sentence once with what it is about; None where there is nothing to say."""
    about: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        about[note.detail].append(note.what)
    return "; ".join(f"{', '.join(whats)}: {detail}" for detail, whats in about.items()) or None
