"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetridge_server.responses import metrics as reading
from support.app_client import AppClient, app_client
from support.evaluated import SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import post, ridge
from support.reports import compute_roof, memory_roof

Sample = tuple[dict[str, str], float]


def samples(client: AppClient, name: str) -> list[Sample]:
    """Samples of one metric, as Prometheus parses them."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return [(own.labels, own.value) for own in _samples(answer.text) if own.name == name]


def _samples(text: str) -> Iterator[Any]:
    for family in text_string_to_metric_families(text):
        yield from family.samples


def test_every_device_counts_its_verdicts(sick_node: AppClient) -> None:
    """Zeros included, so that an alert rule never waits for a series to appear."""
    counts = {labels["verdict"]: value for labels, value in samples(sick_node, "fleetridge_gpus")}

    assert (counts["outlier"], counts["ok"], counts["missing"], len(counts)) == (1, 7, 0, 11)


def test_gpus_that_are_not_ok_have_series_of_their_own(sick_node: AppClient) -> None:
    """Rates, ridge, deviation and age, with the first reason."""
    [(labels, value)] = samples(sick_node, "fleetridge_gpu_verdict")
    assert (labels["gpu"], labels["node"], labels["verdict"], value) == (gpu_id("n01", 7), "n01", "outlier", 1)

    [(pi_labels, pi)] = samples(sick_node, "fleetridge_gpu_pi_tflops")
    assert (pi_labels["dtype"], pi_labels["regime"], pi) == ("bfloat16", "burst", SLOW)
    assert [value for _, value in samples(sick_node, "fleetridge_gpu_beta_gbps")] == [4430.0]
    [(_, ridge)] = samples(sick_node, "fleetridge_gpu_ridge_flop_per_byte")
    assert ridge == pytest.approx(1000 * SLOW / 4430.0)
    deviations = {labels["roof"]: value for labels, value in samples(sick_node, "fleetridge_gpu_deviation_ratio")}
    assert deviations == {"pi": pytest.approx(SLOW / SOUND - 1), "beta": 0.0}
    [(_, age)] = samples(sick_node, "fleetridge_gpu_report_age_seconds")
    assert age > 0


def test_every_gpu_has_series_where_that_is_switched_on(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a setting."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_METRICS_OF_EVERY_GPU", "true")
    with app_client(database_url) as client:
        post(client, runs("n01", [SOUND] * 7 + [SLOW]))
        evaluate(database_url)

        assert len(samples(client, "fleetridge_gpu_pi_tflops")) == 8


def test_a_ridge_is_one_that_the_list_shows(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several methods and dtypes: a rate goes with the bandwidth that was measured like it."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_METRICS_OF_EVERY_GPU", "true")
    with app_client(database_url) as client:
        for method, pi, beta, slow in (("standard", SOUND, 4430.0, (1.0, 0.9)), ("custom", SLOW, 3000.0, (0.8, 1.0))):
            measured = [(pi * slow[0], beta * slow[1]), *[(pi, beta)] * 3]
            for index, (own_pi, own_beta) in enumerate(measured):
                roofs = [compute_roof(own_pi), memory_roof(own_beta), memory_roof(own_beta / 2, dtype="bfloat16")]
                one = runs("n01", [own_pi] * 4, days=1, agent__method=method, roofs=roofs)[index]
                post(client, [one])
        evaluate(database_url)
        listed: dict[str, set[float]] = {}
        for row in ridge(client)["gpus"]:
            listed[row["gpu_id"]] = {own["ridge_flop_per_byte"] for own in row["ridges"]}
        shown = samples(client, "fleetridge_gpu_ridge_flop_per_byte")

    assert [len(own) for own in listed.values()] == [2] * 4
    assert len(shown) == 4
    assert all(value in listed[labels["gpu"]] for labels, value in shown)


def test_made_up_gpus_never_show(client: AppClient, database_url: str) -> None:
    """No rule may fire for them."""
    post(client, runs("n01", [SOUND] * 7 + [SLOW]))
    evaluate(database_url)
    post(client, runs("s01", [SOUND] * 7 + [SLOW], node__cluster="simulated"))
    evaluate(database_url, simulated=True)

    assert "s01" not in client.get("/metrics").text
    assert sum(value for _, value in samples(client, "fleetridge_gpus")) == 8


def test_gpus_beyond_the_bound_are_counted(
    client: AppClient, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst are kept."""
    monkeypatch.setattr("fleetridge_server.api.service.MOST_GPUS", 1)
    post(client, runs("n01", [SOUND] * 14 + [SLOW, SLOW]))
    evaluate(database_url)

    assert len(samples(client, "fleetridge_gpu_verdict")) == 1
    assert samples(client, "fleetridge_gpus_left_out") == [({}, 1)]
    assert reading.MOST_GPUS == 5000


def test_names_are_escaped(client: AppClient, database_url: str) -> None:
    """A node cannot invent a series."""
    name = 'n"} 1 \\'
    post(client, runs(name, [SOUND] * 7 + [SLOW]))
    evaluate(database_url)

    [(labels, _)] = samples(client, "fleetridge_gpu_verdict")

    assert labels["node"] == name


def test_an_empty_server_has_metrics(empty_server: AppClient) -> None:
    """Scrapes succeed from the first moment."""
    assert samples(empty_server, "fleetridge_gpus_left_out") == [({}, 0)]
