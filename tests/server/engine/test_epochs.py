"""Effects of upgrades, each gpu paired with itself."""

from __future__ import annotations

import itertools
import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.drift import DriftSample, Epoch
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.upgrades import epoch_effects, paired_effect
from fleetridge_server.engine.values import by_gpu
from support.judged import AS_OF, CONDITIONS, DAY, MONDAY, PI, series, with_factors
from support.upgrades import upgrade_effects

RATIOS = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40)


def averages(ratios: list[float]) -> list[float]:
    """All means of two log ratios, a ratio with itself included."""
    logs = [math.log(ratio) for ratio in ratios]
    return sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(logs, 2))


@given(RATIOS)
def test_the_effect_is_the_median_of_all_means_of_two(ratios: list[float]) -> None:
    found = paired_effect([(1.0, ratio) for ratio in ratios])
    assert math.log1p(found.effect) == pytest.approx(median(averages(ratios)), abs=1e-12)
    assert found.low <= found.effect + 1e-12
    assert found.effect <= found.high + 1e-12


@pytest.mark.parametrize(("n", "rank", "confidence"), [(6, 1, 0.96875), (8, 4, 0.9609375), (10, 9, 0.951171875)])
def test_the_interval_is_that_of_the_signed_rank_table(n: int, rank: int, confidence: float) -> None:
    """Table A.4 of Hollander and Wolfe: P(T+ ≥ 21) = 1/64 at n = 6, 32 of n = 8: 0.0195, 47 of n = 10: 0.0244."""
    ratios = [1 + place / 100 for place in range(n)]
    found = paired_effect([(1.0, ratio) for ratio in ratios])
    ordered = averages(ratios)
    assert found.confidence == confidence
    assert math.log1p(found.low) == pytest.approx(ordered[rank - 1], abs=1e-12)
    assert math.log1p(found.high) == pytest.approx(ordered[-rank], abs=1e-12)


def test_four_pairs_say_how_little_their_interval_is_worth() -> None:
    assert paired_effect([(100.0, 95.0)] * 4).confidence == 0.875


def test_the_counted_and_the_normal_interval_meet() -> None:
    ratios = [1 + place / 1000 for place in range(51)]
    counted, normal = (paired_effect([(1.0, ratio) for ratio in ratios[:n]]) for n in (50, 51))
    assert counted.low == pytest.approx(normal.low, abs=1e-3)
    assert counted.high == pytest.approx(normal.high, abs=2e-3)


def test_one_broken_gpu_moves_the_effect_little() -> None:
    assert paired_effect([(100.0, 97.0)] * 9 + [(100.0, 30.0)]).effect == pytest.approx(-0.03, abs=1e-9)


def test_nothing_paired_is_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_effect([])


def upgraded(gpus: int) -> dict[str, list[DriftSample]]:
    """Gpus that lost 4 % with a driver and 30 % of one run long before."""
    old, new = (Epoch(Factors(driver=driver, torch="2.9"), CONDITIONS) for driver in ("580", "590"))
    before = [70.0, 100.0, 101.0, 99.0]
    after = [96.0, 97.0, 95.0, 80.0]
    return {
        f"gpu-{gpu}": [
            *[DriftSample(MONDAY + day * DAY, value, old) for day, value in enumerate(before)],
            *[DriftSample(MONDAY + (10 + day) * DAY, value, new) for day, value in enumerate(after)],
        ]
        for gpu in range(gpus)
    }


def test_an_upgrade_of_four_gpus_is_measured_between_three_runs_on_either_side() -> None:
    ((change, effect),) = epoch_effects(upgraded(4)).items()
    assert change == (Level("driver", "580"), Level("driver", "590"))
    assert (effect.n, effect.effect) == (4, pytest.approx(-0.04))


def test_an_upgrade_of_three_gpus_says_nothing() -> None:
    assert epoch_effects(upgraded(3)) == {}


def test_upgrades_are_found_in_reports() -> None:
    reports = [
        own
        for gpu in range(5)
        for own in [
            *with_factors(series(f"gpu-{gpu}", [100.0] * 6), Factors(driver="590"))[3:],
            *with_factors(series(f"gpu-{gpu}", [102.0] * 6), Factors(driver="580"))[:3],
        ]
    ]
    effects = upgrade_effects(by_gpu(reports, AS_OF))
    ((_, effect),) = effects[PI].items()
    assert effect.effect == pytest.approx(100 / 102 - 1)
    (notice,) = evaluate(Fleet(reports, upgrades=effects), AS_OF).notices
    assert (notice.kind, notice.roof, notice.effect) == ("upgrade", PI, effect.effect)
    assert "driver 580 to 590 changed 5 gpus by −2.0" in notice.text
