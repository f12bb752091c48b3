"""Who is compared with whom, and by which value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions, Reading, current_values, distributions, is_best_pi, is_judged
from support.readings import BETA, PI, STANDARD, reading


def values_of(*readings: Reading) -> list[float]:
    """Values of the gpus that the readings make, in the order of an answer."""
    return [value.value for value in current_values(readings)]


def test_a_gpu_counts_by_the_median_of_its_newest_three_reports() -> None:
    """Older ones are history."""
    days = [500.0, 600.0, 840.0, 850.0, 845.0]

    assert values_of(*(reading("a", rate, day=day) for day, rate in enumerate(days))) == [845.0]


def test_two_reports_count_by_their_mean() -> None:
    """The median of two."""
    assert values_of(reading("a", 840.0), reading("a", 850.0, day=1)) == [845.0]


def test_a_value_says_on_how_many_reports_it_rests() -> None:
    """One report is less than three."""
    [value] = current_values([reading("a", 840.0), reading("a", 850.0, day=1)])

    assert value.reports == 2


def test_a_report_that_states_a_roof_twice_has_one_vote() -> None:
    """Else it could outvote the two others."""
    twice = [reading("a", 100.0, day=2), reading("a", 110.0, day=2)]

    assert values_of(reading("a", 840.0), reading("a", 850.0, day=1), *twice) == [840.0]


def test_reports_of_one_moment_are_told_apart_by_their_id() -> None:
    """Two agents may finish in the same second; whichever arrived first makes no difference."""
    one, two = reading("a", 840.0, report=1), reading("a", 850.0, report=2)

    assert current_values([one, two]) == current_values([two, one])


@given(
    st.lists(
        st.builds(
            reading,
            st.sampled_from(["a", "b", "c"]),
            st.floats(min_value=1, max_value=1e4),
            day=st.integers(0, 5),
            roof=st.sampled_from([PI, BETA]),
            conditions=st.sampled_from([STANDARD, replace(STANDARD, fill="zeros"), replace(STANDARD, method="custom")]),
        ),
        max_size=20,
        unique_by=lambda each: (each.report_id, each.cohort.roof),
    ).flatmap(lambda readings: st.tuples(st.just(readings), st.permutations(readings)))
)
def test_the_order_of_arrival_never_matters(readings: tuple[list[Reading], list[Reading]]) -> None:
    """Same reports, same values."""
    in_order, shuffled = readings

    assert current_values(in_order) == current_values(shuffled)


@pytest.mark.parametrize(
    "other",
    [
        replace(STANDARD, memory_bytes=80 * 1024**3),
        replace(STANDARD, sm_count=114),
        replace(STANDARD, mig_profile="1g.18gb"),
        replace(STANDARD, partition="CPX/NPS4"),
        replace(STANDARD, fill="zeros"),
        replace(STANDARD, method="custom"),
        replace(STANDARD, protocol_version=2),
        replace(STANDARD, fill=None),
    ],
)
def test_gpus_under_other_conditions_are_not_compared(other: Conditions) -> None:
    """Unknown is a condition of its own."""
    found = distributions(current_values([reading("a", 845.0), reading("b", 400.0, conditions=other)]))

    assert sorted(cohort.median for cohort in found.values()) == [400.0, 845.0]


@pytest.mark.parametrize(
    "other",
    [
        PI._replace(dtype="float16"),
        PI._replace(out_dtype="float32"),
        PI._replace(fast_accumulation=False),
        PI._replace(regime="sustained"),
        PI._replace(level="l2"),
        PI._replace(kernel=None),
    ],
)
def test_roofs_with_another_key_are_not_compared(other: RoofKey) -> None:
    """A null in the key equals only a null."""
    found = distributions(current_values([reading("a", 845.0), reading("b", 400.0, roof=other)]))

    assert [cohort.n for cohort in found.values()] == [1, 1]


def test_a_gpu_counts_under_the_conditions_of_its_newest_report() -> None:
    """A card that was split yesterday is no whole card any more."""
    split = replace(STANDARD, partition="CPX/NPS4")

    [value] = current_values([reading("a", 845.0), reading("a", 105.0, day=1, conditions=split)])

    assert (value.value, value.reports, value.cohort.conditions) == (105.0, 1, split)


def test_a_sweep_with_options_of_ones_own_does_not_displace_the_standard_one() -> None:
    """The engineer who tries small shapes by hand must not take the gpu out of the comparison."""
    custom = replace(STANDARD, method="custom")

    values = current_values([reading("a", 845.0), reading("a", 300.0, day=1, conditions=custom)])

    assert {value.cohort.conditions.method: value.value for value in values} == {"standard": 845.0, "custom": 300.0}


@pytest.mark.parametrize(
    ("roof", "judged"),
    [
        (PI, True),
        (PI._replace(kernel=None), True),
        (PI._replace(kernel="gemm_best"), False),
        (BETA, True),
        (BETA._replace(kernel=None), True),
        (BETA._replace(kernel="copy"), False),
        (BETA._replace(level="l2"), False),
        (BETA._replace(level="pcie", kernel="h2d"), False),
        (BETA._replace(level="pcie"), False),
    ],
)
def test_only_roofs_that_are_measured_alike_everywhere_are_judged(roof: RoofKey, judged: bool) -> None:
    """The best of a search and the other streams are shown."""
    assert is_judged(roof) is judged


def test_the_best_of_a_search_is_told_by_its_kernel() -> None:
    """And it is a rate of multiplying."""
    roofs = [PI._replace(kernel="gemm_best"), PI, BETA._replace(kernel="gemm_best")]

    assert [is_best_pi(roof) for roof in roofs] == [True, False, False]
