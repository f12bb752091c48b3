from __future__ import annotations

import itertools

import pytest

from fleetridge_agent.busy.occupancy import ForeignUse, Watch
from fleetridge_agent.errors import SweepError

_NOBODY = ForeignUse(processes=0)
_SOMEBODY = ForeignUse(processes=1)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_somebody_who_arrives_ends_the_sweep() -> None:
    """With the word that another program reads in the report."""
    seen = iter([_NOBODY, _SOMEBODY])
    clock = _Clock()
    watch = Watch(lambda: next(seen), now=clock)
    watch.check()
    clock.now = 0.1

    with pytest.raises(SweepError) as ended:
        watch.check()

    assert ended.value.reason == "preempted"


def test_nobody_is_looked_for_more_often_than_every_100_ms() -> None:
    """Looking costs time; work is never queued for longer, so the next look comes soon enough."""
    looks: list[float] = []
    clock = _Clock()

    def look() -> ForeignUse:
        looks.append(clock.now)
        return _NOBODY

    watch = Watch(look, now=clock)
    for step in range(100):
        clock.now = step * 0.01
        watch.check()

    assert len(looks) == 10
    gaps = [after - before for before, after in itertools.pairwise(looks)]
    assert max(gaps) <= 0.11


def test_where_nobody_can_be_seen_nothing_ends() -> None:
    """Unknown is not contended."""
    Watch(ForeignUse).check()


def test_in_forced_company_nobody_is_looked_for() -> None:
    """The user said so."""
    Watch(lambda: _SOMEBODY, is_forced=True).check()


def test_whoever_asks_for_the_end_is_heeded_before_every_piece_of_work() -> None:
    """Also between two looks, and in forced company: a signal must not wait for either."""

    def asked() -> None:
        raise SweepError("ended by SIGTERM", reason="preempted")

    with pytest.raises(SweepError, match="SIGTERM"):
        Watch(lambda: _NOBODY, heed=asked, is_forced=True).check()
