from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from fleetridge_server.db.tables import Report
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from support.app_client import AppClient
from support.evaluations import DAY, HOUR, NOON, Fleet, a_report
from support.fleet import post, read

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

pytestmark = pytest.mark.both_databases

MINUTE = timedelta(minutes=1)


def store(database: Database, report: dict[str, Any]) -> None:
    item = examined(report, sent_at=None, received_at=NOON + DAY)
    assert isinstance(item, Accepted)
    write_reports(database, [item])


def claim(node: str | None, minutes: int, pi_tflops: float | None = 800.0, **changes: Any) -> dict[str, Any]:
    return a_report("GPU-0", pi_tflops, at=NOON + minutes * MINUTE, node__name=node, **changes)


def pi_values(database: Database) -> list[float]:
    """What the gpu counts for, by an evaluation a day later."""
    fleet = Fleet(database, now=NOON + DAY)
    fleet.evaluate()
    return [own.value for verdict in fleet.verdicts().values() for own in verdict.roofs if own.roof.kind == "compute"]


@pytest.mark.parametrize("order", [1, -1])
def test_reports_of_two_nodes_within_an_hour_move_no_value(database: Database, order: int) -> None:
    """In whatever order they arrive."""
    for report in [claim("n1", -300, 800.0), claim("n1", 0, 500.0), claim("n2", 59, 400.0)][::order]:
        store(database, report)

    assert pi_values(database) == [800.0]


def test_a_gpu_that_moved_keeps_its_values(database: Database) -> None:
    """Nobody carries a card over within the hour."""
    for report in [claim("n1", 0, 500.0), claim("n2", 61, 400.0)]:
        store(database, report)

    assert pi_values(database) == [450.0]


def test_a_failed_report_claims_a_gpu_as_well(database: Database) -> None:
    """It takes back a value that was kept before."""
    store(database, claim("n1", 0, 500.0))
    store(database, claim("n2", 30, None, outcome="failed", reason="crashed", points=[], roofs=[]))

    assert pi_values(database) == []


def test_an_import_that_names_no_node_disputes_nothing(database: Database) -> None:
    store(database, claim("n1", 0, 500.0))
    store(database, claim(None, 30, 400.0))

    assert pi_values(database) == [450.0]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_arrival_never_matters(database: Database, seed: int) -> None:
    """Each report conflicts from the later of the two times on, the earliest of all its conflicts."""
    dice = random.Random(seed)  # noqa: S311 # a scenario, no secret
    reports = [claim(dice.choice(["n1", "n2", "n3"]), dice.randrange(500)) for _ in range(14)]
    at = {own["report_id"]: (own["measured_to"], own["node"]["name"]) for own in reports}
    for report in reports:
        store(database, report)

    with database.reading() as session:
        rows = session.scalars(select(Report)).all()
    for row in rows:
        others = [
            max(row.ordered_at or NOON, other.ordered_at or NOON)
            for other in rows
            if at[str(other.id)][1] != at[str(row.id)][1]
            and abs((other.ordered_at or NOON) - (row.ordered_at or NOON)) <= HOUR
        ]
        assert row.conflict_from == min(others, default=None)


def test_answers_about_the_past_know_of_no_later_claim(client: AppClient) -> None:
    """As of the time between the two the first stood alone."""
    post(client, [claim("n1", 0, 500.0)])
    post(client, [claim("n2", 30, 400.0)])

    def pis(minutes: int) -> list[float]:
        as_of = (NOON + minutes * MINUTE).isoformat()
        answer = read(client, "/devices/H200/ridge", as_of=as_of, since=(NOON - DAY).isoformat())
        return [row["pi_tflops"] for gpu in answer["gpus"] for row in gpu["ridges"]]

    assert pis(10) == [500.0]
    assert pis(40) == []
