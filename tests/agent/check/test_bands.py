"""The fleet's band, read from a server's answer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.check.bands import bands_of
from support.ridges import cohort, limits, ridge_answer


def test_each_cohort_of_an_answer_has_its_band() -> None:
    pi, beta = bands_of(ridge_answer(800.0, 4400.0))

    assert (pi.key.kind, pi.key.dtype, pi.peers, pi.median) == ("compute", "bfloat16", 32, 800.0)
    assert pi.lowest == pytest.approx(0.97 * 800)
    assert (beta.key.kind, beta.key.kernel, beta.lowest) == ("memory", "read", pytest.approx(0.97 * 4400))


def test_each_group_of_a_split_cohort_has_its_band() -> None:
    split = cohort(limits(800.0, 776.0, n=20, driver="580"), limits(760.0, 737.0, n=12, driver="570"))
    bands = bands_of({"cohorts": [split]})

    assert [(band.lowest, set(band.levels)) for band in bands] == [
        (776.0, {("driver", "580")}),
        (737.0, {("driver", "570")}),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"cohorts": "x"},
        {"cohorts": [None, 1, {}, {"roof": "bfloat16"}]},
        {"cohorts": [{**cohort(limits(800.0, 776.0)), "bands": [{"n": 3}]}]},
        {"cohorts": [cohort({**limits(800.0, 776.0), "median": math.nan})]},
        {"cohorts": [cohort({**limits(800.0, 776.0), "median": 0})]},
        {"cohorts": [{**cohort(limits(800.0, 776.0)), "conditions": {"sm_count": 132}}]},
    ],
)
def test_what_has_not_the_expected_shape_gives_no_band(answer: dict[str, Any]) -> None:
    assert bands_of(answer) == ()


def test_fields_that_a_later_server_adds_are_passed_over() -> None:
    answer = ridge_answer()
    answer["cohorts"][0]["verdict"] = {"state": "ok"}
    answer["cohorts"][0]["conditions"]["colour"] = "green"

    assert len(bands_of(answer)) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["roof", "bands", "conditions", "n", "median", "cohorts"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["cohorts", "gpus"]), JSON))
def test_no_answer_whatever_breaks_the_reader(answer: dict[str, Any]) -> None:
    assert isinstance(bands_of(answer), tuple)
