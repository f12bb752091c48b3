from __future__ import annotations

import time
from typing import TYPE_CHECKING

from anyio.from_thread import start_blocking_portal

from fleetridge_server.app import create_app
from fleetridge_server.db.database import open_database
from fleetridge_server.evaluation import schedule
from fleetridge_server.settings import Settings
from support.evaluations import HOUR, NOON, Fleet, a_fleet
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    import pytest


def test_a_server_evaluates_by_itself(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrived while it runs, or before it started."""
    monkeypatch.setattr(schedule, "POLL_S", 0.01)
    fleet = Fleet(open_database(database_url))
    fleet.store(a_fleet(gpus=4), received_at=NOON + HOUR)
    app = create_app(Settings(database_url=database_url))

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        until = time.monotonic() + PATIENCE_S
        while not fleet.states() and time.monotonic() < until:
            time.sleep(0.01)
    states = fleet.states()
    fleet.database.close()

    assert sorted(states) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
