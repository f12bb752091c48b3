"""Why a gpu is slow: the first reason, what it rests on, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, RoofReading
from fleetridge_server.engine.explanation import Explanation, explanations, ranked_reasons
from fleetridge_server.engine.peer_readings import peers_of
from fleetridge_server.engine.reasons import reasons
from fleetridge_server.engine.remedies import REMEDIES, Reason
from fleetridge_server.engine.wording import Fact
from support.judged import AS_OF, BETA, H2D, PI, at_node, series

FACTORS = Factors("580", "2.9", "13.0", 700.0, ecc_enabled=True, vbios="96")
HEALTH = GpuHealth(remapped_rows_pending=False, pcie_generation=5, pcie_width=16)
PI_READING = RoofReading(
    800.0,
    converged=True,
    trend=0.0,
    sm_clock_mhz=1500.0,
    memory_clock_mhz=3200.0,
    power_w=690.0,
    temperature_c=65.0,
    throttle_ms={"sw_power_cap": 900.0},
)
BETA_READING = RoofReading(4000.0, converged=True, memory_clock_mhz=3200.0)
LINK_READING = RoofReading(55.0, converged=True)

Change = Callable[[JudgedReport], JudgedReport]


def like(own: JudgedReport) -> JudgedReport:
    """The same report with every reading that a sound gpu has."""
    return replace(own, factors=FACTORS, health=HEALTH, roofs={PI: PI_READING, BETA: BETA_READING, H2D: LINK_READING})


PEERS = [like(own) for place in range(9) for own in at_node(series(f"gpu-{place}", [1.0] * 3), f"n{place // 4}")]


def told(change: Change, *, drift: Drift | None = None) -> list[Reason]:
    """Reasons for the first verdict of a gpu that is as its peers but for a change."""
    odd = [change(like(own)) for own in at_node(series("odd", [1.0] * 3), "n2")]
    drifts = {} if drift is None else {"odd": {PI: drift}}
    found = explanations(evaluate(Fleet([*PEERS, *odd], drifts=drifts), AS_OF), drifts)
    assert set(found) == {"odd"}
    return list(found["odd"][0].reasons)


def pi(**readings: object) -> Change:
    """A change of pi, by a tenth unless told otherwise, and of what is read beside it."""

    def change(own: JudgedReport) -> JudgedReport:
        reading = replace(PI_READING, **{"value": 720.0, **readings})  # type: ignore[arg-type] # by name
        return replace(own, roofs={**own.roofs, PI: reading})

    return change


def beta(**readings: object) -> Change:
    """The same for beta."""

    def change(own: JudgedReport) -> JudgedReport:
        reading = replace(BETA_READING, **{"value": 3600.0, **readings})  # type: ignore[arg-type] # by name
        return replace(own, roofs={**own.roofs, BETA: reading})

    return change


def link() -> Change:
    """The same for the rate of a link that lost half of its lanes."""

    def change(own: JudgedReport) -> JudgedReport:
        roofs = {**own.roofs, H2D: RoofReading(27.0, converged=True)}
        return replace(own, roofs=roofs, health=replace(HEALTH, pcie_width=8))

    return change


def both(first: Change, **parts: object) -> Change:
    """A change of a reading, and of the report."""
    return lambda own: replace(first(own), **parts)  # type: ignore[arg-type] # by name


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            both(pi(sm_clock_mhz=1350.0, power_w=490.0), factors=FACTORS._replace(power_limit_w=500.0)),
            "power_limit_lower",
        ),
        (pi(sm_clock_mhz=1350.0), "clock_lower"),
        (pi(sm_clock_mhz=1350.0, throttle_ms={"sw_thermal_slowdown": 500.0}), "thermal"),
        (pi(sm_clock_mhz=1350.0, temperature_c=88.0), "thermal"),
        (pi(throttle_ms={"hw_power_brake_slowdown": 300.0}), "power_brake"),
        (pi(trend=-0.12), "falling_within_run"),
        (both(pi(), factors=FACTORS._replace(driver="535")), "software_differs"),
        (link(), "pcie_slower"),
        (beta(memory_clock_mhz=2600.0), "memory_clock_lower"),
        (both(beta(), factors=FACTORS._replace(ecc_enabled=False)), "ecc_differs"),
        (both(beta(), health=replace(HEALTH, remapped_rows_pending=True)), "remapped_rows_pending"),
    ],
)
def test_the_first_reason_is_the_fault(change: Change, expected: str) -> None:
    first = told(change)[0]
    assert first.code == expected
    assert first.is_cause
    assert first.facts
    assert first.next_step == REMEDIES[first.code].next_step


def codes(change: Change) -> list[str]:
    """Codes of all reasons."""
    return [reason.code for reason in told(change)]


def test_what_no_reading_explains_is_said_first_to_be_unexplained() -> None:
    assert codes(pi())[0] == codes(beta())[0] == "not_explained"


def without_clocks(own: JudgedReport) -> JudgedReport:
    """A gpu whose driver tells no clock."""
    bare = {roof: replace(reading, sm_clock_mhz=None) for roof, reading in own.roofs.items()}
    return replace(own, roofs=bare)


def told_without_clocks(change: Change) -> list[Reason]:
    """Reasons in a fleet whose drivers tell no clock."""
    odd = [without_clocks(change(like(own))) for own in at_node(series("odd", [1.0] * 3), "n2")]
    return list(explanations(evaluate(Fleet([*map(without_clocks, PEERS), *odd]), AS_OF))["odd"][0].reasons)


@pytest.mark.parametrize("change", [pi(power_w=480.0), pi(power_w=640.0), beta(power_w=480.0)])
def test_a_gpu_that_draws_less_at_full_clock_waits_for_work_and_is_not_capped(change: Change) -> None:
    def drawing(own: JudgedReport) -> JudgedReport:
        read = own.roofs[BETA]
        full = {"sm_clock_mhz": 1500.0, "power_w": read.power_w or 690.0}
        return replace(own, roofs={**own.roofs, BETA: replace(read, **full)})  # type: ignore[arg-type] # by name

    odd = [drawing(change(like(own))) for own in at_node(series("odd", [1.0] * 3), "n2")]
    first, *others = explanations(evaluate(Fleet([*map(drawing, PEERS), *odd]), AS_OF))["odd"][0].reasons
    assert first.code == "waits_for_work"
    assert not first.is_cause
    assert first.explains is None
    assert "of its peers' power at the same clock: it waits for work" in first.text
    assert "what feeds it" in first.next_step
    assert not {"power_draw_lower", "not_explained"} & {reason.code for reason in others}
    assert not any(reason.is_cause for reason in others)


def test_how_much_less_it_draws_is_told_with_the_readings() -> None:
    first = told(pi(power_w=480.0))[0]
    assert first.text.startswith("draws 69.6 % of its peers' power at the same clock")
    assert [fact.reading for fact in first.facts] == ["power_w", "sm_clock_mhz"]


def test_a_gpu_that_draws_all_that_its_own_lower_limit_allows_does_not_wait() -> None:
    capped = both(pi(power_w=495.0), factors=FACTORS._replace(power_limit_w=500.0))
    assert "waits_for_work" not in codes(capped)


def test_less_power_at_a_lower_memory_clock_follows_from_that() -> None:
    assert "waits_for_work" not in codes(beta(memory_clock_mhz=2600.0, power_w=300.0))


def test_without_clocks_only_what_goes_beyond_the_loss_may_be_a_cap() -> None:
    first = told_without_clocks(pi(power_w=480.0))[0]
    assert (first.code, first.is_cause, first.explains) == ("power_draw_lower", True, None)
    assert first.said.endswith(", explains an unknown part of 10.0 %")
    in_proportion = told_without_clocks(pi(power_w=640.0))
    assert [reason.code for reason in in_proportion if not reason.is_information] == ["not_explained", "alone"]
    assert in_proportion[-1].code == "power_draw_lower"


@pytest.mark.parametrize(
    ("change", "explains", "said"),
    [
        (pi(sm_clock_mhz=1350.0), 1.0, "explains 10.0 of 10.0 %"),
        (pi(sm_clock_mhz=1410.0), 0.6, "explains 6.0 of 10.0 %"),
        (pi(sm_clock_mhz=1200.0), 1.0, "explains 10.0 of 10.0 %"),
        (beta(memory_clock_mhz=2944.0), 0.8, "explains 8.0 of 10.0 %"),
        (both(pi(), factors=FACTORS._replace(driver="535")), None, "explains an unknown part of 10.0 %"),
        (pi(throttle_ms={"hw_power_brake_slowdown": 300.0}), None, "explains an unknown part of 10.0 %"),
        (pi(trend=-0.16), 0.8, "explains 8.0 of 10.0 %"),
    ],
)
def test_a_cause_says_how_much_of_the_loss_it_explains(change: Change, explains: float | None, said: str) -> None:
    first = told(change)[0]
    assert first.is_cause
    assert first.explains == (None if explains is None else pytest.approx(explains))
    assert first.said == f"{first.text}, {said}"


def test_a_limit_explains_what_the_clock_lost_under_it() -> None:
    capped = both(pi(sm_clock_mhz=1380.0, power_w=490.0), factors=FACTORS._replace(power_limit_w=500.0))
    assert {reason.code: round(reason.explains or 0, 3) for reason in told(capped) if reason.is_cause} == {
        "power_limit_lower": 0.8,
        "clock_lower": 0.8,
        "power_draw_lower": 0.8,
    }


def test_a_lower_limit_at_an_unchanged_clock_explains_nothing() -> None:
    found = told(both(pi(), factors=FACTORS._replace(power_limit_w=500.0)))
    (limit,) = (reason for reason in found if reason.code == "power_limit_lower")
    assert (limit.is_cause, limit.explains) == (False, 0.0)
    assert found[0].code == "not_explained"


def test_causes_are_ranked_by_how_much_they_explain_and_then_by_their_order() -> None:
    hot_and_old = both(
        pi(sm_clock_mhz=1350.0, throttle_ms={"sw_thermal_slowdown": 500.0}, trend=-0.12),
        factors=FACTORS._replace(driver="535"),
    )
    causes = [reason.code for reason in told(hot_and_old) if reason.is_cause]
    assert causes == ["thermal", "clock_lower", "falling_within_run", "software_differs"]


def test_a_cause_that_leaves_most_of_the_loss_does_not_come_first() -> None:
    hot = pi(value=664.0, sm_clock_mhz=1440.0, temperature_c=88.0, throttle_ms={"sw_thermal_slowdown": 500.0})
    first, *others = told(hot)
    assert first.code == "not_explained"
    assert first.text == "not explained by the evidence: the most that a reading explains is 4.0 of 17.0 %"
    said = {reason.code: reason.said for reason in others}
    assert said["thermal"] == "held back by SW thermal slowdown, explains 4.0 of 17.0 %"
    assert said["clocks_do_not_explain"] == "its rate per GHz is 13.5 % below its peers': clocks leave 13.0 of 17.0 %"
    assert "clocks_explain" not in said


def test_of_a_brake_that_the_clock_does_not_show_nobody_says_that_clocks_explain_nothing() -> None:
    assert "clocks_do_not_explain" not in codes(pi(throttle_ms={"hw_power_brake_slowdown": 300.0}))


def test_a_throttle_bit_that_nobody_counted_is_a_cause_too() -> None:
    shown = replace(HEALTH, throttle_reasons=["hw_thermal_slowdown", "sw_power_cap"])
    first = told(both(pi(sm_clock_mhz=1350.0), health=shown))[0]
    assert (first.code, first.text) == ("thermal", "held back by HW thermal slowdown")
    assert ("hw_thermal_slowdown", "seen", "") in [(fact.reading, fact.own, fact.peers) for fact in first.facts]


def test_a_lower_clock_is_told_with_the_application_clock_that_somebody_set() -> None:
    def set_to(clock_mhz: float) -> Change:
        return lambda own: replace(own, health=replace(HEALTH, application_sm_clock_mhz=clock_mhz))

    odd = [set_to(1350.0)(pi(sm_clock_mhz=1350.0)(like(own))) for own in at_node(series("odd", [1.0] * 3), "n2")]
    found = explanations(evaluate(Fleet([*map(set_to(1980.0), PEERS), *odd]), AS_OF))["odd"][0].reasons[0]
    assert found.code == "clock_lower"
    assert ("application_sm_clock_mhz", "1350 MHz", "1980 MHz") in [
        (fact.reading, fact.own, fact.peers) for fact in found.facts
    ]


def slow_link(health: GpuHealth) -> Reason:
    """First reason of a slow link whose lanes are as they are."""

    def slow(own: JudgedReport) -> JudgedReport:
        return replace(own, roofs={**own.roofs, H2D: RoofReading(27.0, converged=True)}, health=health)

    return told(slow)[0]


def test_a_link_that_lanes_do_not_explain_is_not_explained_by_clocks_either() -> None:
    same, unknown = slow_link(HEALTH), slow_link(GpuHealth())
    assert same.text == "not explained by the evidence: its PCIe generation and PCIe lanes are as its peers'"
    assert unknown.text == "not explained by the evidence: its lanes and those of its peers are not both known"
    assert same.next_step == REMEDIES["pcie_slower"].next_step


def test_lanes_and_generation_are_whole_numbers() -> None:
    first = told(both(link(), health=replace(HEALTH, pcie_width=8, pcie_generation=1)))[0]
    assert first.text == "link under load: PCIe generation 1 (peers 5) and PCIe lanes 8 (peers 16)"


def test_a_link_loses_what_its_lanes_and_generation_take() -> None:
    first = told(link())[0]
    assert (first.code, first.explains) == ("pcie_slower", pytest.approx(0.5 / (1 - 27 / 55)))


def test_without_readings_a_loss_is_unexplained_for_want_of_them() -> None:
    def bare(own: JudgedReport) -> JudgedReport:
        return replace(own, roofs={PI: RoofReading(own.roofs[PI].value)})

    odd = [bare(pi()(like(own))) for own in series("odd", [1.0] * 3)]
    found = explanations(evaluate(Fleet([*[bare(own) for own in PEERS], *odd]), AS_OF))
    (reason,) = found["odd"][0].reasons
    assert reason.code == "not_explained"
    assert "no clock, power or temperature" in reason.text


@pytest.mark.parametrize(
    ("elsewhere", "code"),
    [
        (both(pi(), health=replace(HEALTH, pcie_width=8)), "pcie_slower"),
        (both(beta(), health=replace(HEALTH, pcie_generation=3)), "pcie_slower"),
        (both(pi(), health=replace(HEALTH, remapped_rows_pending=True)), "remapped_rows_pending"),
        (both(pi(), factors=FACTORS._replace(ecc_enabled=False)), "ecc_differs"),
        (pi(memory_clock_mhz=2600.0), "memory_clock_lower"),
        (pi(sm_clock_mhz=1470.0), "clock_lower"),
        (both(pi(), factors=FACTORS._replace(power_limit_w=500.0)), "power_limit_lower"),
        (beta(memory_clock_mhz=3150.0), "memory_clock_lower"),
    ],
)
def test_what_cannot_slow_a_roof_by_so_much_is_told_last_and_leaves_the_loss_unexplained(
    elsewhere: Change, code: str
) -> None:
    found = told(elsewhere)
    assert found[-1].code == code
    assert not found[-1].is_cause
    assert "not_explained" in {reason.code for reason in found}


def test_a_narrow_link_slows_the_link_alone() -> None:
    evaluation = evaluate(Fleet([*PEERS, *[link()(like(own)) for own in series("odd", [1.0] * 3)]]), AS_OF)
    assert evaluation.states["odd"].state == "ok"


def test_the_rate_per_ghz_tells_clocks_from_the_units_behind_them() -> None:
    assert "clocks_explain" in codes(pi(sm_clock_mhz=1350.0))
    assert "clocks_do_not_explain" in codes(pi())


def test_a_software_power_cap_that_all_share_explains_nothing() -> None:
    assert not {"thermal", "power_brake", "clock_lower"} & set(codes(pi()))


def test_the_readings_stand_beside_the_peers() -> None:
    first = told(both(pi(power_w=490.0, sm_clock_mhz=1350.0), factors=FACTORS._replace(power_limit_w=500.0)))[0]
    assert first.text == "power limit 500 W, peers 700 W"
    assert first.facts[0] == Fact("power_limit_w", "500 W", "700 W", 500.0, 700.0, "W")


def test_rates_per_ghz_are_told_with_their_unit_and_digits() -> None:
    facts = {fact.reading: fact for reason in told(pi(value=7.20, sm_clock_mhz=1500.0)) for fact in reason.facts}
    assert facts["per_ghz"].own == "4.80 TFLOP/s per GHz"


def test_a_trend_that_rounds_to_nothing_has_no_sign() -> None:
    (fact,) = next(reason.facts for reason in told(pi(trend=-0.2)) if reason.code == "falling_within_run")
    assert (fact.own, fact.peers) == ("−20.0 %", "0.0 %")


def test_a_gpu_alone_in_its_node_is_said_to_be_alone() -> None:
    assert "alone" in codes(pi())


def test_drift_is_told_with_its_onset() -> None:
    drift = Drift("drifted", 20, baseline=800.0, onset=AS_OF, since=4, change=-0.05)
    found = {reason.code: reason for reason in told(pi(), drift=drift)}
    assert "since 2026-01-05 13:00 UTC" in found["drifted"].text


def test_a_gpu_that_only_drifted_has_reasons_too() -> None:
    drift = Drift("drifted", 20, baseline=840.0, onset=AS_OF, since=4, change=-0.05)
    assert [reason.code for reason in told(lambda own: own, drift=drift)] == ["drifted", "not_explained"]


def test_a_whole_node_and_a_whole_rack_are_told() -> None:
    def slow(node: str) -> list[JudgedReport]:
        reports = [own for place in range(2) for own in series(f"{node}-{place}", [1.0] * 3)]
        return [pi()(like(own)) for own in at_node(reports, node, rack="r9")]

    found = explanations(evaluate(Fleet([*PEERS, *slow("s1"), *slow("s2")]), AS_OF))
    rack, node = found["s1-0"][0].reasons[:2]
    assert (rack.code, node.code) == ("whole_rack", "whole_node")
    assert node.text == "its whole node is slow, and no reading that most of its gpus share says why"


def hot_node(*, also_slow: str = "") -> dict[str, list[Explanation]]:
    """Reasons in a fleet one of whose nodes is hot; one of its gpus may have slow memory, too."""
    hot = pi(sm_clock_mhz=1350.0, temperature_c=88.0, throttle_ms={"sw_thermal_slowdown": 600.0})
    gpus = [f"h-{place}" for place in range(4)]
    node = [hot(like(own)) for gpu in gpus for own in at_node(series(gpu, [1.0] * 3), "h")]
    bad = [beta(value=2000.0, memory_clock_mhz=1600.0)(own) if own.gpu_id == also_slow else own for own in node]
    return explanations(evaluate(Fleet([*PEERS, *bad]), AS_OF))


def test_what_the_gpus_of_a_slow_node_share_comes_first_with_a_step_for_the_node() -> None:
    first = ranked_reasons(hot_node()["h-0"])[0].reason
    assert first.code == "whole_node"
    assert first.text == "its whole node is slow: 4 of 4 gpus held back by SW thermal slowdown, explains 10.0 of 10.0 %"
    assert [fact.reading for fact in first.facts] == ["temperature_c", "sm_clock_mhz", "sw_thermal_slowdown"]
    assert "fans" in first.next_step


def node_told(change: Change) -> Reason:
    """The first reason of a gpu whose whole node is so."""
    gpus = [f"s-{place}" for place in range(4)]
    node = [change(like(own)) for gpu in gpus for own in at_node(series(gpu, [1.0] * 3), "s")]
    return explanations(evaluate(Fleet([*PEERS, *node]), AS_OF))["s-0"][0].reasons[0]


def test_a_node_whose_gpus_wait_is_told_to_wait() -> None:
    first = node_told(pi(power_w=480.0))
    assert first.text.startswith(
        "its whole node is slow: 4 of 4 gpus draw 69.6 % of their peers' power at the same clock"
    )
    assert "what feeds the node's gpus" in first.next_step


def test_what_explains_little_of_a_node_s_loss_says_how_little() -> None:
    first = node_told(pi(value=664.0, sm_clock_mhz=1440.0, throttle_ms={"sw_thermal_slowdown": 500.0}))
    assert first.text.endswith("4 of 4 gpus held back by SW thermal slowdown, explains 4.0 of 17.0 %")


def test_no_gpu_of_a_node_with_a_shared_cause_is_to_be_returned_for_that_cause() -> None:
    thermal = next(reason for reason in hot_node()["h-0"][0].reasons if reason.code == "thermal")
    assert "return the card" not in thermal.next_step


def test_a_gpu_with_a_worse_fault_of_its_own_is_told_of_that_first() -> None:
    codes = [ranked.reason.code for ranked in ranked_reasons(hot_node(also_slow="h-2")["h-2"])]
    assert codes.index("memory_clock_lower") < codes.index("whole_node")


def test_a_gpu_that_comes_and_goes_is_told_its_cause_first() -> None:
    odd = [like(own) for own in at_node(series("odd", [1.0] * 5), "n2")]
    hot = pi(sm_clock_mhz=1350.0, throttle_ms={"sw_thermal_slowdown": 500.0})
    reports = [hot(own) if place in {0, 3, 4} else own for place, own in enumerate(odd)]
    codes = [reason.code for reason in explanations(evaluate(Fleet([*PEERS, *reports]), AS_OF))["odd"][0].reasons]
    assert codes[0] == "thermal"
    assert "intermittent" in codes


def test_slow_in_one_dtype_only_is_told() -> None:
    half = PI._replace(dtype="float16")

    def with_half(own: JudgedReport) -> JudgedReport:
        return replace(own, roofs={**own.roofs, half: PI_READING})

    odd = [with_half(pi()(like(own))) for own in at_node(series("odd", [1.0] * 3), "n2")]
    found = explanations(evaluate(Fleet([*[with_half(own) for own in PEERS], *odd]), AS_OF))
    assert [reason.text for reason in found["odd"][0].reasons if reason.code == "only_one_dtype"] == [
        "slow in bfloat16 only, not in float16"
    ]


def test_a_gpu_that_is_not_accused_still_shows_its_low_clock() -> None:
    odd = [pi(value=792.0, sm_clock_mhz=1200.0, temperature_c=91.0)(like(own)) for own in series("odd", [1.0] * 3)]
    evaluation = evaluate(Fleet([*PEERS, *odd]), AS_OF)
    (verdict, *_) = evaluation.verdicts["odd"]
    peers = peers_of([verdicts[0].member for verdicts in evaluation.verdicts.values()])
    assert evaluation.states["odd"].state == "ok"
    assert [reason.code for reason in reasons(verdict, peers)] == ["thermal", "clock_lower"]
    assert explanations(evaluation) == {}


def test_every_kind_of_reason_says_what_to_do_next() -> None:
    assert all(len(remedy.next_step) > 20 for remedy in REMEDIES.values())
