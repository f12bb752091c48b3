"""JSON or text, as the request accepts."""

from __future__ import annotations

import pytest

from fleetridge.terminal_text import display_width
from fleetridge_server.http.answers import wants_text
from support.app_client import AppClient
from support.fleet import AS_TEXT, fleet, post

FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "text"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/plain", True),
        ("TEXT/PLAIN; charset=utf-8", True),
        ("text/*", True),
        ("text/plain, */*", True),
        ("application/json, text/plain, */*", False),
        ("text/plain, application/json", False),
        ("text/plain;q=0.5, application/json", False),
        ("text/plain, application/json;q=0.9", True),
        ("text/plain;q=0.2, */*;q=0.1", True),
        ("text/plain;q=0.1, */*;q=0.2", False),
        ("text/plain;q=0", False),
        ("text/plain;q=much, application/json;q=0.9", True),
        ("text/plain;q=7, application/json;q=0.9", True),
        ("image/png", False),
        (FIREFOX, False),
    ],
)
def test_text_is_given_to_who_prefers_it(accept: str, text: bool) -> None:
    """Programs and curl get JSON unless they say otherwise."""
    assert wants_text(accept) is text


@pytest.mark.parametrize("url", ["/devices", "/devices/h200/ridge", "/gpus/GPU-00000001", "/nodes/node-01"])
def test_every_answer_comes_in_both_forms(one_report: AppClient, url: str) -> None:
    """A cache must keep the two apart."""
    json, text = one_report.get(url), one_report.get(url, headers=AS_TEXT)

    assert (json.headers["content-type"], json.headers["vary"]) == ("application/json", "Accept")
    assert (text.headers["content-type"], text.headers["vary"]) == ("text/plain; charset=utf-8", "Accept")


@pytest.mark.parametrize("gpus", [1, 8, 40])
@pytest.mark.parametrize(
    "name", ["node-01", "ip-10-0-12-34.eu-west-1.compute.internal", "ノード" * 30], ids=["short", "long", "wide"]
)
def test_no_line_of_text_is_wider_than_a_terminal(client: AppClient, gpus: int, name: str) -> None:
    """80 columns, however many gpus and however long a node's name."""
    post(client, fleet([845.0 - gpu for gpu in range(gpus)], node__name=name))

    for url in ("/devices", "/devices/h200/ridge", "/gpus/GPU-a000", f"/nodes/{name}"):
        text = client.get(url, headers=AS_TEXT).text
        assert max(map(display_width, text.splitlines())) <= 80


def test_an_error_is_json_also_for_who_asks_for_text(empty_server: AppClient) -> None:
    """One shape for all."""
    answer = empty_server.get("/devices/none/ridge", headers=AS_TEXT)

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
