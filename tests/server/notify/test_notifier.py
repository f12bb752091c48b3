"""Alerts from the database to a receiver, as a running server tells them."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
from anyio.from_thread import start_blocking_portal
from sqlalchemy import select, text

from fleetridge_server.app import create_app
from fleetridge_server.background import in_background
from fleetridge_server.db.access_tables import Notification
from fleetridge_server.notify.addresses import allowed_by
from fleetridge_server.notify.webhook import Notifier, Target, notification_task
from fleetridge_server.settings import Settings
from support.alerts import open_alerts, resolve_alerts
from support.app_client import app_client
from support.patience import PATIENCE_S
from support.webhook_receiver import Receiver, status, webhook_receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from fleetridge_server.background import Task
    from fleetridge_server.db.database import Database


def target(receiver: Receiver) -> Target:
    return Target(httpx.URL(receiver.url), b"0123456789abcdef", allowed_by("127.0.0.1"))


def notifier(database: Database, receiver: Receiver) -> Notifier:
    return Notifier(database, target(receiver), public_url="https://fleet.example")


def task(database: Database, receiver: Receiver) -> Task:
    return notification_task(database, target(receiver), public_url="https://fleet.example")


def turns(told: Notifier) -> None:
    """Turns until there is nothing left to do."""
    while told.turn():
        pass


def statuses(receiver: Receiver) -> list[list[tuple[str, str]]]:
    """Gpu and status of the alerts of each message."""
    return [
        [(alert["labels"]["gpu"], alert["status"]) for alert in json.loads(got.body)["alerts"]]
        for got in receiver.received
    ]


def outcomes(database: Database) -> list[Any]:
    with database.reading() as session:
        query = select(Notification.outcome, Notification.tries, Notification.problem).order_by(Notification.id)
        return [tuple(row) for row in session.execute(query)]


def make_due(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE notifications SET next_try_at = made_at"))


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 50):
        if happened():
            return
        pause.wait(0.02)
    raise AssertionError("it did not happen")


def test_alerts_are_told_when_they_open_and_when_they_are_over(database: Database) -> None:
    with webhook_receiver() as receiver:
        ids = open_alerts(database, "GPU-1", "GPU-2")
        told = notifier(database, receiver)
        turns(told)
        resolve_alerts(database, *ids)
        turns(told)

    assert statuses(receiver) == [
        [("GPU-1", "firing"), ("GPU-2", "firing")],
        [("GPU-1", "resolved"), ("GPU-2", "resolved")],
    ]
    assert json.loads(receiver.received[0].body)["externalURL"] == "https://fleet.example"
    assert outcomes(database) == [("sent", 1, None)] * 2


def test_what_failed_is_sent_again_with_the_same_id_and_the_same_body(database: Database) -> None:
    with webhook_receiver(status(500), status(302, Location="http://127.0.0.1:1/")) as receiver:
        open_alerts(database, "GPU-1")
        told = notifier(database, receiver)
        for _ in range(3):
            turns(told)
            make_due(database)

    assert len(receiver.received) == 3
    assert len({(got.headers["webhook-id"], got.body) for got in receiver.received}) == 1
    assert outcomes(database) == [("sent", 3, None)]


def test_a_receiver_that_is_down_costs_no_alert_and_is_left_alone_for_a_while(database: Database) -> None:
    with webhook_receiver() as gone:
        pass
    open_alerts(database, "GPU-1")
    turns(notifier(database, gone))
    with webhook_receiver() as receiver:
        told = notifier(database, receiver)
        turns(told)
        assert receiver.received == []
        make_due(database)
        turns(told)

    assert statuses(receiver) == [[("GPU-1", "firing")]]


def test_a_message_that_the_receiver_calls_wrong_does_not_hold_up_the_next(database: Database) -> None:
    with webhook_receiver(status(400)) as receiver:
        told = notifier(database, receiver)
        open_alerts(database, "GPU-1")
        turns(told)
        open_alerts(database, "GPU-2")
        turns(told)

    assert statuses(receiver) == [[("GPU-1", "firing")], [("GPU-2", "firing")]]
    assert [outcome for outcome, *_ in outcomes(database)] == ["gave_up", "sent"]


def test_two_servers_tell_each_alert_once(database: Database) -> None:
    with webhook_receiver() as receiver:
        open_alerts(database, *(f"GPU-{number}" for number in range(200)))
        servers = [threading.Thread(target=turns, args=(notifier(database, receiver),)) for _ in range(2)]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
        turns(notifier(database, receiver))

    told = [gpu for message in statuses(receiver) for gpu, _ in message]
    assert sorted(told) == sorted(f"GPU-{number}" for number in range(200))


def test_a_database_in_trouble_ends_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop goes on, and tells the alerts once the database is back."""
    monkeypatch.setattr("fleetridge_server.notify.webhook._AFTER_TROUBLE_S", 0.02)
    with database.writing() as session:
        session.execute(text("ALTER TABLE notifications RENAME TO elsewhere"))
    with webhook_receiver() as receiver, in_background([task(database, receiver)]):
        until(lambda: "alerts wait" in caplog.text)
        with database.writing() as session:
            session.execute(text("ALTER TABLE elsewhere RENAME TO notifications"))
        open_alerts(database, "GPU-1")
        until(lambda: len(receiver.received) == 1)


def test_a_running_server_tells_its_alerts(database: Database) -> None:
    """By a thread of its own, which ends with the server."""
    open_alerts(database, "GPU-1")
    with webhook_receiver() as receiver:
        with in_background([task(database, receiver)]):
            until(lambda: len(receiver.received) == 1)
        until(lambda: outcomes(database) == [("sent", 1, None)])
    assert "notifier" not in {thread.name for thread in threading.enumerate()}


def test_without_a_receiver_nothing_is_put_aside(database: Database, database_url: str) -> None:
    """So that a receiver that is named later hears of what is open then, not of all that ever was."""
    open_alerts(database, "GPU-1")
    with app_client(database_url):
        assert outcomes(database) == []


def test_what_goes_wrong_is_logged_without_anything_secret(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with webhook_receiver(status(500)) as receiver:
        open_alerts(database, "GPU-1")
        turns(notifier(database, receiver))
    assert "status 500" in caplog.text
    assert "path-secret" not in caplog.text
    assert "0123456789abcdef" not in caplog.text


def test_the_whole_application_tells_alerts(database_url: str, database: Database, tmp_path: Path) -> None:
    """With the settings of its environment."""
    (tmp_path / "key").write_text("0123456789abcdef")
    open_alerts(database, "GPU-1")
    with webhook_receiver() as receiver, app_telling(database_url, receiver, tmp_path / "key"):
        until(lambda: len(receiver.received) == 1)
    assert statuses(receiver) == [[("GPU-1", "firing")]]


@contextmanager
def app_telling(database_url: str, receiver: Receiver, key_file: Path) -> Iterator[None]:
    settings = Settings(
        database_url=database_url,
        webhook_url=receiver.url,
        webhook_secret_file=key_file,
        webhook_allow="127.0.0.1",
    )
    app = create_app(settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        yield
