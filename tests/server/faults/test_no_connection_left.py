"""A pool of connections that others hold: callers are told to come again, and the server is itself again afterwards."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fleetridge_server.db import database as room
from fleetridge_server.db.database import open_database
from support.app_client import AppClient, app_client
from support.calls import writes_held_up
from support.patience import PATIENCE_S
from support.reports import make_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.both_databases


@pytest.fixture
def narrow_client(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppClient]:
    """A server with one connection, for which nobody waits long."""
    monkeypatch.setattr(room, "_POOL_SIZE", 1)
    monkeypatch.setattr(room, "_POOL_TIMEOUT_S", 0.2)
    with app_client(database_url) as client:
        yield client


def test_calls_for_which_no_connection_is_left_are_told_to_come_again(
    narrow_client: AppClient, database_url: str
) -> None:
    """Reads and readiness with 503; life goes on, and the report that waited is stored once it can be."""
    stored: list[httpx.Response] = []

    def post() -> None:
        stored.append(narrow_client.post("/reports", json=make_report()))

    with closing(open_database(database_url)) as database:
        poster = threading.Thread(target=post)
        with writes_held_up(database):
            poster.start()
            _until_the_connection_is_taken(narrow_client)
            refused = [narrow_client.get(path) for path in ("/readyz", "/devices", "/fleet")]
            alive = narrow_client.get("/livez")
        poster.join(PATIENCE_S)
    after = [narrow_client.get("/readyz"), narrow_client.post("/reports", json=make_report())]

    assert [answer.status_code for answer in refused] == [503] * 3
    assert all(answer.headers["retry-after"] for answer in refused)
    assert alive.status_code == 200
    assert [answer.status_code for answer in (*stored, *after)] == [201, 200, 201]


def _until_the_connection_is_taken(client: AppClient) -> None:
    for _ in range(PATIENCE_S * 100):
        if client.get("/devices").status_code == 503:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the connection was never taken")


def test_there_is_a_connection_for_every_thread_and_task() -> None:
    """So that whoever has a thread has one, too."""
    threads = room.READ_THREADS + room.WRITE_THREADS + room.INTAKE_THREADS + room.HEALTH_THREADS + room.ACCESS_THREADS
    assert threads + room.EVALUATOR_CONNECTIONS + room.NOTIFIER_CONNECTIONS <= room._POOL_SIZE
