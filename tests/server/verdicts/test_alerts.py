from __future__ import annotations

from datetime import datetime
from typing import get_args
from uuid import uuid4

import pytest

from fleetridge_server.db.access_tables import Notification, NotifiedAlert
from fleetridge_server.engine.gpu_state import MarkKind
from fleetridge_server.fleet.marks import NewMark, add_mark
from fleetridge_server.notify import outbox
from fleetridge_server.verdicts.alerts import AlertState, alert_page
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet

STATES: tuple[AlertState, ...] = get_args(AlertState)
SLOW = {"GPU-2": 0.12}


def a_day_later(fleet: Fleet, slow: dict[str, float] | None = None) -> int:
    """A day of reports and the evaluation after it; its id."""
    fleet.now += DAY
    fleet.store(a_fleet(slow, until=fleet.now - HOUR, days=1))
    return fleet.evaluate().evaluation_id


def test_an_alert_is_opened_once_and_resolves_by_itself(fleet: Fleet) -> None:
    """While the gpu is slow it is the same alert; once it is well again it is over."""
    fleet.store(a_fleet(SLOW))
    opened_by = fleet.evaluate().evaluation_id
    a_day_later(fleet, SLOW)
    still = fleet.alerts()
    a_day_later(fleet)
    resolved_by = a_day_later(fleet)

    (alert,) = fleet.alerts()
    assert len(still) == 1
    assert (still[0].resolved_at, still[0].last_seen) == (None, NOON + DAY + HOUR)
    assert (alert.opened_at, alert.opened_by) == (NOON + HOUR, opened_by)
    assert (alert.resolved_at, alert.resolved_by) == (NOON + 3 * DAY + HOUR, resolved_by)
    assert "GPU-2 on node-01 is" in alert.summary


def test_a_gpu_that_breaks_again_has_another_alert(fleet: Fleet) -> None:
    """The first one stays as it ended."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    for slow in ({}, {}, SLOW, SLOW, SLOW):
        a_day_later(fleet, slow)

    first, second = fleet.alerts()
    assert first.resolved_at is not None
    assert second.resolved_at is None
    assert first.subject == second.subject == "GPU-2"


def test_a_slow_node_has_one_alert_instead_of_eight(fleet: Fleet) -> None:
    """And its gpus none."""
    node = {f"GPU-{number}": 0.12 for number in range(8)}
    fleet.store(a_fleet(node, node__name="bad"))
    for name in ("n1", "n2"):
        healthy = a_fleet(node__name=name)
        fleet.store([own | {"gpu": own["gpu"] | {"uuid": f"{name}-{own['gpu']['uuid']}"}} for own in healthy])

    fleet.evaluate()

    (alert,) = fleet.alerts()
    assert (alert.kind, alert.cluster, alert.node, alert.gpu) == ("node", "east", "bad", None)
    assert alert.details["gpus"] == 8


def repaired(fleet: Fleet, until: datetime | None = None, *, kind: MarkKind = "known") -> int:
    """Id of a mark on GPU-2, made now."""
    mark = NewMark(kind, "ticket 7", "ann", until=until, gpu="GPU-2")
    with fleet.database.writing() as session:
        return add_mark(session, mark, fleet.now).id


def test_the_alert_of_a_gpu_in_repair_is_silenced_until_the_repair_was_to_be_done(fleet: Fleet) -> None:
    """It stays open, says what it would be called, and opens as before."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    repaired(fleet, fleet.now + 2 * DAY)
    a_day_later(fleet, SLOW)
    [silenced] = fleet.alerts()
    a_day_later(fleet, SLOW)

    [alert] = fleet.alerts()
    assert (silenced.state, silenced.resolved_at, silenced.details["said"]) == ("silenced", None, "outlier")
    assert silenced.details["silenced_until"] == (NOON + HOUR + 2 * DAY).isoformat().replace("+00:00", "Z")
    assert silenced.summary.endswith("known, being repaired until 2026-11-26 13:00 UTC: ticket 7")
    assert (alert.id, alert.state, alert.resolved_at) == (silenced.id, "outlier", None)
    assert "said" not in alert.details


def test_whoever_was_told_of_a_silenced_alert_is_told_again_when_it_opens(fleet: Fleet) -> None:
    """While it is silenced nobody is told anything."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    with fleet.database.writing() as session:
        note = Notification(message_id=uuid4(), made_at=fleet.now, body="", tries=0, next_try_at=fleet.now)
        session.add(note)
        session.flush()
        session.add(NotifiedAlert(alert_id=1, fired_by=note.id))
    repaired(fleet, fleet.now + 2 * DAY)
    told: list[list[tuple[str, str]]] = []
    for _ in range(2):
        a_day_later(fleet, SLOW)
        with fleet.database.reading() as session:
            told.append([(alert.gpu or "", alert.status) for alert in outbox.unsent(session)])

    assert told == [[], [("GPU-2", "firing")]]


def test_a_silenced_alert_is_over_once_the_gpu_is_well(fleet: Fleet) -> None:
    """As any other."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    repaired(fleet, fleet.now + 9 * DAY)
    for _ in range(2):
        a_day_later(fleet)

    [alert] = fleet.alerts()
    assert alert.resolved_at == fleet.now
    assert fleet.states()["GPU-2"] == "ok"


@pytest.mark.parametrize("kind", ["accepted", "false_positive"])
def test_what_is_accepted_or_nothing_has_no_alert(fleet: Fleet, kind: MarkKind) -> None:
    """Nobody is going to repair it."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    repaired(fleet, kind=kind)
    a_day_later(fleet, SLOW)

    assert [alert.resolved_at for alert in fleet.alerts()] == [fleet.now]


def test_silenced_alerts_are_listed_by_themselves(fleet: Fleet) -> None:
    """They are no open ones."""
    fleet.store(a_fleet(SLOW | {"GPU-5": 0.2}, gpus=16))
    repaired(fleet, fleet.now + DAY)
    fleet.evaluate()

    with fleet.database.reading() as session:
        listed = {state: [own.gpu for own in alert_page(session, limit=9, state=state)] for state in STATES}
    assert listed == {"open": ["GPU-5"], "silenced": ["GPU-2"], "resolved": []}


def test_stale_gpus_open_nothing_and_keep_nothing_open(fleet: Fleet) -> None:
    """A gap in the measurements is coverage, not a fault."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    fleet.evaluate(NOON + 6 * DAY)

    assert [alert.resolved_at for alert in fleet.alerts()] == [NOON + 6 * DAY]


def test_alerts_are_listed_newest_first_a_page_at_a_time(fleet: Fleet) -> None:
    """All, or those that are open, of one kind, of one device; made-up ones only where they are asked for."""
    fleet.store(a_fleet({"GPU-2": 0.12, "GPU-5": 0.2}, gpus=16))
    fleet.evaluate()
    device_id = fleet.device_group().device_id

    with fleet.database.reading() as session:
        first = alert_page(session, limit=1)
        second = alert_page(session, limit=5, before_id=first[0].id)
        chosen = [
            len(alert_page(session, limit=9, state="open")),
            len(alert_page(session, limit=9, state="resolved")),
            len(alert_page(session, limit=9, kind="node")),
            len(alert_page(session, limit=9, kind="gpu", device_id=device_id)),
            len(alert_page(session, limit=9, simulated=True)),
        ]
    assert [len(first), len(second)] == [1, 1]
    assert chosen == [2, 0, 0, 2, 0]
