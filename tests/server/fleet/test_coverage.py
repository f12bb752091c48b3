"""When gpus were measured last: kept with their rows, whatever order reports come in and whatever is taken back."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import select

from fleetridge_server.auth.tokens import NewToken, sha256_of, store_token
from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Gpu
from fleetridge_server.engine.cohort import Span
from fleetridge_server.fleet.changes import MeasuredShare, measured_now, measured_share
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.quarantine import move_some, quarantine_token, release_token
from fleetridge_server.intake.store import write_reports
from support.evaluations import DAY, HOUR, NOON, Fleet, a_report

MINUTE = timedelta(minutes=1)


def measured_at(database: Database) -> dict[str, datetime | None]:
    """When each gpu was measured last, as its row says."""
    with database.reading() as session:
        return {row.identity: row.measured_at for row in session.execute(select(Gpu.identity, Gpu.measured_at))}


REPORTS = [
    a_report("GPU-0", at=NOON - 2 * HOUR),
    a_report("GPU-0", at=NOON - HOUR, evidence__contended=True),
    a_report("GPU-0", None, at=NOON, outcome="failed", reason="crashed", points=[], roofs=[]),
]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_only_an_undisturbed_measurement_counts(fleet: Fleet, order: tuple[int, ...]) -> None:
    """Not one while somebody else used the gpu, nor a try that failed, in whatever order they come."""
    for place in order:
        fleet.store([{**REPORTS[place], "report_id": a_report("x")["report_id"]}])

    assert measured_at(fleet.database) == {"GPU-0": NOON - 2 * HOUR}


def test_a_gpu_that_was_never_measured_has_no_time(fleet: Fleet) -> None:
    """It comes first among those that were not for longest."""
    fleet.store([a_report("GPU-0"), a_report("GPU-1", evidence__contended=True)])

    assert measured_at(fleet.database) == {"GPU-0": NOON, "GPU-1": None}


@pytest.mark.parametrize("order", [1, -1])
def test_what_two_nodes_claim_counts_for_neither(fleet: Fleet, order: int) -> None:
    """The measurement before it does, whichever of them came first."""
    claims = [
        a_report("GPU-0", at=NOON - DAY, node__name="n1"),
        a_report("GPU-0", at=NOON, node__name="n1"),
        a_report("GPU-0", at=NOON + 20 * MINUTE, node__name="n2"),
    ]
    for report in claims[::order]:
        fleet.store([report])

    assert measured_at(fleet.database) == {"GPU-0": NOON - DAY}


def test_what_a_token_in_quarantine_sent_does_not_count_until_it_is_released(fleet: Fleet) -> None:
    """Also what it sends meanwhile."""
    with fleet.database.writing() as session:
        token_id = store_token(session, NewToken("bad", sha256_of("bad"), frozenset({"ingest"})), NOON).id
    fleet.store([a_report("GPU-0", at=NOON - DAY)])
    sent(fleet, a_report("GPU-0", at=NOON), token_id)
    before = measured_at(fleet.database)
    with fleet.database.writing() as session:
        quarantine_token(session, token_id, None, NOON + HOUR)
        move_some(session, token_id, after_gpu=0, at=NOON + HOUR)
    sent(fleet, a_report("GPU-0", at=NOON + MINUTE), token_id)
    meanwhile = measured_at(fleet.database)
    with fleet.database.writing() as session:
        release_token(session, token_id)
        move_some(session, token_id, after_gpu=0, at=NOON + HOUR)

    assert (before, meanwhile) == ({"GPU-0": NOON}, {"GPU-0": NOON - DAY})
    assert measured_at(fleet.database) == {"GPU-0": NOON + MINUTE}


def sent(fleet: Fleet, report: dict[str, Any], token_id: int) -> None:
    """Store a report that came with a token."""
    item = examined(report, sent_at=None, received_at=NOON + HOUR, token_id=token_id)
    assert isinstance(item, Accepted)
    assert write_reports(fleet.database, [item]) == ["created"]


def test_the_share_of_now_is_that_which_the_reports_give(fleet: Fleet) -> None:
    """Counted by rows, and looked up as of now; as of before a report it is not there."""
    fleet.store([a_report(f"GPU-{gpu}", at=NOON - gpu * DAY) for gpu in range(4)])
    fleet.store([a_report("GPU-4", evidence__contended=True), a_report("GPU-3", at=NOON + 30 * MINUTE)])
    since = NOON - 36 * HOUR

    def as_of(at: datetime) -> MeasuredShare:
        with fleet.database.reading() as session:
            return measured_share(session, Span(at), None, since, 10)

    with fleet.database.reading() as session:
        now = measured_now(session, 5, None, since, 10, simulated=False)

    assert now == as_of(NOON + HOUR)
    assert (now.measured, [own.gpu_id for own in now.longest]) == (3, ["GPU-4", "GPU-2"])
    assert (as_of(NOON).measured, [own.gpu_id for own in as_of(NOON).longest]) == (2, ["GPU-4", "GPU-3", "GPU-2"])
