"""Upgrade and rollback of a database with a fleet in it, as the page about operations describes them."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge_server.store.schema import downgrade, migrate
from support.app_client import app_client
from support.evaluated import SLOW, SOUND, evaluate, runs
from support.fleet import post, read

pytestmark = pytest.mark.both_databases

OLDEST = "0001"


def answers(database_url: str, reports: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """What the server says of the fleet once it was evaluated, and the reports as it gives them back."""
    evaluate(database_url)
    with app_client(database_url) as client:
        fleet = read(client, "/fleet")
        return fleet["verdicts"], [read(client, f"/reports/{report['report_id']}") for report in reports]


def test_a_fleet_survives_a_rollback_to_the_oldest_schema_and_the_upgrade_after_it(empty_database_url: str) -> None:
    migrate(empty_database_url, OLDEST)
    migrate(empty_database_url)
    reports = runs("n01", [SOUND] * 7 + [SLOW])
    with app_client(empty_database_url) as client:
        post(client, reports)
    before = answers(empty_database_url, reports)
    assert before[0] == {"outlier": 1, "ok": 7}

    downgrade(empty_database_url, OLDEST)
    migrate(empty_database_url)

    assert answers(empty_database_url, reports) == before


def test_a_server_refuses_a_schema_that_is_older_than_it_needs(empty_database_url: str) -> None:
    migrate(empty_database_url, OLDEST)
    with pytest.raises(Exception, match=r"fleetridge-server migrate"), app_client(empty_database_url):
        pass
