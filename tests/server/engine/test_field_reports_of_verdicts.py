"""Situations that people met with their own fleets, each by the numbers that they gave."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from fleetridge.report import RoofKey
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.nodes import NodeRoster
from support.judged import (
    AS_OF,
    BETA,
    CONDITIONS,
    H2D,
    MONDAY,
    PI,
    at_node,
    flagged,
    fleet,
    judged,
    reading,
    report,
    series,
    states,
    with_factors,
)


def with_pi(own: JudgedReport, pi: RoofReading) -> JudgedReport:
    """The same report with another reading of pi."""
    return replace(own, roofs={**own.roofs, PI: pi})


def test_one_of_four_held_at_half_its_power_is_flagged_for_its_power() -> None:
    values = [(13.6, 297.0), (13.7, 298.0), (13.5, 296.0), (8.1, 150.0)]
    reports = [
        with_pi(report(f"g{place}", beta=790.0), RoofReading(pi, converged=True, power_w=power))
        for place, (pi, power) in enumerate(values)
    ]
    evaluation = judged(at_node(reports, "n1"))
    assert {gpu for gpu, own in evaluation.states.items() if own.is_flagged} == {"g3"}
    first = explanations(evaluation)["g3"][0].reasons[0]
    assert (first.code, first.text) == ("power_draw_lower", "power draw 150 W, peers 296 W")


def test_a_gpu_at_a_third_is_an_outlier_at_once_though_telemetry_is_clean() -> None:
    values = [1500.0, 1490.0, 1510.0, 1495.0, 1505.0, 1512.0, 1488.0, 511.0]
    assert states(fleet(values))["gpu-07"] == "outlier"


def test_a_low_clock_alone_is_no_verdict() -> None:
    hot = RoofReading(99.0, converged=True, sm_clock_mhz=1120.0, temperature_c=91.0)
    cool = RoofReading(100.0, converged=True, sm_clock_mhz=1400.0, temperature_c=65.0)
    reports = [with_pi(own, cool) for own in fleet([1.0] * 7)]
    assert flagged([*reports, with_pi(report("hot"), hot)]) == set()


def test_a_software_power_cap_on_all_flags_none() -> None:
    reports = [
        with_pi(own, RoofReading(100.0 + place / 10, converged=True, throttle_ms={"sw_power_cap": 900.0}))
        for place, own in enumerate(fleet([1.0] * 8))
    ]
    assert flagged(reports) == set()


def test_a_clock_read_while_idle_flags_none() -> None:
    reports = [with_pi(own, RoofReading(100.0, converged=True, sm_clock_mhz=1400.0)) for own in fleet([1.0] * 7)]
    idle = with_pi(report("idle"), RoofReading(100.0, converged=True, sm_clock_mhz=210.0))
    assert states([*reports, idle])["idle"] == "ok"


def test_runs_that_collapse_now_and_then_are_flagged_as_intermittent() -> None:
    values = [100.0, 10.0, 100.0, 100.0, 10.0, 100.0, 100.0, 10.0, 100.0, 100.0]
    evaluation = judged([*fleet([100.0] * 9), *series("odd", values)])
    assert evaluation.states["odd"].is_flagged
    assert evaluation.verdicts["odd"][0].finding.intermittent
    assert "intermittent" in {reason.code for reason in explanations(evaluation)["odd"][0].reasons}


def test_a_slow_link_is_flagged_as_a_link_and_not_as_a_gpu() -> None:
    rates = [14.2, 57.1, 56.7, 57.1]
    reports = [
        replace(report(f"g{place}"), roofs={PI: reading(100.0), BETA: reading(790.0), H2D: reading(rate)})
        for place, rate in enumerate(rates)
    ]
    evaluation = judged(reports)
    assert {own.state for own in evaluation.states.values()} == {"ok"}
    assert [verdict.cohort.roof for verdict in evaluation.verdicts["g0"] if verdict.is_accused] == [H2D]


def test_a_link_generation_read_at_idle_flags_none() -> None:
    idle = GpuHealth(pcie_generation=1, pcie_generation_max=3)
    assert flagged([replace(own, health=idle) for own in fleet([100.0] * 4)]) == set()


def test_mixed_ecc_is_one_notice_and_no_slow_gpu() -> None:
    on = with_factors([report(f"on-{place}", beta=620.0) for place in range(5)], Factors(ecc_enabled=True))
    off = with_factors([report(f"off-{place}", beta=680.0) for place in range(5)], Factors(ecc_enabled=False))
    assert flagged([*on, *off]) == set()
    assert [notice.kind for notice in judged([*on, *off]).notices] == ["mixed_ecc"]


def test_a_pending_repair_is_told_and_past_repairs_are_not() -> None:
    def told(health: GpuHealth) -> set[str]:
        odd = [replace(own, health=health) for own in series("odd", [90.0] * 3)]
        (explanation,) = explanations(judged([*fleet([100.0] * 9), *odd]))["odd"]
        return {reason.code for reason in explanation.reasons}

    assert "remapped_rows_pending" in told(GpuHealth(remapped_rows_pending=True))
    assert "remapped_rows_pending" not in told(GpuHealth(remapped_rows_pending=False, remapped_rows_uncorrectable=4))
    assert "remapped_rows_pending" not in told(GpuHealth())
    assert (
        flagged([replace(own, health=GpuHealth(remapped_rows_uncorrectable=4)) for own in fleet([100.0] * 8)]) == set()
    )


def test_a_name_over_two_sizes_is_mixed_products_and_no_broken_half() -> None:
    halves = [(304, 100.0), (80, 30.0)]
    reports = [
        replace(report(f"g{units}-{place}", value), conditions=replace(CONDITIONS, sm_count=units))
        for units, value in halves
        for place in range(4)
    ]
    assert flagged(reports) == set()
    assert [notice.kind for notice in judged(reports).notices] == ["mixed_products"]


def test_a_slice_is_not_compared_with_whole_cards() -> None:
    sliced = replace(report("mig", 14.0), conditions=replace(CONDITIONS, mig_profile="1g.5gb"))
    assert states([*fleet([100.0] * 8), sliced])["mig"] == "insufficient_peers"


def test_partitions_of_one_host_are_compared_among_themselves() -> None:
    parts = [
        replace(report(f"cpx-{place:02d}", beta=500.0), conditions=replace(CONDITIONS, partition="CPX/NPS4"))
        for place in range(64)
    ]
    whole = [report(f"spx-{place}", beta=4000.0) for place in range(8)]
    assert set(states([*parts, *whole]).values()) == {"ok"}


def test_shared_replicas_of_one_gpu_are_one_gpu_and_move_no_median() -> None:
    shared = [replace(report("shared", 33.0), report_id=f"pod-{pod}", contended=True) for pod in range(3)]
    evaluation = judged([*fleet([100.0] * 5), *shared])
    assert evaluation.states["shared"].state == "contended"
    assert evaluation.verdicts["gpu-00"][0].limits.n == 5


def test_a_result_beside_another_process_is_contended_and_not_slow() -> None:
    taken = replace(report("taken", 30.0), contended=True)
    evaluation = judged([*fleet([100.0] * 8), taken])
    assert evaluation.states["taken"].state == "contended"
    assert evaluation.verdicts["gpu-00"][0].limits.median == 100.0


def test_a_gpu_that_cannot_be_measured_is_not_healthy() -> None:
    for reason in ("nvml_unknown_error", "driver_library_mismatch", "cuda_not_ready"):
        failed = replace(report("odd"), outcome="failed", reason=reason)
        assert states([*fleet([100.0] * 8), failed])["odd"] == "unmeasured"


def test_a_node_that_came_back_with_seven_of_eight_misses_one() -> None:
    ids = [f"g{place}" for place in range(8)]
    first = at_node([report(gpu, 100.0, days_ago=1) for gpu in ids], "n1")
    second = at_node([report(gpu, 100.0) for gpu in ids[:7]], "n1")
    roster = NodeRoster(NodeName("east", "n1"), MONDAY, frozenset(ids[:7]), complete=True)
    found = evaluate(Fleet([*first, *second], rosters=[roster]), AS_OF)
    assert [gpu for gpu, own in found.states.items() if own.state == "missing"] == ["g7"]


def test_a_bandwidth_above_the_silicon_is_implausible_and_moves_no_median() -> None:
    wrong = replace(report("odd"), roofs={BETA: RoofReading(3868.0, converged=True, implausible=True)})
    evaluation = judged([*[report(f"g{place}", beta=920.0) for place in range(5)], wrong])
    assert evaluation.states["odd"].state == "implausible"
    assert {own.state for gpu, own in evaluation.states.items() if gpu != "odd"} == {"ok"}
    assert evaluation.verdicts["g0"][0].limits.median == 920.0


def test_a_product_without_synchronisation_is_implausible() -> None:
    wrong = with_pi(report("odd"), RoofReading(3000.0, converged=True, implausible=True))
    assert states([*fleet([80.0] * 5), wrong])["odd"] == "implausible"


def test_precision_modes_are_never_compared() -> None:
    def own(gpu: str, dtype: str, value: float) -> JudgedReport:
        key = RoofKey("compute", dtype, None, None, "burst", "device", "gemm_reference")
        return replace(report(gpu), roofs={key: reading(value)})

    reports = [
        own(f"{dtype}-{place}", dtype, value)
        for dtype, value in (("tf32", 120.0), ("float32", 19.0), ("float32_or_tf32", 60.0))
        for place in range(5)
    ]
    assert flagged(reports) == set()
    assert {verdicts[0].limits.n for verdicts in judged(reports).verdicts.values()} == {5}


def test_another_fill_is_another_cohort() -> None:
    zeros = replace(report("zeros", 750.0), conditions=replace(CONDITIONS, fill="zeros"))
    evaluation = judged([*fleet([660.0] * 8), zeros])
    assert evaluation.states["zeros"].state == "insufficient_peers"
    assert evaluation.verdicts["gpu-00"][0].limits.n == 8


def test_a_whole_model_below_its_datasheet_is_one_notice() -> None:
    reports = [report(f"g{place}", beta=1116.0 + place / 10) for place in range(8)]
    evaluation = evaluate(Fleet(reports, published={BETA: 4800.0}), AS_OF)
    assert not any(own.is_flagged for own in evaluation.states.values())
    assert [notice.kind for notice in evaluation.notices] == ["below_published"]


def test_an_outlier_is_found_where_all_others_are_equal() -> None:
    assert flagged(fleet([10.0] * 9 + [7.0])) == {"gpu-09"}
    assert flagged(fleet([1000.0] * 5 + [100.0])) == {"gpu-05"}


def test_equal_values_flag_none() -> None:
    assert flagged(fleet([10.0] * 10)) == set()


def test_the_same_data_gives_the_same_verdict_in_any_order() -> None:
    rng = Random(5)  # noqa: S311 # an order
    reports = [own for gpu in range(20) for own in series(f"g{gpu}", [rng.gauss(100, 4) for _ in range(10)])]
    before = judged(reports)
    for _ in range(10):
        rng.shuffle(reports)
        assert judged(reports) == before


def test_a_node_that_is_slow_as_a_whole_is_seen_over_the_fleet() -> None:
    reports = [
        own
        for node in range(10)
        for place in range(4)
        for own in at_node(series(f"g{node}-{place}", [88.0 if node == 3 else 100.0] * 2), f"n{node}")
    ]
    evaluation = judged(reports)
    assert {gpu for gpu, own in evaluation.states.items() if own.is_flagged} == {f"g3-{place}" for place in range(4)}
    assert [slow.place.name for slow in evaluation.nodes] == ["n3"]
    told = explanations(evaluation)["g3-0"][0].reasons
    assert "whole_node" in {reason.code for reason in told}
    assert "alone" not in {reason.code for reason in told}
