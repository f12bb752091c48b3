"""Benjamini–Hochberg."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.verdict import largest_significant, q_values

# The example of Benjamini and Hochberg (1995), section 3.2, shortened.
P = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216]
PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=50)


def test_adjusted_probabilities_are_those_of_scipy() -> None:
    """Golden values of scipy.stats.false_discovery_control(P)."""
    expected = [0.01, 0.04, 0.084, 0.084, 0.084, 0.1, 0.105714285714286, 0.216, 0.216, 0.216]
    assert q_values(P) == pytest.approx(expected, rel=1e-12)


@given(PROBABILITIES)
def test_a_pair_is_believed_exactly_where_its_q_is_small(probabilities: list[float]) -> None:
    believed = largest_significant(probabilities)
    for p, q in zip(probabilities, q_values(probabilities), strict=True):
        # On the border itself the two sums may round apart.
        if abs(q - 0.05) > 1e-12:
            assert (p <= believed) == (q <= 0.05)


@given(PROBABILITIES, st.randoms())
def test_q_values_follow_their_probabilities_in_any_order(probabilities: list[float], rng: Random) -> None:
    shuffled = list(range(len(probabilities)))
    rng.shuffle(shuffled)
    adjusted = q_values(probabilities)
    again = q_values([probabilities[place] for place in shuffled])
    assert again == [adjusted[place] for place in shuffled]


def test_where_nothing_is_unlikely_only_what_any_family_would_believe_is_believed() -> None:
    assert largest_significant([0.2, 0.9, 0.5, 0.7]) == 0.05 / 4
    assert largest_significant([]) == 0
