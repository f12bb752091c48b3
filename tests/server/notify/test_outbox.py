"""The outbox: each alert is told once, in order, by one server."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from fleetridge_server.db.access_tables import Notification
from fleetridge_server.notify import outbox
from support.alerts import open_alerts, resolve_alerts
from support.times import NOW

if TYPE_CHECKING:
    from datetime import datetime

    from fleetridge_server.db.database import Database
    from fleetridge_server.notify.outbox import Claimed
    from fleetridge_server.notify.payload import AlertView


def make_message(database: Database, now: datetime = NOW) -> list[AlertView]:
    """Alerts of the message that is made now; none where there are none."""
    with database.writing() as session:
        alerts = outbox.unsent(session)
        if alerts:
            outbox.add_message(session, alerts, " ".join(f"{alert.gpu} {alert.status}" for alert in alerts), now)
    return alerts


def claim(database: Database, now: datetime = NOW) -> Claimed | None:
    with database.writing() as session:
        return outbox.claim_oldest(session, now)


def deliver_all(database: Database, now: datetime = NOW) -> list[str]:
    """Bodies of all messages that can be sent, marked as sent."""
    bodies = []
    while (claimed := claim(database, now)) is not None:
        bodies.append(claimed.body)
        with database.writing() as session:
            outbox.note_sent(session, claimed, now)
    return bodies


def fail(database: Database, claimed: Claimed, now: datetime, *, is_final: bool = False, wanted_s: float = 0) -> bool:
    with database.writing() as session:
        return outbox.note_failure(session, claimed, now, problem="no", is_final=is_final, retry_after_s=wanted_s)


def test_an_alert_is_told_once_when_it_opens_and_once_when_it_is_over(database: Database) -> None:
    ids = open_alerts(database, "GPU-1", "GPU-2")
    make_message(database)
    assert make_message(database) == []
    resolve_alerts(database, ids[0])
    make_message(database)
    assert make_message(database) == []
    assert deliver_all(database) == ["GPU-1 firing GPU-2 firing", "GPU-1 resolved"]


def test_an_alert_that_was_over_before_anybody_was_told_is_not_told(database: Database) -> None:
    resolve_alerts(database, *open_alerts(database, "GPU-1"))
    assert make_message(database) == []


def test_an_alert_that_is_silenced_is_told_to_nobody(database: Database) -> None:
    """Nor that it is over, where nobody was told that it began."""
    ids = [*open_alerts(database, "GPU-1", state="silenced"), *open_alerts(database, "GPU-2")]
    assert [alert.gpu for alert in make_message(database)] == ["GPU-2"]
    resolve_alerts(database, *ids)
    assert [(alert.gpu, alert.status) for alert in make_message(database)] == [("GPU-2", "resolved")]


def test_the_alerts_of_made_up_gpus_are_told_to_nobody(database: Database) -> None:
    open_alerts(database, "GPU-1", simulated=True, cluster="simulated")
    assert make_message(database) == []
    with database.reading() as session:
        assert not outbox.has_unsent(session)


def test_a_message_takes_a_bounded_number_of_alerts_and_the_next_the_rest(database: Database) -> None:
    open_alerts(database, *(f"GPU-{number}" for number in range(outbox.MOST_ALERTS + 3)))
    assert [len(make_message(database)) for _ in range(3)] == [outbox.MOST_ALERTS, 3, 0]


def test_a_message_that_is_being_sent_is_nobody_elses(database: Database) -> None:
    """Until its lease ends, as that of a server that died does."""
    open_alerts(database, "GPU-1")
    make_message(database)
    first = claim(database)

    assert first is not None
    assert claim(database, NOW + outbox.LEASE - timedelta(seconds=1)) is None
    again = claim(database, NOW + outbox.LEASE)
    assert again is not None
    assert (again.message_id, again.body, again.tries) == (first.message_id, first.body, 2)


def test_no_message_overtakes_an_older_one(database: Database) -> None:
    """Else an alert would be over before it began."""
    ids = open_alerts(database, "GPU-1")
    make_message(database)
    first = claim(database)
    assert first is not None
    fail(database, first, NOW)
    resolve_alerts(database, *ids)
    make_message(database)

    assert claim(database, NOW) is None
    assert deliver_all(database, NOW + timedelta(hours=1)) == ["GPU-1 firing", "GPU-1 resolved"]


def test_a_try_that_failed_is_made_again_later_and_later(database: Database) -> None:
    open_alerts(database, "GPU-1")
    make_message(database)
    now, pauses = NOW, []
    for _ in range(12):
        claimed = claim(database, now)
        assert claimed is not None
        fail(database, claimed, now)
        with database.reading() as session:
            due = session.scalar(select(Notification.next_try_at))
        assert due is not None
        pauses.append(due - now)
        now = due

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (timedelta(seconds=5), timedelta(minutes=15))


def test_a_message_of_a_clock_that_was_ahead_does_not_hold_up_the_others(database: Database) -> None:
    """It goes out first, as soon as the clock is right."""
    open_alerts(database, "GPU-1")
    ahead = NOW + timedelta(days=1500)
    make_message(database, ahead)
    claimed = claim(database, ahead)
    assert claimed is not None
    fail(database, claimed, ahead)
    open_alerts(database, "GPU-2")
    make_message(database)

    with database.reading() as session:
        assert outbox.has_due(session, NOW)
    assert deliver_all(database) == ["GPU-1 firing", "GPU-2 firing"]


def test_a_receiver_that_asks_for_time_gets_it_within_bounds(database: Database) -> None:
    open_alerts(database, "GPU-1")
    make_message(database)
    claimed = claim(database)
    assert claimed is not None
    fail(database, claimed, NOW, wanted_s=120)
    assert claim(database, NOW + timedelta(seconds=119)) is None
    claimed = claim(database, NOW + timedelta(seconds=120))
    assert claimed is not None
    fail(database, claimed, NOW, wanted_s=1e9)
    assert claim(database, NOW + timedelta(hours=1)) is not None


def test_a_message_is_given_up_in_the_end_and_the_next_has_its_turn(database: Database) -> None:
    open_alerts(database, "GPU-1")
    make_message(database)
    open_alerts(database, "GPU-2")
    make_message(database)
    late = NOW + timedelta(days=4)
    claimed = claim(database, late)
    assert claimed is not None
    assert fail(database, claimed, late)
    assert deliver_all(database, late) == ["GPU-2 firing"]


def test_a_message_that_is_wrong_in_itself_is_given_up_at_once(database: Database) -> None:
    open_alerts(database, "GPU-1")
    make_message(database)
    claimed = claim(database)
    assert claimed is not None
    assert fail(database, claimed, NOW, is_final=True)
    with database.reading() as session:
        kept = session.scalars(select(Notification)).one()
    assert (kept.outcome, kept.problem) == ("gave_up", "no")
    assert claim(database, NOW + timedelta(days=1)) is None


def test_several_servers_make_each_message_once_and_send_it_once(database: Database) -> None:
    open_alerts(database, *(f"GPU-{number}" for number in range(100)))
    sent: list[str] = []
    start = threading.Barrier(4)

    def one_server() -> None:
        start.wait()
        for _ in range(6):
            make_message(database)
            sent.extend(deliver_all(database))

    servers = [threading.Thread(target=one_server) for _ in range(4)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()

    told = [word for body in sent for word in body.split() if word.startswith("GPU-")]
    assert sorted(told) == sorted(f"GPU-{number}" for number in range(100))


@given(st.integers(min_value=1, max_value=10**9))
def test_pauses_grow_and_are_bounded(tries: int) -> None:
    assert timedelta(seconds=5) <= outbox.pause_after(tries) <= outbox.pause_after(tries + 1) <= timedelta(minutes=15)
