"""Alerts, and the marks by which people answer them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.app_client import AppClient
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import AS_TEXT, post, read

GPU = gpu_id("n01", 7)
MARK: dict[str, Any] = {"kind": "accepted", "reason": "capped on purpose", "author": "ops", "gpu_id": GPU}


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
    assert (verdict["state"], verdict["flags"][0]) == ("ok", "excused")
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
        {"author": None},
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

    assert state_of(slow_client) == "ok"


def test_the_text_forms_fit_a_terminal(slow_client: AppClient) -> None:
    """And say so where there is nothing."""
    assert slow_client.get("/marks", headers=AS_TEXT).text == "no marks\n"
    slow_client.post("/marks", json=MARK | {"reason": "because of " * 30})

    for url, expected in (("/marks", "accepted"), ("/alerts", "open for")):
        text = slow_client.get(url, headers=AS_TEXT).text
        assert max(map(len, text.splitlines())) <= 80
        assert expected in text
    assert slow_client.get("/alerts?kind=rack", headers=AS_TEXT).text == "no alerts\n"
