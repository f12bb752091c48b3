"""The one answer about the fleet."""

from __future__ import annotations

import pytest

from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import AS_TEXT, post, read
from support.reports import compute_roof, memory_roof


def test_one_sentence_says_whether_the_fleet_is_good(client: AppClient, database_url: str) -> None:
    """And with numbers if not."""
    assert read(client, "/fleet")["sentence"] == "no gpu has reported yet"
    post(client, runs("n01", [SOUND] * 8))
    assert read(client, "/fleet")["sentence"] == "nothing was evaluated yet"
    evaluate(database_url)
    assert read(client, "/fleet")["sentence"] == "all 8 gpus are good; 100.0 % measured in 7 days"
    post(client, runs("n02", [SOUND] * 7 + [SLOW]))
    evaluate(database_url)

    answer = read(client, "/fleet")

    assert answer["sentence"] == "1 of 16 gpus need a look: 1 outlier; 100.0 % measured in 7 days"
    assert (answer["gpus"], answer["verdicts"]) == (16, {"outlier": 1, "ok": 15})


def test_a_slow_node_is_told_once_with_what_its_gpus_share(client: AppClient, database_url: str) -> None:
    """In the sentence, in the list and in the text forms of fleet, device and node."""
    slow_roofs = [compute_roof(SLOW, sm_clock_mhz=1700.0), memory_roof(4430.0)]
    roofs = [compute_roof(SOUND, sm_clock_mhz=1980.0), memory_roof(4430.0)]
    sound = [run for n in range(1, 4) for run in runs(f"n0{n}", [SOUND] * 7, roofs=roofs)]
    odd = runs("n01", [SOUND] * 7 + [0.9 * SLOW])[7::8]
    post(client, [*sound, *odd, *runs("n09", [SLOW] * 8, roofs=slow_roofs)])
    evaluate(database_url)

    answer = read(client, "/fleet")

    assert answer["sentence"].startswith("1 node slow as a whole (8 gpus) and 1 single gpu need a look, of 30 gpus")
    [place] = answer["slow_nodes"]
    assert (place["name"], place["cause"], len(place["roofs"])) == ("n09", "clock_lower", 1)
    forms = {url: _words(client, url) for url in ("/fleet", "/devices/h200/ridge", "/nodes/n09", "/alerts")}
    for form in forms.values():
        assert form.count("8 of 8 gpus: SM clock 1700 MHz, peers 1980 MHz") >= 1
    assert forms["/devices/h200/ridge"].count("n09, slow as a whole: 8 outlier (#0, ") == 1
    assert forms["/nodes/n09"].count("verdict since") == 1
    [gpu, node] = sorted(read(client, "/alerts")["alerts"], key=lambda alert: alert["kind"])
    assert (gpu["node"], node["details"]["reason"]) == ("n01", "clock_lower")


def _words(client: AppClient, url: str) -> str:
    return " ".join(client.get(url, headers=AS_TEXT).text.split())


def test_of_two_gpus_one_at_half_needs_a_look(client: AppClient, database_url: str) -> None:
    """In the sentence, the count, the worst nodes and on its page; it is no outlier."""
    post(client, runs("n01", [SOUND, SOUND / 2]))
    evaluate(database_url)

    answer = read(client, "/fleet")

    assert answer["sentence"].startswith("1 of 2 gpus need a look: 1 slower than its few peers; ")
    assert (answer["differing"], answer["verdicts"]) == (1, {"insufficient_peers": 2})
    [node] = answer["worst_nodes"]
    assert (node["troubled"], node["worst"]["gpu_id"]) == (1, gpu_id("n01", 1))
    assert read(client, "/fleet", cluster="east")["differing"] == 1
    assert read(client, "/fleet", cluster="west")["differing"] == 0
    page = client.get(f"/ui/gpus/{gpu_id('n01', 1)}", headers={"Accept": "text/html"}).text
    assert "of these two gpus this one is 50.0 % slower than the other" in page
    assert read(client, "/alerts")["alerts"] == []


def test_too_few_gpus_are_neither_good_nor_bad(client: AppClient, database_url: str) -> None:
    """The sentence does not praise them."""
    post(client, runs("n01", [SOUND] * 2))
    evaluate(database_url)

    assert read(client, "/fleet")["sentence"].startswith("none of 2 gpus could be judged")


def test_the_worst_nodes_come_first(client: AppClient, database_url: str) -> None:
    """With their worst gpu and why."""
    post(client, [*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 7 + [SLOW]), *runs("n03", [SOUND] * 7 + [600.0])])
    evaluate(database_url)

    first, second = read(client, "/fleet")["worst_nodes"]

    assert (first["name"], first["troubled"], first["worst"]["gpu_id"]) == ("n03", 1, gpu_id("n03", 7))
    assert (second["name"], second["worst"]["state"]) == ("n02", "outlier")


def test_coverage_counts_who_was_measured_lately(client: AppClient, database_url: str) -> None:
    """And names those who were not for longest."""
    post(client, runs("n01", [SOUND] * 4))
    post(client, runs("n02", [SOUND] * 2, until=NOW - 10 * DAY))
    post(client, runs("n03", [SOUND], evidence__contended=True))
    evaluate(database_url)

    week, month = read(client, "/fleet")["coverage"], read(client, "/fleet", days=30)["coverage"]

    assert (week["gpus"], week["measured"], week["share"]) == (7, 4, pytest.approx(4 / 7))
    never, oldest, _ = week["longest_unmeasured"]
    assert (never["gpu_id"], never["measured_at"]) == (gpu_id("n03", 0), None)
    assert (oldest["gpu_id"], oldest["node"]) == (gpu_id("n02", 0), "n02")
    assert month["measured"] == 6


def test_what_changed_is_told_since_a_time(client: AppClient, database_url: str) -> None:
    """Alerts and verdicts; a day by default."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - 2 * DAY))
    evaluate(database_url, at=NOW - 2 * DAY)
    post(client, [run for run in runs("n01", [SLOW] * 8, days=2) if run["gpu"]["index"] == 7])
    evaluate(database_url, at=NOW)

    day, week = read(client, "/fleet")["changes"], read(client, "/fleet", since=(NOW - 7 * DAY).isoformat())["changes"]

    assert (day["opened"], day["resolved"], day["still_open"]) == (1, 0, 1)
    assert [alert["gpu_id"] for alert in day["alerts"]] == [gpu_id("n01", 7)]
    assert day["verdicts"] == [{"before": "ok", "after": "outlier", "gpus": 1}]
    assert {(step["before"], step["after"], step["gpus"]) for step in week["verdicts"]} == {
        (None, "ok", 7),
        (None, "outlier", 1),
    }


def test_a_job_waits_for_the_slowest_gpu(client: AppClient, database_url: str) -> None:
    """Over the device, the worst rack and the worst node."""
    post(client, [*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 7 + [SLOW], node__labels={"rack": "r2"})])
    evaluate(database_url)

    costs = read(client, "/fleet")["stragglers"]

    assert [(cost["scope"], cost["name"]) for cost in costs] == [("device", None), ("rack", "r2"), ("node", "n02")]
    assert costs[0]["loss"] == pytest.approx(1 - 16 * SLOW / (15 * SOUND + SLOW))
    assert (costs[0]["best"]["left_out"], costs[0]["slowest_gpu_id"]) == (1, gpu_id("n02", 7))


def test_a_node_that_is_slow_as_a_whole_is_named(client: AppClient, database_url: str) -> None:
    """Once."""
    for number in range(5):
        post(client, runs(f"n{number}", [SOUND] * 4))
    post(client, runs("n9", [0.9 * SOUND] * 4))
    evaluate(database_url)

    [place] = read(client, "/fleet")["slow_nodes"]

    assert (place["name"], place["gpus"], place["loss"]) == ("n9", 4, pytest.approx(0.1))


def test_a_cluster_has_an_answer_of_its_own(client: AppClient, database_url: str) -> None:
    """Peers stay those of everywhere."""
    post(client, [*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 3 + [SLOW], node__cluster="west")])
    evaluate(database_url)

    west, nowhere = read(client, "/fleet", cluster="west"), read(client, "/fleet", cluster="\x00")

    assert (west["gpus"], west["verdicts"], west["coverage"]["gpus"]) == (4, {"outlier": 1, "ok": 3}, 4)
    assert [node["name"] for node in west["worst_nodes"]] == ["n02"]
    assert (nowhere["gpus"], nowhere["verdicts"]) == (0, {})


def test_made_up_gpus_are_no_part_of_the_fleet(client: AppClient, database_url: str) -> None:
    """They have an answer where it is asked for."""
    post(client, [*runs("n01", [SOUND] * 8), *runs("s01", [SOUND] * 7 + [SLOW], node__cluster="simulated")])
    evaluate(database_url)
    evaluate(database_url, simulated=True)

    real, made_up = read(client, "/fleet"), read(client, "/fleet", cluster="simulated")

    assert (real["verdicts"], real["changes"]["still_open"]) == ({"ok": 8}, 0)
    assert (made_up["verdicts"], made_up["changes"]["still_open"]) == ({"outlier": 1, "ok": 7}, 1)
    assert made_up["coverage"]["gpus"] == 8


def test_as_of_an_earlier_time_the_fleet_is_that_of_then(client: AppClient, database_url: str) -> None:
    """By the evaluation of then."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - 2 * DAY))
    evaluate(database_url, at=NOW - 2 * DAY)
    post(client, [*runs("n01", [SOUND] * 7 + [SLOW], days=2), *runs("n02", [SOUND], days=1)])
    evaluate(database_url, at=NOW)

    then = read(client, "/fleet", as_of=(NOW - 2 * DAY).isoformat())

    assert (then["gpus"], then["verdicts"], then["worst_nodes"]) == (8, {"ok": 8}, [])
    assert then["coverage"]["measured"] == 8


def test_what_is_said_of_a_whole_group_is_noted_though_nobody_is_accused(client: AppClient, database_url: str) -> None:
    """As of gpus that all have a slower driver."""
    post(
        client,
        [
            *(run for n in (1, 2, 3) for run in runs(f"n0{n}", [SOUND] * 3, environment__driver="580.1")),
            *(run for n in (4, 5, 6) for run in runs(f"n0{n}", [0.95 * SOUND] * 3, environment__driver="590.1")),
        ],
    )
    evaluate(database_url)

    answer = read(client, "/fleet")

    assert answer["verdicts"] == {"ok": 18}
    assert answer["devices"][0]["noted"] == ["factor_step"]
    assert "noted on H200: factor step" in answer["sentence"]


def test_the_text_form_begins_with_the_sentence(sick_fleet: AppClient) -> None:
    """Within 80 columns."""
    text = sick_fleet.get("/fleet", headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    assert "1 of 16 gpus need a look: 1 outlier" in text.splitlines()[0]
    for expected in ("n02", "16 of 16 gpus", "1 alert opened", "1 gpu: new → outlier", "leaving it out wins"):
        assert expected in " ".join(text.split())


def test_nodes_that_never_reported_are_in_the_sentence(client: AppClient, database_url: str) -> None:
    """The inventory expects them."""
    post(client, runs("n01", [SOUND] * 8))
    expect(database_url, ExpectedGpu("n09", device="H200", expected_gpus=8))
    evaluate(database_url)

    answer = read(client, "/fleet")

    assert "1 expected node never reported" in answer["sentence"]
    assert (answer["nodes_never_reported"], answer["unnamed"]) == (1, 8)
