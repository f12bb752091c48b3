"""Reports: taken in, and given back as they were sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.orm import Session

from fleetridge import strict_json
from fleetridge.report import MAX_REPORTS
from fleetridge.report import Report as WireReport
from fleetridge.strict_json import Json, StrictJsonError, TooManyValuesError
from fleetridge_server.access.caller import Caller
from fleetridge_server.access.permission import CurrentCaller, require_places
from fleetridge_server.answer.dropped_reports import Summary, summary_of
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.ingest import intake
from fleetridge_server.ingest.body import content_encoding, inflated, read_body, too_large
from fleetridge_server.ingest.intake import Accepted, IntakeOutcome, Item
from fleetridge_server.problems import FieldError, Problem, ProblemError, unavailable
from fleetridge_server.report_counts import note_reports
from fleetridge_server.store.models import Document, Report
from fleetridge_server.store.report_writer import ReportWriter
from fleetridge_server.store.writing import LostRaceError, Posted

router = APIRouter(tags=["reports"])

_INVALID = "This is not a report that can be taken"
# Of all results of a list together; beyond it each rejected report is still told its first fault.
_MAX_ERRORS_OF_LIST = 500

# Beside the report, which stays as it was sent.
_QUARANTINED = "Fleetridge-Quarantined"
_QUARANTINED_HEADER = {
    "description": "`yes` where the report counts for nothing, since its token is not trusted.",
    "schema": {"type": "string", "enum": ["yes"]},
}

_STATUS_OF = {"created": 201, "duplicate": 200}


class Result(BaseModel):
    """
    What became of one report.

    Attributes:
        report_id: as it was sent; null where it was no text.
        outcome: `created`, `duplicate` (stored before, the same), `conflict` (stored before with other content),
            `rejected` (not a report; see `errors`). The last two are final: sending the same again is no use.
    """

    report_id: str | None
    outcome: IntakeOutcome
    errors: list[FieldError] = []


class Results(BaseModel):
    """What became of each report of a list, in their order."""

    results: list[Result]


class DroppedProblem(Problem):
    """The document is no longer kept; `summary` is what stays of it."""

    summary: Summary


# The body is read by hand, within limits, so that its form has to be described by hand too.
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "oneOf": [
                    {"$ref": "#/components/schemas/Report"},
                    {
                        "type": "object",
                        "required": ["reports"],
                        "properties": {
                            "sent_at": {
                                "type": "string",
                                "format": "date-time",
                                "description": "By the sender's clock.",
                            },
                            "reports": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": MAX_REPORTS,
                                "items": {"$ref": "#/components/schemas/Report"},
                            },
                        },
                    },
                ]
            }
        }
    },
}


@router.post(
    "/reports",
    status_code=201,
    response_model=Result,
    responses={
        200: {"model": Results | Result, "description": "A list was taken, or this one report was here already."},
        201: {"model": Result, "description": "This one report is stored."},
        400: {"model": Problem, "description": "The connection ended within the body."},
        408: {"model": Problem, "description": "The body came too slowly."},
        409: {"model": Problem, "description": "The id is taken by a report with other content."},
        413: {"model": Problem, "description": "The body is too large; split the list."},
        415: {"model": Problem, "description": "Another content encoding than gzip."},
        422: {"model": Problem, "description": "Not a report, or not a list of them."},
        503: {"model": Problem, "description": "Nothing was stored; send the same again after Retry-After seconds."},
    },
    openapi_extra={"requestBody": _BODY},
)
async def post_reports(request: Request, caller: CurrentCaller) -> Response:
    """
    Take one report, or all reports of a node in one call.

    Sending a report again is always safe. Within a list every report stands for itself: one that is rejected costs no
    other, and the answer is 200 with one result each. The body may be compressed with gzip.
    """
    received_at = datetime.now(timezone.utc)  # before the body and the queue, which say nothing of the sender's clock
    state = request.app.state
    with state.waiting_bodies.place() as place:
        body = await read_body(request, place)
        encoding = content_encoding(request)
        intaking = Intaking(state.report_writer, caller, received_at)
        return await anyio.to_thread.run_sync(_taken, intaking, body, encoding, limiter=state.writers)


@router.get(
    "/reports/{report_id}",
    response_class=JSONResponse,
    responses={
        200: {"model": WireReport, "headers": {_QUARANTINED: _QUARANTINED_HEADER}},
        404: {"model": Problem, "description": "No report has this id."},
        410: {"model": DroppedProblem, "description": "The report was here; its document is no longer kept."},
    },
)
def get_report(report_id: UUID, database: OpenDatabase) -> Response:
    """
    A report as it was sent, nothing added and nothing left out.

    Whether it counts is said beside it: `Fleetridge-Quarantined: yes` where its token is in quarantine.
    """
    with database.reading() as session:
        report, document = the_document(session, report_id)
    headers = {_QUARANTINED: "yes"} if report.quarantined else None
    return Response(document, media_type="application/json", headers=headers)


def the_document(session: Session, report_id: UUID) -> tuple[Report, bytes]:
    """
    A report, and the JSON text that was sent.

    Raises:
        ProblemError: 404, there is none; 410, its document is no longer kept.
    """
    report = session.get(Report, report_id)
    if report is None:
        raise ProblemError(404, "unknown_report", "There is no such report", f"no report has the id {report_id}")
    document = session.get(Document, (report.received_at, report_id))
    if document is None:
        raise _dropped(summary_of(session, report))
    return report, intake.unpacked(document.body)


@dataclass(frozen=True, slots=True)
class Intaking:
    """One call that brings reports: who stores them, whose they are, and when they came."""

    writer: ReportWriter
    caller: Caller
    received_at: datetime


def _taken(intaking: Intaking, body: bytes, encoding: str) -> Response:
    try:
        value = strict_json.parse(inflated(body, encoding))
    except TooManyValuesError as error:
        raise too_large(error.problem) from error
    except StrictJsonError as error:
        fault = FieldError(field=error.path, problem=error.problem)
        raise _invalid("not_json", "The body is not JSON", [fault]) from error
    if intake.is_envelope(value):
        return _taken_list(intaking, value)
    if not isinstance(value, dict):
        fault = FieldError(field="", problem="send one report, or {sent_at, reports: […]}")
        raise _invalid("invalid_report", _INVALID, [fault])
    return _taken_single(intaking, value)


def _taken_list(intaking: Intaking, value: dict[str, Json]) -> Response:
    try:
        envelope = intake.envelope_of(value)
    except intake.EnvelopeError as error:
        raise _invalid("invalid_envelope", "This is not a list of reports", [error.error]) from error
    items = [
        intake.examined(item, sent_at=envelope.sent_at, received_at=intaking.received_at) for item in envelope.reports
    ]
    require_places(intaking.caller, items, in_list=True)
    results = _stored(intaking, items)
    return JSONResponse(Results(results=list(_bounded(results))).model_dump(mode="json"))


def _taken_single(intaking: Intaking, value: Json) -> Response:
    item = intake.examined(value, sent_at=None, received_at=intaking.received_at)
    require_places(intaking.caller, [item], in_list=False)
    [result] = _stored(intaking, [item])
    about = {"report_id": result.report_id, "outcome": result.outcome}
    if result.outcome == "rejected":
        raise _invalid("invalid_report", _INVALID, result.errors, about)
    if result.outcome == "conflict":
        detail = (
            "a report with this id and other content is stored already; a report is never changed, give it a new id"
        )
        raise ProblemError(409, "conflict", "The id is taken", detail, members=about)
    return JSONResponse(result.model_dump(mode="json"), _STATUS_OF[result.outcome])


def _stored(intaking: Intaking, items: Sequence[Item]) -> list[Result]:
    accepted = [item for item in items if isinstance(item, Accepted)]
    try:
        posted = Posted(accepted, intaking.caller.token_id)
        outcomes = iter(intaking.writer.write(posted) if accepted else [])
    except LostRaceError as error:
        detail = "others send the same reports at this moment; send the same again after Retry-After seconds"
        raise unavailable("busy", "Too many reports at once", detail) from error
    results = [
        Result(report_id=item.sent_id, outcome=next(outcomes))
        if isinstance(item, Accepted)
        else Result(report_id=item.sent_id, outcome="rejected", errors=list(item.errors))
        for item in items
    ]
    note_reports(items, [result.outcome for result in results])
    return results


def _bounded(results: Iterable[Result]) -> Iterator[Result]:
    """Results with fewer faults where there are too many in all."""
    left = _MAX_ERRORS_OF_LIST
    for result in results:
        told = result.errors[: max(1, left)]
        left -= len(told)
        yield result.model_copy(update={"errors": told})


def _invalid(
    code: str, title: str, errors: Sequence[FieldError], members: dict[str, Any] | None = None
) -> ProblemError:
    detail = "; ".join(f"{error.field}: {error.problem}" if error.field else error.problem for error in errors)
    return ProblemError(422, code, title, detail, errors=errors, members=members)


def _dropped(summary: Summary) -> ProblemError:
    detail = "its document is older than documents are kept; the rates that it gave are still compared"
    members = {"summary": summary.model_dump(mode="json")}
    return ProblemError(410, "document_dropped", "The document is no longer kept", detail, members=members)
