"""Which evaluations of a series are kept, and how much of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from fleetridge_server.db.verdict_tables import EvaluationColumns
from fleetridge_server.ops.retention import EVERY_HOUR_KEPT, drop_old
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet

MINUTE = timedelta(minutes=1)


def evaluated(fleet: Fleet, times: Sequence[datetime]) -> list[datetime]:
    """As of when the evaluations are that are kept, of those at some times."""
    fleet.store(a_fleet(gpus=4, until=min(times) - HOUR), received_at=min(times))
    for at in times:
        fleet.evaluate(at)
    return [body.as_of for body in fleet.bodies()]


def parts(fleet: Fleet) -> dict[int, list[int]]:
    """Columns that are kept, by evaluation."""
    found: dict[int, list[int]] = {}
    with fleet.database.reading() as session:
        for row in session.execute(select(EvaluationColumns.evaluation_id, EvaluationColumns.part)):
            found.setdefault(row.evaluation_id, []).append(row.part)
    return {evaluation_id: sorted(found[evaluation_id]) for evaluation_id in sorted(found)}


def test_the_last_evaluation_of_each_hour_is_kept(fleet: Fleet) -> None:
    """And the newest three, even within one hour."""
    times = [NOON + minutes * MINUTE for minutes in (0, 20, 40, 60, 80, 100, 120, 125, 130, 135)]

    kept = evaluated(fleet, times)

    assert [(at - NOON) // MINUTE for at in kept] == [40, 100, 125, 130, 135]
    assert len(fleet.states()) == 4


def test_an_hour_that_ended_in_a_pause_keeps_its_last_alone(fleet: Fleet) -> None:
    """Though nobody evaluated in the hour after it."""
    times = [NOON + minutes * MINUTE for minutes in (50, 55, 58, 300, 360, 420)]

    kept = evaluated(fleet, times)

    assert [(at - NOON) // MINUTE for at in kept] == [58, 300, 360, 420]


def test_after_a_quarter_the_last_evaluation_of_each_day_is_kept(fleet: Fleet) -> None:
    """With what it said of gpus."""
    times = [NOON + hours * HOUR for hours in (0, 5, 11, 13, 24, 40)]
    evaluated(fleet, times)

    drop_old(fleet.database, 400 * DAY, NOON + EVERY_HOUR_KEPT + DAY)

    assert [(body.as_of - NOON) // HOUR for body in fleet.bodies()] == [11, 13, 24, 40]
    drop_old(fleet.database, 400 * DAY, NOON + EVERY_HOUR_KEPT + 3 * DAY)
    assert [(body.as_of - NOON) // HOUR for body in fleet.bodies()] == [11, 24, 40]
    assert len(fleet.states()) == 4


def test_what_gpus_count_for_is_kept_of_the_newest_three_and_their_order_of_all(fleet: Fleet) -> None:
    """A list that began under one of them goes on in its order."""
    evaluated(fleet, [NOON + hours * HOUR for hours in range(6)])

    assert list(parts(fleet).values()) == [[0], [0], [0], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


def test_an_evaluation_of_the_past_keeps_all_and_drops_nothing(fleet: Fleet) -> None:
    """However many came since; made once more it takes the place of the earlier one."""
    evaluated(fleet, [NOON, NOON + HOUR])
    for _ in range(2):
        historical = fleet.evaluator.evaluate_past(fleet.device_group(), NOON - HOUR / 2)
    for hours in range(2, 6):
        fleet.evaluate(NOON + hours * HOUR)

    assert parts(fleet)[historical] == [0, 1, 2]
    assert len(fleet.bodies()) == 7
    assert len([change for change in fleet.changes() if change.historical]) == 4


@pytest.mark.parametrize("again", [0, 1])
def test_columns_go_with_their_evaluation(fleet: Fleet, again: int) -> None:
    """Nothing is left over of one that is dropped."""
    evaluated(fleet, [NOON + minutes * MINUTE for minutes in range(0, 40 + again, 4)])
    with fleet.database.reading() as session:
        left: set[Any] = set(session.scalars(select(EvaluationColumns.evaluation_id)))

    assert len(left) == len(fleet.bodies()) == 3
