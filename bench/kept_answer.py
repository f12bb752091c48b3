"""Answers of a server as they are kept to be compared: without what differs from run to run."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx

# What a server works out from the moment at which it is asked, or draws by chance.
_LEFT_OUT = frozenset({"age_s", "next", "request_id", "evaluation_id"})
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?")
_AGO = re.compile(r"\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?")
_TOKENS = re.compile(r'(?:after=|name="form_token" value="|nonce-|Request-Id: )[\w.=-]+')

# Whatever happened while the server was asked has one name; the fleet's newest report is half an hour old.
_MEANWHILE = timedelta(minutes=10)


def kept(answer: httpx.Response, now: datetime) -> dict[str, Any]:
    """Status, media type and content of an answer, times as distances from `now`."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    found: Any
    if kind.endswith("json"):
        found = _value(answer.json(), now)
    elif kind == "application/zip":
        found = sorted(zipfile.ZipFile(io.BytesIO(answer.content)).namelist())
    else:
        lines = _words(answer.text, now).replace("><", ">\n<").splitlines()
        found = [line for line in lines if not _is_own_metric(line)]
    return {"status": answer.status_code, "kind": kind, "answer": found}


def _value(value: Any, now: datetime) -> Any:  # noqa: ANN401 # any JSON
    if isinstance(value, dict):
        return {name: _value(part, now) for name, part in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list):
        return [_value(part, now) for part in value]
    return _words(value, now) if isinstance(value, str) else value


def _words(text: str, now: datetime) -> str:
    timed = _TIME.sub(lambda found: _distance(found[0], now), text)
    return _TOKENS.sub("CHANCE", _AGO.sub("AGO", timed))


def _distance(written: str, now: datetime) -> str:
    moment = datetime.fromisoformat(written.replace(" UTC", "+00:00").replace("Z", "+00:00").replace(" ", "T"))
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    before = now - aware
    if before < _MEANWHILE:
        return "MEANWHILE"
    # A minute is as exact as text is.
    return f"{round(before / timedelta(minutes=1))} MINUTES BEFORE"


def _is_own_metric(line: str) -> bool:
    """Whether a line of metrics is about the server's own work."""
    return (
        re.match(r"(process_|python_|fleetridge_(server|http|requests|request|reports|build|intake|database))", line)
        is not None
    )
