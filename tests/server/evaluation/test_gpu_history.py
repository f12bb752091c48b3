from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport, RoofReading
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.evaluation.gpu_history import (
    DRIFT_FLOORS,
    GpuHistory,
    fleet_drifts,
    fleet_upgrades,
    gpu_history,
    has_drifts,
    runs_by_roof,
)
from support.drifts import drift
from support.judged import AS_OF, BETA, CONDITIONS, DAY, PI, report, series
from support.upgrades import upgrade_effects

OTHER_METHOD = replace(CONDITIONS, method="custom")


def histories(reports: Sequence[JudgedReport]) -> dict[str, GpuHistory]:
    return {gpu_id: gpu_history(own) for gpu_id, own in by_gpu(reports, AS_OF).items()}


def evaluated(reports: Sequence[JudgedReport], days_later: int) -> Evaluation:
    return evaluate(Fleet(reports), AS_OF + days_later * DAY)


def a_restless_report(gpu: int, days_ago: float, choose: random.Random) -> JudgedReport:
    """Whatever may happen to a gpu: busy, failed, contended, split, measured otherwise, beyond belief."""
    own = report(f"gpu-{gpu}", choose.gauss(800, 8), days_ago=days_ago, beta=choose.gauss(4400, 40))
    roofs: Mapping[RoofKey, RoofReading] = {
        roof: replace(reading, implausible=choose.random() < 0.15)
        for roof, reading in own.roofs.items()
        if choose.random() < 0.8
    }
    kind = choose.random()
    if kind < 0.15:
        return replace(own, outcome=choose.choice(["skipped", "failed"]), reason="busy", roofs={})
    return replace(
        own,
        roofs=roofs,
        contended=choose.random() < 0.15,
        conflict=choose.random() < 0.05,
        conditions=choose.choice([CONDITIONS, CONDITIONS, CONDITIONS, OTHER_METHOD]),
        factors=Factors(driver=choose.choice(["580.1", "580.1", "590.1"])),
    )


@given(st.integers(0, 2**32), st.sampled_from([0, 2, 9, 40]))
def test_what_is_kept_decides_all_that_the_whole_history_decides(seed: int, days_later: int) -> None:
    """An evaluation of the kept reports says the same as one of all of them, also when time has passed."""
    choose = random.Random(seed)  # noqa: S311 # no secret
    reports = [
        a_restless_report(gpu, choose.choice([0.0, 1.0, 20.0]) + choose.random() * 25, choose)
        for gpu in range(7)
        for _ in range(choose.randrange(1, 25))
    ]

    kept = [own for history in histories(reports).values() for own in history.reports]

    assert evaluated(kept, days_later) == evaluated(reports, days_later)


def test_little_is_kept_of_a_long_history() -> None:
    """A year of daily reports is ten."""
    history = gpu_history(series("gpu-0", [800.0] * 365)[::-1])

    assert len(history.reports) == 10


@given(st.integers(0, 2**32))
def test_effects_of_upgrades_come_out_of_what_is_kept(seed: int) -> None:
    """As from the whole history."""
    choose = random.Random(seed)  # noqa: S311 # no secret
    reports = []
    for gpu in range(6):
        changes_at = choose.randrange(2, 12)
        for day, own in enumerate(series(f"gpu-{gpu}", [choose.gauss(800, 8) for _ in range(14)])):
            driver = "590.1" if day >= changes_at else choose.choice(["580.1", None])
            reports.append(replace(own, factors=Factors(driver=driver)))

    effects = {roof: found for roof, found in upgrade_effects(by_gpu(reports, AS_OF)).items() if found}

    assert fleet_upgrades(histories(reports)) == effects


def test_a_drift_is_judged_beside_the_scale_of_its_cohort() -> None:
    """The next larger of the two that were worked out."""
    reports = series("gpu-0", [800.0] * 10 + [776.0] * 6)
    known = histories(reports)
    runs = runs_by_roof(by_gpu(reports, AS_OF)["gpu-0"])[PI]
    cohort = Cohort(PI, CONDITIONS)

    found = {floor: fleet_drifts(known, {cohort: floor})["gpu-0"][PI] for floor in (0.005, 0.01, 0.015, 0.02)}

    usual, noisy = (drift(runs, floor) for floor in DRIFT_FLOORS)
    assert list(found.values()) == [usual, usual, noisy, noisy]
    assert (usual.status, noisy.status) == ("drifted", "steady")
    assert fleet_drifts(known, {})["gpu-0"][PI] == usual


def test_a_young_fleet_has_no_drift_to_judge() -> None:
    """So the scales need not be looked up."""
    assert not has_drifts(histories(series("gpu-0", [800.0] * 7)).values())
    assert has_drifts(histories(series("gpu-0", [800.0] * 8)).values())


def test_a_gpu_without_reports_has_an_empty_history() -> None:
    """Nothing is made up."""
    assert gpu_history([]) == GpuHistory((), ({}, {}), {})


def test_runs_of_a_rare_roof_are_kept_behind_many_others() -> None:
    """Daily checks of pi must not push the weekly measurement of beta out."""
    weekly = [report("gpu-0", beta=4400.0, days_ago=7 * week + 0.5) for week in range(4)]
    daily = series("gpu-0", [800.0] * 28)

    kept = histories([*weekly, *daily])["gpu-0"].reports

    assert sum(BETA in own.roofs for own in kept) == 4
    assert min(own.ordered_at for own in kept) <= AS_OF - 21 * DAY + timedelta(hours=1)
