"""No node has more than a quarter of the weight of a reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.limits import bounded_weights
from fleetridge_server.engine.statistics import median, weighted_median
from fleetridge_server.engine.values import Member
from support.judged import at_node, judged, series


def members(sizes: list[int]) -> list[Member]:
    """A cohort of nodes with so many gpus."""
    reports = [own for number, size in enumerate(sizes) for own in node(f"n{number}", [100.0] * size)]
    (cohort,) = judged(reports).cohorts.values()
    return list(cohort)


def node(name: str, values: list[float]) -> list[JudgedReport]:
    """A node whose gpus have these values, three runs each."""
    return at_node([own for place, value in enumerate(values) for own in series(f"{name}-{place}", [value] * 3)], name)


@given(st.lists(st.integers(1, 12), min_size=4, max_size=8))
def test_from_four_nodes_on_no_node_has_more_than_a_quarter(sizes: list[int]) -> None:
    cohort = members(sizes)
    weights = bounded_weights(cohort) or [1.0] * len(cohort)
    assert all(0 < weight <= 1 for weight in weights)
    for number in range(len(sizes)):
        own = [w for w, member in zip(weights, cohort, strict=True) if member.gpu_id.startswith(f"n{number}-")]
        assert sum(own) <= 0.25 * sum(weights) * (1 + 1e-9)


@given(st.lists(st.floats(1, 100), min_size=1, max_size=9))
def test_equal_weights_give_the_median(values: list[float]) -> None:
    assert weighted_median(values, [1 / 3] * len(values)) == pytest.approx(median(values))


def test_one_large_node_that_is_broken_does_not_become_the_norm() -> None:
    """Forty gpus of one node at 60 % beside four nodes of four: most gpus, and the reference is the others'."""
    reports = [own for name in "abcd" for own in node(name, [100.0] * 4)] + node("big", [60.0] * 40)
    found = judged(reports)
    assert {found.states[f"big-{place}"].state for place in range(40)} == {"outlier"}
    assert {found.states[f"a-{place}"].state for place in range(4)} == {"ok"}


def test_a_bounded_reference_still_counts_its_gpus() -> None:
    """Four nodes of 4, 4, 4 and 1 gpus: thirteen peers, so that two confirmed runs make an outlier."""
    found = judged([*node("a", [100.0] * 4), *node("b", [100.0] * 4), *node("c", [90.0] * 4), *node("d", [100.0])])
    assert found.verdicts["a-0"][0].limits.n == 13
    assert found.states["c-0"].state == "outlier"
