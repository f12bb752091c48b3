"""`/reports`: taken in, given back, and what stays of one whose document was dropped."""

from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetridge.report import MAX_REPORTS
from fleetridge.report import Report as WireReport
from fleetridge_server.db.tables import Device, Document, Gpu, Node, Report, Roof
from fleetridge_server.http.authentication import CurrentCaller
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.intake import examine
from fleetridge_server.intake.body import content_encoding, read_body
from fleetridge_server.intake.examine import Result, Results
from fleetridge_server.intake.queue import ReportQueue
from fleetridge_server.intake.take import Call
from fleetridge_server.problems import Problem, ProblemError
from fleetridge_server.telemetry.logs import current_request_id
from fleetridge_server.telemetry.metrics import add_request_stats
from fleetridge_server.verdicts.roof_shapes import Answer, RoofValue


class KeptRoof(RoofValue):
    """One roof of the report, in `unit`."""


class Summary(Answer):
    """What stays of a report whose document is no longer kept; in quarantine it counts for nothing."""

    report_id: UUID
    outcome: str
    reason: str | None
    detail: str | None
    run_kind: str
    cluster: str
    node: str | None
    gpu_id: str | None
    device: str | None
    measured_from: datetime | None
    measured_to: datetime | None
    received_at: datetime
    agent_version: str
    method: str | None
    protocol_version: int | None
    torch: str | None
    driver: str | None
    quarantined: bool
    roofs: tuple[KeptRoof, ...]


# The row's `gpu_id` is a number of ours.
_OF_REPORT = (Summary.model_fields.keys() & Report.__table__.columns.keys()) - {"gpu_id"}


def summary_of(session: Session, report: Report) -> Summary:
    """Summary of a report, roofs in the order in which it gave them."""
    names = (
        select(Node.name, Gpu.identity, Device.name)
        .select_from(Report)
        .outerjoin(Node, Node.id == Report.node_id)
        .outerjoin(Gpu, Gpu.id == Report.gpu_id)
        .outerjoin(Device, Device.id == Report.device_id)
        .where(Report.id == report.id)
    )
    node, gpu_id, device = session.execute(names).one()
    roofs = session.scalars(select(Roof).where(Roof.report_id == report.id).order_by(Roof.position))
    return Summary(
        report_id=report.id,
        node=node,
        gpu_id=gpu_id,
        device=device,
        roofs=tuple(KeptRoof.model_validate(roof, from_attributes=True) for roof in roofs),
        **{name: getattr(report, name) for name in _OF_REPORT},
    )


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
    add_request_stats(answer.stats)
    if isinstance(answer.reply, ProblemError):
        raise answer.reply
    return Response(answer.reply.content, answer.reply.status, media_type="application/json")


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
    return report, examine.unpacked(document.body)


def _dropped(summary: Summary) -> ProblemError:
    detail = "its document is older than documents are kept; the rates that it gave are still compared"
    members = {"summary": summary.model_dump(mode="json")}
    return ProblemError(410, "document_dropped", "The document is no longer kept", detail, members=members)
