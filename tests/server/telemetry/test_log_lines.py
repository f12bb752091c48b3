from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from contextvars import copy_context
from typing import Any

import pytest

from fleetridge_server.auth.tokens import new_token
from fleetridge_server.telemetry.logs import (
    JsonFormatter,
    LineFormatter,
    LogFormat,
    enter_request,
    logs_to,
    without_secrets,
)

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


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


def entry(message: object, **given: Any) -> dict[str, Any]:
    """What a program reads of one record."""
    record = logging.LogRecord("fleet", logging.WARNING, "", 0, message, None, given.pop("exc_info", None))
    record.__dict__.update(given)
    written = JsonFormatter().format(record)
    assert "\n" not in written
    read: dict[str, Any] = json.loads(written)
    return read


def test_programs_read_one_object_a_line() -> None:
    context = copy_context()
    context.run(enter_request, [(b"x-request-id", b"abc-1")])

    told = context.run(entry, "two\nlines\ud800", fields={"status": 200, "reports": {"created": 8}})

    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "warning",
        "logger": "fleet",
        "message": "two\nlines\ud800",
        "request_id": "abc-1",
        "status": 200,
        "reports": {"created": 8},
    }
    assert "request_id" not in entry("between requests")


def test_an_object_holds_its_traceback_and_no_secret() -> None:
    token = new_token()
    try:
        int(f"Authorization: Bearer {token}")
    except ValueError:
        told = entry(f"postgresql://user:{token}@host/ failed", exc_info=sys.exc_info())

    assert told["exception"].startswith("Traceback")
    assert token not in json.dumps(told)


@pytest.mark.parametrize(
    ("log_format", "environ", "is_json"),
    [
        ("json", {}, True),
        ("text", POD, False),
        ("auto", POD, True),
        ("auto", {}, False),
        ("auto", {"KUBERNETES_SERVICE_HOST": ""}, False),
    ],
)
def test_programs_are_spoken_to_where_it_is_asked_for_or_in_a_pod(
    log_format: LogFormat, environ: dict[str, str], is_json: bool
) -> None:
    stream = io.StringIO()
    with logs_to(stream, log_format=log_format, environ=environ):
        logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("uvicorn.error").warning("said to somebody else")

    assert stream.getvalue().startswith("{") == is_json
    assert stream.getvalue().count("started") == 1
    assert "somebody else" not in stream.getvalue()


def test_warnings_and_what_breaks_in_a_thread_are_lines_too() -> None:
    stream = io.StringIO()
    with logs_to(stream, log_format="json", environ={}):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old ways", stacklevel=1)
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()

    warned, broken = [json.loads(written) for written in stream.getvalue().splitlines()]
    assert "old ways" in warned["message"]
    assert "ZeroDivisionError" in broken["exception"]
