"""The pages of nodes, alerts and comparisons."""

from __future__ import annotations

from typing import Any

from fleetridge.quantities import signed_percent, significant
from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import post, read
from support.html_pages import page_of


def test_a_node_shows_its_gpus_as_the_api_does(sick_node: AppClient) -> None:
    page, answer = page_of(sick_node, "/ui/nodes/n01?cluster=east"), read(sick_node, "/nodes/n01", cluster="east")

    rows = [row for row in page.rows if row and row[0].startswith("gpu ") and row[0] != "gpu"]
    assert [row[0].split()[-1] for row in rows] == [gpu["gpu_id"] for gpu in answer["gpus"]]
    slow = page.row("gpu 7")
    assert slow[2] == "▼ outlier"
    assert slow[4] == answer["gpus"][7]["verdict"]["reasons"][0]["text"]
    assert "/nodes/n01?cluster=east" in page.links


def test_a_node_that_only_the_inventory_knows_has_a_page(client: AppClient, database_url: str) -> None:
    post(client, runs("n01", [SOUND] * 4))
    expect(database_url, ExpectedGpu("n09", "GPU-never"))
    evaluate(database_url)

    page = page_of(client, "/ui/nodes/n09")

    assert "Never heard of; the inventory expects it." in page.text
    assert "GPU-never was never seen" in page.text


def test_nodes_of_one_name_in_two_clusters_are_offered_for_choice(client: AppClient) -> None:
    post(client, [*runs("n01", [SOUND]), *runs("n01", [SOUND], node__cluster="west", gpu__uuid="GPU-west")])

    page = page_of(client, "/ui/nodes/n01", status=409)

    assert page.links["n01 in west"] == "/ui/nodes/n01?cluster=west"
    assert "GPU-west" in page_of(client, page.links["n01 in west"]).text


def test_alerts_are_those_of_the_api_and_can_be_filtered(client: AppClient, database_url: str) -> None:
    assert "No alert was ever opened." in page_of(client, "/ui/alerts").text
    post(client, runs("n01", [SOUND] * 7 + [SLOW]))
    evaluate(database_url)

    page = page_of(client, "/ui/alerts?state=open")

    [alert] = read(client, "/alerts", state="open")["alerts"]
    assert page.links[alert["summary"]] == f"/ui/gpus/{gpu_id('n01', 7)}"
    resolved = page_of(client, "/ui/alerts?state=resolved&kind=")
    assert "No alert fits these filters." in resolved.text
    assert resolved.links["Show all"] == "/ui/alerts"


def test_a_comparison_has_the_figures_of_the_api(client: AppClient, database_url: str) -> None:
    before = runs("n01", [SOUND] * 6, days=4, until=NOW - 5 * DAY)
    after = runs("n01", [0.95 * SOUND] * 6, days=4, environment__driver="590.1")
    post(client, [*before, *after, *runs("n02", [SOUND] * 8)])
    evaluate(database_url)

    page, answer = page_of(client, "/ui/devices/h200/compare"), read(client, "/devices/h200/compare", by="driver")

    roof = answer["roofs"][0]
    for group in roof["groups"]:
        row = next(row for row in page.rows if len(row) == 6 and row[0] == group["level"])
        assert row[1:3] == [str(group["values"]["n"]), significant(group["values"]["median"])]
    effect = roof["paired"][0]["effect"]
    assert signed_percent(effect) in next(row for row in page.rows if len(row) == 5 and row[1] == "590.1")
    assert "/devices/h200/compare?by=driver" in page.links
    paired = roof["paired"][0]
    said = f"{signed_percent(effect)} ({signed_percent(paired['low'])} to {signed_percent(paired['high'])})"
    assert f"580.159.04 → 590.1: 6 gpus with themselves {said}" in page.text
    [chart] = [own for own in page.addresses if "compare.svg" in own]
    assert said in client.get(chart).text


def test_a_comparison_keeps_what_it_was_asked_for(client: AppClient, database_url: str) -> None:
    post(client, runs("n01", [SOUND] * 4))
    evaluate(database_url)

    page = page_of(client, "/ui/devices/h200/compare?by=cluster&regime=burst&as_of=2099-01-01T00:00:00Z")

    assert page.fields() == {"regime": "burst", "as_of": "2099-01-01T00:00:00Z"}
    [chart] = [own for own in page.addresses if "compare.svg" in own]
    assert {"by=cluster", "regime=burst"} <= set(chart.partition("?")[2].split("&"))


def test_a_comparison_says_where_there_is_nothing_to_compare(client: AppClient) -> None:
    failed: dict[str, Any] = {"outcome": "failed", "reason": "timed_out", "roofs": [], "points": [], "sweep": None}
    post(client, runs("n01", [SOUND], **failed))

    page = page_of(client, "/ui/devices/h200/compare?by=label%3Arack")

    assert "There is nothing to compare" in page.text
    assert read(client, "/devices/h200/compare", by="label:rack")["evaluation_note"] in page.text
    assert "choose one of" in page_of(client, "/ui/devices/h200/compare?by=nonsense", status=422).text
