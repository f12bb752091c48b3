"""The page of the fleet says what the API says, in every state that a fleet can be in."""

from __future__ import annotations

import pytest

from fleetridge.quantities import percent
from fleetridge_server.fleet.expected import ExpectedGpu
from fleetridge_server.web import fleet
from support.app_client import AppClient
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import post, read
from support.html_pages import page_of


def test_the_heading_is_the_answer_of_the_api(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, "/")

    sentence = read(sick_fleet, "/fleet")["sentence"]
    assert sentence[:1].upper() + sentence[1:] in page.text
    assert page.links["/fleet"] == "/fleet"


def test_counts_by_verdict_are_links_to_the_gpus(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, "/")

    for state, count in read(sick_fleet, "/fleet")["verdicts"].items():
        href = page.links[f"{count} {'▼' if state == 'outlier' else '✓'} {state}"]
        assert page_of(sick_fleet, href).text.count("gpus listed" if count > 1 else "1 gpu listed") == 1
        assert f"verdict={state}" in href


def test_the_worst_gpu_is_one_click_away_with_its_loss_and_reason(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, "/")

    worst = read(sick_fleet, "/fleet")["worst_nodes"][0]
    row = page.row("n02 gpu 7")
    assert row[1:4] == ["▼ outlier", f"−{percent(worst['worst']['loss'])}", worst["worst"]["reason"].replace("_", " ")]
    assert page.links["n02 gpu 7"] == f"/ui/gpus/{gpu_id('n02', 7)}"
    assert page_of(sick_fleet, page.links["n02 gpu 7"]).text.count("outlier") > 1


def test_every_node_of_the_map_is_in_its_table(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, "/")

    table = [row for row in page.rows if len(row) == 6 and row[1] == "east"]
    assert [(row[0], row[3]) for row in table] == [("n01", "8"), ("n02", "8")]
    assert table[1][4] == "▼ outlier"
    assert page.html.count("<svg") == 2


def test_a_map_of_a_large_fleet_has_the_nodes_in_trouble(
    sick_fleet: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says that it is not all of them."""
    monkeypatch.setattr(fleet, "MOST_MAPPED", 1)

    page = page_of(sick_fleet, "/")

    assert "1 of 2 nodes: those with a gpu in trouble before the others." in page.text
    assert "n02 gpu 7" in sick_fleet.get("/ui/fleet/heatmap.svg").text
    assert "n01" not in sick_fleet.get("/ui/fleet/heatmap.svg").text


def test_coverage_and_changes_are_those_of_the_api(sick_fleet: AppClient) -> None:
    page, answer = page_of(sick_fleet, "/"), read(sick_fleet, "/fleet")

    coverage = answer["coverage"]
    assert f"{coverage['measured']} of {coverage['gpus']} gpus ({percent(coverage['share'])})" in page.text
    assert f"{answer['changes']['opened']} alert opened, 0 resolved; 1 open" in page.text
    for alert in answer["changes"]["alerts"]:
        assert alert["summary"] in page.text


def test_an_empty_fleet_says_how_to_post_the_first_report(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/")

    assert "No gpu has reported yet" in page.text
    assert "fleetridge-agent run --server http://server" in page.text
    assert page.html.count("<svg") == 0


def test_an_empty_fleet_leads_to_the_simulated_one_if_there_is_one(client: AppClient) -> None:
    assert "look at the simulated gpus" not in page_of(client, "/").text
    post(client, runs("n01", [SOUND] * 4, node__cluster="simulated"))

    page = page_of(client, "/")

    assert page.links["look at the simulated gpus"] == "/?cluster=simulated"


def test_a_simulated_fleet_says_so_and_stays_simulated_at_every_click(client: AppClient, database_url: str) -> None:
    post(client, runs("n01", [SOUND] * 7 + [SLOW], node__cluster="simulated"))
    evaluate(database_url, simulated=True)

    page = page_of(client, "/?cluster=simulated")

    assert "Simulated. These gpus do not exist" in page.text
    inner = [href for href in page.addresses if href.startswith(("/ui/", "/?", "/fleet")) and "static" not in href]
    assert inner
    assert [href for href in inner if "cluster=simulated" not in href] == []


def test_gpus_that_nobody_evaluated_are_neither_good_nor_bad(client: AppClient) -> None:
    post(client, runs("n01", [SOUND] * 8))

    page = page_of(client, "/")

    assert "Nothing was evaluated yet" in page.text
    assert 'class="answer unknown"' in page.html


def test_stale_and_missing_gpus_and_silent_nodes_are_told(client: AppClient, database_url: str) -> None:
    post(client, [*runs("n01", [SOUND] * 7), *runs("n02", [SOUND], until=NOW - 10 * DAY)])
    expect(database_url, ExpectedGpu("n03", "GPU-never"), ExpectedGpu("n01", None))
    evaluate(database_url)

    page = page_of(client, "/")

    assert "1 ◷ stale" in page.links
    assert "expected node never reported" in page.text
    assert "n03" in page.text


def test_the_past_is_marked_as_such_and_has_no_map(sick_fleet: AppClient) -> None:
    then = (NOW - DAY).isoformat().replace("+00:00", "Z")

    page = page_of(sick_fleet, f"/?as_of={then}")

    assert "The past. As of" in page.text
    assert page.html.count("<svg") == 0
    assert f"as_of={then.replace(':', '%3A')}" in page.links["H200"]


def test_a_wrong_parameter_is_told_on_a_page(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/?days=none", status=422)

    assert "query.days" in page.text
    assert page_of(empty_server, "/?nonsense=1", status=422).text.count("query.nonsense") == 1


def test_a_cluster_can_be_chosen_where_there_are_several(client: AppClient, database_url: str) -> None:
    post(client, [*runs("n01", [SOUND] * 4), *runs("w01", [SOUND] * 4, node__cluster="west")])
    evaluate(database_url)

    page = page_of(client, "/?cluster=west")

    options = [own["value"] for name, own in page.elements if name == "option"]
    assert options == ["", "east", "west"]
    assert "w01" in page.html
    assert "n01" not in page.html


def test_a_cluster_that_nobody_knows_is_no_empty_fleet(sick_fleet: AppClient) -> None:
    """Nobody has to be told how to post a first report who mistyped a name."""
    page = page_of(sick_fleet, "/?cluster=nowhere")

    assert "Nothing is known of cluster nowhere" in page.text
    assert page.links["Show the whole fleet"] == "/"
