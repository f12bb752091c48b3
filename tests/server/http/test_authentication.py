from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from fleetridge_server.auth import token_cache
from fleetridge_server.auth.tokens import new_token
from fleetridge_server.db.access_tables import StoredToken
from fleetridge_server.db.tables import Report
from support.app_client import app_client
from support.reports import make_report
from support.tokens import bearer, make_token

if TYPE_CHECKING:
    import httpx

    from fleetridge_server.db.database import Database
    from support.app_client import AppClient

NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """An error in the one shape, with a remedy."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = answer.json()
    assert len(content["detail"]) > 20
    assert content["request_id"] == answer.headers["x-request-id"]
    return content


def change(database: Database, **values: Any) -> None:
    """Change all tokens."""
    with database.writing() as session:
        session.execute(update(StoredToken).values(**values))


@pytest.fixture(autouse=True)
def _asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is asked for every request, so that no test waits."""
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)


def test_without_a_token_everybody_may_do_everything(client: AppClient) -> None:
    """On a network that is trusted."""
    assert client.get("/devices").status_code == 200
    assert client.post("/reports", json=make_report()).status_code == 201


def test_from_the_first_token_on_nothing_but_health_is_open(client: AppClient, database: Database) -> None:
    """Neither the description nor metrics, nor what is not there."""
    assert client.get("/devices").status_code == 200
    make_token(database, "read")

    assert [client.get(path).status_code for path in ("/livez", "/readyz")] == [200, 200]
    there = ["GET /devices", "GET /openapi.json", "GET /metrics", "POST /reports", "HEAD /fleet"]
    not_there = ["GET /nowhere", "PUT /devices", "GET /livez/", "GET /LIVEZ"]
    for method, path in map(str.split, there + not_there):
        answer = client.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == 'Bearer realm="fleetridge"'
    problem(client.get("/fleet"), 401, "token_missing")


def test_the_end_of_the_last_token_opens_nothing(client: AppClient, database: Database) -> None:
    """Revoked is not unasked for."""
    make_token(database, "read")
    change(database, revoked_at=NOW)

    problem(client.get("/devices"), 401, "token_missing")


@pytest.mark.parametrize(
    ("scopes", "reads", "posts", "marks"),
    [(["ingest"], 403, 201, 403), (["read"], 200, 403, 403), (["operate"], 200, 403, 422), (["admin"], 200, 201, 422)],
)
def test_a_token_allows_what_its_scopes_say(
    client: AppClient, database: Database, scopes: list[Any], reads: int, posts: int, marks: int
) -> None:
    """And a refusal says which scope is lacking."""
    headers = bearer(make_token(database, *scopes))

    read = client.get("/devices", headers=headers)
    posted = client.post("/reports", json=make_report(), headers=headers)
    marked = client.post("/marks", json={}, headers=headers)

    assert (read.status_code, posted.status_code, marked.status_code) == (reads, posts, marks)
    for answer, scope in ((read, "read"), (posted, "ingest"), (marked, "operate")):
        if answer.status_code == 403:
            assert f"scope {scope}" in problem(answer, 403, "scope_missing")["detail"]
            assert f'error="insufficient_scope", scope="{scope}"' in answer.headers["www-authenticate"]


def test_every_token_finds_out_that_nothing_is_there(client: AppClient, database: Database) -> None:
    """An agent that was given a wrong address is told so."""
    headers = bearer(make_token(database, "ingest"))

    problem(client.get("/nowhere", headers=headers), 404, "not_found")
    problem(client.request("PUT", "/reports", headers=headers), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"revoked_at": NOW - DAY}, "token_revoked"),
        ({"expires_at": NOW - timedelta(seconds=1)}, "token_expired"),
        ({"expires_at": NOW - DAY, "revoked_at": NOW + DAY}, "token_revoked"),
    ],
)
def test_a_token_that_ended_in_mid_use_is_refused(
    client: AppClient, database: Database, values: dict[str, Any], code: str
) -> None:
    """It held a moment ago; the reason is told, and the remedy."""
    headers = bearer(make_token(database, "read", expires_at=NOW + DAY))
    assert client.get("/devices", headers=headers).status_code == 200

    change(database, **values)

    answer = client.get("/devices", headers=headers)
    assert "token create" in problem(answer, 401, code)["detail"]
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_an_unknown_token_is_told_from_a_mistyped_one(client: AppClient, database: Database) -> None:
    """The one has to be made, the other to be copied once more."""
    token = make_token(database, "read")

    problem(client.get("/devices", headers=bearer(new_token())), 401, "token_unknown")
    for mistyped in (
        token[:-1],
        token + "0",
        token.swapcase(),
        token[:9] + "é" + token[10:],
        "",
        "x" * 50_000,
        f'"{token}"',
    ):
        headers = {b"Authorization": f"Bearer {mistyped}".encode()}
        problem(client.get("/devices", headers=headers), 401, "token_mistyped")


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
def test_the_scheme_may_be_spelled_in_any_case(client: AppClient, database: Database, scheme: str) -> None:
    """As HTTP has it."""
    token = make_token(database, "read")
    assert client.get("/devices", headers={"Authorization": f"{scheme}{token} "}).status_code == 200


@pytest.mark.parametrize("header", ["{}", "Basic {}", "Token {}", "Bearer\t{}", "Bearer{}"])
def test_any_other_scheme_is_refused(client: AppClient, database: Database, header: str) -> None:
    """Also the one that user and password of an address become."""
    token = make_token(database, "read")
    problem(client.get("/devices", headers={"Authorization": header.format(token)}), 401, "unknown_scheme")


def test_several_authorizations_are_none(client: AppClient, database: Database) -> None:
    """A proxy and the server could take different ones."""
    token = make_token(database, "read")
    headers = [("Authorization", f"Bearer {token}")] * 2
    problem(client.get("/devices", headers=headers), 400, "several_authorizations")


@pytest.mark.parametrize("query", ["token={}", "access_token={}", "cluster={}", "{}"])
def test_a_token_in_the_address_is_refused_even_beside_a_good_one(
    client: AppClient, database: Database, query: str
) -> None:
    """Addresses are logged on their way."""
    token = make_token(database, "read")
    answer = client.get(f"/devices?{query.format(token)}", headers=bearer(token))
    assert "revoke" in problem(answer, 400, "token_in_address")["detail"]


def test_nobody_gets_in_by_another_way(client: AppClient, database: Database) -> None:
    """Cookies and headers of proxies say nothing of who calls."""
    token = make_token(database, "admin")
    for headers in ({"Cookie": f"token={token}"}, {"X-Api-Key": token}, {"Proxy-Authorization": f"Bearer {token}"}):
        problem(client.get("/devices", headers=headers), 401, "token_missing")


def test_a_token_reports_for_its_own_cluster_alone(client: AppClient, database: Database) -> None:
    """The call is refused as a whole, so that no agent gives a good report up; nothing of it is stored."""
    headers = bearer(make_token(database, "ingest", cluster="east"))
    own, others = make_report(), make_report(node__cluster="west")

    both = client.post("/reports", json={"reports": [own, others]}, headers=headers)
    alone = client.post("/reports", json=others, headers=headers)

    told = problem(both, 403, "other_place")
    assert [error["field"] for error in told["errors"]] == ["reports[1].node"]
    assert "cluster 'east'" in told["detail"]
    assert "cluster 'west'" in told["detail"]
    assert [error["field"] for error in problem(alone, 403, "other_place")["errors"]] == ["node"]
    assert client.post("/reports", json=own, headers=headers).status_code == 201
    with database.reading() as session:
        assert session.query(Report).count() == 1


def test_a_token_of_a_node_reports_for_that_node_alone(client: AppClient, database: Database) -> None:
    """A node of the same name elsewhere is another one."""
    headers = bearer(make_token(database, "ingest", cluster="east", node="node-01"))
    places = [("east", "node-01"), ("east", "node-02"), ("west", "node-01")]

    answers = [
        client.post("/reports", json=make_report(node__cluster=cluster, node__name=name), headers=headers)
        for cluster, name in places
    ]

    assert [answer.status_code for answer in answers] == [201, 403, 403]


def test_what_is_no_report_is_refused_as_such_by_whoever_may_post(client: AppClient, database: Database) -> None:
    """A probe of an agent learns that its token is good."""
    headers = bearer(make_token(database, "ingest", cluster="east"))

    assert client.post("/reports", json={"reports": []}, headers=headers).status_code == 422
    assert client.post("/reports", json=make_report(node__cluster=5), headers=headers).status_code == 422


def test_a_report_keeps_who_posted_it(client: AppClient, database: Database) -> None:
    """So that the reports of a token can be found."""
    make_token(database, "read")
    client.post("/reports", json=make_report(), headers=bearer(make_token(database, "ingest")))

    with database.reading() as session:
        assert [report.token_id for report in session.query(Report)] == [2]


@pytest.mark.parametrize(
    ("cluster", "node", "status"), [("east", "node-01", 201), ("east", None, 403), (None, None, 403)]
)
def test_a_bound_token_decides_about_its_own_place_alone(
    client: AppClient, database: Database, cluster: str | None, node: str | None, status: int
) -> None:
    """A gpu without a place could be anywhere."""
    client.post("/reports", json=make_report(), headers=bearer(make_token(database, "ingest")))
    headers = bearer(make_token(database, "operate", cluster="east", node="node-01"))
    mark = {
        "kind": "accepted",
        "reason": "r",
        "author": "a",
        "gpu_id": "GPU-00000001",
        "cluster": cluster,
        "node": node,
    }

    answer = client.post("/marks", json=mark, headers=headers)

    assert answer.status_code == status, answer.text
    ours = bearer(make_token(database, "operate"))
    theirs = bearer(make_token(database, "operate", cluster="west"))
    mark_id = client.post("/marks", json={**mark, "cluster": "east"}, headers=ours).json()["id"]
    problem(client.request("DELETE", f"/marks/{mark_id}", headers=theirs), 403, "other_place")
    assert client.get("/marks", headers=ours).json()["marks"][0]["id"] == mark_id


def test_guesses_from_one_address_are_slowed_down_and_no_token_that_holds(
    client: AppClient, database: Database
) -> None:
    """Neither by those of others at the same address."""
    headers = bearer(make_token(database, "read"))
    assert client.get("/devices", headers=headers).status_code == 200

    answers = [client.get("/devices", headers=bearer(new_token())) for _ in range(25)]

    assert {answer.status_code for answer in answers[:20]} == {401}
    assert {answer.status_code for answer in answers[21:]} == {429}
    assert int(answers[-1].headers["retry-after"]) >= 1
    problem(answers[-1], 429, "too_many_requests")
    problem(client.get("/devices", headers=bearer("flr_no")), 429, "too_many_requests")
    assert client.get("/devices", headers=headers).status_code == 200
    problem(client.get("/devices"), 401, "token_missing")


def test_a_caller_that_calls_too_often_is_told_when_to_come_back(database: Database, database_url: str) -> None:
    """Others are not held up by it, nor is health."""
    one, other = (bearer(make_token(database, "read")) for _ in range(2))
    with app_client(database_url, calls_per_s=0.001, calls_at_once=3) as client:
        answers = [client.get("/devices", headers=one) for _ in range(4)]
        others = client.get("/devices", headers=other)
        healths = [client.get("/livez") for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) > 100
    assert others.status_code == 200
    assert {answer.status_code for answer in healths} == {200}


def test_without_tokens_an_address_is_a_caller(database_url: str) -> None:
    """So that a program in a loop holds up nobody else."""
    with app_client(database_url, calls_per_s=0.001, calls_at_once=2) as client:
        assert [client.get("/devices").status_code for _ in range(3)] == [200, 200, 429]


def test_a_server_of_this_machine_answers_under_its_own_names_alone(database_url: str) -> None:
    """A name that a page on the web points here is not one of them."""
    with app_client(database_url, trust_network=False) as client:
        for host in ("127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"):
            assert client.get("/devices", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
            problem(client.get("/devices", headers={"Host": host}), 403, "foreign_host")


def test_a_page_of_somebody_else_may_not_send_anything(client: AppClient) -> None:
    """A browser on this machine would carry it here."""
    body = json.dumps(make_report())
    foreign = client.post("/reports", content=body, headers={"Origin": "http://evil.example"})
    own = client.post("/reports", content=body, headers={"Origin": "http://server"})

    problem(foreign, 403, "foreign_origin")
    assert own.status_code == 201


def test_a_public_server_whose_tokens_were_deleted_by_hand_stays_shut(database_url: str) -> None:
    """It was started because there was one."""
    with app_client(database_url, trust_network=False, host="10.0.0.1") as client:
        problem(client.get("/devices"), 401, "no_token_made")


def test_a_database_that_is_out_of_reach_lets_nobody_in(client: AppClient, database: Database) -> None:
    """Neither does it send anybody away for good."""
    headers = bearer(make_token(database, "read"))
    with database.writing() as session:
        session.connection().exec_driver_sql("ALTER TABLE tokens RENAME TO gone")
    broken = client.get("/devices", headers=headers)
    with database.writing() as session:
        session.connection().exec_driver_sql("ALTER TABLE gone RENAME TO tokens")

    assert broken.status_code in {500, 503}
    assert client.get("/devices", headers=headers).status_code == 200


def test_a_body_that_is_no_report_is_small(client: AppClient, database: Database) -> None:
    """Announced or not."""
    headers = {**bearer(make_token(database, "operate")), "Content-Type": "application/json"}
    answer = client.post("/marks", content=b'{"reason":"' + b"x" * 100_000 + b'"}', headers=headers)
    problem(answer, 413, "body_too_large")


def test_an_agent_s_list_is_taken_with_a_token_as_without(client: AppClient, database: Database) -> None:
    """Compressed, as it sends it."""
    headers = bearer(make_token(database, "ingest", cluster="east"))
    content = gzip.compress(json.dumps({"reports": [make_report(), make_report()]}).encode())
    answer = client.post("/reports", content=content, headers={**headers, "Content-Encoding": "gzip"})

    assert [result["outcome"] for result in answer.json()["results"]] == ["created", "created"]
