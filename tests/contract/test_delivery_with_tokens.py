"""What an agent makes of a server that asks for tokens: whatever it refuses, no report is given up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from sqlalchemy import select

from fleetridge_agent.deliver.retrying_client import Client, Delivery
from fleetridge_agent.deliver.server_address import server_at
from fleetridge_agent.deliver.spool import Outgoing
from fleetridge_server.auth.tokens import revoke_token
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.tables import Report
from support.databases import Databases
from support.reports import make_report
from support.server_process import server_process
from support.tokens import make_token


@pytest.fixture
def served(databases: Databases) -> Iterator[tuple[Database, str, str]]:
    """A database, a token of cluster east on it, and the address of a server that asks for it."""
    url = databases.create(migrated=True)
    database = open_database(url)
    token = make_token(database, "ingest", cluster="east")
    with server_process(url) as server:
        yield database, token, server.address()
    database.close()
    databases.drop(url)


def deliver(address: str, token: str | None, *clusters: str) -> Delivery:
    """Delivery of one report of each cluster, in one call, without pauses."""
    reports = [make_report(node__cluster=cluster) for cluster in clusters]
    outgoing = [Outgoing(report["report_id"], json.dumps(report).encode()) for report in reports]
    with Client(server_at(address, token=token), wait=lambda _seconds: False) as client:
        return client.deliver(outgoing)


def test_only_the_reports_of_another_place_wait(served: tuple[Database, str, str]) -> None:
    database, token, address = served

    delivery = deliver(address, token, "east", "west", "east")

    assert (len(delivery.delivered), len(delivery.kept), delivery.dead) == (2, 1, {})
    assert "--cluster" in delivery.reason
    with database.reading() as session:
        assert list(session.scalars(select(Report.cluster))) == ["east", "east"]


@pytest.mark.parametrize("shown", [None, "flr_mistyped", "other"])
def test_with_a_token_that_does_not_hold_everything_waits(served: tuple[Database, str, str], shown: str | None) -> None:
    database, token, address = served
    if shown == "other":
        with database.writing() as session:
            revoke_token(session, 1, datetime.now(timezone.utc))
        shown = token

    delivery = deliver(address, shown, "east", "east")

    assert (len(delivery.delivered), len(delivery.kept), delivery.dead) == (0, 2, {})
    assert "--token-file" in delivery.reason
