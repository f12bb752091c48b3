"""Since when a gpu has been slow; nineteen peers at 100 make a limit of 3.5 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport
from fleetridge_server.engine.explanation import Onset, SettingChange, onset, streak_words
from fleetridge_server.engine.values import by_gpu
from support.drifts import gpu_drifts
from support.judged import AS_OF, DAY, MONDAY, PI, fleet, judged, series

PEERS = fleet([100.0] * 19)


def onset_of(values: Sequence[float], drift: Drift | None = None) -> Onset | None:
    """Onset of a gpu with these daily values, oldest first."""
    return onset(judged([*PEERS, *series("odd", values)]).verdicts["odd"][0], drift)


def found(values: Sequence[float], drift: Drift | None = None) -> Onset:
    """The same of a gpu that has one."""
    told = onset_of(values, drift)
    assert told is not None
    return told


def words(values: Sequence[float], drift: Drift | None = None) -> str:
    """The same as people read it."""
    return streak_words(found(values, drift))


def own_drift(values: Sequence[float]) -> Drift:
    """Drift of a gpu with these daily values."""
    return gpu_drifts(by_gpu(series("odd", values), AS_OF)["odd"], {})[PI]


def test_a_gpu_is_slow_since_the_oldest_run_of_its_newest_streak() -> None:
    told = found([100.0, 100.0, 90.0, 90.0, 90.0])
    assert (told.since, told.is_bound, told.streak) == (MONDAY - 2 * DAY, False, 3)
    assert words([100.0, 90.0, 90.0, 90.0]) == "in each of its newest 3 runs, since 2026-01-03 12:00 UTC"


def test_it_is_slow_since_then_or_before_where_no_older_run_is_known() -> None:
    told = found([90.0, 90.0, 90.0])
    assert (told.since, told.is_bound) == (MONDAY - 2 * DAY, True)
    assert words([90.0] * 3) == "in each of its newest 3 runs, since 2026-01-03 12:00 UTC or before"


def test_the_ten_runs_that_are_looked_at_are_a_bound() -> None:
    told = found([90.0] * 14)
    assert (told.since, told.is_bound, told.runs) == (MONDAY - 9 * DAY, True, 10)


def test_a_run_inside_ends_a_streak_and_the_others_are_counted() -> None:
    assert words([90.0, 100.0, 90.0, 90.0]) == (
        "in each of its newest 2 runs (3 of its newest 4 in all), since 2026-01-04 12:00 UTC"
    )


def test_a_newest_run_inside_is_said() -> None:
    assert words([100.0, 90.0, 90.0, 100.0]) == (
        "in 2 of its newest 4 runs, though not in the newest, slow before that since 2026-01-03 12:00 UTC"
    )
    assert words([100.0, 90.0, 90.0, 100.0, 100.0]) == (
        "in 2 of its newest 5 runs, though not in the newest 2, slow before those since 2026-01-02 12:00 UTC"
    )


def test_a_single_run_is_no_each() -> None:
    assert words([100.0, 90.0]) == "in its newest run, since 2026-01-05 12:00 UTC"


def test_a_gpu_that_was_never_beyond_has_no_onset() -> None:
    assert onset_of([100.0] * 3) is None


def test_too_few_peers_tell_of_no_onset() -> None:
    evaluation = evaluate(Fleet([*fleet([100.0]), *series("odd", [50.0] * 3)]), AS_OF)
    assert onset(evaluation.verdicts["odd"][0]) is None


def test_drift_tells_of_a_fall_before_the_runs_that_are_looked_at() -> None:
    """Twelve runs at 100, then fourteen at 90, of which the newest ten are looked at."""
    values = [100.0] * 12 + [90.0] * 14
    told = found(values, own_drift(values))
    assert (told.since, told.is_bound) == (MONDAY - 13 * DAY, False)


def test_a_gpu_slow_from_the_first_look_of_its_epoch_is_slow_since_then_or_before() -> None:
    values = [90.0] * 14
    told = found(values, own_drift(values))
    assert (told.since, told.is_bound) == (MONDAY - 13 * DAY, True)


def test_a_fall_from_a_level_that_was_slow_before_is_not_the_onset() -> None:
    values = [94.0] * 12 + [85.0] * 14
    told = found(values, own_drift(values))
    assert (told.since, told.is_bound) == (MONDAY - 9 * DAY, True)


def test_a_drift_says_nothing_where_the_runs_say_it_themselves() -> None:
    values = [100.0] * 12 + [90.0] * 3
    told = found(values, own_drift(values))
    assert (told.since, told.is_bound, told.streak) == (MONDAY - 2 * DAY, False, 3)


def test_what_changed_with_the_first_slow_run_is_named() -> None:
    def upgraded(own: JudgedReport) -> JudgedReport:
        is_new = own.ordered_at >= MONDAY - DAY
        return replace(
            own, factors=Factors(driver="580" if is_new else "570", power_limit_w=500.0 if is_new else 700.0)
        )

    odd = [upgraded(own) for own in series("odd", [100.0, 100.0, 90.0, 90.0])]
    told = onset(judged([*PEERS, *odd]).verdicts["odd"][0])
    assert told is not None
    assert told.changes == (SettingChange("driver", "570", "580"), SettingChange("power_limit_w", "700", "500"))
    assert streak_words(told).endswith(
        "since 2026-01-04 12:00 UTC, with the change of driver from 570 to 580 and power limit from 700 W to 500 W"
    )


def test_a_reading_that_appears_is_no_change() -> None:
    odd = series("odd", [100.0, 90.0, 90.0])
    odd[1:] = [replace(own, factors=Factors(driver="580")) for own in odd[1:]]
    told = onset(judged([*PEERS, *odd]).verdicts["odd"][0])
    assert told is not None
    assert told.changes == ()


@pytest.mark.parametrize("days", [0, 2000])
def test_the_time_of_the_evaluation_is_of_no_account(days: int) -> None:
    """An import of old measurements is slow since then, whenever somebody looks as of then."""
    past = timedelta(days=days)
    reports = [replace(own, ordered_at=own.ordered_at - past) for own in [*PEERS, *series("odd", [100.0, 90.0, 90.0])]]
    evaluation = evaluate(Fleet(reports), AS_OF - past + timedelta(days=1))
    told = onset(evaluation.verdicts["odd"][0])
    assert told is not None
    assert told.since == MONDAY - DAY - past


@given(st.lists(st.sampled_from([90.0, 100.0]), min_size=1, max_size=10))
def test_all_runs_of_a_streak_lie_beyond_and_the_one_before_it_inside(values: list[float]) -> None:
    told = onset_of(values)
    if told is None:
        assert 90.0 not in values
        return
    newest_first = values[::-1]
    end = told.inside + told.streak
    assert newest_first[: told.inside] == [100.0] * told.inside
    assert newest_first[told.inside : end] == [90.0] * told.streak
    assert told.is_bound == (end == len(values))
    assert told.is_bound or newest_first[end] == 100.0
    assert told.since == MONDAY - (end - 1) * DAY
    assert told.beyond == values.count(90.0)
