from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from sqlalchemy import func, insert, select, text

from fleetridge_server import cli
from fleetridge_server.db.access_tables import Notification
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.document_months import Month
from fleetridge_server.db.tables import Device, Document, Report, Roof
from fleetridge_server.db.verdict_tables import StoredEvaluation
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.ops.retention import EVERY_HOUR_KEPT, NOTIFICATIONS_KEPT, Dropped, drop_old, dropped_message
from support.evaluations import Fleet, a_fleet
from support.patience import PATIENCE_S
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.app_client import AppClient
    from support.databases import PostgresDatabases, SqliteDatabases

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)
KEPT = 90 * DAY
# Months that end more than 90 days before NOW, and one that does not.
OLDEST = datetime(2026, 3, 31, tzinfo=timezone.utc)
OLD = datetime(2026, 6, 3, tzinfo=timezone.utc)
OLDER = datetime(2026, 7, 31, 23, tzinfo=timezone.utc)
YOUNG = NOW - 80 * DAY


# The command's work in a process that is killed when it looks for the so-manieth time whether to end.
KILLED = """
import itertools, os, signal, sys
from datetime import datetime, timedelta, timezone
from fleetridge_server.ops.retention import drop_old
from fleetridge_server.db.database import open_database
looks = itertools.count(1)
is_ending = lambda: next(looks) == int(sys.argv[2]) and os.kill(os.getpid(), signal.SIGKILL)
now = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
drop_old(open_database(sys.argv[1]), timedelta(days=90), now, is_ending=is_ending, pause=lambda _: None)
"""


def arrive(database: Database, *arrivals: datetime, reports: int = 1) -> list[UUID]:
    """Store reports that arrived at some times; their ids."""
    ids = []
    for received_at in arrivals:
        items = [examined(make_report(), sent_at=None, received_at=received_at) for _ in range(reports)]
        accepted = [item for item in items if isinstance(item, Accepted)]
        assert write_reports(database, accepted) == ["created"] * reports
        ids += [item.report.report_id for item in accepted]
    return ids


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def no_pause(_seconds: float) -> None:
    """Tests wait for nothing."""


def test_old_documents_go_and_what_they_said_stays(database: Database, client: AppClient) -> None:
    """Young ones are told as they were sent, old ones by their summary."""
    old, older, young, newest = arrive(database, OLD, OLDER, YOUNG, NOW)

    dropped = drop_old(database, KEPT, NOW, pause=no_pause)

    answers = [client.get(f"/reports/{report_id}").status_code for report_id in (old, older, young, newest)]
    assert answers == [410, 410, 200, 200]
    assert (count(database, Report), count(database, Roof), count(database, Document)) == (4, 8, 2)
    assert dropped.is_whole
    assert drop_old(database, KEPT, NOW, pause=no_pause) == Dropped(
        before=NOW - KEPT, documents=None if dropped.documents is None else 0
    )


def test_verdicts_need_no_documents(fleet: Fleet) -> None:
    """They are the same without a single one."""
    fleet.store(a_fleet({"GPU-3": 0.3}))
    fleet.evaluate()
    before = fleet.states()
    with fleet.database.writing() as session:
        session.execute(text("DELETE FROM documents"))
        session.execute(text("DELETE FROM gpu_histories"))
        session.execute(text("UPDATE gpus SET is_due = true"))

    fleet.evaluate()

    assert fleet.states() == before
    assert before["GPU-3"] == "outlier"


def test_nothing_is_old_before_the_first_report(database: Database) -> None:
    """And a word for it."""
    dropped = drop_old(database, KEPT, NOW, pause=no_pause)

    assert dropped == Dropped()
    assert "nothing is stored yet" in dropped_message(dropped)


@pytest.mark.parametrize("now", [NOW, datetime(2099, 1, 1, tzinfo=timezone.utc)])
def test_age_is_counted_up_to_the_newest_report(database: Database, now: datetime) -> None:
    """So a clock that jumps ahead drops nothing that is young."""
    arrive(database, YOUNG, NOW)

    drop_old(database, KEPT, now, pause=no_pause)

    assert count(database, Document) == 2


def test_reports_are_stored_while_months_are_dropped(postgres_databases: PostgresDatabases) -> None:
    """Somebody reads all documents in a long transaction: retention waits for that one, and nobody for retention."""
    url = postgres_databases.create(migrated=True)
    database = open_database(url, statement_timeout_ms=0)
    impatient = open_database(url, statement_timeout_ms=1000 * PATIENCE_S)
    arrive(database, OLD, NOW)
    done: list[Dropped] = []
    retention = threading.Thread(target=lambda: done.append(drop_old(database, KEPT, NOW, pause=no_pause)))
    with impatient.reading() as reader:
        assert reader.scalar(select(func.count()).select_from(Document)) == 2
        retention.start()
        wait_until_detaching(database)
        stored = [arrive(impatient, NOW, OLDER) for _ in range(20)]
        young = [read_back(impatient, ids[0], NOW) for ids in stored]
        was_waiting = retention.is_alive()
    retention.join(PATIENCE_S)

    assert (was_waiting, len(young)) == (True, 20)
    assert done[0].months[0] == Month(2026, 6)
    assert count(database, Report) == 2 + 2 * 20
    impatient.close()
    database.close()
    postgres_databases.drop(url)


def wait_until_detaching(database: Database) -> None:
    """Until a month is half detached."""
    until = time.monotonic() + PATIENCE_S
    query = text("SELECT count(*) FROM pg_inherits WHERE inhdetachpending")
    while time.monotonic() < until:
        with database.engine.connect() as connection:
            if connection.scalar(query) == 1:
                return
        time.sleep(0.02)
    raise AssertionError("nothing is being detached")


def read_back(database: Database, report_id: UUID, received_at: datetime) -> bytes:
    with database.reading() as session:
        document = session.get(Document, (received_at, report_id))
        assert document is not None
        return document.body


def test_writers_have_their_turn_between_two_steps(sqlite_databases: SqliteDatabases) -> None:
    """On SQLite, where one writes at a time; each pause leaves the file to others."""
    database = open_database(sqlite_databases.create(migrated=True))
    arrive(database, OLD, reports=500)
    arrive(database, NOW)
    between: list[UUID] = []

    dropped = drop_old(database, KEPT, NOW, pause=lambda _seconds: between.extend(arrive(database, NOW)))

    assert dropped.documents == 500
    assert len(between) == 2
    assert count(database, Document) == 3
    database.close()


def test_a_round_that_is_told_to_end_leaves_the_rest_for_the_next(database: Database) -> None:
    """What it dropped is dropped."""
    arrive(database, OLDEST, OLD, OLDER, reports=100)
    arrive(database, NOW)

    first = drop_old(database, KEPT, NOW, is_ending=after(2), pause=no_pause)
    left = count(database, Document)
    second = drop_old(database, KEPT, NOW, pause=no_pause)

    assert not first.is_whole
    assert "next round" in dropped_message(first)
    assert 1 < left < 301
    assert (second.is_whole, count(database, Document)) == (True, 1)


def after(looks: int) -> Callable[[], bool]:
    """Whether to end: from the so-manieth look on."""
    seen = 0

    def is_ending() -> bool:
        nonlocal seen
        seen += 1
        return seen >= looks

    return is_ending


@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_a_killed_retention_is_taken_up_by_the_next(look: int, database_url: str, database: Database) -> None:
    """Ended by SIGKILL between two steps; nothing of a report is lost but its document."""
    arrive(database, OLDEST, OLD, OLDER, reports=100)
    arrive(database, NOW)

    killed = subprocess.run([sys.executable, "-c", KILLED, database_url, str(look)], check=False)
    drop_old(database, KEPT, NOW, pause=no_pause)

    assert killed.returncode == -signal.SIGKILL
    assert (count(database, Document), count(database, Report)) == (1, 301)


@pytest.mark.parametrize("documents_kept", [KEPT, None])
def test_messages_that_were_sent_long_ago_go(documents_kept: timedelta | None, database: Database) -> None:
    """Those still to be sent stay, however old; how long documents are kept has no part in it."""
    arrive(database, NOW)
    long_ago, lately = NOW - NOTIFICATIONS_KEPT - DAY, NOW - DAY
    rows = [(number, ended) for number, ended in enumerate([long_ago, lately, None], start=1)]
    with database.writing() as session:
        session.execute(
            insert(Notification),
            [
                {
                    "id": number,
                    "message_id": UUID(int=number),
                    "made_at": long_ago,
                    "body": "{}",
                    "tries": 1,
                    "next_try_at": long_ago,
                    "ended_at": ended,
                }
                for number, ended in rows
            ],
        )

    dropped = drop_old(database, documents_kept, NOW, pause=no_pause)

    with database.reading() as session:
        assert set(session.scalars(select(Notification.id))) == {2, 3}
    assert dropped.notifications == 1


@pytest.mark.parametrize("documents_kept", [KEPT, None])
def test_of_each_past_day_the_last_evaluation_stays(documents_kept: timedelta | None, database: Database) -> None:
    """Of the series, after a quarter; those that somebody asked for stay beside it, and so does what is newer."""
    arrive(database, NOW)
    with database.writing() as session:
        device_id = session.scalar(select(Device.id))
        session.execute(insert(StoredEvaluation), [evaluation(number, device_id) for number in range(8)])

    dropped = drop_old(database, documents_kept, NOW + EVERY_HOUR_KEPT, pause=no_pause)

    with database.reading() as session:
        assert set(session.scalars(select(StoredEvaluation.id))) == {2, 3, 5, 6, 7, 8}
    assert dropped.evaluations == 2


def evaluation(number: int, device_id: int | None) -> dict[str, object]:
    """Two days ago at 3, 13 and 23 o'clock, so the day before, a historical one and two today; ids from 1."""
    as_of = [
        *(NOW - 2 * DAY + timedelta(hours=hour) for hour in (0, 10)),  # 1 goes
        *(NOW - DAY + timedelta(hours=hour) for hour in (0,)),
        *(NOW - 3 * DAY + timedelta(hours=hour) for hour in (0, 1)),  # 4 goes
        NOW - DAY + timedelta(hours=1),
        NOW - timedelta(hours=2),
        NOW - timedelta(hours=1),
    ]
    return {
        "id": number + 1,
        "device_id": device_id,
        "simulated": False,
        "historical": number == 5,
        "as_of": as_of[number],
        "made_at": as_of[number],
        "took_ms": 1.0,
        "rule_version": 1,
        "gpus": 0,
        "counts": {},
        "body": "{}",
    }


def test_the_command_wants_to_know_for_how_long(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its option or from the setting that the server reads, too."""
    arguments = ["retention", "--once", "--database-url", database_url]
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    unsaid = capsys.readouterr().err
    monkeypatch.setenv("FLEETRIDGE_SERVER_DOCUMENTS_DAYS", "30")
    code = cli.main(arguments)

    assert ended.value.code == 2
    assert "--documents-days N" in unsaid
    assert (code, "nothing is stored yet" in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize("days", ["0", "-1", "99999999999"])
def test_a_number_of_days_that_means_nothing_is_refused(
    days: str, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is dropped."""
    code = cli.main(["retention", "--once", "--documents-days", days, "--database-url", database_url])

    assert code == 2
    assert "documents_days" in capsys.readouterr().err
