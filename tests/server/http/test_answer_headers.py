from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.app_client import AppClient

SECURITY = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/devices", 200),
        ("GET", "/livez", 200),
        ("HEAD", "/fleet", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nowhere", 404),
        ("POST", "/reports", 422),
        ("GET", "/devices?limit=x", 422),
    ],
)
def test_every_answer_says_what_a_browser_must_not_do(client: AppClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)

    assert answer.status_code == status
    assert {name: answer.headers[name] for name in SECURITY} == SECURITY
    assert answer.headers["x-request-id"]


def test_an_error_of_our_own_says_it_too(client: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("fleetridge_server.api.service.read_metrics", fail)
    answer = client.get("/metrics", headers={"X-Request-ID": "mine"})

    assert answer.status_code == 500
    assert {name: answer.headers[name] for name in SECURITY} == SECURITY
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine"


@pytest.mark.parametrize(
    "sent", ["a", "0198c0de-0000-7000-8000-000000000001", "Root=1-67891233-abcdef012345678912345678"]
)
def test_the_caller_s_own_id_is_kept(empty_server: AppClient, sent: str) -> None:
    assert empty_server.get("/livez", headers={"X-Request-ID": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", " ", "a b", "é", "x" * 200, "<script>", "-", 'a"b'])
def test_an_id_that_could_do_harm_is_replaced(empty_server: AppClient, sent: str) -> None:
    made = empty_server.get("/livez", headers={b"X-Request-ID": sent.encode()}).headers["x-request-id"]

    assert len(made) == 32
    assert made.isalnum()


def test_of_several_ids_none_is_believed(empty_server: AppClient) -> None:
    made = empty_server.get("/livez", headers=[("X-Request-ID", "a"), ("X-Request-ID", "b")]).headers["x-request-id"]
    assert len(made) == 32


def test_each_request_has_an_id_of_its_own(empty_server: AppClient) -> None:
    assert len({empty_server.get("/livez").headers["x-request-id"] for _ in range(5)}) == 5
