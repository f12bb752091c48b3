"""Factor levels and populations within a cohort."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.notices import Notice
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect
from support.judged import AS_OF, CONDITIONS, DAY, PI, at_node, flagged, fleet, judged, report, series, with_factors

OLD, NEW = Factors(driver="580"), Factors(driver="590")
RNG = Random(3)  # noqa: S311 # noise


def noisy(center: float, count: int, start: int) -> list[JudgedReport]:
    """Gpus about a value, with 0.3 % noise."""
    return [
        own
        for place in range(start, start + count)
        for own in series(f"gpu-{place:02d}", [center * RNG.gauss(1, 0.003) for _ in range(3)])
    ]


def half_upgraded() -> list[JudgedReport]:
    """Thirty-two gpus, of which every other half has a driver 5 % slower."""
    return [*with_factors(noisy(100.0, 16, 0), OLD), *with_factors(noisy(95.0, 16, 16), NEW)]


def only_notice(reports: list[JudgedReport]) -> Notice:
    """The one notice of an evaluation."""
    (notice,) = judged(reports).notices
    return notice


def test_a_half_upgraded_fleet_is_one_notice_and_no_accusation() -> None:
    reports = half_upgraded()
    assert flagged(reports) == set()
    notice = only_notice(reports)
    assert notice.kind == "factor_step"
    assert notice.effect == pytest.approx(-0.05, abs=0.003)
    assert notice.low is not None
    assert notice.high is not None
    assert notice.low < -0.05 < notice.high < 0
    assert set(notice.gpu_ids) == {f"gpu-{place:02d}" for place in range(16, 32)}


def test_a_fault_shows_in_either_half_of_an_upgraded_fleet() -> None:
    reports = [
        *half_upgraded(),
        *with_factors(series("old", [94.0] * 3), OLD),
        *with_factors(series("new", [89.0] * 3), NEW),
    ]
    assert flagged(reports) == {"old", "new"}


def test_the_verdict_names_the_level_and_the_pooled_scale_that_it_rests_on() -> None:
    limits = judged(half_upgraded()).verdicts["gpu-20"][0].limits
    assert [(level.factor, level.name) for level in limits.levels] == [("driver", "590")]
    assert (limits.n, limits.pooled_n) == (16, 32)
    assert limits.median == pytest.approx(95.0, rel=0.003)


def test_levels_that_do_not_differ_are_not_told_apart() -> None:
    reports = [*with_factors(noisy(100.0, 8, 0), OLD), *with_factors(noisy(100.0, 8, 8), NEW)]
    found = judged(reports)
    assert found.notices == ()
    assert found.verdicts["gpu-00"][0].limits.n == 16


def test_three_gpus_make_no_level() -> None:
    reports = [*with_factors(noisy(100.0, 12, 0), OLD), *with_factors(noisy(80.0, 3, 12), NEW)]
    assert flagged(reports) == {"gpu-12", "gpu-13", "gpu-14"}


def test_a_gpu_of_a_rare_level_is_held_to_the_slowest_median() -> None:
    rare = with_factors([*series("fair", [94.0] * 3), *series("slow", [85.0] * 3)], Factors(driver="600"))
    assert flagged([*half_upgraded(), *rare]) == {"slow"}


def test_two_factors_are_told_one_by_one() -> None:
    reports = [
        *with_factors(noisy(100.0, 8, 0), Factors(driver="580", torch="2.9")),
        *with_factors(noisy(95.0, 8, 8), Factors(driver="590", torch="2.9")),
        *with_factors(noisy(80.0, 8, 16), Factors(driver="580", torch="2.8")),
        *with_factors(noisy(76.0, 8, 24), Factors(driver="590", torch="2.8")),
    ]
    found = judged(reports)
    assert [notice.kind for notice in found.notices] == ["factor_step"] * 3
    assert found.notices[0].levels[0].factor == "torch"
    assert {notice.levels[0].factor for notice in found.notices[1:]} == {"driver"}
    assert flagged(reports) == set()


def test_a_missing_reading_is_a_level_of_its_own() -> None:
    reports = [*with_factors(noisy(100.0, 8, 0), Factors(driver="580")), *noisy(90.0, 8, 8)]
    assert flagged(reports) == set()
    assert {level.name for level in only_notice(reports).levels} == {"580", "unknown"}


def test_one_name_for_two_products_is_said_once() -> None:
    reports = [*noisy(100.0, 10, 0), *noisy(60.0, 10, 10)]
    assert flagged(reports) == set()
    assert only_notice(reports).kind == "mixed_products"


def test_a_split_along_nodes_names_the_nodes() -> None:
    reports = [*at_node(noisy(100.0, 8, 0), "n1"), *at_node(noisy(80.0, 8, 8), "n2")]
    assert "(n2)" in only_notice(reports).text


def test_a_slow_quarter_is_no_population() -> None:
    reports = [*noisy(100.0, 24, 0), *noisy(85.0, 8, 24)]
    assert flagged(reports) == {f"gpu-{place:02d}" for place in range(24, 32)}


def test_gpus_of_another_size_are_another_cohort() -> None:
    small = [
        replace(own, conditions=replace(CONDITIONS, sm_count=80)) for own in fleet([60.0] * 5) if own.gpu_id > "gpu"
    ]
    reports = [*[replace(own, gpu_id=f"big-{own.gpu_id}") for own in fleet([100.0] * 5)], *small]
    assert flagged(reports) == set()
    assert only_notice(reports).kind == "mixed_products"


def test_wide_cohorts_are_said_to_be_wide() -> None:
    values = [100.0 + 8 * (place - 7.5) / 7.5 for place in range(16)]
    found = judged(fleet(values))
    assert "wide_cohort" in {notice.kind for notice in found.notices}


def test_mixed_ecc_without_a_step_is_said_all_the_same() -> None:
    on, off = Factors(ecc_enabled=True), Factors(ecc_enabled=False)
    reports = [*with_factors(fleet([100.0] * 8), on), *with_factors([report("odd", 100.0)], off)]
    notice = only_notice(reports)
    assert (notice.kind, notice.gpu_ids) == ("mixed_ecc", ("odd",))
    assert notice.text == "ECC is on for 8 gpus and off for 1, too few to tell a difference"


def test_mixed_ecc_is_said_once_whatever_the_number_of_roofs() -> None:
    def gpu(number: int, beta: float, *, ecc: bool) -> list[JudgedReport]:
        return with_factors([report(f"g{number}", 100.0, beta=beta)], Factors(ecc_enabled=ecc))

    alike = [own for number in range(10) for own in gpu(number, 600.0, ecc=number < 5)]
    assert only_notice(alike).text == "ECC is on for 5 gpus and off for 5, without a clear difference"
    slower = [own for number in range(10) for own in gpu(number, 600.0 if number < 5 else 650.0, ecc=number < 5)]
    assert only_notice(slower).effect == pytest.approx(600 / 650 - 1)


def on_nodes(center: float, nodes: int, start: int, factors: Factors, *, per_node: int = 4) -> list[JudgedReport]:
    """Whole nodes with these settings."""
    gpus = noisy(center, nodes * per_node, start)
    runs = 3 * per_node
    return with_factors(
        [
            own
            for number in range(nodes)
            for own in at_node(gpus[number * runs : (number + 1) * runs], f"n{start + number:03}")
        ],
        factors,
    )


def test_a_version_of_three_nodes_is_a_step_and_nobody_is_accused() -> None:
    reports = [*on_nodes(100.0, 6, 0, OLD), *on_nodes(95.0, 3, 40, NEW)]
    assert flagged(reports) == set()
    assert "driver 590 (12 gpus, all on nodes n040, n041 and n042)" in only_notice(reports).text


def test_a_version_of_two_nodes_is_no_excuse_for_these_nodes() -> None:
    reports = [*on_nodes(100.0, 7, 0, OLD), *on_nodes(93.0, 2, 40, NEW)]
    assert flagged(reports) == {f"gpu-{place:02d}" for place in range(40, 48)}
    assert judged(reports).notices == ()
    assert {slow.place.name for slow in judged(reports).nodes} == {"n040", "n041"}


def test_a_step_of_less_than_the_gate_is_none() -> None:
    reports = [*on_nodes(100.0, 6, 0, OLD), *on_nodes(98.0, 6, 40, NEW)]
    assert only_limits(reports) == {()}


def only_limits(reports: list[JudgedReport]) -> set[tuple[str, ...]]:
    """Names of the levels by which gpus are judged."""
    verdicts = [own for found in judged(reports).verdicts.values() for own in found]
    return {tuple(level.name for level in own.limits.levels) for own in verdicts}


def test_a_step_that_gpus_met_in_place_needs_no_three_nodes() -> None:
    before = [replace(own, ordered_at=own.ordered_at - 10 * DAY) for own in on_nodes(100.0, 2, 0, OLD)]
    after = [replace(own, report_id=f"{own.report_id}+") for own in on_nodes(95.0, 2, 0, NEW)]
    stayed = on_nodes(100.0, 2, 40, OLD)
    met = {
        PI: {EpochChange(Level("driver", "580"), Level("driver", "590")): PairedEffect(8, -0.05, -0.055, -0.045, 0.95)}
    }
    found = evaluate(Fleet([*before, *after, *stayed], upgrades=met), AS_OF)
    assert {own.state for own in found.states.values()} == {"ok"}
    assert [notice.kind for notice in found.notices] == ["factor_step", "upgrade"]


CAPPED = Factors(power_limit_w=490.0)
FREE = Factors(power_limit_w=700.0)


def with_default(reports: list[JudgedReport], watts: float | None = 700.0) -> list[JudgedReport]:
    """The same reports of boards that say what they were sold with."""
    return [replace(own, health=GpuHealth(power_limit_default_w=watts)) for own in reports]


@pytest.mark.parametrize("default_w", [700.0, None])
@pytest.mark.parametrize("capped", [1, 2, 4, 6, 16])
def test_the_more_gpus_share_a_power_limit_the_more_are_found(capped: int, default_w: float | None) -> None:
    """However many share it, they are never the measure of themselves."""
    reports = [*with_factors(noisy(100.0, 40, 0), FREE), *with_factors(noisy(93.0, capped, 50), CAPPED)]
    found = judged(with_default(reports, default_w))
    assert flagged(with_default(reports, default_w)) == {f"gpu-{place}" for place in range(50, 50 + capped)}
    assert {state.state for gpu, state in found.states.items() if gpu >= "gpu-50"} == {"outlier"}
    assert [slow.setting.name for slow in found.settings] == ([] if capped == 1 else ["490"])


def test_a_setting_says_what_its_gpus_cost_together() -> None:
    reports = [*with_factors(noisy(100.0, 40, 0), FREE), *with_factors(noisy(93.0, 6, 50), CAPPED)]
    (slow,) = judged(with_default(reports)).settings
    assert slow.cost_gpus == pytest.approx(6 * 0.07, rel=0.05)


def test_a_limit_that_costs_nothing_accuses_nobody() -> None:
    reports = [*with_factors(noisy(100.0, 20, 0), FREE), *with_factors(noisy(100.0, 6, 50), CAPPED)]
    assert flagged(with_default(reports)) == set()
    assert judged(with_default(reports)).verdicts["gpu-50"][0].limits.n == 26


def test_boards_that_were_sold_with_other_limits_are_judged_among_their_own() -> None:
    small = with_default(on_nodes(85.0, 4, 40, Factors(power_limit_w=600.0)), 600.0)
    large = with_default(on_nodes(100.0, 8, 0, FREE), 700.0)
    assert flagged([*small, *large]) == set()


def test_where_almost_all_have_a_setting_nobody_is_accused_for_it() -> None:
    reports = [*with_factors(noisy(100.0, 4, 0), FREE), *with_factors(noisy(93.0, 36, 50), CAPPED)]
    assert flagged(with_default(reports)) == set()


def test_a_setting_that_gpus_of_one_node_do_not_share_names_no_node() -> None:
    reports = at_node(half_upgraded(), "n1")
    assert "n1" not in only_notice(reports).text


def test_populations_over_many_nodes_name_some_of_them() -> None:
    slow = [own for place in range(12) for own in at_node(noisy(80.0, 1, place), f"s{place:02d}")]
    fast = [own for place in range(12, 24) for own in at_node(noisy(100.0, 1, place), f"f{place}")]
    text = only_notice([*slow, *fast]).text
    assert "(s00, s01, s02, s03, s04, s05, s06, s07 and 4 more)" in text
