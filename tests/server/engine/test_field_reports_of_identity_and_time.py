"""Situations that people met with names, nodes, clocks and readings that are not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.plausibility import Silicon, is_implausible
from support.judged import (
    AS_OF,
    BETA,
    CONDITIONS,
    DAY,
    MONDAY,
    PI,
    at_node,
    flagged,
    fleet,
    judged,
    report,
    series,
    states,
)


def on_node(own: JudgedReport, name: str, cluster: str = "east") -> JudgedReport:
    """The same report from a node of a cluster."""
    return replace(own, node=NodeName(cluster, name), report_id=f"{own.report_id}-{cluster}-{name}")


def test_a_rate_that_falls_within_each_run_is_told_as_falling() -> None:
    """6.6, 6.6, 6.5, 5.6, 5.5, 5.5 TFLOP/s: what a gpu holds counts, with its fall beside it."""
    falling = RoofReading(5.5, converged=False, trend=5.5 / 6.6 - 1)
    steady = RoofReading(6.55, converged=True, trend=0.0)
    reports = [replace(own, roofs={PI: steady}) for own in fleet([1.0] * 8, runs=2)]
    odd = [replace(own, roofs={PI: falling}) for own in series("odd", [1.0] * 2)]
    evaluation = judged([*reports, *odd])
    assert {gpu for gpu, own in evaluation.states.items() if own.is_flagged} == {"odd"}
    assert explanations(evaluation)["odd"][0].reasons[0].code == "falling_within_run"


def test_a_cap_by_software_that_only_one_gpu_has_is_no_reason_by_itself() -> None:
    reports = [replace(own, roofs={PI: RoofReading(100.0, throttle_ms={})}) for own in fleet([1.0] * 8)]
    capped = replace(report("odd"), roofs={PI: RoofReading(90.0, converged=True, throttle_ms={"sw_power_cap": 900.0})})
    (explanation,) = explanations(judged([*reports, capped]))["odd"]
    assert not any(reason.is_cause for reason in explanation.reasons)


def test_an_idle_throttle_reason_and_an_idle_link_flag_none() -> None:
    idle = RoofReading(100.0, converged=True, sm_clock_mhz=210.0, throttle_ms={"gpu_idle": 5000.0})
    odd = replace(report("odd"), roofs={PI: idle}, health=GpuHealth(pcie_generation=1, pcie_generation_max=3))
    assert states([*fleet([100.0] * 7), odd])["odd"] == "ok"


def test_a_model_that_no_table_knows_is_compared_with_its_like_all_the_same() -> None:
    evaluation = evaluate(Fleet(fleet([100.0] * 8 + [80.0], runs=3), published={}), AS_OF)
    assert evaluation.states["gpu-08"].state == "outlier"
    assert evaluation.notices == ()


def test_two_products_of_one_name_and_unknown_size_are_mixed_products() -> None:
    """A part with 304 compute units beside one with 80, where the count was not sent."""
    unknown = replace(CONDITIONS, sm_count=None)
    reports = [replace(own, conditions=unknown) for own in fleet([100.0] * 4 + [30.0] * 4, runs=3)]
    assert flagged(reports) == set()
    assert [notice.kind for notice in judged(reports).notices] == ["mixed_products"]


def test_cards_of_another_memory_size_are_compared_apart() -> None:
    """One architecture without a name, 32 and 64 GB: two groups."""
    reports = [
        replace(report(f"g{size}-{place}", rate), conditions=replace(CONDITIONS, memory_bytes=size * 2**30))
        for size, rate in ((32, 100.0), (64, 180.0))
        for place in range(4)
    ]
    evaluation = judged(reports)
    assert {verdicts[0].limits.n for verdicts in evaluation.verdicts.values()} == {4}
    assert {own.state for own in evaluation.states.values()} == {"ok"}


def test_ids_that_agree_in_their_first_45_characters_are_two_gpus() -> None:
    ids = [f"MIG-GPU-{'a' * 37}-{slice_}/0" for slice_ in (7, 8)]
    assert set(judged([report(gpu, 10.0) for gpu in ids]).states) == set(ids)


def test_an_unsupported_mode_is_unmeasured_and_never_slow() -> None:
    own = replace(report("odd"), outcome="unsupported", reason="mig_without_slice")
    assert states([*fleet([100.0] * 8), own])["odd"] == "unmeasured"


def test_a_gpu_that_was_only_ever_skipped_is_unmeasured() -> None:
    own = [replace(turn, outcome="skipped", reason="busy", roofs={}) for turn in series("odd", [1.0] * 4)]
    assert states([*fleet([100.0] * 8), *own])["odd"] == "unmeasured"


def test_readings_that_are_not_there_are_no_reason_and_no_difference() -> None:
    bare = fleet([100.0] * 8, runs=3)
    odd = [
        replace(own, roofs={PI: RoofReading(90.0, power_w=None, temperature_c=41.0)})
        for own in series("odd", [1.0] * 3)
    ]
    (explanation,) = explanations(judged([*bare, *odd]))["odd"]
    assert "not_explained" in {reason.code for reason in explanation.reasons}
    assert [reason for reason in explanation.reasons if reason.is_cause] == []


def test_slightly_above_the_published_peak_is_a_note_and_no_fault() -> None:
    assert not is_implausible(1.14 * 1008.0, BETA, Silicon(), 1008.0)
    reports = [report(f"g{place}", beta=value) for place, value in enumerate([1000.0, 1001.0, 999.0, 1000.0, 1149.0])]
    evaluation = evaluate(Fleet(reports, published={BETA: 1008.0}), AS_OF)
    assert {own.state for own in evaluation.states.values()} == {"ok"}
    assert [(notice.kind, notice.gpu_ids) for notice in evaluation.notices] == [("above_published", ("g4",))]


def test_a_report_from_the_future_counts_when_its_time_has_come() -> None:
    ahead = replace(report("gpu-00", 40.0), ordered_at=MONDAY + 3 * DAY, report_id="ahead")
    reports = [*fleet([100.0] * 8, runs=3), ahead]
    assert judged(reports) == judged(reports[:-1])
    later = evaluate(Fleet(reports), MONDAY + 3 * DAY + timedelta(hours=1))
    assert later.states["gpu-00"].is_flagged


def test_times_of_any_zone_stand_in_their_true_order() -> None:
    """08:30+09:00 is half an hour before midnight UTC: the slow run is the older one."""
    zone = timezone(timedelta(hours=9))
    slow = replace(report("odd", 90.0), ordered_at=datetime(2026, 1, 5, 8, 30, tzinfo=zone), report_id="a")
    well = [
        replace(report("odd", 100.0), ordered_at=datetime(2026, 1, 5, hour, tzinfo=timezone.utc), report_id=f"b{hour}")
        for hour in (0, 2)
    ]
    assert states([*fleet([100.0] * 8), *well, slow])["odd"] == "ok"


def test_a_gpu_keeps_one_history_when_its_node_changes_its_name() -> None:
    runs = series("odd", [90.0] * 3)
    names = ["agent-abcde", "agent-fghij", "agent-klmno"]
    evaluation = judged([*fleet([100.0] * 8), *[on_node(own, name) for own, name in zip(runs, names, strict=True)]])
    assert evaluation.states["odd"].state == "outlier"
    assert evaluation.verdicts["odd"][0].member.newest.report.node == NodeName("east", "agent-klmno")


def test_two_machines_of_one_name_are_two_gpus_by_their_ids() -> None:
    evaluation = judged([on_node(own, "localhost") for own in fleet([100.0, 99.0])])
    assert set(evaluation.states) == {"gpu-00", "gpu-01"}


def test_nodes_of_one_name_in_two_clusters_are_two_nodes() -> None:
    sound = [
        own for name in "abcdef" for place in range(4) for own in at_node(series(f"{name}{place}", [100.0] * 2), name)
    ]
    east = [on_node(own, "n01", "east") for place in range(4) for own in series(f"e{place}", [100.0] * 2)]
    west = [on_node(own, "n01", "west") for place in range(4) for own in series(f"w{place}", [85.0] * 2)]
    assert [slow.place for slow in judged([*sound, *east, *west]).nodes] == [NodeName("west", "n01")]


@pytest.mark.parametrize("copies", [2, 3])
def test_a_report_that_came_several_times_witnesses_once(copies: int) -> None:
    """Replicas of one run within minutes of each other are one look at the gpu."""
    once = report("odd", 90.0)
    again = [replace(once, ordered_at=once.ordered_at - timedelta(minutes=turn)) for turn in range(copies)]
    assert states([*fleet([100.0] * 8, runs=3), *again])["odd"] == "suspect"


def test_a_swap_that_costs_nothing_is_not_told_as_a_step() -> None:
    """A setting that differs without an effect explains nothing and splits nothing."""
    reports = [
        replace(own, factors=Factors(vbios=f"{place % 2}"))
        for place in range(16)
        for own in series(f"g{place:02d}", [100.0 + place % 3 / 10] * 3)
    ]
    assert judged(reports).notices == ()
