"""Alerts: what evaluations found wrong, and when it was well again."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from fleetridge_server import text
from fleetridge_server.answer.alert_schemas import AlertList
from fleetridge_server.answer.alerts import alert_shown
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.api.naming import the_device
from fleetridge_server.api.negotiation import answered, documented
from fleetridge_server.api.paging import ListQuery, Position, list_id, moment, number_of, page, position_after
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.store.alerts import AlertKind, alert_page
from fleetridge_server.store.database import Database
from fleetridge_server.store.lookup import is_storable, names_of_devices

router = APIRouter(tags=["alerts"])

_PATH = "/alerts"


class AlertsQuery(ListQuery):
    """Parameters of the list of alerts."""

    state: Annotated[Literal["open", "resolved"] | None, Field(description="Only these; both by default.")] = None
    kind: Annotated[AlertKind | None, Field(description="Only of this kind.")] = None
    device: Annotated[str | None, Field(description="Only of this device, by any of its names.")] = None
    cluster: Annotated[
        str | None, Field(description="Only of this cluster; `simulated` for those of made-up gpus, else left out.")
    ] = None


@router.get(
    _PATH,
    response_model=AlertList,
    responses=documented({404: "No device has this name or slug.", 422: "A parameter is not as described."}),
)
def get_alerts(request: Request, database: OpenDatabase, query: Annotated[AlertsQuery, Query()]) -> Response:
    """
    What evaluations found wrong, the newest first: opened when it is first found, resolved when it no longer is.

    A node or a rack that is slow as a whole is one alert. Suspicions and gaps in the measurements open none.
    """
    return answered(request, read_alerts(database, query), text.alert_list)


def read_alerts(database: Database, query: AlertsQuery) -> AlertList:
    """
    The answer.

    Raises:
        ProblemError: 404, there is no such device; 422, the position is of another list.
    """
    this_list = list_id(_PATH, query)
    position = position_after(query.after, this_list)
    as_of = moment(None, position)
    with database.reading() as session:
        found = alert_page(
            session,
            simulated=query.cluster == SIMULATED,
            is_open=None if query.state is None else query.state == "open",
            kind=query.kind,
            device_id=None if query.device is None else the_device(session, query.device).id,
            cluster=_cluster(query.cluster),
            before_id=number_of(position),
            limit=query.limit + 1,
        )
        shown, following = page(
            found, query.limit, lambda alert: Position(of_list=this_list, as_of=as_of, name=str(alert.id))
        )
        devices = names_of_devices(session, {alert.device_id for alert in shown})
    alerts = tuple(alert_shown(alert, devices[alert.device_id]) for alert in shown)
    return AlertList(as_of=as_of, alerts=alerts, next=following)


def _cluster(asked: str | None) -> str | None:
    """Cluster to filter by; "", which none is called, for one that no database can hold."""
    if asked in (None, SIMULATED):
        return None
    return asked if is_storable(asked) else ""
