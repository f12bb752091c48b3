"""What an evaluation says besides its gpus, as it is stored and shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport, NodeName
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.nodes import ExpectedNode, NodeRoster
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody
from support.judged import AS_OF, PI, at_node, fleet, report, series, with_factors


def body_of(known: Fleet) -> EvaluationBody:
    """Body of a fleet's evaluation."""
    return evaluation_body(evaluate(known, AS_OF), known.upgrades)


def node(name: str, values: list[float], *, rack: str | None = None) -> list[JudgedReport]:
    """Gpus of one node, three runs each."""
    own = [run for place, value in enumerate(values) for run in series(f"{name}-{place}", [value] * 3)]
    return at_node(own, name, rack=rack)


def nodes(name: str, value: float, *, gpus: int, per_node: int) -> list[JudgedReport]:
    """Whole nodes whose gpus have one value, three runs each."""
    return [own for number in range(gpus // per_node) for own in node(f"{name}{number}", [value] * per_node)]


def test_counts_add_up_to_the_gpus() -> None:
    """In the order of the states, the worst first."""
    body = body_of(Fleet([*fleet([800.0] * 8, runs=3), *series("slow", [700.0] * 3)]))

    assert list(body.counts.items()) == [("outlier", 1), ("ok", 8)]
    assert body.gpus == 9


def test_a_cohort_has_the_band_that_its_gpus_are_held_against() -> None:
    """One band for each group."""
    old = with_factors(nodes("old", 800.0, gpus=8, per_node=2), Factors(driver="570"))
    new = with_factors(nodes("new", 760.0, gpus=8, per_node=2), Factors(driver="580"))

    [cohort] = body_of(Fleet([*old, *new])).cohorts

    assert (cohort.n, cohort.unit) == (16, "TFLOP/s")
    assert [(band.levels[0].name, band.median, band.n) for band in cohort.bands] == [
        ("570", 800.0, 8),
        ("580", 760.0, 8),
    ]


def test_a_notice_names_the_first_gpus_and_counts_all() -> None:
    """A step may be about half of a fleet."""
    old = with_factors(nodes("old", 800.0, gpus=130, per_node=10), Factors(driver="570"))
    new = with_factors(nodes("new", 760.0, gpus=120, per_node=10), Factors(driver="580"))

    [step] = body_of(Fleet([*old, *new])).notices

    assert (step.kind, step.gpus, len(step.gpu_ids)) == ("factor_step", 120, 100)
    assert step.effect == pytest.approx(-0.05)
    assert step.roof is not None


def test_a_slow_node_and_a_slow_rack_are_named() -> None:
    """Once each."""
    sound = [run for n in range(6) for run in node(f"a{n}", [800.0] * 4, rack=f"ra{n // 2}")]
    slow = [run for n in range(2) for run in node(f"b{n}", [740.0] * 4, rack="rb")]

    body = body_of(Fleet([*sound, *slow]))

    assert [(place.name, place.gpus) for place in body.slow_nodes] == [("b0", 4), ("b1", 4)]
    assert [(place.name, place.gpus) for place in body.slow_racks] == [("rb", 8)]
    assert body.slow_racks[0].loss == pytest.approx(0.075)


def test_what_is_not_there_is_listed_by_node() -> None:
    """A gpu that the roster no longer lists, and a node that was never heard of."""
    roster = NodeRoster(NodeName("east", "n1"), AS_OF, frozenset({"n1-0"}), complete=True)
    known = Fleet(
        node("n1", [800.0] * 2), rosters=[roster], inventory=[ExpectedNode(NodeName("east", "n9"), gpu_count=8)]
    )

    first, second = body_of(known).absences

    assert (first.node, first.gpu_ids, first.never_reported) == ("n1", ("n1-1",), False)
    assert (second.node, second.unnamed, second.never_reported) == ("n9", 8, True)


def test_a_job_over_the_device_waits_for_the_slowest_gpu() -> None:
    """Without it the job is faster by what the slowest cost."""
    body = body_of(Fleet([*node("n1", [800.0] * 8), *node("n2", [800.0] * 7 + [400.0])]))

    whole = next(cost for cost in body.stragglers if cost.scope == "device")

    assert (whole.n, whole.slowest, whole.slowest_gpu_id) == (16, 400.0, "n2-7")
    assert whole.loss == pytest.approx(1 - 16 * 400 / (15 * 800 + 400))
    assert whole.best is not None
    assert (whole.best.left_out, whole.best.gain) == (1, pytest.approx(15 * 800 / (16 * 400) - 1))


def test_the_places_that_cost_most_come_first() -> None:
    """Racks, then nodes; each in the roof in which it loses most."""
    both = [
        replace(own, roofs={**own.roofs, **report("x", beta=4000.0).roofs})
        for own in node("n1", [800.0, 700.0], rack="r1")
    ]
    body = body_of(Fleet([*both, *node("n2", [800.0, 400.0], rack="r1")]))

    places = [(cost.scope, cost.name) for cost in body.stragglers if cost.scope != "device"]

    assert places == [("rack", "r1"), ("node", "n2"), ("node", "n1")]
    assert all(cost.roof.kind == "compute" for cost in body.stragglers if cost.scope == "node")


def test_a_missing_gpu_is_in_no_job() -> None:
    """Nobody can run on it."""
    roster = NodeRoster(NodeName("east", "n1"), AS_OF, frozenset({"n1-0", "n1-1"}), complete=True)

    body = body_of(Fleet(node("n1", [800.0, 800.0, 400.0]), rosters=[roster]))

    assert {cost.slowest for cost in body.stragglers} == {800.0}


def test_what_an_upgrade_did_is_kept_with_its_interval_and_number() -> None:
    """Each gpu against itself."""
    runs = node("n1", [800.0] * 4)
    change = EpochChange(Level("driver", "570"), Level("driver", "580"))
    effect = PairedEffect(4, -0.05, -0.06, -0.04, 0.875)

    [upgrade] = body_of(Fleet(runs, upgrades={PI: {change: effect}})).upgrades

    assert (upgrade.factor, upgrade.before, upgrade.after) == ("driver", "570", "580")
    assert (upgrade.n, upgrade.effect, upgrade.low, upgrade.confidence) == (4, -0.05, -0.06, 0.875)


def test_what_is_read_back_is_what_was_stored() -> None:
    """To the last digit, through JSON."""
    body = body_of(Fleet([*node("n1", [800.0] * 8, rack="r1"), *node("n2", [700.0] * 4, rack="r1")]))

    assert EvaluationBody.model_validate_json(body.model_dump_json()) == body


def test_a_fleet_without_gpus_has_a_body() -> None:
    """Of nothing."""
    body = body_of(Fleet([]))

    assert (body.gpus, body.counts, body.cohorts, body.stragglers) == (0, {}, (), ())
