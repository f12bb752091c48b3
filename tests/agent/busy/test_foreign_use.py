from __future__ import annotations

import itertools

import pytest

from fleetridge_agent.busy.foreign_use import ForeignUse, ForeignUseWatch, GpuUse, Occupancy, ProcessList
from fleetridge_agent.errors import SweepError


def _seen(before: ProcessList | None, arrived: ProcessList | None, now: ProcessList | None) -> ForeignUse:
    return Occupancy(before, GpuUse(arrived)).foreign_use(GpuUse(now))


def test_we_are_not_counted_among_the_others() -> None:
    """Whoever appears with our context is us, whatever number our process has outside of this container."""
    use = _seen({}, {4711: 500}, {4711: 14_000})

    assert use == ForeignUse(processes=0, bytes=0, signals=("processes",))
    assert use.contended is False


def test_whoever_was_there_before_us_is_counted() -> None:
    """With the memory that they hold."""
    use = _seen({1: 100}, {1: 100, 2: 5}, {1: 300, 2: 5})

    assert (use.processes, use.bytes, use.contended) == (1, 300, True)


def test_whoever_came_during_the_sweep_is_counted() -> None:
    """A job that started meanwhile slowed us down as much as one that was there before."""
    use = _seen({}, {2: 5}, {2: 5, 3: 900})

    assert (use.processes, use.bytes, use.contended) == (1, 900, True)


def test_whoever_left_during_the_sweep_is_still_counted() -> None:
    """They were there while something was measured."""
    assert _seen({1: 100}, {1: 100, 2: 5}, {2: 5}).processes == 1


def test_a_list_that_does_not_show_us_proves_nothing() -> None:
    """In many containers it is empty; an empty list is then not an idle gpu."""
    use = _seen({}, {}, {})

    assert (use.processes, use.contended, use.signals) == (None, None, ())


def test_without_a_list_nothing_is_known() -> None:
    """Not even which signals there are."""
    assert _seen(None, None, None) == ForeignUse()


def test_memory_that_the_driver_does_not_tell_is_unknown_as_a_whole() -> None:
    """A sum of what is known would look like all there is."""
    assert _seen({1: 100, 2: None}, {1: 100, 2: None, 3: 5}, {}).bytes is None


def _grown(*others_mib: int) -> ForeignUse:
    """What the last of some readings of others' memory says, where no process can be seen."""
    occupancy = Occupancy({}, GpuUse({}, other_bytes=500 * 2**20, spare_bytes=600 * 2**20))
    for other_mib in others_mib:
        use = occupancy.foreign_use(GpuUse({}, other_bytes=other_mib * 2**20, spare_bytes=600 * 2**20))
    return use


def test_where_processes_are_hidden_memory_that_grows_is_somebody() -> None:
    """In a container that shows no process of others, nor us."""
    use = _grown(500, 5000, 5000)

    assert (use.contended, use.processes, use.signals) == (True, 1, ("memory",))
    assert use.bytes == 4500 * 2**20


def test_memory_that_grows_for_one_reading_alone_is_our_own() -> None:
    """An allocation of ours may lie between the two readings that are compared."""
    assert _grown(5000, 500, 5000).contended is False


def test_memory_within_what_an_idle_gpu_may_show_is_nobody() -> None:
    """Libraries load kernels while we measure."""
    assert _grown(900, 1000, 1000).contended is False


def test_every_signal_that_would_have_shown_somebody_is_named_once() -> None:
    """A reader must be able to tell an idle gpu from one of which nothing could be seen."""
    listed = Occupancy({}, GpuUse({2: 5}), ("memory", "utilization")).foreign_use(GpuUse({2: 5}))
    hidden = Occupancy({}, GpuUse({}, other_bytes=0), ("memory",)).foreign_use(GpuUse({}, other_bytes=0))
    blind = Occupancy(None, GpuUse(), ()).foreign_use(GpuUse())

    assert listed.signals == ("processes", "memory", "utilization")
    assert hidden.signals == ("memory",)
    assert blind.signals is None


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
    watch = ForeignUseWatch(lambda: next(seen), now=clock)
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

    watch = ForeignUseWatch(look, now=clock)
    for step in range(100):
        clock.now = step * 0.01
        watch.check()

    assert len(looks) == 10
    gaps = [after - before for before, after in itertools.pairwise(looks)]
    assert max(gaps) <= 0.11


def test_where_nobody_can_be_seen_nothing_ends() -> None:
    """Unknown is not contended."""
    ForeignUseWatch(ForeignUse).check()


def test_in_forced_company_nobody_is_looked_for() -> None:
    """The user said so."""
    ForeignUseWatch(lambda: _SOMEBODY, is_forced=True).check()


def test_whoever_asks_for_the_end_is_heeded_before_every_piece_of_work() -> None:
    """Also between two looks, and in forced company: a signal must not wait for either."""

    def asked() -> None:
        raise SweepError("ended by SIGTERM", reason="preempted")

    with pytest.raises(SweepError, match="SIGTERM"):
        ForeignUseWatch(lambda: _NOBODY, check_stop=asked, is_forced=True).check()
