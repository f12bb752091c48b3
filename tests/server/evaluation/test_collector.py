"""The collector of garbage while evaluations are made."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from fleetridge_server.evaluation.evaluator import collector_held_back


def test_the_collector_looks_rarely_within_and_as_before_afterwards() -> None:
    """Also after an error."""
    before = gc.get_threshold()

    def failing() -> None:
        with collector_held_back():
            assert gc.get_threshold()[0] > 100 * before[0]
            raise RuntimeError("evaluation")

    with pytest.raises(RuntimeError, match="evaluation"):
        failing()
    assert gc.get_threshold() == before


def test_two_evaluations_may_overlap() -> None:
    """The one that ends first leaves the collector held back for the other; none leaves it so for good."""
    before = gc.get_threshold()
    first, second = ExitStack(), ExitStack()

    first.enter_context(collector_held_back())
    held = gc.get_threshold()
    second.enter_context(collector_held_back())
    first.close()

    assert gc.get_threshold() == held
    second.close()
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    """A threshold of 0 means never."""
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collector_held_back():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
