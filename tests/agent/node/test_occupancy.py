from __future__ import annotations

from fleetridge_agent.device.contract import ForeignUse
from fleetridge_agent.node.occupancy import Occupancy


def test_we_are_not_counted_among_the_others() -> None:
    """Whoever appears with our context is us, whatever number our process has outside of this container."""
    use = Occupancy({}, {4711: 500}).foreign_use({4711: 14_000})

    assert use == ForeignUse(processes=0, bytes=0, signals=("processes",))
    assert use.contended is False


def test_whoever_was_there_before_us_is_counted() -> None:
    """With the memory that they hold."""
    use = Occupancy({1: 100}, {1: 100, 2: 5}).foreign_use({1: 300, 2: 5})

    assert (use.processes, use.bytes, use.contended) == (1, 300, True)


def test_whoever_came_during_the_sweep_is_counted() -> None:
    """A job that started meanwhile slowed us down as much as one that was there before."""
    use = Occupancy({}, {2: 5}).foreign_use({2: 5, 3: 900})

    assert (use.processes, use.bytes, use.contended) == (1, 900, True)


def test_whoever_left_during_the_sweep_is_still_counted() -> None:
    """They were there while something was measured."""
    assert Occupancy({1: 100}, {1: 100, 2: 5}).foreign_use({2: 5}).processes == 1


def test_a_list_that_does_not_show_us_proves_nothing() -> None:
    """In many containers it is empty; an empty list is then not an idle gpu."""
    use = Occupancy({}, {}).foreign_use({})

    assert (use.processes, use.contended, use.signals) == (None, None, ())


def test_without_a_list_nothing_is_known() -> None:
    """Not even which signals there are."""
    assert Occupancy(None, None).foreign_use(None) == ForeignUse()


def test_memory_that_the_driver_does_not_tell_is_unknown_as_a_whole() -> None:
    """A sum of what is known would look like all there is."""
    assert Occupancy({1: 100, 2: None}, {1: 100, 2: None, 3: 5}).foreign_use({}).bytes is None
