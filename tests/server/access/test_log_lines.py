from __future__ import annotations

import logging
import sys
from contextvars import copy_context

import pytest

from fleetridge_server.access.log_lines import LineFormatter, without_secrets
from fleetridge_server.access.request_id import enter_request
from fleetridge_server.access.token_text import new_token


def line(message: str, *, exc_info: object = None) -> str:
    record = logging.LogRecord("fleet", logging.WARNING, "", 0, message, None, exc_info)  # type: ignore[arg-type] # whatever a caller passes
    return LineFormatter().format(record)


def test_a_line_names_the_request() -> None:
    context = copy_context()
    context.run(enter_request, [(b"x-request-id", b"abc-1")])

    assert context.run(line, "hello").endswith("WARNING fleet [abc-1]: hello")
    assert line("hello").endswith("WARNING fleet: hello")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "headers: [(b'authorization', b'Bearer {}')]",
        "GET /devices?token={} failed",
        "postgresql://user:{}@host/name refused",
        "https://user:{}@[::1]:80/",
        "{}",
    ],
)
def test_no_token_gets_into_a_line(text: str) -> None:
    token = new_token()
    assert token not in without_secrets(text.format(token))


@pytest.mark.parametrize(
    "text",
    ["postgresql://user:hunter2@host/name", "Authorization: Basic hunter2", "{'Authorization': 'Bearer hunter2'}"],
)
def test_no_password_gets_into_a_line(text: str) -> None:
    assert "hunter2" not in without_secrets(text)
    assert without_secrets(text) != ""


@pytest.mark.parametrize("text", ["http://127.0.0.1:8000 is up", "see https://host/a:b@c", "flr_short", "user@host"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_a_traceback_is_looked_through_too() -> None:
    token = new_token()
    try:
        int(f"bad header {token}")
    except ValueError:
        written = line("failed", exc_info=sys.exc_info())

    assert "ValueError: invalid literal" in written
    assert token not in written
