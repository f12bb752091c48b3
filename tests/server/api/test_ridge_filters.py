"""Filters choose what is listed; peers stay the whole fleet."""

from __future__ import annotations

import pytest

from support.app_client import AppClient
from support.fleet import post_judged, ridge
from support.reports import compute_roof, make_report, memory_roof


@pytest.fixture
def fleet_of_two(client: AppClient) -> AppClient:
    """Two gpus in the east, one of them slow, and three in the west; all with two dtypes in two regimes."""
    for cluster, node, rates in (("east", "n01", [845.0, 600.0]), ("west", "n02", [850.0, 845.0, 840.0])):
        reports = [
            make_report(
                node__cluster=cluster,
                node__name=node,
                gpu__uuid=f"GPU-{node}-{number}",
                roofs=[
                    compute_roof(pi),
                    compute_roof(pi * 0.8, regime="sustained"),
                    compute_roof(pi * 2, dtype="int8"),
                    memory_roof(4430.0),
                ],
            )
            for number, pi in enumerate(rates)
        ]
        post_judged(client, reports)
    return client


@pytest.mark.parametrize(
    ("filters", "gpus"),
    [
        ({}, 5),
        ({"cluster": "east"}, 2),
        ({"cluster": "west", "node": "n02"}, 3),
        ({"node": "n02"}, 3),
        ({"cluster": "east", "node": "n02"}, 0),
        ({"cluster": "north"}, 0),
        ({"cluster": "East"}, 0),
        ({"node": ""}, 0),
        ({"node": "n\x0002"}, 0),
        ({"dtype": "int8"}, 5),
        ({"dtype": "int4"}, 0),
        ({"dtype": "\x00"}, 0),
        ({"regime": "sustained"}, 5),
        ({"regime": "unspecified"}, 0),
        ({"since": "2026-11-20T02:00:20Z"}, 5),
        ({"since": "2026-11-20T02:00:21Z"}, 0),
    ],
)
def test_a_filter_lists_what_matches_and_nothing_is_no_error(
    fleet_of_two: AppClient, filters: dict[str, str], gpus: int
) -> None:
    """200 with an empty list."""
    assert len(ridge(fleet_of_two, **filters)["gpus"]) == gpus


@pytest.mark.parametrize("filters", [{"cluster": "east"}, {"node": "n01"}, {"dtype": "bfloat16"}])
def test_peers_and_deviations_stay_those_of_the_whole_fleet(fleet_of_two: AppClient, filters: dict[str, str]) -> None:
    """A node that is slow as a whole could not be seen from within."""
    as_of = "2026-11-20T12:00:00Z"
    whole, part = ridge(fleet_of_two, as_of=as_of), ridge(fleet_of_two, as_of=as_of, **filters)

    worst = [answer["gpus"][0]["ridges"][0] for answer in (whole, part)]

    assert worst[0] == worst[1]
    assert worst[0]["peers"] == 5


def test_dtype_and_regime_choose_the_roofs(fleet_of_two: AppClient) -> None:
    """Of the fleet and of each gpu."""
    answer = ridge(fleet_of_two, dtype="bfloat16", regime="sustained")

    assert [(found["dtype"], found["regime"]) for found in answer["ridges"]] == [("bfloat16", "sustained")]
    assert [len(found["ridges"]) for found in answer["gpus"]] == [1] * 5


def test_a_filtered_ridge_still_has_its_beta(fleet_of_two: AppClient) -> None:
    """Which was streamed in another dtype and regime."""
    [found] = ridge(fleet_of_two, dtype="bfloat16", regime="sustained")["gpus"][0]["ridges"]

    assert (found["beta_gbps"], found["beta_regime"]) == (4430.0, "burst")
