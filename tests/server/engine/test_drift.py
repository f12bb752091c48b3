"""One gpu beside its own past."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.drift import Drift, DriftSample, Epoch, drift_samples
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.upgrades import floors
from fleetridge_server.engine.values import by_gpu
from support.drifts import drift, gpu_drifts
from support.judged import AS_OF, CONDITIONS, DAY, MONDAY, PI, fleet, series

EPOCH = Epoch(Factors(driver="580"), CONDITIONS)
FLOOR = 0.01


def looks(values: Sequence[float], epoch: Epoch = EPOCH) -> list[DriftSample]:
    """Looks a day apart."""
    return [DriftSample(MONDAY + day * DAY, value, epoch) for day, value in enumerate(values)]


def drift_of(values: Sequence[float]) -> Drift:
    """Drift of daily values in one epoch."""
    return drift(looks(values), FLOOR)


def test_fewer_than_eight_looks_are_learning() -> None:
    assert drift_of([100.0] * 7) == Drift("learning", 7)
    assert drift_of([100.0] * 8).status == "steady"


@pytest.mark.parametrize("loss", [0.03, 0.05, 0.20])
def test_a_step_down_is_found_in_three_looks_with_its_onset(loss: float) -> None:
    found = drift_of([100.0] * 12 + [100 * (1 - loss)] * 3)
    assert found.status == "drifted"
    assert found.onset == MONDAY + 12 * DAY
    assert found.change == pytest.approx(-loss)
    assert (found.baseline, found.since) == (100.0, 3)


def test_a_step_past_the_gate_is_found_in_a_week() -> None:
    assert drift_of([100.0] * 12 + [96.9] * 5).status == "drifted"


def test_less_than_the_gate_of_peers_is_no_drift() -> None:
    """What is no matter beside peers is none beside oneself: ten of thirty at -2.1 % are within the limits."""
    found = drift_of([100.0] * 12 + [97.9] * 60)
    assert found.status == "steady"
    assert found.low > 5


def test_one_or_two_bad_days_are_no_drift() -> None:
    assert drift_of([100.0] * 12 + [50.0] * 2).status == "steady"
    assert drift_of([100.0] * 12 + [50.0] * 2 + [100.0] * 9).onset is None


def test_a_gpu_that_became_faster_is_steady_and_says_so() -> None:
    found = drift_of([100.0] * 12 + [105.0] * 6)
    assert found.status == "steady"
    assert found.has_changed
    assert found.change == pytest.approx(0.05)


def test_a_creep_is_found_before_four_per_cent_are_lost() -> None:
    statuses = [drift_of([100.0] * 12 + [100 * (1 - 0.0005 * day) for day in range(days)]).status for days in (40, 80)]
    assert statuses == ["steady", "drifted"]


def test_drift_ends_by_itself() -> None:
    assert drift_of([100.0] * 12 + [95.0] * 4 + [100.0] * 40).status == "steady"


def test_a_known_change_starts_a_new_baseline() -> None:
    newer = Epoch(Factors(driver="590"), CONDITIONS)
    runs = [*looks([100.0] * 12), *[DriftSample(MONDAY + (20 + day) * DAY, 95.0, newer) for day in range(9)]]
    found = drift(runs, FLOOR)
    assert (found.status, found.looks, found.baseline) == ("steady", 9, 95.0)


def test_a_reading_that_is_missing_once_is_no_change() -> None:
    values = looks([100.0] * 12 + [95.0] * 4)
    values[9] = replace(values[9], epoch=Epoch(Factors(), CONDITIONS))
    assert drift(values, FLOOR).status == "drifted"


def test_runs_within_an_hour_are_one_look() -> None:
    minutes = [DriftSample(MONDAY + timedelta(minutes=20 * turn), 90.0 + turn, EPOCH) for turn in range(6)]
    assert [look.value for look in drift_samples(minutes)] == [91.0, 94.0]


def test_the_baseline_of_a_long_epoch_stays_its_first_eight_looks() -> None:
    found = drift_of([100.0] * 8 + [97.0] * 300)
    assert (found.baseline, found.status) == (100.0, "drifted")


@given(st.integers(0, 200))
def test_noise_of_half_the_floor_never_drifts_within_a_hundred_runs(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 # noise
    assert drift_of([100 * rng.gauss(1, FLOOR / 2) for _ in range(108)]).status == "steady"


def evaluated(drifting: int) -> tuple[set[str], set[str]]:
    """Gpus that drifted by 5 %, and kinds of notices, of ten of which some became slower half a month ago."""
    steps = [100.0] * 10 + [95.0] * 5
    reports = [*fleet([95.0] * (10 - drifting), runs=15)]
    reports += [own for place in range(drifting) for own in series(f"odd-{place}", steps)]
    histories = by_gpu(reports, AS_OF)
    cohort_floors = floors(histories, AS_OF)
    drifts = {gpu: gpu_drifts(own, cohort_floors) for gpu, own in histories.items()}
    found = evaluate(Fleet(reports, drifts=drifts), AS_OF)
    return (
        {gpu for gpu, state in found.states.items() if state.state == "drifted"},
        {notice.kind for notice in found.notices},
    )


def test_a_gpu_that_fell_to_its_peers_level_drifted() -> None:
    assert evaluated(1) == ({"odd-0"}, set())


def test_a_fleet_that_fell_together_is_one_notice() -> None:
    assert evaluated(8) == (set(), {"fleet_drift"})


def test_where_all_gpus_wander_one_that_wanders_is_no_drift() -> None:
    """Changes of -6 % to +6 %: scale 1.4826 · 1.09 · 3.3 %, so that only some 19 % would stand out."""
    ends = [94.0, 95.0, 96.0, 98.0, 99.0, 101.0, 102.0, 104.0, 105.0, 106.0]
    reports = [own for place, end in enumerate(ends) for own in series(f"g{place}", [100.0] * 8 + [end] * 6)]
    histories = by_gpu(reports, AS_OF)
    drifts = {gpu: gpu_drifts(own, {}) for gpu, own in histories.items()}
    assert drifts["g0"][PI].status == "drifted"
    states = evaluate(Fleet(reports, drifts=drifts), AS_OF).states
    assert {state.state for state in states.values()} == {"ok"}


def test_drift_is_looked_at_in_judged_roofs_only() -> None:
    histories = by_gpu(series("odd", [100.0] * 9), AS_OF)
    assert set(gpu_drifts(histories["odd"], {})) == {PI}


def nightly(day: int) -> Epoch:
    """Settings of a day on which another build of the same release of torch was installed."""
    return Epoch(Factors(driver="580.95.05", torch=f"2.12.0.dev202601{day + 1:02d}+cu130"), CONDITIONS)


def boosted(day: int) -> Epoch:
    """Settings of a day on which the enforced power limit had moved by itself."""
    return Epoch(Factors(driver="580.95.05", power_limit_w=115.0 + day % 5 * 5), CONDITIONS)


@pytest.mark.parametrize("epoch_of", [nightly, boosted])
def test_settings_that_change_every_day_do_not_keep_a_loss_from_being_learned(
    epoch_of: Callable[[int], Epoch],
) -> None:
    values = [100.0] * 12 + [92.0] * 10
    found = drift([DriftSample(MONDAY + day * DAY, value, epoch_of(day)) for day, value in enumerate(values)], 0.01)
    assert (found.status, found.onset) == ("drifted", MONDAY + 12 * DAY)


def test_a_baseline_is_carried_over_an_upgrade_without_effect() -> None:
    def epoch_of(day: int) -> Epoch:
        return Epoch(Factors(driver="580" if day < 6 else "590"), CONDITIONS)

    values = [100.0] * 9 + [92.0] * 4
    found = drift([DriftSample(MONDAY + day * DAY, value, epoch_of(day)) for day, value in enumerate(values)], 0.01)
    assert (found.status, found.looks) == ("drifted", 13)


def test_an_upgrade_with_an_effect_begins_anew() -> None:
    def epoch_of(day: int) -> Epoch:
        return Epoch(Factors(driver="580" if day < 12 else "590"), CONDITIONS)

    values = [100.0] * 12 + [92.0] * 9
    found = drift([DriftSample(MONDAY + day * DAY, value, epoch_of(day)) for day, value in enumerate(values)], 0.01)
    assert (found.status, found.looks) == ("steady", 9)


def test_a_power_limit_that_was_set_lower_is_no_new_beginning() -> None:
    def epoch_of(day: int) -> Epoch:
        return Epoch(Factors(power_limit_w=700.0 if day < 12 else 490.0), CONDITIONS)

    values = [100.0] * 12 + [92.0] * 5
    found = drift([DriftSample(MONDAY + day * DAY, value, epoch_of(day)) for day, value in enumerate(values)], 0.01)
    assert found.status == "drifted"
