"""Spread of values and of runs."""

from __future__ import annotations

import math
import random

import pytest

from fleetridge_server.engine.statistics import (
    degrees_of_freedom,
    floored_scale,
    robust_deviation,
    scale_floor,
    small_sample_factor,
)


@pytest.mark.parametrize(
    ("n", "expected"), [(4, 1.36), (6, 1.19), (8, 1.13), (12, 1.08), (16, 1.05), (32, 1.03), (64, 1.01), (1000, 1.00)]
)
def test_the_small_sample_factor_is_that_of_the_simulated_table(n: int, expected: float) -> None:
    assert small_sample_factor(n) == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize(("n", "expected"), [(6, 3.4), (8, 4.3), (12, 6.2), (16, 8.0), (32, 15), (64, 29)])
def test_the_degrees_of_freedom_are_those_of_the_simulated_table(n: int, expected: float) -> None:
    assert degrees_of_freedom(n) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8, 9, 12, 15, 30])
def test_the_corrected_deviation_of_normal_values_is_right_on_average(n: int) -> None:
    """Simulated 4,000 times; the mean then errs by about 1 %."""
    rng = random.Random(n)  # noqa: S311 # a simulation
    total = 0.0
    for _ in range(4000):
        values = sorted(rng.gauss(0, 1) for _ in range(n))
        middle = (values[(n - 1) // 2] + values[n // 2]) / 2
        total += small_sample_factor(n) * robust_deviation([value - middle for value in values])
    assert total / 4000 == pytest.approx(1.0, abs=0.04)


def test_the_floor_takes_over_where_values_are_equal() -> None:
    scale = floored_scale(0.0, 10.0, n=9, floor=0.01)
    assert (scale.value, scale.source, scale.degrees) == (pytest.approx(0.1), "floor", None)


def test_the_values_own_spread_counts_where_it_is_larger() -> None:
    scale = floored_scale(0.2, 10.0, n=8, floor=0.01)
    assert (scale.value, scale.source, scale.degrees) == (0.2, "mad", degrees_of_freedom(8))


def test_the_floor_is_one_per_cent_until_eight_gpus_have_three_runs() -> None:
    steady = [[10.0, 10.0, 10.0]]
    assert scale_floor(steady * 7 + [[10.0, 10.0]] * 20) == 0.01
    assert scale_floor(steady * 8) < 0.01


def test_the_floor_stays_within_half_and_two_per_cent() -> None:
    assert scale_floor([[10.0, 10.0, 10.0]] * 1000) == 0.005
    assert scale_floor([[10.0, 12.0, 8.0]] * 1000) == 0.02


def test_the_floor_can_be_recomputed_by_hand() -> None:
    """Each gpu has variance (0.01² + 0 + 0.01²) / 2 = 1e-4; eight of them and eight times 0.005² give 6.25e-5."""
    assert scale_floor([[100.0, 101.0, 99.0]] * 8) == pytest.approx(2 * math.sqrt(6.25e-5))


def test_a_few_gpus_that_changed_meanwhile_hardly_raise_the_floor() -> None:
    steady = [[100.0, 100.3, 99.7]] * 100
    assert scale_floor([*steady, [100.0, 100.0, 40.0], [100.0, 90.0, 90.0]]) < 1.1 * scale_floor(steady)


def test_disturbances_that_many_gpus_have_are_noise() -> None:
    steady = [[100.0, 100.3, 99.7]] * 80
    assert scale_floor([*steady, *[[100.0, 100.0, 95.0]] * 20]) > 1.4 * scale_floor(steady)


def test_a_step_of_the_last_digit_is_noise_where_a_tenth_of_the_gpus_shows_it() -> None:
    equal = [[10.0, 10.0, 10.0]] * 90
    assert scale_floor([*equal, *[[10.0, 10.0, 9.5]] * 10]) > 0.015
    assert scale_floor([*equal, *[[10.0, 10.0, 9.5]] * 3]) == 0.005
