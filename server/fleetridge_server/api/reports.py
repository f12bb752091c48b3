"""Reports: taken in, and given back as they were sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from fleetridge import strict_json
from fleetridge.report import MAX_REPORTS
from fleetridge.report import Report as WireReport
from fleetridge.strict_json import Json, StrictJsonError, TooManyValuesError
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.ingest import intake
from fleetridge_server.ingest.body import content_encoding, inflated, read_body, too_large
from fleetridge_server.ingest.intake import Accepted, IntakeOutcome, Item
from fleetridge_server.problems import FieldError, Problem, ProblemError, unavailable
from fleetridge_server.store.database import Database
from fleetridge_server.store.models import Document, Gpu, Report
from fleetridge_server.store.writing import LostRaceError, write_reports

router = APIRouter(tags=["reports"])

_INVALID = "This is not a report that can be taken"
# Of all results of a list together; beyond it each rejected report is still told its first fault.
_MAX_ERRORS_OF_LIST = 500

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


class Summary(BaseModel):
    """What stays of a report whose document is no longer kept."""

    report_id: UUID
    outcome: str
    reason: str | None
    gpu_id: str | None
    measured_to: datetime | None
    received_at: datetime


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
async def post_reports(request: Request, database: OpenDatabase) -> Response:
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
        return await anyio.to_thread.run_sync(_taken, database, body, encoding, received_at, limiter=state.writers)


@router.get(
    "/reports/{report_id}",
    response_class=JSONResponse,
    responses={
        200: {"model": WireReport},
        404: {"model": Problem, "description": "No report has this id."},
        410: {"model": Problem, "description": "The report was here; its document is no longer kept."},
    },
)
def get_report(report_id: UUID, database: OpenDatabase) -> Response:
    """A report as it was sent, nothing added and nothing left out."""
    with database.reading() as session:
        document = session.get(Document, report_id)
        report = session.get(Report, report_id)
        gpu = None if report is None or report.gpu_id is None else session.get(Gpu, report.gpu_id)
    if report is None:
        raise ProblemError(404, "unknown_report", "There is no such report", f"no report has the id {report_id}")
    if document is None:
        raise _dropped(report, None if gpu is None else gpu.identity)
    return Response(intake.unpacked(document.body), media_type="application/json")


def _taken(database: Database, body: bytes, encoding: str, received_at: datetime) -> Response:
    try:
        value = strict_json.parse(inflated(body, encoding))
    except TooManyValuesError as error:
        raise too_large(error.problem) from error
    except StrictJsonError as error:
        fault = FieldError(field=error.path, problem=error.problem)
        raise _invalid("not_json", "The body is not JSON", [fault]) from error
    if intake.is_envelope(value):
        return _taken_list(database, value, received_at)
    if not isinstance(value, dict):
        fault = FieldError(field="", problem="send one report, or {sent_at, reports: […]}")
        raise _invalid("invalid_report", _INVALID, [fault])
    return _taken_single(database, value, received_at)


def _taken_list(database: Database, value: dict[str, Json], received_at: datetime) -> Response:
    try:
        envelope = intake.envelope_of(value)
    except intake.EnvelopeError as error:
        raise _invalid("invalid_envelope", "This is not a list of reports", [error.error]) from error
    items = [intake.examined(item, sent_at=envelope.sent_at, received_at=received_at) for item in envelope.reports]
    results = _stored(database, items)
    return JSONResponse(Results(results=list(_bounded(results))).model_dump(mode="json"))


def _taken_single(database: Database, value: Json, received_at: datetime) -> Response:
    [result] = _stored(database, [intake.examined(value, sent_at=None, received_at=received_at)])
    about = {"report_id": result.report_id, "outcome": result.outcome}
    if result.outcome == "rejected":
        raise _invalid("invalid_report", _INVALID, result.errors, about)
    if result.outcome == "conflict":
        detail = (
            "a report with this id and other content is stored already; a report is never changed, give it a new id"
        )
        raise ProblemError(409, "conflict", "The id is taken", detail, members=about)
    return JSONResponse(result.model_dump(mode="json"), _STATUS_OF[result.outcome])


def _stored(database: Database, items: Sequence[Item]) -> list[Result]:
    accepted = [item for item in items if isinstance(item, Accepted)]
    try:
        outcomes = iter(write_reports(database, accepted) if accepted else [])
    except LostRaceError as error:
        detail = "others send the same reports at this moment; send the same again after Retry-After seconds"
        raise unavailable("busy", "Too many reports at once", detail) from error
    return [
        Result(report_id=item.sent_id, outcome=next(outcomes))
        if isinstance(item, Accepted)
        else Result(report_id=item.sent_id, outcome="rejected", errors=list(item.errors))
        for item in items
    ]


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


def _dropped(report: Report, gpu_id: str | None) -> ProblemError:
    summary = Summary(
        report_id=report.id,
        outcome=report.outcome,
        reason=report.reason,
        gpu_id=gpu_id,
        measured_to=report.measured_to,
        received_at=report.received_at,
    )
    detail = "its document is older than documents are kept; the rates that it gave are still compared"
    members = {"summary": summary.model_dump(mode="json")}
    return ProblemError(410, "document_dropped", "The document is no longer kept", detail, members=members)
