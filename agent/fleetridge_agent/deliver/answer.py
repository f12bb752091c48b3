"""
What an answer of the server means for the reports that were posted.

Pure: an answer in, a decision out. A report leaves the spool only when the server says so of this very report;
whatever else comes back (a proxy's page, half an answer, a refused token) leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from pydantic_core import from_json

from fleetridge.strict_json import as_printable

Fate = Literal["delivered", "dead_letter", "keep"]

_FATE_OF_OUTCOME: Mapping[str, Fate] = {
    "created": "delivered",
    "duplicate": "delivered",
    "conflict": "dead_letter",
    "rejected": "dead_letter",
}

# The one field that the server may come to take as it is: by an upgrade.
_VERSION_FIELD = "schema_version"

_OK = 200
_TOO_LARGE = 413
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)

# Request time-out, too early (RFC 8470) and too many requests: the same call may succeed a moment later.
_PASSING_STATUSES = frozenset({408, 425, 429})

# What a server says of a whole call when it stumbles over one report in it: it cannot read the body, the token may not
# report for that node, or it met a fault of its own.
_LONE_STATUSES = frozenset({400, 403, 422, 500})

_REMEDY: Mapping[int, str] = {
    400: "the server could not read the call; is something between agent and server changing it?",
    422: "the server could not read the call; is something between agent and server changing it?",
    401: "the token is missing, wrong, expired or revoked; check --token-file",
    403: "the token may not report for this cluster and node, or a proxy lets nothing through; check --cluster, --node "
    "and the token's scope",
    404: "there is no fleetridge server at this address; check --server",
    405: "there is no fleetridge server at this address; check --server",
    415: "the server or a proxy does not take gzip; upgrade it",
}

# Enough to see what was wrong with a report, short enough for a log line.
_PROBLEM_MAX_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came back for one POST.

    Attributes:
        retry_after, date, location: the headers of these names, None where absent.
    """

    status: int
    body: bytes = b""
    retry_after: str | None = None
    date: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What to do with the reports of one POST.

    Attributes:
        delivered: ids that the server has, now or from before.
        dead: id → what the server said of a report that it will never take.
        kept: ids that stay in the spool.
        split: whether the same reports may pass in smaller calls.
        one_by_one: whether one of the reports may be what the whole call failed by, so that the others pass without it.
        retry: whether another try a moment later may help.
        server_responded: whether a fleetridge server took up the call, so that further calls make sense.
        reason: why some are kept, with the remedy; empty where none is.
    """

    delivered: frozenset[str] = frozenset()
    dead: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    split: bool = False
    one_by_one: bool = False
    retry: bool = False
    server_responded: bool = False
    reason: str = ""


def decide(answer: Answer, report_ids: Sequence[str]) -> Decision:
    """Fate of each posted report, given what came back for the call that carried them."""
    if answer.status == _OK:
        return _from_results(answer.body, report_ids)
    kept = frozenset(report_ids)
    one_by_one = answer.status in _LONE_STATUSES
    if answer.status == _TOO_LARGE:
        return _from_too_large(kept)
    if answer.status in _PASSING_STATUSES or answer.status in _SERVER_ERRORS:
        reason = f"the server answered {answer.status}; it may recover"
        return Decision(kept=kept, retry=True, one_by_one=one_by_one, reason=reason)
    if answer.status in _REDIRECTS:
        return Decision(kept=kept, reason=_redirect_reason(answer))
    remedy = _REMEDY.get(answer.status, "nothing more is known; see the server's log")
    return Decision(kept=kept, one_by_one=one_by_one, reason=f"the server answered {answer.status}: {remedy}")


def _from_too_large(kept: frozenset[str]) -> Decision:
    if len(kept) > 1:
        return Decision(
            kept=kept, split=True, server_responded=True, reason="the server takes fewer reports in one call"
        )
    reason = "the server takes no report of this size; raise its limit or a proxy's"
    return Decision(kept=kept, server_responded=True, reason=reason)


def _redirect_reason(answer: Answer) -> str:
    target = as_printable(answer.location or "an address that it does not name")[:_PROBLEM_MAX_CHARACTERS]
    return f"the server sent us on to {target}, which is not followed; give the final address as --server"


def _from_results(body: bytes, report_ids: Sequence[str]) -> Decision:
    results = _results(body)
    if results is None:
        reason = "what answered is not a fleetridge server, or its answer was cut off; check --server and any proxy"
        return Decision(kept=frozenset(report_ids), retry=True, reason=reason)
    fates = {report_id: _fate(results.get(report_id, [])) for report_id in report_ids}
    too_new = frozenset(report_id for report_id in report_ids if _is_too_new(results.get(report_id, [])))
    fates |= dict.fromkeys(too_new, "keep")
    kept = frozenset(report_id for report_id, fate in fates.items() if fate == "keep")
    uncertain = len(kept - too_new)
    return Decision(
        delivered=frozenset(report_id for report_id, fate in fates.items() if fate == "delivered"),
        dead={report_id: _problem(results[report_id][0]) for report_id, fate in fates.items() if fate == "dead_letter"},
        kept=kept,
        retry=uncertain > 0,
        server_responded=True,
        reason="; ".join(_kept_reasons(len(too_new), uncertain, of=len(fates))),
    )


def _kept_reasons(too_new: int, uncertain: int, *, of: int) -> Iterator[str]:
    if uncertain:
        yield f"the server said nothing certain of {uncertain} of {of} reports"
    if too_new:
        yield f"the server does not know the schema version of {too_new} of {of} reports; upgrade it, they wait"


def _results(body: bytes) -> Mapping[str, list[Mapping[str, object]]] | None:
    """Results by report id, or None for an answer that has not the shape of one."""
    try:
        answer = from_json(body)
    except ValueError:
        return None
    listed = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    by_id: dict[str, list[Mapping[str, object]]] = {}
    for result in listed:
        report_id = _report_id(result)
        if report_id is not None:
            by_id.setdefault(report_id, []).append(result)
    return by_id


def _report_id(result: object) -> str | None:
    """Id of a result in the spelling of the agent (lower case, with hyphens), None where it has none."""
    value = result.get("report_id") if isinstance(result, dict) else None
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _fate(results: Sequence[Mapping[str, object]]) -> Fate:
    """Fate by all that was said of one report; nothing, an unknown word or a contradiction keeps it."""
    outcomes = [result.get("outcome") for result in results]
    fates = {_FATE_OF_OUTCOME.get(outcome, "keep") if isinstance(outcome, str) else "keep" for outcome in outcomes}
    return fates.pop() if len(fates) == 1 else "keep"


def _is_too_new(results: Sequence[Mapping[str, object]]) -> bool:
    """Whether a report was rejected for nothing but its schema version."""
    return bool(results) and all(
        result.get("outcome") == "rejected" and _faulty_fields(result) == {_VERSION_FIELD} for result in results
    )


def _faulty_fields(result: Mapping[str, object]) -> set[object]:
    errors = result.get("errors")
    # Whatever is no error with a field stands for an unknown one.
    return (
        {error.get("field") if isinstance(error, dict) else None for error in errors}
        if isinstance(errors, list)
        else set()
    )


def _problem(result: Mapping[str, object]) -> str:
    """What the server said of a refused report, on one line."""
    errors = result.get("errors")
    sentences = [_sentence(error) for error in errors] if isinstance(errors, list) else []
    text = "; ".join(sentences) or "no reason given"
    return as_printable(f"{result.get('outcome')}: {text}")[:_PROBLEM_MAX_CHARACTERS]


def _sentence(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    place, problem = error.get("field"), error.get("problem")
    return f"{place}: {problem}" if place else str(problem)
