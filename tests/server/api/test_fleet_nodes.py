"""All nodes: with their worst gpu, what is missing, and as a list of hosts."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import AS_TEXT, post, read

HOSTLIST = {"format": "hostlist"}


def rows(client: AppClient, **params: Any) -> dict[str, Any]:
    """Rows of the list by the name of the node."""
    return {row["name"]: row for row in read(client, "/nodes", **params)["nodes"]}


def rostered(node: str, present: int, listed: int) -> list[dict[str, Any]]:
    """Runs of a node whose newest complete roster lists some of its gpus."""
    roster = [{"uuid": gpu_id(node, index), "index": index} for index in range(listed)]
    return runs(node, [SOUND] * present, days=1, run__roster=roster, run__roster_complete=True)


def test_each_node_has_its_worst_gpu(sick_fleet: AppClient) -> None:
    """By state and loss; nodes by cluster and name."""
    sound, slow = read(sick_fleet, "/nodes")["nodes"]

    assert (sound["name"], sound["verdicts"], sound["worst"]["state"]) == ("n01", {"ok": 8}, "ok")
    assert (slow["name"], slow["verdicts"], slow["gpus"]) == ("n02", {"outlier": 1, "ok": 7}, 8)
    assert (slow["worst"]["gpu_id"], slow["worst"]["index"]) == (gpu_id("n02", 7), 7)
    assert slow["worst"]["loss"] == pytest.approx(1 - SLOW / SOUND)
    assert (slow["rack"], slow["devices"]) == ("r1", {"H200": 8})


def test_a_gpu_that_the_roster_no_longer_lists_is_missing_from_its_node(client: AppClient, database_url: str) -> None:
    """It is still the node's."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - DAY))
    post(client, rostered("n01", 7, 7))
    evaluate(database_url)

    row = rows(client)["n01"]

    assert (row["missing"], row["gpus"], row["worst"]["state"]) == ([gpu_id("n01", 7)], 8, "missing")


def test_a_node_that_never_reported_is_listed(client: AppClient, database_url: str) -> None:
    """The inventory knows it."""
    post(client, runs("n01", [SOUND] * 8))
    expect(database_url, ExpectedGpu("n01", expected_gpus=8), ExpectedGpu("n09", device="H200", expected_gpus=8))
    evaluate(database_url)

    row = rows(client)["n09"]

    assert (row["never_reported"], row["unnamed"], row["gpus"], row["last_seen"]) == (True, 8, 0, None)
    node = read(client, "/nodes/n09")
    assert (node["never_reported"], node["unnamed"], node["gpus"]) == (True, 8, [])
    assert node["notes"] == ["the inventory expects this node, and nothing was ever heard of it"]


def test_a_gpu_that_the_inventory_names_and_nobody_saw_is_missing(client: AppClient, database_url: str) -> None:
    """From the node that it is expected on."""
    post(client, runs("n01", [SOUND] * 8))
    expect(database_url, ExpectedGpu("n01", gpu="GPU-lost", device="H200"))
    evaluate(database_url)

    assert rows(client)["n01"]["missing"] == ["GPU-lost"]
    node = read(client, "/nodes/n01")
    assert (node["missing"], node["worst"]) == (["GPU-lost"], "GPU-lost")


def test_a_node_shows_the_verdicts_of_its_gpus_and_what_a_job_loses(sick_fleet: AppClient) -> None:
    """To the slowest of them."""
    node = read(sick_fleet, "/nodes/n02")

    assert (node["verdicts"], node["worst"]) == ({"outlier": 1, "ok": 7}, gpu_id("n02", 7))
    assert [gpu["verdict"]["state"] for gpu in node["gpus"]] == ["ok"] * 7 + ["outlier"]
    cost = next(cost for cost in node["stragglers"] if cost["roof"]["kind"] == "compute")
    assert cost["loss"] == pytest.approx(1 - 8 * SLOW / (7 * SOUND + SLOW))
    assert cost["best"]["left_out"] == 1


def test_a_retired_gpu_is_missed_by_nobody(client: AppClient, database_url: str) -> None:
    """It was given back."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - DAY))
    post(client, rostered("n01", 7, 7))
    mark = {"kind": "retired", "reason": "returned", "author": "ops", "gpu_id": gpu_id("n01", 7)}
    assert client.post("/marks", json=mark).status_code == 201
    evaluate(database_url)

    node = read(client, "/nodes/n01")

    assert (node["missing"], rows(client)["n01"]["missing"]) == ([], [])
    [gone] = [gpu for gpu in node["gpus"] if gpu["retired"]]
    assert (gone["gpu_id"], gone["verdict"], gone["missing"]) == (gpu_id("n01", 7), None, False)


def test_filters_by_cluster_rack_and_verdict(client: AppClient, database_url: str) -> None:
    """What matches nothing gives an empty list."""
    post(client, [*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 7 + [SLOW], node__labels={"rack": "r2"})])
    post(client, runs("n03", [SOUND] * 4, node__cluster="west"))
    evaluate(database_url)

    assert list(rows(client, cluster="west")) == ["n03"]
    assert list(rows(client, rack="r2")) == ["n02"]
    assert list(rows(client, verdict="outlier,drifted")) == ["n02"]
    assert list(rows(client, verdict="ok", rack="r1", cluster="east")) == ["n01"]
    for nothing in ({"cluster": "x"}, {"rack": "\x00"}, {"verdict": "implausible"}):
        assert rows(client, **nothing) == {}


def test_made_up_nodes_are_listed_only_where_asked_for(client: AppClient, database_url: str) -> None:
    """And then alone."""
    post(client, [*runs("n01", [SOUND] * 4), *runs("s01", [SOUND] * 4, node__cluster="simulated")])
    expect(database_url, ExpectedGpu("s09", expected_gpus=8), cluster="simulated")
    evaluate(database_url)
    evaluate(database_url, simulated=True)

    assert list(rows(client)) == ["n01"]
    assert list(rows(client, cluster="simulated")) == ["s01", "s09"]


def test_pages_list_every_node_once(client: AppClient) -> None:
    """By cluster, then name."""
    for name, cluster in (("b", "east"), ("a", "west"), ("a", "east"), ("c", "east")):
        post(client, runs(name, [SOUND], days=1, node__cluster=cluster, gpu__uuid=f"GPU-{cluster}-{name}"))
    found: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    while True:
        page = read(client, "/nodes", limit=1, **after)
        found += [(row["cluster"], row["name"]) for row in page["nodes"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert found == [("east", "a"), ("east", "b"), ("east", "c"), ("west", "a")]


def test_a_host_list_names_the_nodes_for_a_scheduler(client: AppClient, database_url: str) -> None:
    """One line of plain text, folded."""
    for number in (1, 2, 3, 7):
        post(client, runs(f"n0{number}", [SOUND] * 3 + [SLOW]))
    post(client, [run for number in range(4) for run in runs(f"m{number}", [SOUND] * 8)])
    evaluate(database_url)

    answer = client.get("/nodes", params={"verdict": "outlier,drifted", **HOSTLIST})

    assert answer.text == "n[01-03,07]\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_host_list_without_nodes_is_an_empty_line(client: AppClient, database_url: str) -> None:
    """Which excludes nobody."""
    post(client, runs("n01", [SOUND] * 8))
    evaluate(database_url)

    assert client.get("/nodes", params={"verdict": "outlier", **HOSTLIST}).text == "\n"


def test_a_host_list_of_several_clusters_is_refused(client: AppClient) -> None:
    """A name may mean another node there."""
    post(client, [*runs("n01", [SOUND]), *runs("n02", [SOUND], node__cluster="west")])

    answer = client.get("/nodes", params=HOSTLIST)

    assert (answer.status_code, answer.json()["code"]) == (409, "several_clusters")
    assert answer.json()["clusters"] == ["east", "west"]
    assert client.get("/nodes", params={"cluster": "west", **HOSTLIST}).text == "n02\n"


@pytest.mark.parametrize("name", ["n[01-99]", "n01,n02", "n 1", "--help"])
def test_a_host_list_leaves_out_names_that_would_mean_other_nodes(client: AppClient, name: str) -> None:
    """And counts them."""
    post(client, [*runs("n05", [SOUND]), *runs(name, [SOUND])])

    answer = client.get("/nodes", params=HOSTLIST)

    assert (answer.text, answer.headers["fleetridge-left-out"]) == ("n05\n", "1")


def test_the_text_form_says_what_is_gone(client: AppClient, database_url: str) -> None:
    """Within 80 columns."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - DAY))
    post(client, [*rostered("n01", 7, 7), *runs("n02", [SOUND] * 7 + [SLOW], until=NOW - HOUR)])
    expect(database_url, ExpectedGpu("n01", expected_gpus=9), ExpectedGpu("n09", device="H200", expected_gpus=8))
    evaluate(database_url)

    text = client.get("/nodes", headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    for expected in ("1 missing, 7 ok", f"n01: missing {gpu_id('n01', 7)}", "never reported", "outlier", "fewer than"):
        assert expected in text
    assert client.get("/nodes?cluster=none", headers=AS_TEXT).text == "no nodes\n"
