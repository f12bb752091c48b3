"""Rates that no silicon of the kind can have, by what the peers do; and slow gpus that lie together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.judged import CONDITIONS, at_node, fleet, judged, report, series


@pytest.mark.parametrize(
    ("usual", "odd"), [(920.0, 3868.0), (100.0, 4500.0), (1492.0, 1_492_000.0), (1492.0, 1.492), (6500.0, 6.5)]
)
def test_a_rate_far_from_the_peers_is_implausible_and_moves_no_median(usual: float, odd: float) -> None:
    """Too fast is a wrong measurement, a thousandth is a unit."""
    found = judged(at_node([*fleet([usual] * 5, runs=3), *series("odd", [odd] * 3)], "n1"))
    assert found.states["odd"].state == "implausible"
    assert {state.state for gpu, state in found.states.items() if gpu != "odd"} == {"ok"}
    assert found.verdicts["gpu-00"][0].limits.n == 5


@pytest.mark.parametrize("odd", [35.0, 100.0 / 3, 10.0, 1.0])
def test_a_slow_gpu_is_slow_however_slow_it_is(odd: float) -> None:
    found = judged([*fleet([100.0] * 9, runs=3), *series("odd", [odd] * 3)])
    assert found.states["odd"].state == "outlier"


def test_two_products_of_one_name_are_not_implausible() -> None:
    found = judged(
        [*fleet([100.0] * 8, runs=3), *[replace(own, gpu_id=f"x{own.gpu_id}") for own in fleet([250.0] * 8)]]
    )
    assert "implausible" not in {own.state for own in found.states.values()}


def test_reports_that_call_themselves_unstable_accuse_nobody_and_move_no_median() -> None:
    shaky = [replace(own, health=replace(own.health, unstable=True)) for own in series("odd", [60.0] * 3)]
    peers = fleet([100.0] * 9, runs=3)
    found = judged([*peers, *shaky])
    (verdict,) = found.verdicts["odd"]
    assert (found.states["odd"].state, verdict.finding.retest, verdict.limits.n) == ("ok", True, 9)
    steady = judged([*peers, *shaky, report("odd", 100.0, days_ago=-0.01)])
    assert (steady.states["odd"].state, steady.verdicts["odd"][0].member.value) == ("ok", 100.0)


def test_where_all_reports_call_themselves_unstable_they_are_what_is_shown() -> None:
    shaky = [replace(own, health=replace(own.health, unstable=True)) for own in series("odd", [60.0] * 3)]
    (verdict,) = judged(shaky).verdicts["odd"]
    assert (verdict.member.value, verdict.counted) == (60.0, True)


def test_slow_gpus_that_lie_together_are_said_to() -> None:
    reports = [
        *fleet([20.0] * 13, runs=3),
        *[own for n in range(7) for own in series(f"slow-{n}", [16.0 + n / 100] * 3)],
    ]
    (notice,) = [own for own in judged(reports).notices if own.kind == "slow_cluster"]
    assert len(notice.gpu_ids) == 7
    assert "7 gpus that are slow lie together" in notice.text


def test_slow_gpus_that_differ_are_not_said_to_lie_together() -> None:
    slow = [own for n in range(5) for own in series(f"slow-{n}", [90.0 - 5 * n] * 3)]
    assert "slow_cluster" not in {own.kind for own in judged([*fleet([100.0] * 30, runs=3), *slow]).notices}


def test_nothing_published_is_held_against_a_part_of_a_card() -> None:
    """Slices of an A100 and partitions of a card reach a part of its peak because they are one."""
    part = replace(CONDITIONS, mig_profile="1g.5gb", sm_count=14)
    reports = [replace(own, conditions=part) for own in fleet([36.0] * 14, runs=3)]
    assert judged(reports, published_tflops=312.0).notices == ()
    assert [own.kind for own in judged(fleet([36.0] * 14, runs=3), published_tflops=312.0).notices] == [
        "below_published"
    ]
