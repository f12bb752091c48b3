"""Reports: taken in, and given back as they were sent."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session

from fleetridge.report import MAX_REPORTS
from fleetridge.report import Report as WireReport
from fleetridge_server.access.permission import CurrentCaller
from fleetridge_server.access.request_id import current_request_id
from fleetridge_server.answer.dropped_reports import Summary, summary_of
from fleetridge_server.answer.report_results import Result, Results
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.course import note_part
from fleetridge_server.ingest import intake
from fleetridge_server.ingest.body import content_encoding, read_body
from fleetridge_server.problems import Problem, ProblemError
from fleetridge_server.receiving.call import Call
from fleetridge_server.receiving.queue import ReportQueue
from fleetridge_server.store.models import Document, Report

router = APIRouter(tags=["reports"])

# Beside the report, which stays as it was sent.
_QUARANTINED = "Fleetridge-Quarantined"
_QUARANTINED_HEADER = {
    "description": "`yes` where the report counts for nothing, since its token is not trusted.",
    "schema": {"type": "string", "enum": ["yes"]},
}


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
        503: {
            "model": Problem,
            "description": "Send the same again after Retry-After seconds; what is stored then counts once.",
        },
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
    queue: ReportQueue = request.app.state.report_queue
    with request.app.state.waiting_bodies.place() as place:
        body = await read_body(request, place)
        call = Call(body, content_encoding(request), caller, received_at, current_request_id())
        answer = await queue.take(call)
    note_part(answer.course)
    if isinstance(answer.told, ProblemError):
        raise answer.told
    return Response(answer.told.content, answer.told.status, media_type="application/json")


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


def _dropped(summary: Summary) -> ProblemError:
    detail = "its document is older than documents are kept; the rates that it gave are still compared"
    members = {"summary": summary.model_dump(mode="json")}
    return ProblemError(410, "document_dropped", "The document is no longer kept", detail, members=members)
