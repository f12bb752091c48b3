"""
When a gpu is accused, and when it is let go.

The newest runs of a gpu are gone through from the oldest on, each held against the yardstick that its group had then.
So a standing depends on the reports in their order and on nothing else: not on when they arrived, nor on what was said
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum

from fleetridge_server.compare.cohort import NEWEST_REPORTS
from fleetridge_server.record import record
from fleetridge_server.verdict.judgement import Yardstick
from fleetridge_server.verdict.members import REMEMBERED_REPORTS, Run, middle_of_few, values_of

# One disturbance (a neighbour's job, a hot hour) must not count as two witnesses.
WITNESSES_APART = timedelta(hours=1)
WITNESSES = 2

# No disturbance that leaves a run converged and uncontended costs a quarter.
LOSS_AT_ONCE = 0.25

# A gpu near the limit keeps its standing until it is clearly inside, so that it does not come and go.
CLEAR_PART = 0.8
CLEAR_RUNS = 2

# With four or five the median is moved by every one of them.
FEWEST_FOR_OUTLIER = 6


class Standing(IntEnum):
    """What a gpu is accused of, mildest first."""

    CLEAR = 0
    SUSPECT = 1
    OUTLIER = 2


@record
class Finding:
    """
    Standing of one gpu in one cohort.

    Attributes:
        retest: the newest run alone lies beyond the limit.
        intermittent: it comes and goes: at least two of the newest ten runs lie beyond the limit, and at least one that
            is newer than the oldest of them lies clearly inside, as one that clears a gpu does.
    """

    standing: Standing
    retest: bool = False
    intermittent: bool = False


_NOTHING = Finding(Standing.CLEAR)


def finding(runs: Sequence[Run], yardstick: Yardstick, believed_p: float, earlier: Sequence[Yardstick] = ()) -> Finding:
    """
    Standing from a gpu's runs.

    Args:
        runs: newest first, at most ten count.
        yardstick: of its group; one without a verdict accuses nobody.
        believed_p: largest p whose q is small enough to believe.
        earlier: yardsticks of its group without each gpu's newest run, without its newest two, and so on; the last
            stands for all before it.
    """
    if not yardstick.has_verdict:
        return _NOTHING
    values = values_of(runs)
    # Most gpus end here: no run beyond, so no median of runs either.
    if not yardstick.is_beyond(min(values)):
        return _NOTHING
    beyond = [yardstick.is_beyond(value) for value in values]
    standing = _replayed(runs, (yardstick, *earlier), believed_p)
    intermittent = sum(beyond) >= WITNESSES and _is_broken(values, beyond, yardstick)
    if standing is Standing.CLEAR and _comes_and_goes(values, beyond, yardstick):
        standing = Standing.SUSPECT
    return Finding(standing, retest=beyond[0] and standing is Standing.CLEAR, intermittent=intermittent)


def _replayed(runs: Sequence[Run], yardsticks: Sequence[Yardstick], believed_p: float) -> Standing:
    standing = Standing.CLEAR
    # Where older runs are forgotten, the oldest known one was not alone.
    fewest = NEWEST_REPORTS if len(runs) == REMEMBERED_REPORTS else 1
    for oldest_left in range(len(runs) - fewest, -1, -1):
        recent = runs[oldest_left : oldest_left + NEWEST_REPORTS]
        yardstick = yardsticks[min(oldest_left, len(yardsticks) - 1)]
        if _is_cleared(recent, yardstick):
            standing = Standing.CLEAR
        else:
            standing = max(standing, _accused(recent, yardstick, believed_p))
    return standing


def _accused(recent: Sequence[Run], yardstick: Yardstick, believed_p: float) -> Standing:
    """What the newest (at most three) runs accuse a gpu of by themselves."""
    newest = recent[0]
    may_be_outlier = yardstick.n >= FEWEST_FOR_OUTLIER
    if yardstick.loss(newest.value) >= LOSS_AT_ONCE and newest.reading.converged and yardstick.is_beyond(newest.value):
        return Standing.OUTLIER if may_be_outlier else Standing.SUSPECT
    witnesses = [run for run in recent if yardstick.is_beyond(run.value)]
    value = middle_of_few([run.value for run in recent])
    if not witnesses or not yardstick.is_beyond(value):
        return Standing.CLEAR
    if witnesses == [recent[0]] and len(recent) > 1:
        return Standing.CLEAR
    apart = witnesses[0].report.ordered_at - witnesses[-1].report.ordered_at
    confirmed = len(witnesses) >= WITNESSES and apart >= WITNESSES_APART and yardstick.p(value) <= believed_p
    return Standing.OUTLIER if confirmed and may_be_outlier else Standing.SUSPECT


def _is_cleared(recent: Sequence[Run], yardstick: Yardstick) -> bool:
    newest = recent[:CLEAR_RUNS]
    return len(newest) == CLEAR_RUNS and all(_is_clearly_inside(run.value, yardstick) for run in newest)


def _is_clearly_inside(value: float, yardstick: Yardstick) -> bool:
    return yardstick.loss(value) < CLEAR_PART * yardstick.limit


def _is_broken(values: Sequence[float], beyond: Sequence[bool], yardstick: Yardstick) -> bool:
    """Whether a run clearly inside the limit is newer than the oldest beyond it; runs are given newest first."""
    oldest = max(place for place, is_beyond in enumerate(beyond) if is_beyond)
    return any(_is_clearly_inside(value, yardstick) for value in values[:oldest])


def _comes_and_goes(values: Sequence[float], beyond: Sequence[bool], yardstick: Yardstick) -> bool:
    """
    Whether a gpu was far beyond the limit, well again, and far beyond once more.

    Only losses of a quarter count here: a gpu that is repaired once is not accused for its past, and one that is
    disturbed a little now and then is not accused at all.
    """
    episodes = 0
    is_down = False
    for value, is_beyond in zip(values, beyond, strict=True):
        if is_beyond and yardstick.loss(value) >= LOSS_AT_ONCE:
            episodes += not is_down
            is_down = True
        elif _is_clearly_inside(value, yardstick):
            is_down = False
    return episodes >= WITNESSES
