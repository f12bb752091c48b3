"""Runs from before an upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from fleetridge_server.engine.evidence import Factors, JudgedReport
from fleetridge_server.engine.values import PastRun, by_gpu, members_by_cohort, upgrade_adjustments
from support.judged import AS_OF, flagged, judged, series, with_factors

OLD, NEW = Factors(driver="580"), Factors(driver="590")


def gpu(values: Sequence[float], upgraded: int) -> list[PastRun]:
    """Runs of a gpu, newest first, of which the newest few are on the new driver."""
    return [PastRun(NEW if place < upgraded else OLD, value) for place, value in enumerate(values)]


def history(name: str, values: Sequence[float], upgraded: int) -> list[JudgedReport]:
    """Reports of a gpu, oldest first, of which the newest few are on the new driver."""
    own = series(name, values)
    cut = len(own) - upgraded
    return [*with_factors(own[:cut], OLD), *with_factors(own[cut:], NEW)]


def test_what_a_change_did_to_four_gpus_is_what_older_runs_lose() -> None:
    gpus = [gpu([95.0, 100.0, 100.0], 1)] * 3 + [gpu([90.0, 100.0, 100.0], 1)]
    assert upgrade_adjustments(gpus) == [[1.0, pytest.approx(0.95), pytest.approx(0.95)]] * 4


def test_what_three_gpus_met_is_not_known() -> None:
    assert upgrade_adjustments([gpu([95.0, 100.0], 1)] * 3) == [[1.0, 1.0]] * 3


def test_an_effect_of_less_than_one_per_cent_is_noise() -> None:
    assert upgrade_adjustments([gpu([99.2, 100.0], 1)] * 8) == [[1.0, 1.0]] * 8


def test_a_gpu_whose_settings_are_not_known_to_have_changed_is_left_alone() -> None:
    unknown = [PastRun(Factors(driver="590"), 95.0), PastRun(Factors(), 100.0), PastRun(Factors(driver="590"), 96.0)]
    assert upgrade_adjustments([unknown] * 8) == [None] * 8


def test_a_change_is_seen_across_a_run_that_does_not_say() -> None:
    runs = [PastRun(NEW, 95.0), PastRun(Factors(), 95.0), PastRun(OLD, 100.0)]
    assert upgrade_adjustments([runs] * 4) == [[1.0, 1.0, pytest.approx(0.95)]] * 4


def test_effects_of_several_changes_multiply() -> None:
    oldest = Factors(driver="570")
    runs = [PastRun(NEW, 90.0), PastRun(OLD, 100.0), PastRun(oldest, 80.0)]
    assert upgrade_adjustments([runs] * 4) == [[1.0, pytest.approx(0.9), pytest.approx(0.9 * 1.25)]] * 4


def test_the_value_of_a_gpu_is_what_it_does_after_the_upgrade() -> None:
    reports = [own for place in range(8) for own in history(f"g{place}", [100.0, 100.0, 95.0], 1)]
    (members,) = members_by_cohort(by_gpu(reports, AS_OF), AS_OF).values()
    assert [member.value for member in members] == [pytest.approx(95.0)] * 8


@pytest.mark.parametrize("effect", [-0.05, 0.05])
@pytest.mark.parametrize("newest", [1, 2, 3])
@pytest.mark.parametrize("share", [2, 1])
def test_an_upgrade_under_way_hides_no_fault_and_accuses_nobody(effect: float, newest: int, share: int) -> None:
    """Every gpu or every second one is upgraded, some a run earlier than others; gpu 5 is 6 % slow all the time."""
    rng = Random(7)  # noqa: S311 # noise
    reports: list[JudgedReport] = []
    for place in range(24):
        upgraded = newest + place % 3 // 2 if place % share == 0 else 0
        part = 0.94 if place == 5 else 1.0
        values = [100 * part * rng.gauss(1, 0.004) * (1 + effect if run >= 10 - upgraded else 1.0) for run in range(10)]
        reports += history(f"g{place:02d}", values, upgraded)
    assert flagged(reports) == {"g05"}


def test_an_accusation_outlives_an_upgrade() -> None:
    reports = [own for place in range(12) for own in history(f"g{place:02d}", [100.0] * 5 + [95.0], 1)]
    slow = history("slow", [90.0] * 5 + [85.5], 1)
    assert judged([*reports, *slow]).states["slow"].state == "outlier"


def test_a_gpu_that_broke_with_the_upgrade_is_not_excused_by_it() -> None:
    reports = [own for place in range(12) for own in history(f"g{place:02d}", [100.0] * 4 + [95.0] * 2, 2)]
    broken = history("broken", [100.0] * 4 + [85.0] * 2, 2)
    assert flagged([*reports, *broken]) == {"broken"}
