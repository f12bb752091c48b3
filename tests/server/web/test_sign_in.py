"""Signing in: a token is shown once, a session does no more than its token, and ends with either."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

from fleetridge_server.auth import token_cache
from fleetridge_server.auth.tokens import new_token, sha256_of_secret
from fleetridge_server.db.access_tables import StoredSession, StoredToken
from support.evaluated import SLOW, SOUND, evaluate, gpu_id, runs
from support.html_pages import Page, page_of, parsed
from support.tokens import bearer, make_token

if TYPE_CHECKING:
    import httpx

    from fleetridge_server.db.database import Database
    from support.app_client import AppClient

GPU = f"/ui/gpus/{gpu_id('n01', 7)}"


@pytest.fixture(autouse=True)
def _asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is asked for every request, so that no test waits."""
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)


def send(client: AppClient, page: Page, url: str, **fields: str) -> httpx.Response:
    """A form of a page, as a browser sends it."""
    return client.post(url, data={"form_token": page.fields()["form_token"], **fields})


def sign_in(client: AppClient, token: str, url: str = "/") -> httpx.Response:
    """Show a token on the page that is there instead of another."""
    page = page_of(client, url, status=401)
    return send(client, page, "/ui/sign-in", token=token, back=page.fields()["back"])


def with_fleet(client: AppClient, database: Database, database_url: str) -> None:
    """Eight gpus, one of which is slow, posted with a token."""
    token = make_token(database, "ingest")
    answer = client.post("/reports", json={"reports": runs("n01", [SOUND] * 7 + [SLOW])}, headers=bearer(token))
    assert answer.status_code == 200
    evaluate(database_url)


def test_without_tokens_nobody_signs_in(client: AppClient) -> None:
    assert "Sign out" not in page_of(client, "/").text


def test_with_tokens_a_page_asks_for_one_and_then_shows_what_was_asked_for(
    client: AppClient, database: Database, database_url: str
) -> None:
    with_fleet(client, database, database_url)
    asked = page_of(client, f"{GPU}?limit=5", status=401)
    assert "Sign in" in asked.text
    assert "n01" not in asked.text

    answer = sign_in(client, make_token(database, "read"), f"{GPU}?limit=5")

    assert (answer.status_code, answer.headers["location"]) == (303, f"{GPU}?limit=5")
    page = page_of(client, answer.headers["location"])
    assert "n01 gpu 7" in page.text
    assert "Sign out" in page.text


def test_the_cookie_is_no_token_and_out_of_reach_of_scripts_and_other_sites(
    client: AppClient, database: Database
) -> None:
    token = make_token(database, "read")

    cookie = sign_in(client, token).headers["set-cookie"]

    assert token not in cookie
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie.split("; ")
    with database.reading() as session:
        [stored] = session.scalars(select(StoredSession))
    assert cookie.partition("=")[2].partition(";")[0].encode() not in stored.sha256
    assert len(stored.sha256) == 32
    assert stored.expires_at - stored.created_at == timedelta(hours=12)


def test_behind_https_cookies_go_over_https_alone(client: AppClient, database: Database) -> None:
    token = make_token(database, "read")
    page = parsed(client.get("https://server/"))

    answer = client.post(
        "https://server/ui/sign-in", data={"form_token": page.fields()["form_token"], "token": token, "back": "/"}
    )

    assert "Secure" in answer.headers["set-cookie"]
    assert "Secure" in page.headers["set-cookie"]


@pytest.mark.parametrize(
    ("spoil", "status", "words"),
    [
        (lambda token: token[:-1], 401, "This is no token"),
        (lambda _: new_token(), 401, "This server has no such token"),
        (lambda _: "", 401, "This is no token"),
    ],
)
def test_what_is_no_token_opens_nothing(
    client: AppClient, database: Database, spoil: object, status: int, words: str
) -> None:
    assert callable(spoil)
    answer = parsed(sign_in(client, spoil(make_token(database, "read"))))

    assert answer.status == status
    assert words in answer.text
    assert page_of(client, "/", status=401).text.count("Sign in") > 1


def test_a_token_that_may_not_read_opens_nothing(client: AppClient, database: Database) -> None:
    answer = parsed(sign_in(client, make_token(database, "ingest")))

    assert answer.status == 403
    assert "may not read" in answer.text


def test_many_wrong_tries_are_slowed(client: AppClient, database: Database) -> None:
    make_token(database, "read")

    answers = [sign_in(client, "nonsense").status_code for _ in range(25)]

    assert answers[:20] == [401] * 20
    assert 429 in answers[20:]


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_nobody_is_sent_to_another_site(client: AppClient, database: Database, back: str) -> None:
    token = make_token(database, "read")
    page = page_of(client, "/", status=401)

    assert send(client, page, "/ui/sign-in", token=token, back=back).headers["location"] == "/"


def test_a_session_reads_the_api_but_changes_nothing_there(client: AppClient, database: Database) -> None:
    """The token itself may; a page of somebody else could make the browser send its cookie along."""
    sign_in(client, make_token(database, "admin"))

    assert client.get("/fleet").status_code == 200
    mark = {"kind": "retired", "reason": "gone", "author": "me", "cluster": "east"}
    assert client.post("/marks", json=mark).status_code == 401
    assert client.post("/reports", json={}).status_code == 401


def test_signing_out_ends_the_session_everywhere(client: AppClient, database: Database) -> None:
    cookie = sign_in(client, make_token(database, "read")).headers["set-cookie"].partition(";")[0]

    assert send(client, page_of(client, "/"), "/ui/sign-out").status_code == 303

    assert page_of(client, "/", status=401).text.count("Sign in") > 1
    assert client.get("/fleet", headers={"cookie": cookie}).status_code == 401


@pytest.mark.parametrize(
    "end", [{"revoked_at": datetime.now(timezone.utc)}, {"expires_at": datetime.now(timezone.utc)}]
)
def test_a_session_ends_with_its_token(client: AppClient, database: Database, end: dict[str, datetime]) -> None:
    sign_in(client, make_token(database, "read"))
    page_of(client, "/")

    with database.writing() as session:
        session.execute(update(StoredToken).values(**end))

    assert "Sign in" in page_of(client, "/", status=401).text


def test_a_session_ends_after_its_time_and_is_forgotten(client: AppClient, database: Database) -> None:
    token = make_token(database, "read")
    sign_in(client, token)
    with database.writing() as session:
        session.execute(update(StoredSession).values(expires_at=datetime.now(timezone.utc)))

    assert "this session is over" in page_of(client, "/", status=401).text.lower()
    sign_in(client, token)

    with database.reading() as session:
        assert len(session.scalars(select(StoredSession)).all()) == 1


def test_who_may_only_read_sees_no_form_and_changes_nothing(
    client: AppClient, database: Database, database_url: str
) -> None:
    with_fleet(client, database, database_url)
    sign_in(client, make_token(database, "read"))
    page = page_of(client, GPU)

    assert "Decide about this gpu" not in page.text
    answer = parsed(
        send(client, page, "/ui/marks", kind="retired", reason="gone", author="me", gpu_id=gpu_id("n01", 7))
    )
    assert answer.status == 403


def test_who_may_operate_marks_a_gpu_and_ends_the_mark(
    client: AppClient, database: Database, database_url: str
) -> None:
    with_fleet(client, database, database_url)
    sign_in(client, make_token(database, "operate"))
    page = page_of(client, GPU)
    fields = {"kind": "accepted", "reason": "capped", "author": "ops", "loss_percent": "20", "until": "2099-01-31"}

    answer = send(client, page, "/ui/marks", gpu_id=gpu_id("n01", 7), back=GPU, **fields)

    assert (answer.status_code, answer.headers["location"]) == (303, GPU)
    [mark] = client.get("/marks").json()["marks"]
    assert (mark["loss"], mark["until"], mark["reason"]) == (0.2, "2099-01-31T23:59:59Z", "capped")
    marked = page_of(client, GPU)
    assert "Accepted up to a loss of 20.0 %: capped" in marked.text
    alerts = page_of(client, "/ui/alerts")
    assert [row[1] for row in alerts.rows if len(row) == 8 and row[0] == f"gpu {gpu_id('n01', 7)}"] == ["accepted"]
    assert send(client, alerts, f"/ui/marks/{mark['id']}/end", back="/ui/alerts").status_code == 303
    assert client.get("/marks").json()["marks"] == []


def test_a_decision_is_made_beside_an_alert_in_the_name_of_who_is_signed_in(
    client: AppClient, database: Database, database_url: str
) -> None:
    with_fleet(client, database, database_url)
    sign_in(client, make_token(database, "operate", name="night shift"))
    page = page_of(client, "/ui/alerts")
    assert "By night shift" in page.text
    fields = {"kind": "known", "reason": "ticket 7", "until": "2099-01-31", "back": "/ui/alerts"}

    assert send(client, page, "/ui/marks", alert_id="1", **fields).status_code == 303

    [mark] = client.get("/marks").json()["marks"]
    assert (mark["gpu_id"], mark["author"], mark["kind"]) == (gpu_id("n01", 7), "night shift", "known")
    evaluate(database_url)
    silenced = page_of(client, "/ui/alerts")
    assert "silenced (outlier)" in silenced.text
    assert "being repaired until 2099-01-31 23:59 UTC: ticket 7" in page_of(client, GPU).text


@pytest.mark.parametrize(
    ("scope", "covers"),
    [("node", {"cluster": "east", "node": "n01"}), ("driver", {"driver": "580.159.04"}), ("gpu", {"node": None})],
)
def test_the_page_of_a_gpu_decides_about_it_its_node_or_its_driver(
    client: AppClient, database: Database, database_url: str, scope: str, covers: dict[str, str | None]
) -> None:
    with_fleet(client, database, database_url)
    sign_in(client, make_token(database, "operate"))
    page = page_of(client, GPU)
    hidden = {
        own["name"]: own["value"] or ""
        for name, own in page.elements
        if name == "input" and own.get("type") == "hidden" and (own.get("name") or "").startswith(("its_", "gpu_id"))
    }
    send(client, page, "/ui/marks", kind="accepted", reason="r", scope=scope, **hidden)

    [mark] = client.get("/marks").json()["marks"]
    assert {name: mark[name] for name in covers} == covers
    assert (mark["gpu_id"] is None) is (scope != "gpu")


@pytest.mark.parametrize("wrong", [{"loss_percent": "much"}, {"until": "soon"}, {"kind": "nonsense"}, {"reason": ""}])
def test_a_mark_that_makes_no_sense_is_told_on_a_page(client: AppClient, wrong: dict[str, str]) -> None:
    client.post("/reports", json={"reports": runs("n01", [SOUND])})
    page = page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}")
    fields = {"kind": "accepted", "reason": "capped", "author": "ops", "gpu_id": gpu_id("n01", 0), **wrong}

    assert parsed(send(client, page, "/ui/marks", **fields)).status == 422
    assert client.get("/marks").json()["marks"] == []


def test_a_form_of_another_site_changes_nothing(client: AppClient) -> None:
    """It cannot know what a form of ours carries, with and without tokens."""
    client.post("/reports", json={"reports": runs("n01", [SOUND])})
    page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}")
    fields = {"kind": "retired", "reason": "gone", "author": "me", "gpu_id": gpu_id("n01", 0)}

    for forged in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
        assert parsed(client.post("/ui/marks", data={**fields, **forged})).status == 403
    assert parsed(client.post("/ui/marks", json=fields)).status == 415
    assert client.get("/marks").json()["marks"] == []


def test_a_token_for_one_cluster_decides_there_alone(client: AppClient, database: Database, database_url: str) -> None:
    with_fleet(client, database, database_url)
    sign_in(client, make_token(database, "operate", cluster="west"))
    page = page_of(client, GPU)
    fields = {"kind": "retired", "reason": "gone", "author": "me", "gpu_id": gpu_id("n01", 7)}

    assert parsed(send(client, page, "/ui/marks", **fields)).status in (403, 422)
    assert client.get("/marks").json()["marks"] == []


def test_signing_in_once_more_ends_the_session_that_there_was(client: AppClient, database: Database) -> None:
    """Nobody is left with a cookie of before, whether it was theirs or somebody else gave it to their browser."""
    token = make_token(database, "read")
    before = sign_in(client, token).headers["set-cookie"].partition(";")[0]

    send(client, page_of(client, "/ui/sign-in"), "/ui/sign-in", token=token)

    assert client.get("/fleet").status_code == 200
    with database.reading() as session:
        [stored] = session.scalars(select(StoredSession))
    assert sha256_of_secret(before.partition("=")[2]) != stored.sha256


def test_a_cookie_that_somebody_else_chose_opens_nothing(client: AppClient, database: Database) -> None:
    """A session is known by what the server made up, and by a fresh one after each sign-in."""
    token = make_token(database, "read")
    page = page_of(client, "/", status=401)
    fields = {"form_token": page.fields()["form_token"], "token": token}

    form_cookie = page.headers["set-cookie"].partition(";")[0]
    answer = client.post("/ui/sign-in", data=fields, headers={"cookie": f"{form_cookie}; fleetridge_session=chosen"})

    assert "fleetridge_session=chosen" not in answer.headers["set-cookie"]
    assert client.get("/fleet", headers={"cookie": "fleetridge_session=chosen"}).status_code == 401


def test_the_form_of_one_session_is_refused_in_another(client: AppClient, database: Database) -> None:
    client_token = make_token(database, "operate")
    sign_in(client, client_token)
    first = page_of(client, "/").fields()["form_token"]
    send(client, page_of(client, "/ui/sign-in"), "/ui/sign-in", token=client_token)

    fields = {"kind": "retired", "reason": "gone", "author": "me", "cluster": "east", "form_token": first}
    assert parsed(client.post("/ui/marks", data=fields)).status == 403


def test_a_form_that_is_sent_twice_decides_once(client: AppClient) -> None:
    client.post("/reports", json={"reports": runs("n01", [SOUND])})
    page = page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}")
    fields = {"kind": "accepted", "reason": "capped", "author": "ops", "loss_percent": "20", "until": "2099-01-31"}

    for _ in range(2):
        assert send(client, page, "/ui/marks", gpu_id=gpu_id("n01", 0), **fields).status_code == 303

    assert len(client.get("/marks").json()["marks"]) == 1


def test_two_people_decide_each_for_themselves(client: AppClient) -> None:
    """Both marks stand, each with who made it, and each is ended by itself."""
    client.post("/reports", json={"reports": runs("n01", [SOUND])})
    url = f"/ui/gpus/{gpu_id('n01', 0)}"
    page = page_of(client, url)
    for author, reason in (("ann", "capped"), ("bob", "on purpose")):
        send(client, page, "/ui/marks", gpu_id=gpu_id("n01", 0), kind="accepted", reason=reason, author=author)

    text = page_of(client, url).text
    assert all(words in text for words in ("capped (ann", "on purpose (bob"))
    [newer, older] = client.get("/marks").json()["marks"]
    send(client, page, f"/ui/marks/{older['id']}/end", back=url)
    send(client, page, f"/ui/marks/{older['id']}/end", back=url)  # by both at once
    assert [mark["id"] for mark in client.get("/marks").json()["marks"]] == [newer["id"]]
