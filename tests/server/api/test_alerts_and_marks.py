"""Alerts, and the marks by which people answer them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from fleetridge_server.db.database import Database
from support.app_client import AppClient
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import AS_TEXT, post, read
from support.tokens import bearer, make_token

GPU = gpu_id("n01", 7)
MARK: dict[str, Any] = {"kind": "accepted", "reason": "capped on purpose", "author": "ops", "gpu_id": GPU}
DRIVER: dict[str, Any] = {"gpu_id": None, "driver": "580.159.04"}


@pytest.fixture
def slow_client(client: AppClient, database_url: str) -> AppClient:
    """Eight gpus of which the last is slow; evaluated."""
    post(client, runs("n01", [SOUND] * 7 + [SLOW]))
    evaluate(database_url)
    return client


def state_of(client: AppClient) -> str:
    """State of the slow gpu."""
    state: str = read(client, f"/gpus/{GPU}")["verdict"]["state"]
    return state


def test_an_outlier_opens_an_alert_and_recovery_resolves_it(slow_client: AppClient, database_url: str) -> None:
    """By themselves."""
    [alert] = read(slow_client, "/alerts")["alerts"]
    assert (alert["kind"], alert["state"], alert["gpu_id"], alert["node"]) == ("gpu", "outlier", GPU, "n01")
    assert (alert["device"], alert["resolved_at"]) == ("H200", None)
    assert "14.8 % below its peers" in alert["summary"]

    for minutes in (10, 50):
        later = runs("n01", [SOUND] * 8, days=1, until=NOW + timedelta(minutes=minutes))
        post(slow_client, [run for run in later if run["gpu"]["index"] == 7])
    evaluate(database_url, at=NOW + DAY)

    [alert] = read(slow_client, "/alerts")["alerts"]
    assert alert["resolved_at"] is not None


def test_alerts_can_be_filtered(slow_client: AppClient) -> None:
    """By state, kind, device and cluster."""

    def found(**params: str) -> int:
        return len(read(slow_client, "/alerts", **params)["alerts"])

    assert (found(state="open"), found(state="resolved")) == (1, 0)
    assert (found(kind="gpu"), found(kind="node")) == (1, 0)
    assert found(device="NVIDIA H200") == 1
    assert (found(cluster="east"), found(cluster="west"), found(cluster="\x00")) == (1, 0, 0)
    assert slow_client.get("/alerts?device=B200").json()["code"] == "unknown_device"
    assert slow_client.get("/alerts?state=closed").status_code == 422


def test_pages_of_alerts_fit_together(client: AppClient, database_url: str) -> None:
    """The newest first; a token that somebody made up is refused."""
    post(client, [run for n in range(3) for run in runs(f"n{n}", [SOUND] * 7 + [SLOW])])
    evaluate(database_url)
    found: list[int] = []
    after: dict[str, str] = {}
    while True:
        page = read(client, "/alerts", limit=1, **after)
        found += [alert["id"] for alert in page["alerts"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert found == sorted(set(found), reverse=True)
    assert len(found) == 3
    assert client.get("/marks", params=after).status_code == 422


def test_alerts_of_made_up_gpus_show_only_where_asked_for(slow_client: AppClient, database_url: str) -> None:
    """They wake nobody."""
    post(slow_client, runs("s01", [SOUND] * 7 + [SLOW], node__cluster="simulated"))
    evaluate(database_url, simulated=True)

    assert [alert["node"] for alert in read(slow_client, "/alerts")["alerts"]] == ["n01"]
    assert [alert["node"] for alert in read(slow_client, "/alerts", cluster="simulated")["alerts"]] == ["s01"]


def test_a_mark_excuses_what_it_covers_from_the_next_evaluation_on(slow_client: AppClient, database_url: str) -> None:
    """And no longer once it is ended."""
    answer = slow_client.post("/marks", json=MARK)
    assert (answer.status_code, answer.json()["state"]) == (201, "holds")
    mark_id = answer.json()["id"]
    assert answer.headers["location"] == f"/marks/{mark_id}"
    assert state_of(slow_client) == "outlier"

    evaluate(database_url)
    verdict = read(slow_client, f"/gpus/{GPU}")["verdict"]
    assert (verdict["state"], verdict["last_state"]) == ("known", "outlier")
    assert verdict["flags"][0] == "excused"
    assert verdict["excuses"][0]["mark_id"] == mark_id
    assert read(slow_client, "/alerts", state="open")["alerts"] == []

    ended = slow_client.request("DELETE", f"/marks/{mark_id}")
    assert (ended.status_code, ended.json()["state"]) == (200, "ended")
    evaluate(database_url)
    assert state_of(slow_client) == "outlier"


def test_a_mark_covers_no_more_than_the_loss_that_was_accepted(slow_client: AppClient, database_url: str) -> None:
    """A gpu that is clearly worse has another fault."""
    slow_client.post("/marks", json=MARK | {"loss": 0.05})
    evaluate(database_url)

    assert state_of(slow_client) == "outlier"


def test_marks_are_listed_those_that_hold_or_all(slow_client: AppClient) -> None:
    """The newest first; an ended one stays."""
    first = slow_client.post("/marks", json=MARK).json()["id"]
    second = slow_client.post(
        "/marks", json=MARK | {"kind": "false_positive", "until": (NOW + DAY).isoformat()}
    ).json()["id"]
    slow_client.request("DELETE", f"/marks/{first}")

    assert [mark["id"] for mark in read(slow_client, "/marks")["marks"]] == [second]
    assert [mark["id"] for mark in read(slow_client, "/marks", state="all")["marks"]] == [second, first]
    page = read(slow_client, "/marks", state="all", limit=1)
    assert [mark["id"] for mark in read(slow_client, "/marks", state="all", limit=1, after=page["next"])["marks"]] == [
        first
    ]


def test_ending_a_mark_again_changes_nothing(slow_client: AppClient) -> None:
    """Its first end stays."""
    mark_id = slow_client.post("/marks", json=MARK).json()["id"]

    first, second = (slow_client.request("DELETE", f"/marks/{mark_id}").json() for _ in range(2))

    assert first == second


@pytest.mark.parametrize("mark_id", ["99", "0", "-1", str(2**70)])
def test_ending_an_unknown_mark_is_a_problem_that_says_where_to_look(client: AppClient, mark_id: str) -> None:
    """Whatever the number."""
    answer = client.request("DELETE", f"/marks/{mark_id}")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_mark")
    assert "GET /marks" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"gpu_id": None}, "body.gpu_id", "needs a scope"),
        ({"gpu_id": None, "node": "n01"}, "body.cluster", "name the cluster as well"),
        ({"gpu_id": "GPU-none"}, "body.gpu_id", "spelled exactly"),
        ({"gpu_id": None, "cluster": "west"}, "body.cluster", "spelled exactly"),
        ({"gpu_id": None, "cluster": "east", "node": "n02"}, "body.cluster", "spelled exactly"),
        ({"gpu_id": None, "cluster": "east", "rack": "r9"}, "body.cluster", "spelled exactly"),
        ({"cluster": "simulated"}, "body.gpu_id", "cluster simulated"),
        ({"until": "2020-01-01T00:00:00Z"}, "body.until", "later time"),
        ({"kind": "retired", "loss": 0.1}, "body.loss", "leave it out"),
        ({"author": None}, "body.author", "say who decides"),
        ({"kind": "known"}, "body.until", "give that"),
        ({"kind": "retired", **DRIVER}, "body.driver", "name them"),
        ({**DRIVER, "driver": "1.0"}, "body.driver", "spelled exactly"),
        ({**DRIVER, "cluster": "west"}, "body.driver", "spelled exactly"),
    ],
)
def test_a_mark_that_would_cover_nothing_is_refused(
    slow_client: AppClient, changes: dict[str, Any], field: str, remedy: str
) -> None:
    """With the field and the remedy."""
    answer = slow_client.post("/marks", json=MARK | changes)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_mark")
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert remedy in error["problem"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "wrong"},
        {"reason": ""},
        {"reason": "\x1b[31m"},
        {"author": ""},
        {"loss": 1.5},
        {"loss": "NaN"},
        {"gpu_id": "\x00"},
        {"until": "soon"},
        {"no_such_field": 1},
    ],
)
def test_what_is_no_mark_is_refused(slow_client: AppClient, changes: dict[str, Any]) -> None:
    """As problem details, with the field."""
    answer = slow_client.post("/marks", json=MARK | changes)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"].startswith("body")
    assert read(slow_client, "/marks", state="all")["marks"] == []


@pytest.mark.parametrize(
    "scope", [{"cluster": "east"}, {"cluster": "east", "node": "n01"}, {"cluster": "east", "rack": "r1"}]
)
def test_a_mark_may_cover_a_cluster_a_node_or_a_rack(
    slow_client: AppClient, database_url: str, scope: dict[str, str]
) -> None:
    """All gpus that are there."""
    assert slow_client.post("/marks", json=MARK | {"gpu_id": None} | scope).status_code == 201
    evaluate(database_url)

    assert state_of(slow_client) == "known"


@pytest.mark.parametrize("scope", [DRIVER, DRIVER | {"cluster": "east"}])
def test_a_mark_may_cover_all_gpus_with_a_driver(
    slow_client: AppClient, database_url: str, scope: dict[str, str]
) -> None:
    """By their newest reports."""
    answer = slow_client.post("/marks", json=MARK | scope)
    assert (answer.status_code, answer.json()["driver"]) == (201, "580.159.04")
    evaluate(database_url)

    assert state_of(slow_client) == "known"
    assert "driver 580.159.04" in slow_client.get("/marks", headers=AS_TEXT).text


def repair(days: int = 3, **changes: Any) -> dict[str, Any]:
    """A decision that something is being repaired for some days from now on."""
    until = datetime.now(timezone.utc) + days * DAY
    return {"kind": "known", "reason": "ticket 7", "author": "ops", "until": until.isoformat(), **changes}


def test_a_gpu_in_repair_is_counted_apart_and_its_alert_is_silenced(slow_client: AppClient, database_url: str) -> None:
    """In every answer that counts; who asks for outliers does not get it."""
    [alert] = read(slow_client, "/alerts")["alerts"]
    made = slow_client.post("/marks", json=repair(alert_id=alert["id"]))
    assert (made.status_code, made.json()["gpu_id"], made.json()["node"]) == (201, GPU, None)
    evaluate(database_url)

    fleet = read(slow_client, "/fleet")
    assert fleet["verdicts"] == {"known": 1, "ok": 7}
    assert fleet["sentence"].startswith("nothing is wrong with the 7 of 8 gpus that could be judged; 1 gpu known and ")
    assert fleet["devices"][0]["verdicts"] == {"known": 1, "ok": 7}
    assert (fleet["worst_nodes"], fleet["changes"]["still_open"]) == ([], 0)
    assert read(slow_client, "/devices")["devices"][0]["verdicts"] == {"known": 1, "ok": 7}
    assert read(slow_client, "/nodes/n01")["verdicts"] == {"known": 1, "ok": 7}
    assert [own["id"] for own in read(slow_client, "/alerts", state="silenced")["alerts"]] == [alert["id"]]
    assert read(slow_client, "/alerts", state="open")["alerts"] == []
    assert "silenced, open for" in slow_client.get("/alerts", headers=AS_TEXT).text
    metrics = slow_client.get("/metrics").text
    assert 'fleetridge_gpus{device="H200",verdict="known"} 1.0' in metrics
    assert 'fleetridge_gpus{device="H200",verdict="outlier"} 0.0' in metrics
    assert re.search(rf'fleetridge_gpu_verdict{{[^}}]*gpu="{GPU}"[^}}]*verdict="known"}} 1.0', metrics)


@pytest.mark.parametrize(("verdict", "hosts"), [("known", "n01"), ("outlier", ""), ("outlier,suspect,ok", "n02")])
def test_nodes_in_repair_are_in_host_lists_only_where_asked_for(
    slow_client: AppClient, database_url: str, verdict: str, hosts: str
) -> None:
    """A scheduler drains them once, and not again."""
    post(slow_client, runs("n02", [SOUND] * 8))
    slow_client.post("/marks", json=repair(gpu_id=None, cluster="east", node="n01"))
    evaluate(database_url)
    read_hosts = slow_client.get("/nodes", params={"verdict": verdict, "format": "hostlist", "cluster": "east"})

    # The seven good gpus of n01 are ok, and it is in the list for these.
    assert read_hosts.text.strip() == (hosts if "ok" not in verdict else "n[01-02]")
    [listed] = read(slow_client, "/devices/H200/ridge", verdict="known")["gpus"]
    assert listed["gpu_id"] == GPU
    assert read(slow_client, "/devices/H200/ridge", verdict="outlier")["gpus"] == []


def test_a_mark_from_the_alert_of_a_node_covers_the_node(client: AppClient, database_url: str) -> None:
    """And its rack, from the alert of a rack."""
    post(client, [run for n in (1, 2) for run in runs(f"n{n:02}", [SOUND] * 8)] + runs("n03", [SLOW] * 8))
    evaluate(database_url)
    [alert] = read(client, "/alerts", kind="node")["alerts"]
    made = client.post("/marks", json=repair(alert_id=alert["id"])).json()
    evaluate(database_url)

    assert (made["cluster"], made["node"], made["gpu_id"], made["rack"]) == ("east", "n03", None, None)
    assert read(client, "/fleet")["verdicts"] == {"known": 8, "ok": 16}
    [silenced] = read(client, "/alerts")["alerts"]
    assert (silenced["id"], silenced["state"], silenced["kind"]) == (alert["id"], "silenced", "node")
    assert silenced["details"]["said"] == "slow_together"


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"alert_id": 99}, 404, "unknown_alert"),
        ({"alert_id": 1, "cluster": "east"}, 422, "invalid_mark"),
        ({"alert_id": 0}, 422, "invalid_request"),
        ({"alert_id": 1, "until": None}, 422, "invalid_mark"),
    ],
)
def test_a_mark_from_an_alert_that_makes_no_sense_is_refused(
    slow_client: AppClient, changes: dict[str, Any], status: int, code: str
) -> None:
    """With what is wrong."""
    answer = slow_client.post("/marks", json=repair() | changes)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert read(slow_client, "/marks", state="all")["marks"] == []


@pytest.fixture
def guarded_client(client: AppClient, database: Database, database_url: str) -> AppClient:
    """The same of a server that asks for tokens."""
    headers = bearer(make_token(database, "ingest"))
    reports = {"reports": runs("n01", [SOUND] * 7 + [SLOW])}
    assert client.post("/reports", json=reports, headers=headers).status_code == 200
    evaluate(database_url)
    return client


def test_the_name_of_the_token_is_the_author(guarded_client: AppClient, database: Database) -> None:
    """Whatever the body says, or leaves out."""
    headers = bearer(make_token(database, "operate", name="night shift"))
    marks = [{**MARK, "author": author} for author in (None, "somebody")]
    authors = [guarded_client.post("/marks", json=own, headers=headers).json()["author"] for own in marks]

    assert authors == ["night shift"] * 2


def test_a_bound_token_decides_about_alerts_of_its_own_place_alone(
    guarded_client: AppClient, database: Database
) -> None:
    """And then about the gpu while it is there."""
    ours, theirs = (bearer(make_token(database, "operate", cluster=own)) for own in ("east", "west"))

    refused = guarded_client.post("/marks", json=repair(alert_id=1), headers=theirs)
    made = guarded_client.post("/marks", json=repair(alert_id=1), headers=ours).json()
    assert (refused.status_code, refused.json()["code"]) == (403, "other_place")
    assert (made["gpu_id"], made["cluster"]) == (GPU, "east")


def test_the_text_forms_fit_a_terminal(slow_client: AppClient) -> None:
    """And say so where there is nothing."""
    assert slow_client.get("/marks", headers=AS_TEXT).text == "no marks\n"
    slow_client.post("/marks", json=MARK | {"reason": "because of " * 30})

    for url, expected in (("/marks", "accepted"), ("/alerts", "open for")):
        text = slow_client.get(url, headers=AS_TEXT).text
        assert max(map(len, text.splitlines())) <= 80
        assert expected in text
    assert slow_client.get("/alerts?kind=rack", headers=AS_TEXT).text == "no alerts\n"
