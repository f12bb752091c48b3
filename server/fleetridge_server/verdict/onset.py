"""
Since when a gpu has been slow in a roof, told from its runs: not from when somebody looked.

All runs are held against today's yardstick, as for the accusation itself, so that no earlier evaluation matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from fleetridge_server.verdict.drift import Drift
from fleetridge_server.verdict.evidence import Factors
from fleetridge_server.verdict.levels import level_name
from fleetridge_server.verdict.members import Run
from fleetridge_server.verdict.reading_words import reading_words, value_words
from fleetridge_server.verdict.verdicts import Verdict


class SettingChange(NamedTuple):
    """A factor that changed between two runs of a gpu, as people write it."""

    factor: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Onset:
    """
    Since when a gpu has been slow in one roof.

    Attributes:
        since: oldest run of the newest unbroken streak of runs beyond the limit; earlier where the gpu's drift tells of
            older runs than are looked at.
        is_bound: no older run is known that lies inside, so that it is slow since then or before.
        streak: runs in that streak.
        inside: runs inside the limit that are newer than the streak.
        beyond: runs beyond the limit in all.
        runs: that were looked at.
        changes: settings that are known to have changed with the first run of the streak.
    """

    since: datetime
    is_bound: bool
    streak: int
    inside: int
    beyond: int
    runs: int
    changes: tuple[SettingChange, ...] = ()


def onset(verdict: Verdict, drift: Drift | None = None) -> Onset | None:
    """
    Since when a gpu has been slow; None where none of its runs lies beyond the limit.

    Args:
        verdict: on one roof.
        drift: of the gpu in this roof, which looks further back than the runs do.
    """
    stick, runs = verdict.yardstick, verdict.member.runs
    beyond = [stick.has_verdict and stick.is_beyond(run.value) for run in runs]
    if not any(beyond):
        return None
    start = beyond.index(True)
    streak = len(list(takewhile(bool, beyond[start:])))
    end = start + streak
    found = Onset(
        since=runs[end - 1].report.ordered_at,
        is_bound=end == len(runs),
        streak=streak,
        inside=start,
        beyond=sum(beyond),
        runs=len(runs),
        changes=() if end == len(runs) else tuple(_changes(runs[end], runs[end - 1])),
    )
    return found if not found.is_bound or drift is None else _looked_further_back(found, drift, verdict)


def streak_words(found: Onset) -> str:
    """In which runs a gpu was slow and since when: "in each of its newest 3 runs, since 2026-01-05 12:00 UTC"."""
    since = since_words(found.since, is_bound=found.is_bound, changes=found.changes)
    if found.inside:
        newest = (
            "the newest, slow before that" if found.inside == 1 else f"the newest {found.inside}, slow before those"
        )
        return f"in {found.beyond} of its newest {found.runs} runs, though not in {newest} {since}"
    where = f"in each of its newest {found.streak} runs" if found.streak > 1 else "in its newest run"
    in_all = "" if found.beyond == found.streak else f" ({found.beyond} of its newest {found.runs} in all)"
    return f"{where}{in_all}, {since}"


def since_words(since: datetime, *, is_bound: bool, changes: Sequence[SettingChange] = ()) -> str:
    """Since when, and with which change of its settings: "since … UTC, with the change of driver from 570 to 580"."""
    said = f"since {since:%Y-%m-%d %H:%M} UTC"
    if is_bound:
        return f"{said} or before"
    names = " and ".join(_change_words(own) for own in changes)
    return f"{said}, with the change of {names}" if names else said


def _change_words(change: SettingChange) -> str:
    before, after = (value_words(change.factor, value) for value in (change.before, change.after))
    return f"{reading_words(change.factor)} from {before} to {after}"


def _looked_further_back(found: Onset, drift: Drift, verdict: Verdict) -> Onset:
    """
    Onset of a gpu all of whose runs lie beyond the limit.

    One that fell from a baseline inside the limit has been slow since it fell. One whose baseline lies beyond it, and
    that did not change since, was so already when its epoch began.
    """
    if drift.baseline is None:
        return found
    if not verdict.yardstick.is_beyond(drift.baseline):
        has_fallen = drift.has_changed and (drift.change or 0.0) < 0
        if has_fallen and drift.onset is not None and drift.onset <= found.since:
            return replace(found, since=drift.onset, is_bound=False)
        return found
    if drift.first is not None and drift.first < found.since and not drift.has_changed:
        return replace(found, since=drift.first)
    return found


def _changes(before: Run, after: Run) -> Iterator[SettingChange]:
    """Settings that both runs know and that differ."""
    for factor, was, became in zip(Factors._fields, before.report.factors, after.report.factors, strict=True):
        if was is not None and became is not None and level_name(was) != level_name(became):
            yield SettingChange(factor, level_name(was), level_name(became))
