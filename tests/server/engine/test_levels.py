"""Factor levels and populations within a cohort."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fleetridge_server.engine.evidence import Factors, JudgedReport
from fleetridge_server.engine.notices import Notice
from support.judged import CONDITIONS, at_node, flagged, fleet, judged, report, series, with_factors

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
        *with_factors(noisy(100.0, 8, 0), Factors(driver="580", power_limit_w=700.0)),
        *with_factors(noisy(95.0, 8, 8), Factors(driver="590", power_limit_w=700.0)),
        *with_factors(noisy(80.0, 8, 16), Factors(driver="580", power_limit_w=500.0)),
        *with_factors(noisy(76.0, 8, 24), Factors(driver="590", power_limit_w=500.0)),
    ]
    found = judged(reports)
    assert [notice.kind for notice in found.notices] == ["factor_step"] * 3
    assert found.notices[0].levels[0].factor == "power_limit_w"
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


def test_a_setting_of_a_few_whole_nodes_is_told_with_their_names() -> None:
    capped, free = Factors(power_limit_w=500.0), Factors(power_limit_w=700.0)
    sound = [own for node in range(4) for own in at_node(noisy(100.0, 8, 8 * node), f"n{node}")]
    slow = at_node(with_factors(noisy(90.0, 8, 40), capped), "n7")
    reports = [*with_factors(sound, free), *slow]
    assert flagged(reports) == set()
    assert "power limit 500 W (8 gpus, all on node n7) differs from 700 W (32 gpus)" in only_notice(reports).text


def test_a_setting_that_gpus_of_one_node_do_not_share_names_no_node() -> None:
    reports = at_node(half_upgraded(), "n1")
    assert "node" not in only_notice(reports).text


def test_populations_over_many_nodes_name_some_of_them() -> None:
    slow = [own for place in range(12) for own in at_node(noisy(80.0, 1, place), f"s{place:02d}")]
    fast = [own for place in range(12, 24) for own in at_node(noisy(100.0, 1, place), f"f{place}")]
    text = only_notice([*slow, *fast]).text
    assert "(s00, s01, s02, s03, s04, s05, s06, s07 and 4 more)" in text
