"""
Taking in of calls that bring reports: read, examined, stored together, answered each by itself.

A transaction takes some twenty statements however few reports it stores, so that several calls share one. For each it
is as if it had come alone: one that cannot be stored takes no other with it. Nothing here knows of HTTP beyond the
status of an answer, nor in which process it runs.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from fleetridge import strict_json
from fleetridge.strict_json import Json, StrictJsonError, TooManyValuesError
from fleetridge_server.auth.permissions import Caller, place_words
from fleetridge_server.db.database import Database
from fleetridge_server.db.troubles import trouble
from fleetridge_server.intake import examine
from fleetridge_server.intake.body import inflated, too_large
from fleetridge_server.intake.examine import Accepted, IntakeOutcome, Item, Result, Results
from fleetridge_server.intake.store import LostRaceError, Stored, write_calls
from fleetridge_server.problems import MAX_ERRORS, FieldError, ProblemError, of_database, unavailable, unexpected
from fleetridge_server.telemetry.logs import within_request
from fleetridge_server.telemetry.metrics import RequestStats, begin_request_stats


@dataclass(frozen=True, slots=True)
class Call:
    """One call that brings reports: the body as it was sent, still compressed, whose it is and when it came."""

    body: bytes
    encoding: str
    caller: Caller
    received_at: datetime
    request_id: str | None = None


class Reply(NamedTuple):
    """
    The answer to a call that was taken.

    Attributes:
        status: of HTTP.
        content: JSON of a result, or of several.
    """

    status: int
    content: bytes


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """
    What came of a call.

    Attributes:
        reply: to its sender.
        stats: for the log and for metrics.
    """

    reply: Reply | ProblemError
    stats: RequestStats


def note_reports(stats: RequestStats, items: Sequence[Item], outcomes: Sequence[IntakeOutcome]) -> None:
    """
    Note what became of each item, in the same order, once the answer is certain.

    The lag of a report that is new goes from the end of its measurement, by a clock put right, to its arrival.
    """
    stats.outcomes.update(outcomes)
    stats.lags_s += [
        (item.received_at - item.ordering.ordered_at).total_seconds()
        for item, outcome in zip(items, outcomes, strict=True)
        if outcome == "created" and isinstance(item, Accepted) and item.ordering.ordered_at is not None
    ]


Outcome: TypeAlias = list[Stored] | Exception


def write_together(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[Outcome]:
    """
    Store what is new of the reports of some calls.

    Returns:
        For each call what became of each of its reports, or the error because of which nothing of it is stored.
    """
    try:
        return list(write_calls(database, calls))
    except Exception as error:  # noqa: BLE001 # answered to whose it is
        if len(calls) == 1 or trouble(error) is not None:  # of the database: it would meet each of them
            return [error] * len(calls)
    return [outcome for call in calls for outcome in write_together(database, [call])]


# Of one transaction, the reports of eight nodes of eight gpus: a tenth of a second of writing, so that no statement
# gets long.
_MOST_REPORTS = 64

# Of all results of a list together; beyond it each rejected report still gets its first fault.
_MAX_ERRORS_OF_LIST = 500

_INVALID = "This is not a report that can be taken"
_STATUS_OF = {"created": 201, "duplicate": 200}

_log = logging.getLogger(__name__)


def take(database: Database, calls: Sequence[Call]) -> list[CallOutcome]:
    """
    Take in the reports of some calls.

    Returns:
        Answer to each call, in their order; what is answered with a result is stored.
    """
    return [answer for portion in _portions(map(_opened, calls)) for answer in _answers(database, portion)]


@dataclass(frozen=True)
class _Opened:
    """A call, and its reports as they were examined."""

    call: Call
    items: Sequence[Item]
    is_list: bool

    @cached_property
    def accepted(self) -> list[Accepted]:
        """Those that are to be stored."""
        return [item for item in self.items if isinstance(item, Accepted)]


@dataclass(frozen=True)
class _Refused:
    """A call of which nothing is to be stored."""

    problem: ProblemError
    accepted: Sequence[Accepted] = ()


_Examined: TypeAlias = _Opened | _Refused


def _portions(examined: Iterable[_Examined]) -> Iterator[list[_Examined]]:
    """Calls whose reports fit into one transaction, examined only when it is their turn; a larger one by itself."""
    portion: list[_Examined] = []
    reports = 0
    for own in examined:
        if portion and reports + len(own.accepted) > _MOST_REPORTS:
            yield portion
            portion, reports = [], 0
        portion.append(own)
        reports += len(own.accepted)
    yield portion


def _opened(call: Call) -> _Examined:
    with within_request(call.request_id):
        try:
            return _read(call)
        except ProblemError as error:
            return _Refused(error)
        except Exception:  # noqa: BLE001 # logged, and the other calls go on
            _log.exception("reports could not be examined")
            return _Refused(unexpected())


def _read(call: Call) -> _Opened:
    try:
        value = strict_json.parse(inflated(call.body, call.encoding))
    except TooManyValuesError as error:
        raise too_large(error.problem) from error
    except StrictJsonError as error:
        fault = FieldError(field=error.path, problem=error.problem)
        raise _invalid("not_json", "The body is not JSON", [fault]) from error
    opened = _with_items(call, value)
    require_places(call.caller, opened.items, in_list=opened.is_list)
    return opened


def _with_items(call: Call, value: Json) -> _Opened:
    if examine.is_envelope(value):
        try:
            envelope = examine.envelope_of(value)
        except examine.EnvelopeError as error:
            raise _invalid("invalid_envelope", "This is not a list of reports", [error.error]) from error
        return _Opened(call, [_examined(call, item, envelope.sent_at) for item in envelope.reports], is_list=True)
    if not isinstance(value, dict):
        fault = FieldError(field="", problem="send one report, or {sent_at, reports: […]}")
        raise _invalid("invalid_report", _INVALID, [fault])
    return _Opened(call, [_examined(call, value, None)], is_list=False)


def _examined(call: Call, item: Json, sent_at: datetime | None) -> Item:
    return examine.examined(item, sent_at=sent_at, received_at=call.received_at, token_id=call.caller.token_id)


def _answers(database: Database, portion: Sequence[_Examined]) -> Iterator[CallOutcome]:
    storing = [own for own in portion if isinstance(own, _Opened) and own.accepted]
    stats = begin_request_stats()  # in which the database notes its time, all of it before the first answer
    outcomes = iter(write_together(database, [own.accepted for own in storing]) if storing else [])
    share_s = stats.database_s / max(1, len(storing))
    for own in portion:
        if isinstance(own, _Refused):
            yield CallOutcome(own.problem, RequestStats())
        elif own.accepted:
            yield _answer(own, next(outcomes), RequestStats(share_s))
        else:
            yield _answer(own, [], RequestStats())


def _answer(opened: _Opened, outcome: Outcome, stats: RequestStats) -> CallOutcome:
    if isinstance(outcome, Exception):
        with within_request(opened.call.request_id):
            return CallOutcome(_problem_of(outcome), stats)
    stored = iter(outcome)
    results = [
        Result(report_id=item.sent_id, outcome=next(stored))
        if isinstance(item, Accepted)
        else Result(report_id=item.sent_id, outcome="rejected", errors=list(item.errors))
        for item in opened.items
    ]
    note_reports(stats, opened.items, [result.outcome for result in results])
    return CallOutcome(_reply_to_list(results) if opened.is_list else _reply(results[0]), stats)


def _reply_to_list(results: Sequence[Result]) -> Reply:
    return Reply(200, Results(results=list(_bounded(results))).model_dump_json().encode())


def _bounded(results: Iterable[Result]) -> Iterator[Result]:
    """Results with fewer faults where there are too many in all."""
    left = _MAX_ERRORS_OF_LIST
    for result in results:
        errors = result.errors[: max(1, left)]
        left -= len(errors)
        yield result.model_copy(update={"errors": errors})


def _reply(result: Result) -> Reply | ProblemError:
    about = {"report_id": result.report_id, "outcome": result.outcome}
    if result.outcome == "rejected":
        return _invalid("invalid_report", _INVALID, result.errors, about)
    if result.outcome == "conflict":
        detail = (
            "a report with this id and other content is stored already; a report is never changed, give it a new id"
        )
        return ProblemError(409, "conflict", "The id is taken", detail, members=about)
    return Reply(_STATUS_OF[result.outcome], result.model_dump_json().encode())


def _problem_of(error: Exception) -> ProblemError:
    if isinstance(error, LostRaceError):
        detail = "others send the same reports at this moment; send the same again after Retry-After seconds"
        return unavailable("busy", "Too many reports at once", detail)
    problem = of_database(error)
    if problem is None:
        _log.error("reports could not be stored", exc_info=error)
        return unexpected()
    return problem


def _invalid(
    code: str, title: str, errors: Sequence[FieldError], members: dict[str, Any] | None = None
) -> ProblemError:
    detail = "; ".join(f"{error.field}: {error.problem}" if error.field else error.problem for error in errors)
    return ProblemError(422, code, title, detail, errors=errors, members=members)


def require_places(caller: Caller, items: Iterable[Item], *, in_list: bool) -> None:
    """
    Make sure that reports are from where their caller may post from.

    One that is not refuses the whole call, and nothing is stored: a node that was given the wrong token has reports
    that are as good as any, so that none of them may be called rejected, which would have its agent give it up.

    Raises:
        ProblemError: 403, which says which reports and which place.
    """
    faults = []
    for position, item in enumerate(items):
        if isinstance(item, Accepted):
            node = item.report.node
            if not caller.may_write_about(node.cluster, node.name):
                field = f"reports[{position}].node" if in_list else "node"
                faults.append(
                    FieldError(field=field, problem=f"{place_words(node.cluster, node.name)} is not {caller.place}")
                )
    if faults:
        detail = f"this token may report for {caller.place} only; nothing was stored. Use a token for the place that "
        detail += f"the agent says it is at ({faults[0].problem}), or correct its --cluster and --node"
        raise ProblemError(403, "other_place", "Not for this place", detail, errors=faults[:MAX_ERRORS])
