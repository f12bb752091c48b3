"""Levels of four to seven gpus half of which are slow."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evidence import Factors, JudgedReport
from fleetridge_server.engine.groups import level_centers
from support.judged import flagged, judged, series, with_factors

FLOOR = 0.01
TIGHT = [100.0, 100.2, 99.8, 100.1]


def level(driver: str, values: list[float]) -> list[JudgedReport]:
    """Gpus of one driver, measured three times."""
    own = [run for place, value in enumerate(values) for run in series(f"{driver}-{place}", [value] * 3)]
    return with_factors(own, Factors(driver=driver))


def test_a_level_in_one_piece_has_its_median() -> None:
    assert level_centers([[95.0, 95.1, 94.9, 95.2], TIGHT], FLOOR) == [pytest.approx(95.05), pytest.approx(100.05)]


def test_a_slower_half_that_is_set_apart_leaves_the_median_of_the_faster() -> None:
    assert level_centers([[95.0, 95.2, 90.2, 90.4], TIGHT], FLOOR) == [pytest.approx(95.1), pytest.approx(100.05)]


def test_two_slow_of_four_on_the_slower_driver_are_found() -> None:
    assert flagged([*level("old", TIGHT), *level("new", [95.0, 95.1, 90.2, 90.3])]) == {"new-2", "new-3"}


def test_two_slow_of_four_on_the_faster_driver_are_found_though_they_do_as_the_slower_driver() -> None:
    reports = [*level("old", [100.0, 100.1, 95.0, 95.1]), *level("new", [95.0, 95.1, 94.9, 95.2])]
    assert flagged(reports) == {"old-2", "old-3"}
    assert [notice.kind for notice in judged(reports).notices] == ["factor_step"]


def test_the_verdict_says_that_its_median_is_of_the_faster_half() -> None:
    verdicts = judged([*level("old", TIGHT), *level("new", [95.0, 95.1, 90.2, 90.3])]).verdicts
    assert verdicts["new-2"][0].limits.of_faster_half
    assert not verdicts["old-0"][0].limits.of_faster_half


def test_a_driver_without_effect_is_no_step_because_two_of_its_gpus_are_slow() -> None:
    reports = [*level("old", TIGHT), *level("new", [100.0, 100.1, 95.0, 95.1])]
    assert flagged(reports) == {"new-2", "new-3"}
    assert judged(reports).notices == ()


def test_half_of_a_cohort_is_never_set_apart() -> None:
    halves = [[100.0, 100.1, 95.0, 95.1], [95.0, 95.1, 90.2, 90.3]]
    assert level_centers(halves, FLOOR) == [pytest.approx(97.55), pytest.approx(92.65)]
    assert flagged([*level("old", halves[0]), *level("new", halves[1])]) == set()


def test_where_like_gpus_scatter_no_half_is_set_apart() -> None:
    scattered = [101.5, 98.4, 100.6, 99.2]
    assert level_centers([[97.0, 96.2, 92.6, 91.8], scattered], FLOOR)[0] == pytest.approx(94.4)


def test_a_slope_is_no_gap() -> None:
    assert level_centers([[98.0, 96.6, 95.2, 93.8], TIGHT], FLOOR)[0] == pytest.approx(95.9)


@given(st.lists(st.floats(50, 150), min_size=4, max_size=12), st.lists(st.floats(50, 150), min_size=4, max_size=12))
def test_a_center_is_a_median_of_all_or_of_the_faster_half(one: list[float], other: list[float]) -> None:
    for values, center in zip((one, other), level_centers([one, other], FLOOR), strict=True):
        ordered = sorted(values)
        assert ordered[(len(ordered) - 1) // 2] <= center <= ordered[-1]


def test_healthy_gpus_of_any_lasting_spread_are_seldom_set_apart() -> None:
    """One healthy gpu in a thousand at most, even where gpus differ by 1.7 %."""
    rng = Random(11)  # noqa: S311 # a simulation
    apart = 0
    for _ in range(2000):
        levels = [[100 * rng.gauss(1, 0.017) for _ in range(4)] for _ in range(2)]
        centers = level_centers(levels, FLOOR)
        apart += sum(2 for values, center in zip(levels, centers, strict=True) if center > sorted(values)[2])
    assert apart <= 0.001 * 2000 * 8
