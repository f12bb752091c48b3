"""Made-up gpus never share anything with real ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.app_client import AppClient
from support.databases import Databases
from support.fleet import fleet, gpu_ids, post_judged, ridge
from support.read_only import fleet_to_read
from support.reports import make_report


def real_and_made_up() -> list[dict[str, Any]]:
    """Four real gpus and five made-up ones, which are faster."""
    made_up = [
        make_report(gpu__uuid=f"GPU-s{number}", node__cluster="simulated", node__name="s1", pi_tflops=999.0)
        for number in range(5)
    ]
    toy = make_report(gpu__device="Toy", gpu__uuid="GPU-t", node__cluster="simulated")
    return [*fleet([845.0] * 4), *made_up, toy]


@pytest.fixture(scope="module")
def both(databases: Databases) -> Iterator[AppClient]:
    """A server of those, to which nothing can be written."""
    with fleet_to_read(databases, real_and_made_up(), is_evaluated=True) as client:
        yield client


def test_they_are_left_out(both: AppClient) -> None:
    """Of lists, medians and counts."""
    answer = ridge(both)

    assert (len(answer["gpus"]), answer["ridges"][0]["pi_tflops"]["median"]) == (4, 845.0)


def test_they_are_given_alone_where_asked_for(both: AppClient) -> None:
    """And real ones are left out then."""
    answer = ridge(both, cluster="simulated")

    assert (len(answer["gpus"]), answer["ridges"][0]["pi_tflops"]["median"]) == (5, 999.0)


def test_a_device_that_only_they_have_is_not_listed(both: AppClient) -> None:
    """Unless asked for."""
    lists = [both.get("/devices", params=params).json()["devices"] for params in ({}, {"cluster": "simulated"})]

    assert [[device["name"] for device in devices] for devices in lists] == [["H200"], ["H200", "Toy"]]


def test_a_made_up_gpu_is_compared_with_made_up_ones(both: AppClient) -> None:
    """By its own page too, which has to be asked for as well."""
    found = both.get("/gpus/GPU-s0", params={"cluster": "simulated"}).json()["ridges"][0]

    assert (found["peers"], found["pi_deviation"]) == (5, 0)
    assert both.get("/gpus/GPU-s0").status_code == 404


def test_a_made_up_copy_of_a_real_gpu_does_not_hide_it(client: AppClient) -> None:
    """Not even with a newer report."""
    copied = make_report(
        gpu__uuid="GPU-a000",
        node__cluster="simulated",
        pi_tflops=1.0,
        measured_from="2026-11-21T02:00:00Z",
        measured_to="2026-11-21T02:01:00Z",
    )
    post_judged(client, real_and_made_up())
    post_judged(client, [copied])

    answer = ridge(client)

    assert "GPU-a000" in gpu_ids(answer)
    assert answer["gpus"][0]["worst"]["deviation"] == 0
