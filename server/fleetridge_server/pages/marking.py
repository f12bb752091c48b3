"""Forms by which people decide about accusations."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from fleetridge_server.access.caller import Caller
from fleetridge_server.access.permission import CurrentCaller, require_place
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.marks import MarkRequest, keep_mark_in, stop_mark
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.field_errors import FieldError, problem_of
from fleetridge_server.pages.forms import form_of, local
from fleetridge_server.problems import ProblemError
from fleetridge_server.store.database import Database
from fleetridge_server.store.marks import mark_page
from fleetridge_server.store.verdict_models import StoredMark

router = APIRouter(include_in_schema=False)

_PER_CENT = 100

# The same form comes again within seconds; a mark that is older than so many others is no slip.
_NEWEST_MARKS = 100


@router.post("/ui/marks")
async def post_mark_form(request: Request, database: OpenDatabase, caller: CurrentCaller) -> Response:
    """Keep a decision, and go back to the page of the gpu."""
    fields = await form_of(request)
    mark = mark_of(fields, caller)
    require_place(caller, mark.cluster, mark.node)
    await anyio.to_thread.run_sync(_keep_once, database, mark, limiter=request.app.state.writers)
    return RedirectResponse(local(fields.get("back")), 303)


@router.post("/ui/marks/{mark_id}/end")
async def post_end_form(request: Request, database: OpenDatabase, caller: CurrentCaller, mark_id: int) -> Response:
    """End a mark, and go back."""
    fields = await form_of(request)
    await anyio.to_thread.run_sync(stop_mark, database, caller, mark_id, limiter=request.app.state.writers)
    return RedirectResponse(local(fields.get("back")), 303)


def mark_of(fields: dict[str, str], caller: Caller) -> MarkRequest:
    """
    Decision about one gpu from the fields of the form; who may decide about one place only decides about it there.

    Raises:
        ProblemError: 422, with the fields that are wrong.
    """
    sent: dict[str, Any] = {
        "cluster": fields.get("cluster") or caller.cluster,
        "node": caller.node,
        **{name: fields[name] for name in ("kind", "reason", "author", "gpu_id") if name in fields},
    }
    try:
        if "loss_percent" in fields:
            sent["loss"] = float(fields["loss_percent"].replace(",", ".")) / _PER_CENT
        if "until" in fields:
            sent["until"] = _end_of(fields["until"])
        return MarkRequest.model_validate(sent)
    except ValidationError as error:
        faults = [
            FieldError(field=".".join(map(str, fault["loc"])), problem=problem_of(fault)) for fault in error.errors()
        ]
    except ValueError:
        problem = "write the loss in per cent, such as 8, and the end as a date, such as 2027-01-31"
        faults = [FieldError(field="loss_percent, until", problem=problem)]
    detail = "; ".join(f"{fault.field}: {fault.problem}" for fault in faults)
    raise ProblemError(422, "invalid_mark", "This is no mark", detail, errors=faults)


def _keep_once(database: Database, mark: MarkRequest) -> None:
    """Keep a decision; a form that is sent twice by mistake decides once."""
    now = datetime.now(timezone.utc)
    with database.writing() as session:
        simulated = mark.cluster == SIMULATED
        newest = mark_page(session, simulated=simulated, holding_at=now, before_id=None, limit=_NEWEST_MARKS)
        if not any(_is_same(kept, mark) for kept in newest):
            keep_mark_in(session, mark, now)


def _is_same(kept: StoredMark, mark: MarkRequest) -> bool:
    scope = (kept.gpu, kept.cluster, kept.node, kept.rack) == (mark.gpu_id, mark.cluster, mark.node, mark.rack)
    decided = (kept.kind, kept.loss, kept.until) == (mark.kind, mark.loss, mark.until)
    return scope and decided and (kept.reason, kept.author) == (mark.reason, mark.author)


def _end_of(day: str) -> datetime:
    """End of a day in UTC."""
    return datetime.strptime(day, "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=timezone.utc)
