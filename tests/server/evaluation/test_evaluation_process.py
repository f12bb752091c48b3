"""The process that evaluates, a real one: it takes a second or two to start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from fleetridge_server.db.database import open_database
from fleetridge_server.db.troubles import DatabaseTroubleError
from fleetridge_server.evaluation import process as room
from fleetridge_server.evaluation import schedule as schedule_room
from fleetridge_server.evaluation.process import (
    BrokenOffError,
    EvaluationError,
    EvaluationProcess,
    ProcessLostError,
)
from fleetridge_server.evaluation.schedule import Schedule
from fleetridge_server.telemetry.metrics import OwnMetrics
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import due_notes
from support.evaluations import Fleet, a_fleet
from support.patience import patient_get, patient_post
from support.processes import children_of, is_running, until_gone
from support.reports import make_report
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleetridge_server.db.database import Database
    from fleetridge_server.verdicts.series import DeviceGroup
    from support.databases import SqliteDatabases

TIMEOUT_S = 60

# What is between the two processes is the same on PostgreSQL.

CHANGED = """
from fleetridge_server.evaluation import worker_process as program
from fleetridge_server.evaluation.evaluator import Evaluator
{change}
program.main()
"""

# What runs at the time has no time for anything else.
NEVER_ENDING = """
def bring_up_to_date(self, population):
    while True:
        pass
Evaluator.bring_up_to_date = bring_up_to_date
"""

SUPERSEDED = """
from fleetridge_server.verdicts.save import SupersededError
def evaluate_now(self, population):
    raise SupersededError("somebody else was quicker")
Evaluator.evaluate_now = evaluate_now
"""

OF_A_SERVER = """
import sys
from fleetridge_server.evaluation import process as room
from fleetridge_server.db.database import open_database
from fleetridge_server.verdicts.series import DeviceGroup
url, program, device_id = sys.argv[1:]
room._PROGRAM = (sys.executable, "-c", program)
process = room.EvaluationProcess(url, open_database(url), None)
process.evaluate(DeviceGroup(int(device_id), False))
"""


@pytest.fixture
def process(database: Database, database_url: str) -> Iterator[EvaluationProcess]:
    """A process that evaluates for a test."""
    with closing(EvaluationProcess(database_url, database, None)) as own:
        yield own


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has the processes that start from now on do something first."""

    def changing(program: str) -> None:
        monkeypatch.setattr(room, "_PROGRAM", (sys.executable, "-c", CHANGED.format(change=program)))

    return changing


def running(process: EvaluationProcess) -> int:
    assert process.child.pid is not None
    return process.child.pid


def is_due(fleet: Fleet) -> bool:
    with fleet.database.reading() as session:
        return bool(due_notes(session))


def is_taken(fleet: Fleet) -> bool:
    with fleet.database.reading() as session:
        return all(note.latest < note.since for note in due_notes(session).values())


def until_taken(fleet: Fleet) -> None:
    """Wait until whoever evaluates has taken the note that says so."""
    until_s = time.monotonic() + TIMEOUT_S
    while not is_taken(fleet):
        assert time.monotonic() < until_s, "nobody evaluates"
        time.sleep(0.01)


def new_fleet(fleet: Fleet) -> DeviceGroup:
    """A fleet that has just reported; what it is called."""
    fleet.now = datetime.now(timezone.utc)
    fleet.store(a_fleet({"GPU-3": 0.2}, until=fleet.now - timedelta(minutes=1)))
    return fleet.device_group()


@pytest.mark.both_databases
def test_a_process_of_its_own_says_what_this_one_says(fleet: Fleet, process: EvaluationProcess) -> None:
    """It stores states and alerts, and nothing is due afterwards."""
    took_s = process.evaluate(new_fleet(fleet))
    states, alerts = fleet.states(), [alert.gpu for alert in fleet.alerts()]
    bodies = [own.model_dump(exclude={"as_of"}) for own in fleet.bodies()]
    fleet.evaluate(datetime.now(timezone.utc))

    assert states == fleet.states() == {f"GPU-{n}": "outlier" if n == 3 else "ok" for n in range(8)}
    assert alerts == ["GPU-3"]
    assert bodies == [own.model_dump(exclude={"as_of"}) for own in fleet.bodies()][-1:]
    assert (took_s > 0, is_due(fleet), fleet.due_gpus()) == (True, False, [])


def test_a_process_starts_with_the_first_evaluation_and_is_gone_in_the_end(
    fleet: Fleet, process: EvaluationProcess
) -> None:
    """A server that evaluates nothing needs none; between two evaluations it stays."""
    before, device_group = process.child.pid, new_fleet(fleet)
    process.evaluate(device_group)
    pid = running(process)
    process.evaluate(device_group)
    is_the_same = process.child.pid == pid
    process.close()
    process.close()

    assert (before, is_the_same, process.child.pid, is_running(pid)) == (None, True, None, False)


@pytest.mark.parametrize("reason", ["program._LARGE_KIB = 0", "program._IDLE_S = 0.5"])
def test_a_process_that_ended_by_itself_is_replaced_and_nobody_is_told(
    fleet: Fleet,
    process: EvaluationProcess,
    change: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
    reason: str,
) -> None:
    """It had grown large, or had nothing to do: its memory is for others."""
    change(reason)
    device_group = new_fleet(fleet)
    process.evaluate(device_group)
    first = running(process)
    is_gone = until_gone(first)
    process.evaluate(device_group)

    assert (is_gone, process.child.pid == first) == (True, False)
    assert caplog.records == []


@pytest.mark.both_databases
def test_a_device_whose_process_is_lost_is_due_again(
    fleet: Fleet, process: EvaluationProcess, change: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next evaluation has a new one."""
    device_group = new_fleet(fleet)
    change(NEVER_ENDING)
    with ThreadPoolExecutor(1) as threads:
        evaluating = threads.submit(process.evaluate, device_group)
        until_taken(fleet)
        os.kill(running(process), signal.SIGKILL)
        with pytest.raises(ProcessLostError, match="was ended by SIGKILL"):
            evaluating.result(TIMEOUT_S)
    is_due_again = is_due(fleet)
    monkeypatch.undo()
    process.evaluate(device_group)

    assert (is_due_again, is_due(fleet)) == (True, False)


def test_a_server_that_ends_breaks_off_what_is_in_hand(
    fleet: Fleet, process: EvaluationProcess, change: Callable[[str], None]
) -> None:
    """The device is due again, and no process is left."""
    device_group = new_fleet(fleet)
    change(NEVER_ENDING)
    with ThreadPoolExecutor(1) as threads:
        evaluating = threads.submit(process.evaluate, device_group)
        until_taken(fleet)
        pid = running(process)
        process.close()
        with pytest.raises(BrokenOffError):
            evaluating.result(TIMEOUT_S)

    assert (is_running(pid), is_due(fleet)) == (False, True)
    with pytest.raises(BrokenOffError):
        process.evaluate(device_group)


@pytest.mark.both_databases
def test_a_process_is_gone_with_a_server_that_is_killed(fleet: Fleet, database_url: str) -> None:
    """In the midst of an evaluation, too: somebody else may be about to make the same."""
    device_id = str(new_fleet(fleet).device_id)
    program = CHANGED.format(change=NEVER_ENDING)
    with subprocess.Popen([sys.executable, "-c", OF_A_SERVER, database_url, program, device_id]) as server:
        until_taken(fleet)
        children = children_of(server.pid)
        server.kill()
        server.wait()

        assert len(children) == 1
        assert until_gone(*children)


def test_a_large_server_makes_no_process_large(fleet: Fleet, process: EvaluationProcess) -> None:
    """The system counts the peak of whoever starts a program as the program's own."""
    population = new_fleet(fleet)
    held_meanwhile = b"x" * (300 * 1024**2)
    process.evaluate(population)
    del held_meanwhile
    pid = running(process)
    process.evaluate(population)

    assert process.child.pid == pid


def test_signals_that_end_the_server_do_not_end_the_process(fleet: Fleet, process: EvaluationProcess) -> None:
    """A terminal and systemd send them to all."""
    device_group = new_fleet(fleet)
    process.evaluate(device_group)
    pid = running(process)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    process.evaluate(device_group)

    assert process.child.pid == pid


@pytest.mark.parametrize(
    ("program", "why"), [("/nowhere/python", "could not be started"), ("/bin/false", "ended with exit code 1")]
)
def test_a_program_that_does_not_start_leaves_the_device_due(
    fleet: Fleet, process: EvaluationProcess, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """Perhaps it does next time."""
    device_group = new_fleet(fleet)
    monkeypatch.setattr(room, "_PROGRAM", (program,))

    with pytest.raises(ProcessLostError, match=why):
        process.evaluate(device_group)

    assert (is_due(fleet), process.child.pid) == (True, None)


def test_an_evaluation_that_somebody_else_made_is_told_as_such(
    fleet: Fleet, process: EvaluationProcess, change: Callable[[str], None]
) -> None:
    """As by an evaluator of this process."""
    change(SUPERSEDED)

    with pytest.raises(SupersededError, match="somebody else was quicker"):
        process.evaluate(new_fleet(fleet))


def test_a_fault_of_our_own_is_told_with_where_it_was(
    fleet: Fleet, process: EvaluationProcess, change: Callable[[str], None]
) -> None:
    """And the process goes on; the device is due again."""
    change("Evaluator.bring_up_to_date = lambda self, population: 1 / 0")
    device_group = new_fleet(fleet)

    with pytest.raises(EvaluationError, match=r"(?s)_evaluate_now.*ZeroDivisionError"):
        process.evaluate(device_group)

    assert is_running(running(process))
    assert is_due(fleet)


@pytest.mark.both_databases
def test_a_database_that_cannot_be_used_is_told_in_words(sqlite_databases: SqliteDatabases) -> None:
    """Those that the process has for it."""
    url = sqlite_databases.create(migrated=True)
    path = Path(make_url(url).database or "")
    with closing(open_database(url)) as database:
        fleet = Fleet(database)
        device_group = new_fleet(fleet)
        path.rename(path.with_suffix(".aside"))
        with closing(EvaluationProcess(url, database, None)) as process:
            with pytest.raises(DatabaseTroubleError, match="was deleted, moved or replaced"):
                process.evaluate(device_group)
            path.with_suffix(".aside").rename(path)
            process.evaluate(device_group)


def followed(fleet: Fleet, process: EvaluationProcess, own: OwnMetrics) -> list[DeviceGroup]:
    schedule = Schedule(fleet.evaluator, on_evaluated=own.note_evaluation, evaluate=process.evaluate)
    fleet.now = datetime.now(timezone.utc) + schedule_room.LONGEST_WAIT
    try:
        return schedule.follow_once()
    finally:
        schedule.leadership.resign()


def test_a_schedule_has_a_process_evaluate_and_counts_it(fleet: Fleet, process: EvaluationProcess) -> None:
    """Metrics are those of the server."""
    own, device_group = OwnMetrics(), new_fleet(fleet)

    done = followed(fleet, process, own)

    assert done == [device_group]
    assert set(fleet.states()) == {f"GPU-{n}" for n in range(8)}
    assert own.registry.get_sample_value("fleetridge_server_evaluation_seconds_count") == 1
    assert (own.registry.get_sample_value("fleetridge_server_evaluation_seconds_sum") or 0) > 0


def test_a_schedule_tells_of_a_process_that_broke_and_lets_the_device_be(
    fleet: Fleet, process: EvaluationProcess, change: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """In the log of the server, with the traceback of the process."""
    change("Evaluator.bring_up_to_date = lambda self, population: 1 / 0")
    own, _ = OwnMetrics(), new_fleet(fleet)

    done = followed(fleet, process, own)

    assert done == []
    assert own.registry.get_sample_value("fleetridge_server_evaluation_seconds_count") == 0
    assert "cannot be evaluated; it is tried again in a while" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_schedule_says_nothing_of_an_evaluation_that_the_end_broke_off(
    fleet: Fleet, process: EvaluationProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is wrong."""
    new_fleet(fleet)
    process.close()

    assert followed(fleet, process, OwnMetrics()) == []
    assert caplog.records == []
    assert is_due(fleet)


def metric(address: str, name: str) -> float:
    lines = patient_get(f"{address}/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.both_databases
@pytest.mark.parametrize("processes", [0, 1])
def test_a_server_evaluates_soon_after_reports_in_a_process_or_without(
    sqlite_databases: SqliteDatabases, tmp_path: Path, processes: int
) -> None:
    """As its setting says; it counts evaluations, and leaves no process behind."""
    environment = {
        "FLEETRIDGE_SERVER_INTAKE_PROCESSES": "0",
        "FLEETRIDGE_SERVER_EVALUATION_PROCESS": str(processes),
        "FLEETRIDGE_LOG_FORMAT": "json",
    }
    url, log = sqlite_databases.create(migrated=True), tmp_path / "log"
    with log.open("w") as stderr, server_process(url, environment=environment, stderr=stderr) as server:
        address = server.address()
        answer = patient_post(f"{address}/reports", json=make_report())
        until_s = time.monotonic() + TIMEOUT_S
        while not metric(address, "fleetridge_server_evaluation_seconds_count"):
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)
        children = children_of(server.process.pid)
        fleet = patient_get(f"{address}/fleet").json()
        code = server.stop()

    levels = {json.loads(line)["level"] for line in log.read_text().splitlines()}
    assert (answer.status_code, code, levels) == (201, 0, {"info"})
    assert sum(fleet["verdicts"].values()) == 1
    assert (len(children), any(map(is_running, children))) == (processes, False)
