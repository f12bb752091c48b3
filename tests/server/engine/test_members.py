"""What a gpu counts for in a cohort, and with whom it shares one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, Conditions
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.values import Member, by_gpu, members_by_cohort
from support.judged import AS_OF, BETA, CONDITIONS, PI, reading, report, series


def cohorts_of(reports: Sequence[JudgedReport]) -> dict[Cohort, list[Member]]:
    """Members of every cohort."""
    return members_by_cohort(by_gpu(reports, AS_OF), AS_OF)


def values_of(reports: Sequence[JudgedReport]) -> list[float]:
    """What the gpus count for, in the order of cohorts and ids."""
    return [member.value for members in cohorts_of(reports).values() for member in members]


def with_roof(own: JudgedReport, roof: RoofKey) -> JudgedReport:
    """The same report, of another roof."""
    [found] = own.roofs.values()
    return replace(own, roofs={roof: found})


@pytest.mark.parametrize(
    ("values", "value"),
    [
        ([845.0], 845.0),
        ([840.0, 850.0], 845.0),
        ([500.0, 600.0, 840.0, 850.0, 845.0], 845.0),
        ([840.0, 850.0, 110.0], 840.0),
    ],
)
def test_a_gpu_counts_by_the_median_of_its_newest_three_reports(values: list[float], value: float) -> None:
    """Older ones are history, and one disturbed sweep is outvoted."""
    assert values_of(series("a", values)) == [value]


def test_a_value_knows_the_runs_that_it_rests_on() -> None:
    """The newest first."""
    [[member]] = cohorts_of(series("a", [840.0, 850.0])).values()

    assert [run.reading.value for run in member.runs] == [850.0, 840.0]


def test_reports_of_one_moment_are_told_apart_by_their_id() -> None:
    """Two agents may finish in the same second; whichever arrived first makes no difference."""
    one, two = (replace(report("a", pi), report_id=name) for name, pi in (("1", 840.0), ("2", 850.0)))

    assert cohorts_of([one, two]) == cohorts_of([two, one])


REPORTS = st.builds(
    lambda gpu, value, day, roof, conditions: replace(
        with_roof(report(gpu, value, days_ago=day), roof),
        report_id=f"{gpu} {day} {roof.kind} {conditions.fill} {conditions.method}",
        conditions=conditions,
    ),
    st.sampled_from(["a", "b", "c"]),
    st.floats(min_value=1, max_value=1e4),
    st.integers(0, 40),
    st.sampled_from([PI, BETA]),
    st.sampled_from([CONDITIONS, replace(CONDITIONS, fill="zeros"), replace(CONDITIONS, method="custom")]),
)


@given(
    st.lists(REPORTS, max_size=20, unique_by=lambda own: own.report_id).flatmap(
        lambda reports: st.tuples(st.just(reports), st.permutations(reports))
    )
)
def test_the_order_of_arrival_never_matters(reports: tuple[list[JudgedReport], list[JudgedReport]]) -> None:
    """Same reports, same values."""
    in_order, shuffled = reports

    assert cohorts_of(in_order) == cohorts_of(shuffled)


@pytest.mark.parametrize(
    "other",
    [
        replace(CONDITIONS, memory_gib=80),
        replace(CONDITIONS, sm_count=114),
        replace(CONDITIONS, mig_profile="1g.18gb"),
        replace(CONDITIONS, partition="CPX/NPS4"),
        replace(CONDITIONS, fill="zeros"),
        replace(CONDITIONS, method="custom"),
        replace(CONDITIONS, protocol_version=2),
        replace(CONDITIONS, fill=None),
    ],
)
def test_gpus_under_other_conditions_are_not_compared(other: Conditions) -> None:
    """Unknown is a condition of its own."""
    found = cohorts_of([report("a", 845.0), replace(report("b", 400.0), conditions=other)])

    assert [[member.value for member in members] for members in found.values()] == [[845.0], [400.0]]


@pytest.mark.parametrize(
    "other",
    [
        PI._replace(dtype="float16"),
        PI._replace(out_dtype="float32"),
        PI._replace(fast_accumulation=False),
        PI._replace(regime="sustained"),
        PI._replace(kernel=None),
    ],
)
def test_roofs_with_another_key_are_not_compared(other: RoofKey) -> None:
    """A null in the key equals only a null."""
    found = cohorts_of([report("a", 845.0), with_roof(report("b", 400.0), other)])

    assert {cohort.roof: len(members) for cohort, members in found.items()} == {PI: 1, other: 1}


@pytest.mark.parametrize(
    "other", [PI._replace(level="l2"), PI._replace(kernel="gemm_best"), BETA._replace(kernel="copy")]
)
def test_roofs_that_are_not_measured_alike_everywhere_are_in_no_cohort(other: RoofKey) -> None:
    """They are shown, and nobody is held against them."""
    assert cohorts_of([with_roof(report("a", 400.0), other)]) == {}


def test_a_gpu_counts_under_the_conditions_of_its_newest_report() -> None:
    """A card that was split yesterday is no whole card any more."""
    split = replace(CONDITIONS, partition="CPX/NPS4")

    found = cohorts_of([report("a", 845.0, days_ago=1), replace(report("a", 105.0), conditions=split)])

    assert {cohort.conditions: [own.value for own in members] for cohort, members in found.items()} == {split: [105.0]}


def test_a_sweep_with_options_of_ones_own_does_not_displace_the_standard_one() -> None:
    """The engineer who tries small shapes by hand must not take the gpu out of the comparison."""
    custom = replace(CONDITIONS, method="custom")

    found = cohorts_of([report("a", 845.0, days_ago=1), replace(report("a", 300.0), conditions=custom)])

    values = {cohort.conditions.method: member.value for cohort, [member] in found.items()}
    assert values == {"standard": 845.0, "custom": 300.0}


def test_a_value_that_is_older_than_the_window_is_kept_and_counts_for_nobody_else() -> None:
    """What a gpu did lately rests on nothing that was before."""
    [members] = cohorts_of(
        [report("a", 500.0, days_ago=40), *series("b", [840.0]), report("b", 1.0, days_ago=31)]
    ).values()

    assert [(own.gpu_id, own.value, own.in_window) for own in members] == [("a", 500.0, False), ("b", 840.0, True)]


def test_a_roof_that_cannot_be_is_passed_over() -> None:
    """Its report's other roofs count."""
    own = report("a", 845.0, beta=4000.0)
    roofs = {PI: replace(reading(9e9), implausible=True), BETA: own.roofs[BETA]}

    assert [cohort.roof for cohort in cohorts_of([replace(own, roofs=roofs)])] == [BETA]
