"""Tail probabilities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.statistics import normal_two_sided, student_two_sided


@pytest.mark.parametrize(
    ("t", "degrees", "expected"),
    [
        (3.5, 4.3, 0.022127097432049728),
        (-3.5, 29.1, 0.001519494129143262),
        (0.0, 3.4, 1.0),
        (1.0, 1.0, 0.5000000000000001),
        (2.0, 2.522, 0.1564584165182628),
        (10.0, 6.1, 5.2240887627052644e-05),
        (40.0, 443.75, 2.908531693524112e-149),
        (0.01, 100000.0, 0.9920213073188231),
        (6.5, 173.1, 8.262530336189665e-10),
    ],
)
def test_the_tail_of_student_is_that_of_scipy(t: float, degrees: float, expected: float) -> None:
    """Golden values of 2 * scipy.stats.t.sf(abs(t), degrees)."""
    assert student_two_sided(t, degrees) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (0.0, 1.0),
        (1.96, 0.04999579029644087),
        (3.5, 0.00046525815807105003),
        (-8.0, 1.244192114854348e-15),
    ],
)
def test_the_normal_tail_is_that_of_scipy(z: float, expected: float) -> None:
    """Golden values of 2 * scipy.stats.norm.sf(abs(z))."""
    assert normal_two_sided(z) == pytest.approx(expected, rel=1e-12)


def test_student_with_many_degrees_is_normal() -> None:
    assert student_two_sided(3.5, 1e7) == pytest.approx(normal_two_sided(3.5), rel=1e-5)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0.5, 1e4))
def test_a_further_value_is_never_more_probable(first: float, second: float, degrees: float) -> None:
    nearer, further = sorted((first, second))
    assert student_two_sided(further, degrees) <= student_two_sided(nearer, degrees) * (1 + 1e-12)


@given(st.floats(-1e200, 1e200), st.floats(0.5, 1e6))
def test_the_tail_is_a_probability_of_either_sign(t: float, degrees: float) -> None:
    assert 0 <= student_two_sided(t, degrees) == student_two_sided(-t, degrees) <= 1


def test_no_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        student_two_sided(1.0, 0.0)
