"""Gpus of a device, worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.compare.cohort import Cohort, Reading, current_values
from fleetridge_server.compare.cohort_values import peers_of_values, worst_deviations
from fleetridge_server.compare.ranking import (
    NOT_ACCUSED,
    NOT_EVALUATED,
    Rank,
    first_rank_of,
    packed_rank,
    ranks,
    unpacked_rank,
)
from fleetridge_server.compare.ridge import Filter
from support.readings import BETA, PI, reading

EVERYTHING = Filter()


def order_of(
    readings: Iterable[Reading], only: Filter = EVERYTHING, *, gpus: Iterable[str] = "abcd", measured_only: bool = True
) -> list[str]:
    """Gpu ids worst first, from the readings of all of them."""
    numbers = {gpu_id: number for number, gpu_id in enumerate(gpus)}
    values: dict[Cohort, dict[int, float]] = defaultdict(dict)
    for own in current_values(readings):
        values[own.cohort][numbers[own.gpu_id]] = own.value
    deviations = worst_deviations(values, peers_of_values(values), only)
    found = ranks({number: gpu_id for gpu_id, number in numbers.items()}, deviations, measured_only=measured_only)
    return [rank.gpu_id for rank, _ in found]


def order(rates: dict[str, float], *, measured_only: bool = False) -> list[str]:
    """Gpu ids worst first, from one pi each; a rate of 0 is a gpu that was never measured."""
    readings = [reading(gpu_id, rate) for gpu_id, rate in rates.items() if rate]
    return order_of(readings, gpus=rates, measured_only=measured_only)


def test_the_lowest_deviation_comes_first() -> None:
    """The reader wants to know which gpu is slow."""
    assert order({"a": 845.0, "b": 600.0, "c": 850.0, "d": 700.0}) == ["b", "d", "a", "c"]


def test_equal_deviations_are_ordered_by_gpu_id() -> None:
    """So that pages fit together."""
    assert order({"c": 845.0, "a": 845.0, "b": 845.0}) == ["a", "b", "c"]


def test_gpus_without_a_value_come_last() -> None:
    """No data is not slow."""
    assert order({"a": 0, "b": 845.0, "c": 600.0}) == ["c", "b", "a"]


def test_gpus_without_a_value_can_be_left_out() -> None:
    """Where a filter asks for roofs, a gpu without one does not match."""
    assert order({"a": 0, "b": 845.0}, measured_only=True) == ["b"]


def test_a_filter_decides_by_which_roofs_gpus_are_ranked() -> None:
    """Slow in bfloat16 says nothing of int8."""
    int8 = PI._replace(dtype="int8")
    readings = [
        *(reading(gpu, rate) for gpu, rate in {"a": 600.0, "b": 845.0, "c": 850.0}.items()),
        *(reading(gpu, rate, roof=int8) for gpu, rate in {"a": 1700.0, "b": 1690.0, "c": 1000.0}.items()),
    ]

    assert order_of(readings, Filter(dtype="int8")) == ["c", "b", "a"]


def test_beta_ranks_as_pi_does() -> None:
    """Whichever is further below the peers."""
    readings = [
        *(reading(gpu, 845.0) for gpu in "abc"),
        *(reading(gpu, rate, roof=BETA) for gpu, rate in {"a": 4430.0, "b": 4430.0, "c": 4000.0}.items()),
    ]

    assert order_of(readings)[0] == "c"


def test_a_filter_by_rates_ranks_by_the_bandwidths_that_go_with_them() -> None:
    """A list of bfloat16 shows each gpu's beta, and so is ordered by it too."""
    readings = [
        *(reading(gpu, 845.0) for gpu in "abc"),
        *(reading(gpu, rate, roof=BETA) for gpu, rate in {"a": 4430.0, "b": 4000.0, "c": 4430.0, "d": 3000.0}.items()),
    ]

    assert order_of(readings, Filter(dtype="bfloat16")) == ["b", "a", "c"]


def rank_of(severity: int, deviation: float | None, gpu_id: str) -> Rank:
    """A gpu's rank; without a deviation it was never measured."""
    return Rank(severity, deviation is None, 0.0 if deviation is None else deviation, gpu_id)


RANKS = st.builds(
    rank_of,
    st.integers(0, NOT_EVALUATED),
    st.none() | st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, -0.08, 0.08]),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.lists(RANKS))
def test_packed_ranks_sort_as_ranks_do(ranks: list[Rank]) -> None:
    """Byte by byte, as both databases compare them."""
    ordered = sorted(ranks, key=packed_rank)

    assert all(first <= second for first, second in pairwise(ordered))


@given(RANKS)
def test_a_packed_rank_can_be_read_back(rank: Rank) -> None:
    """With the gpu's id, so that a list goes on from it."""
    assert unpacked_rank(packed_rank(rank)) == rank


@given(RANKS)
def test_the_ranks_of_those_that_are_accused_end_at_a_severity(rank: Rank) -> None:
    """Whatever their deviation and id."""
    assert (packed_rank(rank) < first_rank_of(NOT_ACCUSED)) == (rank.severity < NOT_ACCUSED)
