from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from fleetridge_server.background import in_background
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.verdict_tables import EvaluationDue
from fleetridge_server.evaluation import evaluator as evaluator_room
from fleetridge_server.evaluation import schedule as room
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.process import ProcessLostError
from fleetridge_server.evaluation.schedule import Schedule, evaluation_task, starts_at
from fleetridge_server.verdicts.series import DeviceGroup, LastEvaluation, note_due, take_due
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import Databases

SECOND = timedelta(seconds=1)


def due(since: datetime, latest: datetime) -> EvaluationDue:
    return EvaluationDue(device_id=1, simulated=False, since=since, latest=latest)


def last(made_at: datetime, took: timedelta = SECOND) -> LastEvaluation:
    return LastEvaluation(made_at, made_at, took)


def test_reports_are_judged_once_it_is_quiet() -> None:
    """Five seconds after the last of them."""
    assert starts_at(due(NOON, NOON + 20 * SECOND), None) == NOON + 25 * SECOND


def test_reports_that_never_pause_are_judged_all_the_same() -> None:
    """A minute after the first of them."""
    assert starts_at(due(NOON, NOON + 300 * SECOND), None) == NOON + 60 * SECOND


def test_a_device_is_judged_every_hour_though_nothing_arrives() -> None:
    """Counted from when it was judged last."""
    assert starts_at(None, last(NOON)) == NOON + HOUR
    assert starts_at(due(NOON + 59 * 60 * SECOND, NOON + HOUR), last(NOON)) == NOON + HOUR


def test_evaluations_take_a_fifth_of_the_time_at_most() -> None:
    """One of ten seconds is followed by forty without, whatever arrives."""
    assert starts_at(due(NOON, NOON), last(NOON, 10 * SECOND)) == NOON + 40 * SECOND
    assert starts_at(due(NOON, NOON), last(NOON, SECOND)) == NOON + 5 * SECOND


def test_a_device_of_which_nothing_is_known_is_not_judged() -> None:
    """Neither a report nor an evaluation speaks of it."""
    assert starts_at(None, None) is None


@pytest.fixture
def schedule(fleet: Fleet) -> Iterator[Schedule]:
    made = Schedule(fleet.evaluator)
    yield made
    made.leadership.resign()


def test_a_schedule_judges_what_is_due_and_lets_the_rest_be(fleet: Fleet, schedule: Schedule) -> None:
    """By the clock that it is given."""
    fleet.store(a_fleet(gpus=4), received_at=NOON + HOUR)
    done: dict[float, list[DeviceGroup]] = {}
    for seconds in (0, 4, 5, 6, 3599, 3605, 3606):
        fleet.now = NOON + HOUR + seconds * SECOND
        done[seconds] = schedule.follow_once()

    device_group = [fleet.device_group()]
    assert done == {0: [], 4: [], 5: device_group, 6: [], 3599: [], 3605: device_group, 3606: []}


def test_what_an_evaluator_left_over_when_it_was_killed_is_taken_up(fleet: Fleet, schedule: Schedule) -> None:
    """It had taken the note, and judged nothing."""
    fleet.store(a_fleet(gpus=4))
    with fleet.database.writing() as session:
        take_due(session, fleet.device_group())

    assert schedule.follow_once() == [fleet.device_group()]


class KilledError(BaseException):
    """Nothing of whoever is killed runs afterwards."""


@pytest.mark.both_databases
@pytest.mark.parametrize("step", ["bring_up_to_date", "series_end", "judge_device", "save_evaluation"])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_was_due_when_a_server_was_killed_is_judged_by_the_next_without_a_report(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, step: str, *, is_first: bool
) -> None:
    """At whatever moment of the evaluation, reports and marks alike."""
    fleet.store(a_fleet(gpus=4))
    if not is_first:
        fleet.evaluate()
        with fleet.database.writing() as session:  # as a mark does, of which no gpu's row speaks
            note_due(session, [fleet.device_group()], fleet.now)
    device_group = fleet.device_group()
    fleet.now += 30 * SECOND
    killed = Mock(side_effect=KilledError)
    with monkeypatch.context() as patched:
        patched.setattr(Evaluator if step == "bring_up_to_date" else evaluator_room, step, killed)
        first = Schedule(fleet.evaluator)
        with pytest.raises(KilledError):
            first.follow_once()
    first.leadership.resign()
    after_kill = len(fleet.bodies())

    fleet.now += SECOND
    next_one = Schedule(fleet.evaluator)
    done = [next_one.follow_once(), next_one.follow_once()]
    next_one.leadership.resign()

    assert done == [[device_group], []]
    assert len(fleet.bodies()) == after_kill + 1


def test_a_lost_process_is_started_again_soon_and_less_often_each_time(
    fleet: Fleet, schedule: Schedule, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says how it ended, and accuses no device."""
    fleet.store(a_fleet(gpus=4))
    lost: list[datetime] = []
    begun = fleet.now

    def losing(_device_group: DeviceGroup) -> float:
        lost.append(fleet.now)
        if len(lost) == 8:
            return 0.0
        raise ProcessLostError("was ended by SIGKILL")

    schedule.evaluate = losing
    while fleet.now < begun + 300 * SECOND:
        fleet.now += SECOND
        schedule.follow_once()

    waits = [(later - earlier) // SECOND for earlier, later in pairwise(lost)]
    assert waits[:7] == [2, 4, 8, 16, 32, 60, 60]
    assert "was ended by SIGKILL; another one is started in 2 s" in caplog.text
    assert "cannot be evaluated" not in caplog.text
    assert {record.exc_info for record in caplog.records} == {None}


def test_a_device_that_cannot_be_judged_keeps_no_other_waiting(
    fleet: Fleet, schedule: Schedule, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again in a while."""
    fleet.store([*a_fleet(gpus=4), *a_fleet(gpus=4, gpu__device="NVIDIA A100-SXM4-80GB", node__cluster="simulated")])
    judge = Evaluator.evaluate_now
    tried: list[DeviceGroup] = []

    def failing(self: Evaluator, device_group: DeviceGroup) -> Any:
        tried.append(device_group)
        if not device_group.simulated:
            raise ZeroDivisionError
        return judge(self, device_group)

    monkeypatch.setattr(Evaluator, "evaluate_now", failing)
    fleet.now += 10 * SECOND
    done = schedule.follow_once()
    at_once = schedule.follow_once()
    fleet.now += room.AFTER_FAILURE
    schedule.follow_once()

    assert [own.simulated for own in done] == [True]
    assert at_once == []
    assert [own.simulated for own in tried].count(False) == 2
    assert "cannot be evaluated" in caplog.text


def test_a_schedule_ends_between_two_devices(fleet: Fleet, schedule: Schedule) -> None:
    """When it is told to."""
    fleet.store(a_fleet(gpus=4))
    fleet.now += 10 * SECOND

    assert schedule.follow_once(lambda: True) == []
    assert schedule.follow_once() == [fleet.device_group()]


@pytest.fixture
def two_servers(postgres_databases: Databases) -> Iterator[tuple[Database, Database]]:
    """Two servers on one PostgreSQL database."""
    url = postgres_databases.create(migrated=True)
    servers = open_database(url), open_database(url)
    yield servers
    for server in servers:
        server.close()
    postgres_databases.drop(url)


def end_leader(database: Database) -> None:
    """End the connection of whoever leads a database's servers, and wait until its lock is gone, too."""
    leaders = (
        "FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    with database.writing() as session:
        session.execute(text(f"SELECT pg_terminate_backend(pid) {leaders}"))  # of constants
    until_s = time.monotonic() + PATIENCE_S
    is_left = True
    while is_left:
        assert time.monotonic() < until_s, "it still leads"
        with database.reading() as session:
            is_left = bool(session.execute(text(f"SELECT 1 {leaders}")).all())  # of constants


def test_of_two_servers_one_evaluates_until_its_connection_dies(two_servers: tuple[Database, Database]) -> None:
    """Then the other takes over."""
    fleets = [Fleet(server, now=NOON + HOUR) for server in two_servers]
    schedules = [Schedule(fleet.evaluator) for fleet in fleets]
    fleets[0].store(a_fleet(gpus=4))
    for fleet in fleets:
        fleet.now += 10 * SECOND

    first = [own.follow_once() for own in schedules]
    end_leader(two_servers[1])
    for fleet in fleets:
        fleet.now += DAY
    second = schedules[1].follow_once()
    still = schedules[1].leadership.lead()
    for own in schedules:
        own.leadership.resign()

    assert first == [[fleets[0].device_group()], []]
    assert second == [fleets[0].device_group()]
    assert still


def test_a_server_that_resigns_lets_another_lead(two_servers: tuple[Database, Database]) -> None:
    """Without a word between them."""
    schedules = [Schedule(Evaluator(server)) for server in two_servers]

    before = [own.leadership.lead() for own in schedules]
    schedules[0].leadership.resign()
    after = [own.leadership.lead() for own in reversed(schedules)]
    for own in schedules:
        own.leadership.resign()

    assert before == [True, False]
    assert after == [True, False]


def test_a_thread_follows_the_schedule_until_the_block_ends(
    fleet: Fleet, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And survives a database that does not answer for a moment."""
    monkeypatch.setattr(room, "POLL_S", 0.001)
    monkeypatch.setattr(room, "AFTER_TROUBLE_S", 0.001)
    followed = threading.Event()
    calls: list[int] = []

    def follow_once(_is_ending: object) -> list[DeviceGroup]:
        calls.append(len(calls))
        if len(calls) == 1:
            raise OperationalError("SELECT 1", {}, Exception("gone"))
        followed.set()
        return []

    monkeypatch.setattr(schedule, "follow_once", follow_once)
    with in_background([evaluation_task(schedule)]):
        assert followed.wait(PATIENCE_S)

    assert "evaluator" not in [thread.name for thread in threading.enumerate()]
    assert fleet.due_gpus() == []


def test_a_report_that_arrives_during_an_evaluation_is_due_afterwards(
    fleet: Fleet, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is taken before anything is read."""
    fleet.store(a_fleet(gpus=4))
    bring = Evaluator.bring_up_to_date

    def interrupted(self: Evaluator, device_group: DeviceGroup) -> int:
        count = bring(self, device_group)
        monkeypatch.setattr(Evaluator, "bring_up_to_date", bring)
        fleet.store([a_report("GPU-1", at=fleet.now)])
        return count

    monkeypatch.setattr(Evaluator, "bring_up_to_date", interrupted)
    fleet.now += 10 * SECOND
    first = schedule.follow_once()
    still_due = fleet.due_gpus()
    fleet.now += 30 * SECOND
    second = schedule.follow_once()

    assert first == second == [fleet.device_group()]
    assert still_due == ["GPU-1"]
    assert fleet.due_gpus() == []
