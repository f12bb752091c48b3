"""What is said of a model as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge_server.engine.evaluation import Fleet, evaluate
from support.judged import AS_OF, BETA, PI, fleet, report


def kinds(values: Sequence[float], peak: float) -> list[str]:
    """Notices on gpus beside a published peak of pi."""
    return [notice.kind for notice in evaluate(Fleet(fleet(values), published={PI: peak}), AS_OF).notices]


def test_a_whole_model_below_half_its_published_pi_is_said_once() -> None:
    assert kinds([400.0] * 8, 989.0) == ["below_published"]
    assert kinds([700.0] * 8, 989.0) == []


def test_bandwidth_is_expected_nearer_to_its_peak() -> None:
    reports = [report(f"gpu-{place}", beta=3000.0) for place in range(8)]
    (notice,) = evaluate(Fleet(reports, published={BETA: 4800.0}), AS_OF).notices
    assert notice.kind == "below_published"
    assert "62.5 %" in notice.text


def test_values_above_the_published_peak_are_named_and_accused_of_nothing() -> None:
    evaluation = evaluate(Fleet(fleet([900.0] * 8 + [1000.0]), published={PI: 989.0}), AS_OF)
    (notice,) = evaluation.notices
    assert (notice.kind, notice.gpu_ids) == ("above_published", ("gpu-08",))
    assert not evaluation.states["gpu-08"].is_flagged


def test_three_gpus_say_nothing_of_their_model() -> None:
    assert kinds([400.0] * 3, 989.0) == []
