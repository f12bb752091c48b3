"""Metrics of devices as a whole: how new their reports are, and what changes did to them."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.app_client import AppClient
from support.evaluated import DAY, NOW, SOUND, evaluate, runs
from support.fleet import post


def samples(client: AppClient, name: str) -> list[tuple[dict[str, str], float]]:
    """Samples of one metric, as Prometheus parses them."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return [(own.labels, own.value) for family in families for own in family.samples if own.name == name]


def test_the_newest_report_of_a_device_has_an_age_before_anything_was_evaluated(client: AppClient) -> None:
    """So that reports which nobody judges can be told from none."""
    assert samples(client, "fleetridge_newest_report_age_seconds") == []
    post(client, runs("n01", [SOUND] * 2))

    [(labels, age)] = samples(client, "fleetridge_newest_report_age_seconds")

    assert labels == {"device": "H200"}
    assert 0 < age < 2 * DAY.total_seconds()
    assert samples(client, "fleetridge_evaluation_age_seconds") == []


def test_made_up_reports_make_no_device_look_alive(client: AppClient) -> None:
    """A demonstration hides no outage."""
    post(client, runs("s01", [SOUND], node__cluster="simulated"))

    assert samples(client, "fleetridge_newest_report_age_seconds") == []


def test_what_a_driver_did_to_the_gpus_that_met_it_is_told(client: AppClient, database_url: str) -> None:
    """With what was there before and after."""
    post(client, runs("n01", [SOUND] * 8, days=4, until=NOW - 5 * DAY))
    evaluate(database_url, at=NOW - 5 * DAY)
    post(client, runs("n01", [0.95 * SOUND] * 8, days=4, environment__driver="590.10"))
    evaluate(database_url)

    effects = samples(client, "fleetridge_upgrade_effect_ratio")

    assert {(labels["factor"], labels["before"], labels["after"]) for labels, _ in effects} == {
        ("driver", "580.159.04", "590.10")
    }
    assert {labels["roof"]: value for labels, value in effects} == {"pi": pytest.approx(-0.05), "beta": 0.0}


def test_what_is_said_once_of_many_is_counted_by_kind(client: AppClient, database_url: str) -> None:
    """Zeros included."""
    for number in range(4):
        post(client, runs(f"n0{number}", [SOUND] * 2))
        post(client, runs(f"n1{number}", [0.95 * SOUND] * 2, environment__driver="590.10"))
    evaluate(database_url)

    told = {labels["notice"]: value for labels, value in samples(client, "fleetridge_notices")}

    assert (told["factor_step"], told["fleet_drift"]) == (1, 0)
