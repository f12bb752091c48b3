"""
Alerts as they are kept: opened, silenced, resolved, and read again.

An alert is opened by the evaluation that finds something wrong (`verdicts.alert_causes`) and resolved by the one that
finds it well again, in the transaction that stores it. One thing has one open alert, however often it is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from fleetridge_server.db.access_tables import NotifiedAlert
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.db.verdict_tables import Alert
from fleetridge_server.verdicts.alert_causes import SILENCED, AlertCause, AlertKind
from fleetridge_server.verdicts.series import DeviceGroup

AlertState = Literal["open", "silenced", "resolved"]

_ALERTS = cast("Table", Alert.__table__)


@dataclass(frozen=True, slots=True)
class Settled:
    """Ids of alerts that an evaluation opened and resolved."""

    opened: tuple[int, ...] = ()
    resolved: tuple[int, ...] = ()


def settle_alerts(
    session: Session, device_group: DeviceGroup, causes: Sequence[AlertCause], *, evaluation_id: int, as_of: datetime
) -> Settled:
    """
    Open alerts for what is newly wrong, keep those of what is still wrong, resolve the others.

    One that was silenced and is no longer opens as before: whoever was told of it is told again.
    """
    known = session.scalars(_open_of(device_group)).all()
    silenced = {alert.open_key: alert.id for alert in known if alert.state == SILENCED}
    still_open = {alert.open_key: alert.id for alert in known}
    found = {_open_key(device_group, cause): cause for cause in causes}
    _update(
        session,
        [{"key": still_open[key], "last_seen": as_of, **_fields_of(found[key])} for key in found if key in still_open],
    )
    loud = [own for key, own in silenced.items() if key in found and found[key].state != SILENCED]
    for alert_ids in in_chunks(loud):
        session.execute(delete(NotifiedAlert).where(NotifiedAlert.alert_id.in_(alert_ids)))
    new = [
        {
            **device_group._asdict(),
            "last_seen": as_of,
            **_fields_of(cause),
            "kind": cause.kind,
            "subject": cause.subject,
            "open_key": key,
            "opened_at": as_of,
            "opened_by": evaluation_id,
        }
        for key, cause in found.items()
        if key not in still_open
    ]
    for chunk in in_chunks(new):
        session.execute(insert(_ALERTS), list(chunk))
    resolved = [alert_id for key, alert_id in still_open.items() if key not in found]
    _resolve(session, resolved, evaluation_id=evaluation_id, as_of=as_of)
    opened = session.scalars(select(Alert.id).where(Alert.opened_by == evaluation_id)) if new else ()
    return Settled(tuple(opened), tuple(resolved))


def alert_page(
    session: Session,
    *,
    simulated: bool = False,
    state: AlertState | None = None,
    kind: AlertKind | None = None,
    device_id: int | None = None,
    cluster: str | None = None,
    before_id: int | None = None,
    limit: int,
) -> list[Alert]:
    """
    Alerts opened before that of `before_id`, newest first, at most `limit`.

    Without a kind, device or cluster those of all; what is about no cluster alone is left out where one is asked for.
    """
    chosen = select(Alert).where(Alert.simulated.is_(simulated)).order_by(Alert.id.desc()).limit(limit)
    if state is not None:
        chosen = chosen.where(is_alert_in(state))
    if kind is not None:
        chosen = chosen.where(Alert.kind == kind)
    if device_id is not None:
        chosen = chosen.where(Alert.device_id == device_id)
    if cluster is not None:
        chosen = chosen.where(Alert.cluster == cluster)
    if before_id is not None:
        chosen = chosen.where(Alert.id < before_id)
    return list(session.scalars(chosen))


def alert_with(session: Session, alert_id: int) -> Alert | None:
    """The alert with this id, open or not."""
    return session.get(Alert, alert_id)


def is_alert_in(state: AlertState) -> ColumnElement[bool]:
    """Whether an alert is open, silenced (open, and nobody is told of it), or resolved, now."""
    if state == "resolved":
        return Alert.resolved_at.is_not(None)
    is_silenced = Alert.state == SILENCED
    return and_(Alert.resolved_at.is_(None), is_silenced if state == "silenced" else ~is_silenced)


def _open_of(device_group: DeviceGroup) -> Select[Alert]:
    return select(Alert).where(
        Alert.device_id == device_group.device_id,
        Alert.simulated.is_(device_group.simulated),
        Alert.resolved_at.is_(None),
    )


def _open_key(device_group: DeviceGroup, cause: AlertCause) -> str:
    return f"{cause.kind} {device_group.device_id} {device_group.simulated:d} {cause.subject}"


def _fields_of(cause: AlertCause) -> dict[str, Any]:
    """What an alert says, which may change while it is open."""
    return {name: getattr(cause, name) for name in ("state", "summary", "cluster", "node", "rack", "gpu", "details")}


def _update(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    for chunk in in_chunks(rows):
        session.execute(update(_ALERTS).where(_ALERTS.c.id == bindparam("key")), list(chunk))


def _resolve(session: Session, alert_ids: Sequence[int], *, evaluation_id: int, as_of: datetime) -> None:
    for chunk in in_chunks(alert_ids):
        ended = update(Alert).where(Alert.id.in_(chunk))
        session.execute(ended.values(open_key=None, resolved_at=as_of, resolved_by=evaluation_id))
