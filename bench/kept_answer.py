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
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?")
_SHORT_TIME = re.compile(r"\b\d\d-\d\d \d\d:\d\d\b")
_AGO = re.compile(r"\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?")
_CHANCE = re.compile(r'(?:after=|name="form_token" value="|nonce-|127\.0\.0\.1:|, request )[\w.=-]+')
_OWN_METRIC = re.compile(
    r"(?:# \w+ )?(?:process_|python_|\w+_age_seconds|"
    r"fleetridge_(?:server|http|requests?|reports|build|intake|database))"
)

# Along the axis of time everything lies where the moment puts it.
_GEOMETRY = re.compile(r' (?:d|x|x1|x2|cx|width|points|transform)="[^"]*"')

# Whatever happened while the server was asked has one name, and so has the day before it, of which changes are told:
# the fleet's newest report is half an hour old, and none is just less than a day old.
_MEANWHILE = timedelta(minutes=10)
_A_DAY = timedelta(days=1)

# What lies so far back stands in the question.
_LONG = timedelta(days=1000)


def kept(answer: httpx.Response, now: datetime) -> dict[str, Any]:
    """Status, media type and content of an answer, times as distances from `now`, a whole minute."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    found: Any
    if kind.endswith("json"):
        found = _value(answer.json(), now)
    elif kind == "application/zip":
        found = sorted(zipfile.ZipFile(io.BytesIO(answer.content)).namelist())
    else:
        text = _words(answer.text, now)
        if kind == "text/plain":
            text = re.sub("--+", "-", re.sub("  +", " ", text))  # columns are as wide as what stands in them
        elif "/ui/gpus/" in answer.request.url.path:
            text = _GEOMETRY.sub("", text)
        found = [line for line in text.replace("><", ">\n<").splitlines() if not _OWN_METRIC.match(line)]
    return {"status": answer.status_code, "kind": kind, "answer": found}


def _value(value: Any, now: datetime) -> Any:  # noqa: ANN401 # any JSON
    if isinstance(value, dict):
        return {name: _value(part, now) for name, part in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list):
        return [_value(part, now) for part in value]
    return _words(value, now) if isinstance(value, str) else value


def _words(text: str, now: datetime) -> str:
    timed = _TIME.sub(lambda found: _distance(found[0], now), text)
    return _CHANCE.sub("CHANCE", _AGO.sub("AGO", _SHORT_TIME.sub("TIME", timed)))


def _distance(written: str, now: datetime) -> str:
    plain = written.replace(" UTC", "+00:00").replace("Z", "+00:00").replace(" ", "T").replace("%3A", ":")
    moment = datetime.fromisoformat(plain)
    before = now - (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc))
    if before < _MEANWHILE:
        return "MEANWHILE"
    if before > _LONG:
        return written
    if _A_DAY - _MEANWHILE < before <= _A_DAY:
        return "A DAY BEFORE"
    return f"{before // timedelta(minutes=1)} MINUTES BEFORE"  # text has no seconds
