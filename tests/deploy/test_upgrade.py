"""Upgrade and rollback of a database with a fleet in it, as the page about operations describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleetridge_server.db import schema
from fleetridge_server.db.schema import migrate, move
from support.app_client import app_client
from support.evaluated import SLOW, SOUND, evaluate, runs
from support.fleet import post, read
from support.revisions import FIRST, with_next_revision

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.both_databases


def answers(database_url: str, reports: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """What the server says of the fleet once it was evaluated, and the reports as it gives them back."""
    evaluate(database_url)
    with app_client(database_url) as client:
        fleet = read(client, "/fleet")
        return fleet["verdicts"], [read(client, f"/reports/{report['report_id']}") for report in reports]


def test_a_fleet_survives_an_upgrade_and_the_rollback_after_it(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    migrate(empty_database_url)
    reports = runs("n01", [SOUND] * 7 + [SLOW])
    with app_client(empty_database_url) as client:
        post(client, reports)
    before = answers(empty_database_url, reports)
    assert before[0] == {"outlier": 1, "ok": 7}
    newer = with_next_revision(tmp_path)

    with monkeypatch.context() as upgraded:
        upgraded.setattr(schema, "migrations_folder", lambda: newer)
        migrate(empty_database_url)
        after_upgrade = answers(empty_database_url, reports)
        move(empty_database_url, FIRST)

    assert after_upgrade == answers(empty_database_url, reports) == before


def test_a_server_refuses_a_schema_that_is_older_than_it_needs(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    migrate(empty_database_url)
    newer = with_next_revision(tmp_path)
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)
    with pytest.raises(Exception, match=r"fleetridge-server migrate"), app_client(empty_database_url):
        pass
