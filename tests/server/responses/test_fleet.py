"""The sentence about the fleet, and slow places once each."""

from __future__ import annotations

import pytest

from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.responses.fleet import Coverage, Together, sentence, slow_places
from support.judged import AS_OF, at_node, report

NO_COVERAGE = Coverage(7, 64, 0, None, ())


@pytest.mark.parametrize(
    ("outliers", "shared", "expected"),
    [
        (12, Together(), "12 of 64 gpus need a look: 12 outlier"),
        (
            12,
            Together(nodes=1, node_gpus=8),
            "1 node slow as a whole (8 gpus) and 4 single gpus need a look, of 64 gpus: 12 outlier",
        ),
        (8, Together(nodes=1, node_gpus=8), "1 node slow as a whole (8 gpus) needs a look, of 64 gpus: 8 outlier"),
        (
            33,
            Together(racks=1, rack_gpus=16, nodes=2, node_gpus=16),
            (
                "1 rack slow as a whole (16 gpus), 2 nodes slow as a whole (16 gpus) and 1 single gpu need a look, "
                "of 64 gpus: 33 outlier"
            ),
        ),
    ],
)
def test_the_sentence_tells_whole_nodes_from_single_gpus(outliers: int, shared: Together, expected: str) -> None:
    """Nobody need look at the gpus of a slow node one by one."""
    verdicts: dict[State, int] = {"outlier": outliers, "ok": 64 - outliers}

    assert sentence(verdicts, NO_COVERAGE, (), 0, shared) == expected


def test_a_place_that_is_slow_in_several_roofs_is_listed_once() -> None:
    """In the roof in which it loses most, with all of them and since when."""

    def node(name: str, pi: float, beta: float) -> list[JudgedReport]:
        gpus = [f"{name}-{place}" for place in range(4)]
        return at_node([report(gpu, pi, beta=beta, days_ago=day) for gpu in gpus for day in range(3)], name)

    reports = [own for n in range(6) for own in node(f"a{n}", 800.0, 4000.0)] + node("b", 740.0, 3600.0)
    evaluation = evaluate(Fleet(reports), AS_OF)
    body = evaluation_body(evaluation, {}, explanations(evaluation))
    assert len(body.slow_nodes) == 2

    [place] = slow_places(body.slow_nodes, None)

    assert (place.name, place.loss, place.roof.kind) == ("b", pytest.approx(0.1), "memory")
    assert [roof.kind for roof in place.roofs] == ["memory", "compute"]
    assert (f"{place.slow_since:%Y-%m-%d}", place.slow_since_is_bound) == ("2026-01-03", True)
    assert (place.cause, place.next_step.startswith("look at the node")) == (None, True)
    assert slow_places(body.slow_nodes, "west") == ()
