"""Numbers for people."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1978.9, "1979"),
        (989.4, "989"),
        (99.96, "100"),
        (98.94, "98.9"),
        (9.996, "10.0"),
        (1, "1.00"),
        (0.25341, "0.253"),
        (0.0009996, "0.00100"),
        (0, "0"),
        (-16.94, "−16.9"),
        (3.2e9, "3.20e+09"),
        (0.0000123, "1.23e−05"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    """Digits before the point are never rounded away, and what is no reading is a dash."""
    assert quantities.significant(value) == text


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_a_printed_number_is_within_half_a_per_cent(value: float) -> None:
    """Three digits are worth at least that much."""
    assert float(quantities.significant(value).replace("−", "-")) == pytest.approx(value, rel=0.00501)


def test_a_unit_follows_a_number_and_no_dash() -> None:
    """A dash with a unit would look like a reading."""
    assert (quantities.quantity(989.4, "TFLOP/s"), quantities.quantity(None, "TFLOP/s")) == ("989 TFLOP/s", "–")


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (-0.1694, "−16.9 %"),
        (0.0312, "+3.1 %"),
        (0.0, "0.0 %"),
        (-0.0004, "0.0 %"),
        (0.0004, "0.0 %"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_a_deviation_carries_its_sign(fraction: float | None, text: str) -> None:
    """What rounds to zero has none: "−0.0 %" would accuse."""
    assert quantities.signed_percent(fraction) == text


@pytest.mark.parametrize(("fraction", "text"), [(0.6909, "69.1 %"), (1.0, "100.0 %"), (None, "–"), (math.inf, "–")])
def test_a_share_has_no_sign(fraction: float | None, text: str) -> None:
    """Efficiency is a share of a peak."""
    assert quantities.percent(fraction) == text


def test_a_deviation_is_relative_to_its_reference() -> None:
    """684 against a median of 828."""
    assert quantities.signed_percent(quantities.deviation(684, 828)) == "−17.4 %"


@pytest.mark.parametrize(
    ("elapsed", "text"),
    [
        (timedelta(seconds=0.4), "0 s"),
        (timedelta(seconds=41), "41 s"),
        (timedelta(minutes=5, seconds=59), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(hours=3, minutes=12), "3 h 12 min"),
        (timedelta(days=2, hours=5, minutes=59), "2 d 5 h"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=45, hours=3), "45 d"),
        (timedelta(minutes=-30), "30 min ahead"),
    ],
)
def test_an_age_has_two_units_at_most(elapsed: timedelta, text: str) -> None:
    """A time ahead of the clock says so."""
    assert quantities.age(elapsed) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1024**3, "1.00 GiB"),
        (60 * 1024**2, "60.0 MiB"),
        (150_754_820_096, "140 GiB"),
        (5 * 1024**6, "5120 PiB"),
        (None, "–"),
    ],
)
def test_a_size_is_in_binary_units(size_bytes: int | None, text: str) -> None:
    """MiB and GiB, never the decimal ones."""
    assert quantities.binary_size(size_bytes) == text
