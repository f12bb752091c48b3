"""What was said by a server whose clock was ahead, once it is right; and what one does whose clock is behind."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from fleetridge_server.db.verdict_tables import CurrentVerdict
from fleetridge_server.engine.rule import CLOCK_AHEAD_TOLERATED
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.verdicts.save import SupersededError
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report

if TYPE_CHECKING:
    from datetime import datetime

YEARS = timedelta(days=1500)
SLOW = {"GPU-2": 0.12}
RIGHT = NOON + 2 * HOUR


def evaluated_ahead(fleet: Fleet) -> None:
    """Judge a fleet with one slow gpu now and years from now, where all is out of date; then put the clock right."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    fleet.evaluate(NOON + YEARS)
    assert set(fleet.states().values()) == {"stale"}
    fleet.now = RIGHT


def take(fleet: Fleet, reports: list[dict[str, Any]], *, sent_at: datetime, received_at: datetime) -> None:
    """Store reports with what both clocks said."""
    items = [examined(own, sent_at=sent_at, received_at=received_at) for own in reports]
    accepted = [item for item in items if isinstance(item, Accepted)]
    assert set(write_reports(fleet.database, accepted)) == {"created"}


def times_of_verdicts(fleet: Fleet) -> set[datetime]:
    with fleet.database.reading() as session:
        rows = session.execute(select(CurrentVerdict.since, CurrentVerdict.recorded_at)).all()
    return {at for row in rows for at in row}


def test_the_first_evaluation_by_a_right_clock_stands(fleet: Fleet) -> None:
    """In the place of the one as of a time that has not come; the one before stays."""
    evaluated_ahead(fleet)

    saved = fleet.evaluate()

    assert saved.redated == NOON + YEARS
    assert fleet.states()["GPU-2"] == "outlier"
    assert [body.as_of for body in fleet.bodies()] == [NOON + HOUR, RIGHT]


def test_what_was_told_stays_in_its_order_and_nothing_is_from_the_future(fleet: Fleet) -> None:
    """By time as by row: from slow to out of date to slow again."""
    evaluated_ahead(fleet)
    fleet.evaluate()

    changes = fleet.changes()
    told = [(change.state, change.as_of, change.since) for change in changes if change.identity == "GPU-2"]
    assert told == [
        ("outlier", NOON + HOUR, NOON + HOUR),
        ("stale", RIGHT, RIGHT),
        ("outlier", RIGHT, RIGHT),
    ]
    assert all(earlier.as_of <= later.as_of for earlier, later in pairwise(changes))
    assert max(change.made_at for change in changes) <= RIGHT
    assert times_of_verdicts(fleet) == {RIGHT}


def test_alerts_end_when_they_are_found_to_have_ended(fleet: Fleet) -> None:
    """The one that the wrong clock resolved is over, and what is wrong still is a new one."""
    evaluated_ahead(fleet)
    fleet.evaluate()

    first, second = fleet.alerts()
    assert (first.opened_at, first.resolved_at) == (NOON + HOUR, RIGHT)
    assert (second.opened_at, second.last_seen, second.resolved_at) == (RIGHT, RIGHT, None)


def test_a_state_that_was_said_too_early_holds_since_it_was_found_true(fleet: Fleet) -> None:
    """Nothing is told again that stays as it is, and evaluations go on."""
    fleet.store(a_fleet(until=NOON - 10 * DAY))
    fleet.evaluate(NOON + 3 * DAY)
    told = len(fleet.changes())
    fleet.evaluate(RIGHT)
    fleet.evaluate(RIGHT + HOUR)

    assert set(fleet.states().values()) == {"stale"}
    assert times_of_verdicts(fleet) == {RIGHT}
    assert len(fleet.changes()) == told


def test_an_accused_gpu_is_told_of_every_week_after_the_clock_was_put_right(fleet: Fleet) -> None:
    """Counted from then, not from a time that has not come."""
    take(fleet, a_fleet(SLOW), sent_at=NOON + HOUR, received_at=NOON + YEARS)
    fleet.evaluate(NOON + YEARS + HOUR)
    accused = fleet.states()["GPU-2"]
    for day in (0, 8):
        fleet.now = RIGHT + day * DAY
        fleet.store(a_fleet(SLOW, until=NOON + day * DAY))
        fleet.evaluate()

    told = [(change.state, change.as_of) for change in fleet.changes() if change.identity == "GPU-2"]
    assert accused == "outlier"
    assert told == [("outlier", RIGHT), ("outlier", RIGHT + 8 * DAY)]


def test_a_clock_that_is_behind_takes_nothing_back(fleet: Fleet) -> None:
    """Reports were sent at a time that it says has not come."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    before = fleet.verdicts(), fleet.bodies(), [change.as_of for change in fleet.changes()]

    with pytest.raises(SupersededError):
        fleet.evaluate(NOON - YEARS)

    assert (fleet.verdicts(), fleet.bodies(), [change.as_of for change in fleet.changes()]) == before
    assert [alert.resolved_at for alert in fleet.alerts()] == [None]


def test_clocks_of_servers_may_differ_a_little(fleet: Fleet) -> None:
    """What another server said a moment from now stands; that moment comes."""
    fleet.store(a_fleet())
    fleet.evaluate(RIGHT + CLOCK_AHEAD_TOLERATED)

    with pytest.raises(SupersededError):
        fleet.evaluate(RIGHT)

    assert [body.as_of for body in fleet.bodies()] == [RIGHT + CLOCK_AHEAD_TOLERATED]


def test_reports_that_the_server_took_while_it_was_ahead_are_no_witnesses_of_its_clock(fleet: Fleet) -> None:
    """Their nodes say when they sent them."""
    fleet.store(a_fleet(SLOW, until=NOON - HOUR))
    take(fleet, a_fleet(days=1), sent_at=NOON + HOUR, received_at=NOON + YEARS)
    fleet.evaluate(NOON + YEARS)

    saved = fleet.evaluate(RIGHT)

    assert saved.redated == NOON + YEARS
    assert fleet.states()["GPU-2"] == "outlier"


def test_a_few_nodes_whose_clocks_are_ahead_say_nothing_of_the_servers(fleet: Fleet) -> None:
    """Of the reports that came while the server was ahead, one was sent in the future, by its own word."""
    take(fleet, a_fleet(gpus=4, days=1), sent_at=NOON, received_at=NOON + YEARS)
    take(fleet, [a_report("GPU-4")], sent_at=NOON + 2 * YEARS, received_at=NOON + YEARS)
    fleet.evaluate(NOON + YEARS)

    assert fleet.evaluate(RIGHT).redated == NOON + YEARS


def test_a_clock_that_is_a_little_behind_takes_nothing_back_either(fleet: Fleet) -> None:
    """Though nearly all that the server knows was sent before the time that it believes in."""
    fleet.store(a_fleet(gpus=4, days=30, until=NOON - 2 * DAY), received_at=NOON - 2 * DAY)
    fleet.store(a_fleet(gpus=4, days=1))
    fleet.evaluate()

    with pytest.raises(SupersededError):
        fleet.evaluate(NOON - DAY)


@pytest.mark.parametrize("gpus", [0, 4])
def test_what_was_imported_does_not_tell_the_time(fleet: Fleet, gpus: int) -> None:
    """However much of it arrived last, it was measured long ago; alone it is no reason to believe a clock."""
    past = [a_fleet(gpus=4, days=4, until=NOON - YEARS, run__kind="import"), a_fleet(gpus=gpus)]
    for reports in past:
        fleet.store(reports)
    fleet.evaluate()

    with pytest.raises(SupersededError):
        fleet.evaluate(NOON - 30 * DAY)


def test_made_up_gpus_and_historical_evaluations_are_left_alone(fleet: Fleet) -> None:
    """Whatever is not of the same course."""
    fleet.store([*a_fleet(gpus=4), *a_fleet(gpus=4, node__cluster="simulated")])
    fleet.evaluate(NOON + YEARS)
    fleet.evaluator.evaluate_now(fleet.device_group(simulated=True))
    fleet.evaluator.evaluate_past(fleet.device_group(), NOON + 2 * YEARS)
    fleet.evaluate(RIGHT)

    as_of = [(change.simulated, change.historical, change.as_of) for change in fleet.changes()]
    assert set(as_of) == {
        (False, False, RIGHT),
        (True, False, NOON + YEARS),
        (False, True, NOON + 2 * YEARS),
    }
    assert sorted(body.as_of for body in fleet.bodies()) == [RIGHT, NOON + YEARS, NOON + 2 * YEARS]
