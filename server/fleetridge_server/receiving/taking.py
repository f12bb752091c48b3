"""
Calls that bring reports, taken in: read, examined, stored together, answered each by itself.

Nothing here knows of HTTP beyond the status of an answer, nor in which process it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from fleetridge import strict_json
from fleetridge.strict_json import Json, StrictJsonError, TooManyValuesError
from fleetridge_server.access.permission import require_places
from fleetridge_server.access.request_id import within_request
from fleetridge_server.answer.report_results import Result, Results
from fleetridge_server.course import Course, begin_course
from fleetridge_server.field_errors import FieldError
from fleetridge_server.ingest import intake
from fleetridge_server.ingest.body import inflated, too_large
from fleetridge_server.ingest.intake import Accepted, Item
from fleetridge_server.problems import ProblemError, of_database, unavailable, unexpected
from fleetridge_server.receiving.call import Answer, Call, Told
from fleetridge_server.receiving.report_counts import note_reports
from fleetridge_server.store.database import Database
from fleetridge_server.store.together import Outcome, write_together
from fleetridge_server.store.writing import LostRaceError, Posted

# Of one transaction, the reports of eight nodes of eight gpus: a tenth of a second of writing, so that no statement
# gets long.
_MOST_REPORTS = 64

# Of all results of a list together; beyond it each rejected report is still told its first fault.
_MAX_ERRORS_OF_LIST = 500

_INVALID = "This is not a report that can be taken"
_STATUS_OF = {"created": 201, "duplicate": 200}

_log = logging.getLogger(__name__)


def take(database: Database, calls: Sequence[Call]) -> list[Answer]:
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

    @property
    def posted(self) -> Posted:
        """The same with their token."""
        return Posted(self.accepted, self.call.caller.token_id)


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
    if intake.is_envelope(value):
        try:
            envelope = intake.envelope_of(value)
        except intake.EnvelopeError as error:
            raise _invalid("invalid_envelope", "This is not a list of reports", [error.error]) from error
        items = [
            intake.examined(item, sent_at=envelope.sent_at, received_at=call.received_at) for item in envelope.reports
        ]
        return _Opened(call, items, is_list=True)
    if not isinstance(value, dict):
        fault = FieldError(field="", problem="send one report, or {sent_at, reports: […]}")
        raise _invalid("invalid_report", _INVALID, [fault])
    return _Opened(call, [intake.examined(value, sent_at=None, received_at=call.received_at)], is_list=False)


def _answers(database: Database, portion: Sequence[_Examined]) -> Iterator[Answer]:
    storing = [own for own in portion if isinstance(own, _Opened) and own.accepted]
    course = begin_course()  # in which the database notes its time, all of it before the first answer
    outcomes = iter(write_together(database, [own.posted for own in storing]) if storing else [])
    share_s = course.database_s / max(1, len(storing))
    for own in portion:
        if isinstance(own, _Refused):
            yield Answer(own.problem, Course())
        elif own.accepted:
            yield _answer(own, next(outcomes), Course(share_s))
        else:
            yield _answer(own, [], Course())


def _answer(opened: _Opened, outcome: Outcome, course: Course) -> Answer:
    if isinstance(outcome, Exception):
        with within_request(opened.call.request_id):
            return Answer(_problem_of(outcome), course)
    stored = iter(outcome)
    results = [
        Result(report_id=item.sent_id, outcome=next(stored))
        if isinstance(item, Accepted)
        else Result(report_id=item.sent_id, outcome="rejected", errors=list(item.errors))
        for item in opened.items
    ]
    note_reports(course, opened.items, [result.outcome for result in results])
    return Answer(_told_of_list(results) if opened.is_list else _told(results[0]), course)


def _told_of_list(results: Sequence[Result]) -> Told:
    return Told(200, Results(results=list(_bounded(results))).model_dump_json().encode())


def _bounded(results: Iterable[Result]) -> Iterator[Result]:
    """Results with fewer faults where there are too many in all."""
    left = _MAX_ERRORS_OF_LIST
    for result in results:
        told = result.errors[: max(1, left)]
        left -= len(told)
        yield result.model_copy(update={"errors": told})


def _told(result: Result) -> Told | ProblemError:
    about = {"report_id": result.report_id, "outcome": result.outcome}
    if result.outcome == "rejected":
        return _invalid("invalid_report", _INVALID, result.errors, about)
    if result.outcome == "conflict":
        detail = (
            "a report with this id and other content is stored already; a report is never changed, give it a new id"
        )
        return ProblemError(409, "conflict", "The id is taken", detail, members=about)
    return Told(_STATUS_OF[result.outcome], result.model_dump_json().encode())


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
