"""One answer, two forms: JSON for programs, a text table for whoever asks for `text/plain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request, Response

from fleetridge_server.answer.schemas import Answer
from fleetridge_server.problems import Problem

JSON = "application/json"
TEXT = "text/plain"

# An answer differs by Accept, so that a cache may not give one form to who asked for the other.
_VARY = {"Vary": "Accept"}

_ALWAYS = {503: "The database does not answer just now; ask again after Retry-After seconds."}

_AnswerT = TypeVar("_AnswerT", bound=Answer)


def answered(request: Request, answer: _AnswerT, as_text: Callable[[_AnswerT], str]) -> Response:
    """Answer in the form that the request accepts."""
    if wants_text(", ".join(request.headers.getlist("accept"))):
        return Response(f"{as_text(answer)}\n", media_type=f"{TEXT}; charset=utf-8", headers=_VARY)
    return Response(answer.model_dump_json(), media_type=JSON, headers=_VARY)


def wants_text(accept: str) -> bool:
    """
    Whether an Accept header asks for text rather than JSON.

    The higher `q` wins, then the more specific range; between equals, as in curl's `*/*`, JSON does.
    """
    ranges = [_parsed(part) for part in accept.split(",") if part.strip()]
    return _preference(TEXT, ranges) > _preference(JSON, ranges)


def documented(problems: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's answers: the text form beside JSON, and its errors by status."""
    return {200: {"content": {TEXT: {"schema": {"type": "string"}}}}} | problems_of(problems)


def problems_of(problems: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Descriptions of a route's errors by status, with those that every route has."""
    return {status: {"model": Problem, "description": words} for status, words in (problems | _ALWAYS).items()}


def _preference(media_type: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Quality of a type and how specifically it was named: not at all (0), `*/*` (1), `text/*` (2), in full (3)."""
    kind = media_type.partition("/")[0]
    for specificity, name in ((3, media_type), (2, f"{kind}/*"), (1, "*/*")):
        qualities = [quality for named, quality in ranges if named == name]
        if qualities:
            best = max(qualities)
            return best, specificity if best > 0 else 0
    return 0.0, 0


def _parsed(part: str) -> tuple[str, float]:
    """Media range in lower case with its quality, 1 where none is given or it is no number of 0 to 1."""
    name, *parameters = (word.strip().lower() for word in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _quality(value.strip())
    return name, 1.0


def _quality(value: str) -> float:
    try:
        quality = float(value)
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
