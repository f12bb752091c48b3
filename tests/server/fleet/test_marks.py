from __future__ import annotations

import pytest

from fleetridge_server.fleet.marks import MarkScopeError, NewMark, add_mark, end_mark, mark_page, marks_by_engine
from fleetridge_server.verdicts.series import due_notes
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet

SLOW = {"GPU-2": 0.12}


def marked(fleet: Fleet, **changes: object) -> int:
    """Id of a new mark on GPU-2, made now."""
    mark = NewMark(**{"kind": "accepted", "reason": "capped", "author": "ann", "gpu": "GPU-2", **changes})  # type: ignore[arg-type] # as the test says
    with fleet.database.writing() as session:
        return add_mark(session, mark, fleet.now).id


def evaluated(fleet: Fleet) -> None:
    fleet.store(a_fleet(SLOW, node__labels={"rack": "r1"}))
    fleet.evaluate()


def test_a_mark_excuses_at_the_next_evaluation_and_ends_at_its_date(fleet: Fleet) -> None:
    """The alert is over with it, and another one opens when it ends."""
    evaluated(fleet)
    before = fleet.states()["GPU-2"]
    fleet.now += HOUR / 2
    mark_id = marked(fleet, until=NOON + DAY)
    at_once = fleet.states()["GPU-2"]
    fleet.evaluate()
    excused = fleet.verdicts()["GPU-2"]
    open_while_excused = [alert for alert in fleet.alerts() if alert.resolved_at is None]
    fleet.evaluate(NOON + DAY + HOUR)

    assert (before, at_once, excused.state) == ("outlier", "outlier", "known")
    assert [own.mark_id for own in excused.excuses] == [mark_id]
    assert open_while_excused == []
    assert fleet.states()["GPU-2"] == "outlier"
    assert len(fleet.alerts()) == 2


def test_a_mark_that_is_ended_excuses_no_more(fleet: Fleet) -> None:
    """It stays, for the past rests on it."""
    evaluated(fleet)
    mark_id = marked(fleet, kind="false_positive")
    fleet.evaluate(NOON + 2 * HOUR)
    with fleet.database.writing() as session:
        ended = end_mark(session, mark_id, fleet.now)
        again = end_mark(session, mark_id, fleet.now + DAY)
    fleet.evaluate(NOON + 3 * HOUR)
    fleet.evaluator.evaluate_past(fleet.device_group(), NOON + 2 * HOUR - HOUR / 60)

    assert ended is not None
    assert again is not None
    assert again.ended_at == NOON + 2 * HOUR
    assert fleet.states()["GPU-2"] == "outlier"
    then = next(own for own in fleet.changes() if own.historical and own.identity == "GPU-2")
    assert (then.state, then.last_state) == ("known", "outlier")


@pytest.mark.parametrize("scope", [{"gpu": "GPU-2"}, {"gpu": None, "cluster": "east"}])
def test_a_retired_gpu_is_neither_missing_nor_judged(fleet: Fleet, scope: dict[str, str | None]) -> None:
    """A returned card is gone for good."""
    roster = [{"uuid": f"GPU-{number}"} for number in range(8)]
    fleet.store(a_fleet(run__roster=roster, run__roster_complete=True))
    fleet.evaluate()
    fleet.now += DAY
    left = [own for own in roster if own["uuid"] != "GPU-2"]
    newer = a_fleet(until=NOON + DAY, days=1, run__roster=left, run__roster_complete=True)
    fleet.store([own for own in newer if own["gpu"]["uuid"] != "GPU-2"])
    fleet.evaluate()
    missing = fleet.states()["GPU-2"]
    marked(fleet, kind="retired", reason="returned", **scope)
    fleet.evaluate(fleet.now + HOUR)

    assert missing == "missing"
    assert "GPU-2" not in fleet.states()
    assert [alert.kind for alert in fleet.alerts() if alert.resolved_at is None] == []


def test_a_mark_makes_the_devices_in_its_scope_due(fleet: Fleet) -> None:
    """Making one and ending one."""
    evaluated(fleet)

    def is_due() -> bool:
        with fleet.database.reading() as session:
            return bool(due_notes(session))

    seen = [is_due()]
    mark_id = marked(fleet, gpu=None, cluster="east", node="node-01")
    seen.append(is_due())
    fleet.evaluate(fleet.now + HOUR)
    with fleet.database.writing() as session:
        end_mark(session, mark_id, fleet.now)
    seen.append(is_due())
    fleet.evaluate(fleet.now + HOUR)
    marked(fleet, gpu=None, cluster="west")
    seen.append(is_due())

    assert seen == [False, True, True, False]


@pytest.mark.parametrize(
    ("scope", "state"),
    [
        ({"cluster": "east", "gpu": None}, "known"),
        ({"cluster": "east", "node": "node-01", "gpu": None}, "known"),
        ({"cluster": "east", "rack": "r1", "gpu": None}, "known"),
        ({"cluster": "east", "rack": "r2", "gpu": None}, "outlier"),
        ({"cluster": "west", "node": "node-01", "gpu": None}, "outlier"),
        ({"driver": "580.159.04", "gpu": None}, "known"),
        ({"driver": "580.159.04", "gpu": None, "cluster": "west"}, "outlier"),
        ({"driver": "590.44", "gpu": None}, "outlier"),
        ({"loss": 0.12}, "known"),
        ({"loss": 0.02}, "outlier"),
    ],
)
def test_a_mark_covers_its_scope_and_nothing_else(fleet: Fleet, scope: dict[str, object], state: str) -> None:
    """And excuses the loss that it names, not a worse one."""
    evaluated(fleet)
    marked(fleet, **scope)
    fleet.evaluate(fleet.now + HOUR)

    assert fleet.states()["GPU-2"] == state


@pytest.mark.parametrize(
    "scope",
    [
        {"gpu": None},
        {"gpu": None, "node": "node-01"},
        {"gpu": None, "cluster": "simulated"},
        {"kind": "known"},
        {"kind": "retired", "driver": "580.159.04"},
        {"gpu": None, "cluster": "east", "simulated": True},
    ],
)
def test_a_mark_without_a_place_is_refused(fleet: Fleet, scope: dict[str, object]) -> None:
    """It would cover nothing, or more than its author sees."""
    with pytest.raises(MarkScopeError):
        marked(fleet, **scope)


def test_marks_are_listed_newest_first(fleet: Fleet) -> None:
    """All, or those that hold at a time."""
    first = marked(fleet, until=NOON + 2 * HOUR)
    fleet.now += DAY
    second = marked(fleet)

    with fleet.database.reading() as session:
        everything = [own.id for own in mark_page(session, limit=9)]
        holding = [own.id for own in mark_page(session, limit=9, holding_at=fleet.now)]
        before = [own.id for own in mark_page(session, limit=9, before_id=second)]
        in_force = list(marks_by_engine(session, simulated=False, as_of=fleet.now).values())
        made_up = mark_page(session, simulated=True, limit=9)
    assert (everything, holding, before, in_force, made_up) == ([second, first], [second], [first], [second], [])
