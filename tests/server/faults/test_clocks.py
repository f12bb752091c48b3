"""Clocks that are wrong or jump, of nodes and of the server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from fleetridge_server.api import reports as room
from fleetridge_server.db.verdict_tables import EvaluationDue
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.schedule import Schedule
from support.evaluations import HOUR, a_fleet, a_report
from support.reports import make_report

if TYPE_CHECKING:
    from support.app_client import AppClient
    from support.evaluations import Fleet

pytestmark = pytest.mark.both_databases

YEARS = timedelta(days=4000)


class Clock(datetime):
    """The server's clock, off by what a test says."""

    off = timedelta(0)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override] # a plain datetime will do
        """Time that the server sees."""
        return datetime.now(tz) + cls.off


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(room, "datetime", Clock)
    monkeypatch.setattr(Clock, "off", timedelta(0))
    return Clock


def shown(client: AppClient) -> dict[str, Any]:
    """What the server says of the one gpu."""
    answer: dict[str, Any] = client.get("/gpus/GPU-1").json()
    return answer


@pytest.mark.parametrize("off", [YEARS, -YEARS, timedelta(days=365 * 5000), -timedelta(days=365 * 2000)])
def test_a_node_whose_clock_is_years_off_is_put_where_it_belongs(client: AppClient, off: timedelta) -> None:
    """What it measured an hour before sending was measured an hour before arrival, whatever it calls that hour."""
    for ago, pi_tflops in ((2 * HOUR, 800.0), (HOUR, 850.0)):
        sent_at = datetime.now(timezone.utc) + off
        measured = (sent_at - ago).isoformat()
        report = make_report(gpu__uuid="GPU-1", measured_from=measured, measured_to=measured, pi_tflops=pi_tflops)
        answer = client.post("/reports", json={"sent_at": sent_at.isoformat(), "reports": [report]})
        assert answer.json()["results"][0]["outcome"] == "created"

    last_seen = datetime.fromisoformat(shown(client)["last_seen"])

    assert abs(datetime.now(timezone.utc) - HOUR - last_seen) < timedelta(minutes=10)


@pytest.mark.parametrize("jump", [timedelta(seconds=-2), timedelta(hours=-1), timedelta(days=-400)])
def test_a_server_whose_clock_steps_back_keeps_what_arrives_and_what_was_newest(
    client: AppClient, clock: type[Clock], jump: timedelta
) -> None:
    """Each report once; what was measured last stays last, and nothing is told from the future."""
    before, after = make_report(gpu__uuid="GPU-1"), make_report(gpu__uuid="GPU-1")
    answers = [client.post("/reports", json=before)]
    clock.off = jump
    answers += [client.post("/reports", json=report) for report in (after, before, after)]
    clock.off = timedelta(0)
    answers.append(client.post("/reports", json=make_report(gpu__uuid="GPU-1")))

    assert [answer.status_code for answer in answers] == [201, 201, 200, 200, 201]
    assert [client.get(f"/reports/{report['report_id']}").json() for report in (before, after)] == [before, after]
    assert datetime.fromisoformat(shown(client)["last_seen"]) <= datetime.now(timezone.utc)


def test_a_server_whose_clock_was_years_ahead_still_takes_reports(client: AppClient, clock: type[Clock]) -> None:
    """In a month that nobody made ahead; afterwards as before."""
    clock.off = YEARS
    ahead = client.post("/reports", json=make_report(gpu__uuid="GPU-1"))
    clock.off = timedelta(0)
    later = client.post("/reports", json=make_report(gpu__uuid="GPU-1"))

    assert (ahead.status_code, later.status_code) == (201, 201)
    assert client.get("/gpus/GPU-1/history").status_code == 200


def told_of_clock(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for record in caplog.records if "clock" in (message := record.getMessage())]


def test_a_server_whose_clock_was_years_ahead_evaluates_as_soon_as_it_is_right(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """At once and then when it is due, and says so once."""
    schedule = Schedule(fleet.evaluator)
    fleet.store(a_fleet(gpus=4))
    right = fleet.now + HOUR
    fleet.now = right + YEARS
    first = schedule.follow_once()
    fleet.now = right
    fleet.store([a_report("GPU-1", at=fleet.now)])
    then = [schedule.follow_once() for _ in range(3)]
    fleet.now = right + HOUR
    last = schedule.follow_once()
    schedule.leadership.resign()

    assert first == last == [fleet.device_group()]
    assert then == [[fleet.device_group()], [], []]
    assert len(told_of_clock(caplog)) == 1


def test_reports_that_came_while_the_clock_was_ahead_are_judged_once_it_is_right(fleet: Fleet) -> None:
    """Nothing was evaluated meanwhile; the note on them is from the future."""
    schedule = Schedule(fleet.evaluator)
    fleet.store(a_fleet(gpus=4))
    with fleet.database.writing() as session:
        session.execute(update(EvaluationDue).values(since=fleet.now + YEARS, latest=fleet.now + YEARS))
    done = schedule.follow_once()
    schedule.leadership.resign()

    assert done == [fleet.device_group()]


def test_a_server_whose_clock_is_behind_evaluates_nothing_until_it_is_right(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and verdicts do not go back in time."""
    schedule = Schedule(fleet.evaluator)
    fleet.store(a_fleet(gpus=4))
    right = fleet.now + HOUR
    fleet.now = right
    first = schedule.follow_once()
    fleet.now = right - YEARS
    behind = [schedule.follow_once() for _ in range(3)]
    fleet.now += HOUR
    behind.append(schedule.follow_once())
    fleet.now = right + HOUR
    last = schedule.follow_once()
    schedule.leadership.resign()

    assert first == last == [fleet.device_group()]
    assert behind == [[], [], [], []]
    assert len(told_of_clock(caplog)) == 1


def test_a_device_that_failed_while_the_clock_was_ahead_is_tried_again_once_it_is_right(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a minute after a time that has not come."""
    schedule = Schedule(fleet.evaluator)
    fleet.store(a_fleet(gpus=4))
    right = fleet.now + HOUR
    fleet.now = right + YEARS
    with monkeypatch.context() as patched:
        patched.setattr(Evaluator, "evaluate_now", lambda _self, _population: 1 / 0)
        failed = schedule.follow_once()
    fleet.now = right
    done = schedule.follow_once()
    schedule.leadership.resign()

    assert (failed, done) == ([], [fleet.device_group()])
