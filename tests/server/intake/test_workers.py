"""Processes that take in reports, real ones: each takes a second or two to start."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from fleetridge_server import background
from fleetridge_server.auth.permissions import Caller
from fleetridge_server.db.database import open_database
from fleetridge_server.intake import queue as room
from fleetridge_server.intake.queue import ThisProcess, WorkerProcess
from fleetridge_server.problems import ProblemError
from fleetridge_server.telemetry.logs import logs_to
from support.calls import a_call, of_gpus, outcomes_of, status_of, told_by, writes_held_up
from support.patience import PATIENCE_S
from support.processes import bytes_read, is_running, until_it_reads
from support.reports import make_report
from support.soak import stored_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleetridge_server.db.database import Database
    from fleetridge_server.intake.take import Call, CallOutcome
    from support.databases import Databases, SqliteDatabases

OF_WEST = Caller(None, frozenset({"ingest"}), "west")


@pytest.fixture
def worker(database: Database, database_url: str) -> Iterator[WorkerProcess]:
    """A process that takes in reports for a test."""
    with closing(WorkerProcess(database_url, database.data_file)) as own:
        yield own


@pytest.fixture
def sqlite_url(sqlite_databases: SqliteDatabases) -> Iterator[str]:
    url = sqlite_databases.create(migrated=True)
    yield url
    sqlite_databases.drop(url)


def started(worker: WorkerProcess) -> int:
    """Number of the process once it takes calls."""
    [answer] = worker.take([a_call(b"")])
    assert (status_of(answer), worker.child.pid is None) == (422, False)
    return running(worker)


def running(worker: WorkerProcess) -> int:
    assert worker.child.pid is not None
    return worker.child.pid


def killed(pid: int) -> None:
    """End a process by force, and wait until it has ended; whoever started it can still ask how."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def every_answer() -> list[Call]:
    """Calls with each kind of answer."""
    report = make_report()
    return [
        a_call({"reports": [report, {"report_id": "x"}, make_report()]}),
        a_call(make_report()),
        a_call(report),
        a_call({**report, "node": {**report["node"], "name": "other"}}),
        a_call({"no": "report"}),
        a_call(b"no JSON"),
        a_call({"reports": []}),
        a_call(make_report(), OF_WEST),
    ]


def comparable(answer: CallOutcome) -> tuple[object, ...]:
    """All of an answer but its time in the database."""
    headers = answer.reply.headers if isinstance(answer.reply, ProblemError) else {}
    return status_of(answer), told_by(answer), headers, answer.stats.outcomes, answer.stats.lags_s


def test_a_process_of_its_own_answers_as_this_one_does(
    worker: WorkerProcess, database_url: str, databases: Databases
) -> None:
    """And stores the same; it takes so long in the database as it says."""
    calls, other_url = every_answer(), databases.create(migrated=True)

    answers = worker.take(calls)
    with closing(open_database(other_url)) as other:
        expected = ThisProcess(other).take(calls)
    stored = stored_ids(other_url)
    databases.drop(other_url)

    assert list(map(comparable, answers)) == list(map(comparable, expected))
    assert [status_of(answer) for answer in answers] == [200, 201, 200, 409, 422, 422, 422, 403]
    assert stored_ids(database_url) == stored
    assert len(stored) == 3
    assert answers[0].stats.database_s > 0


def test_a_process_starts_with_the_first_call_and_is_gone_in_the_end(sqlite_url: str) -> None:
    """A server that takes no reports needs none."""
    worker = WorkerProcess(sqlite_url, None)
    before = worker.child.pid
    pid = started(worker)
    worker.take([of_gpus(1)])
    is_the_same = worker.child.pid == pid
    worker.close()

    assert (before, is_the_same, worker.child.pid, is_running(pid)) == (None, True, None, False)


def test_a_worker_that_never_started_is_closed_like_any_other(sqlite_url: str) -> None:
    """Twice is as good as once."""
    worker = WorkerProcess(sqlite_url, None)
    worker.close()
    worker.close()

    assert worker.child.pid is None


def test_a_process_that_is_lost_without_calls_is_replaced_and_nobody_is_told(
    worker: WorkerProcess, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """But the log."""
    lost, call = started(worker), of_gpus(1)
    killed(lost)

    [answer] = worker.take([call])

    assert outcomes_of(answer) == ["created"]
    assert running(worker) != lost
    assert len(stored_ids(database_url)) == 1
    assert [("ended with -9" in record.getMessage(), record.levelname) for record in caplog.records] == [
        (True, "WARNING")
    ]


def test_reports_of_a_process_that_is_lost_are_to_come_again_and_are_stored_once(
    worker: WorkerProcess, database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every call that it had in hand is told so; nobody knows how far it came."""
    lost, calls = started(worker), [of_gpus(1, 2), of_gpus(3)]
    with ThreadPoolExecutor(1) as threads:
        with writes_held_up(database):
            so_far = bytes_read(lost)
            taken = threads.submit(worker.take, calls)
            until_it_reads(lost, than=so_far)
            os.kill(lost, signal.SIGKILL)
        answers = taken.result(PATIENCE_S)
    again = worker.take(calls)

    assert [(status_of(answer), told_by(answer)["code"]) for answer in answers] == [(503, "busy")] * 2
    assert all(isinstance(answer.reply, ProblemError) and answer.reply.headers["Retry-After"] for answer in answers)
    assert [outcomes_of(answer) for answer in again] == [["created", "created"], ["created"]]
    assert len(stored_ids(database_url)) == 3
    [record] = caplog.records
    assert (record.levelname, record.getMessage().partition(":")[0]) == (
        "ERROR",
        "the process that took in 2 calls is lost",
    )


def test_a_process_that_hangs_is_ended_and_its_reports_are_to_come_again(
    worker: WorkerProcess, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its calls, and a server that is told to end, would wait for ever."""
    hanging, call = started(worker), of_gpus(1)
    os.kill(hanging, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(room, "_ANSWER_TIMEOUT_S", 0.1)
        patched.setattr(background, "_END_TIMEOUT_S", 0.1)
        [answer] = worker.take([call])
    is_left = is_running(hanging)
    [again] = worker.take([call])

    assert (status_of(answer), told_by(answer)["code"], is_left) == (503, "busy", False)
    assert outcomes_of(again) == ["created"]
    assert len(stored_ids(database_url)) == 1
    assert "has not answered for 0.1 s" in caplog.records[0].getMessage()


def test_signals_that_end_the_server_do_not_end_its_processes(sqlite_url: str) -> None:
    """A terminal and systemd send them to all; what the server has in hand still needs its processes."""
    with closing(WorkerProcess(sqlite_url, None)) as worker:
        pid = started(worker)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        [answer] = worker.take([of_gpus(1)])

        assert outcomes_of(answer) == ["created"]
        assert worker.child.pid == pid


def test_signals_that_meet_a_process_as_it_starts_do_not_end_it(sqlite_url: str) -> None:
    """A server may be told to end a moment after its first report."""
    with closing(WorkerProcess(sqlite_url, None)) as worker, ThreadPoolExecutor(1) as threads:
        taken = threads.submit(worker.take, [of_gpus(1)])
        while worker.child.pid is None:
            assert not taken.done()
            time.sleep(0.001)
        pid = worker.child.pid
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        [answer] = taken.result(PATIENCE_S)

        assert outcomes_of(answer) == ["created"]
        assert worker.child.pid == pid


@pytest.mark.parametrize(
    ("program", "why"), [("/nowhere/python", "it could not be started"), ("/bin/false", "it ended with 1")]
)
def test_a_program_that_does_not_start_makes_reports_come_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str, why: str
) -> None:
    """Perhaps it does next time; the log says why it did not."""
    monkeypatch.setattr(room, "_PROGRAM", (program,))
    worker = WorkerProcess(sqlite_url, None)

    answers = worker.take([of_gpus(1), a_call(b"")])

    assert [status_of(answer) for answer in answers] == [503, 503]
    assert [(record.levelname, why in record.getMessage()) for record in caplog.records] == [("ERROR", True)]
    assert worker.child.pid is None


def test_a_program_that_did_not_start_is_started_by_the_next_call(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(WorkerProcess(sqlite_url, None)) as worker:
        with monkeypatch.context() as patched:
            patched.setattr(room, "_PROGRAM", ("/nowhere/python",))
            worker.take([of_gpus(1)])
        [answer] = worker.take([of_gpus(1)])

        assert outcomes_of(answer) == ["created"]


def test_a_file_that_was_replaced_is_refused_by_a_process_that_starts_later(
    sqlite_databases: SqliteDatabases, sqlite_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server has the old file open; its processes say so in its log's form, under the id of the request."""
    path = Path(make_url(sqlite_url).database or "")
    other_url = sqlite_databases.create(migrated=True)
    with closing(open_database(sqlite_url)) as database, database.reading() as session:
        session.connection()
        Path(make_url(other_url).database or "").replace(path)
        with (
            logs_to(io.StringIO(), log_format="json", environ={}),
            closing(WorkerProcess(sqlite_url, database.data_file)) as worker,
        ):
            [answer] = worker.take([a_call(make_report(), request_id="abc")])

    assert (status_of(answer), told_by(answer)["code"]) == (503, "database_unavailable")
    assert "replaced" in told_by(answer)["detail"]
    assert stored_ids(sqlite_url) == []
    [line] = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert (line["request_id"], line["level"]) == ("abc", "warning")
    assert line["message"] == "database unavailable: DataFileError"


def test_a_process_logs_for_people_where_the_server_does(sqlite_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It has no settings of its own."""
    path = Path(make_url(sqlite_url).database or "")
    with closing(open_database(sqlite_url)) as database:
        with database.reading() as session:
            session.connection()
        path.rename(path.with_suffix(".aside"))
        with closing(WorkerProcess(sqlite_url, database.data_file)) as worker:
            worker.take([a_call(make_report(), request_id="abc")])
        path.with_suffix(".aside").rename(path)

    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith(" [abc]: database unavailable: DataFileError")


def test_a_process_that_may_not_stand_back_works_all_the_same() -> None:
    """A sandbox may forbid a process to change its priority, even to a lower one."""
    program = (
        "import os, runpy\n"
        "def forbidden(_niceness):\n"
        "    raise PermissionError\n"
        "os.nice = forbidden\n"
        "runpy.run_module('fleetridge_server.intake.worker_process', run_name='__main__')\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, b"")
