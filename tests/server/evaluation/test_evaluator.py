from __future__ import annotations

import random
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select

from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Report
from fleetridge_server.db.verdict_tables import CurrentVerdict, StoredEvaluation, VerdictChange
from fleetridge_server.engine.rule import RULE_VERSION
from fleetridge_server.evaluation import evaluator
from fleetridge_server.evaluation.evaluator import evaluation_of
from fleetridge_server.evaluation.judgement import judge_device
from fleetridge_server.verdicts import save
from fleetridge_server.verdicts.save import SupersededError, VerdictRows, rows_of
from fleetridge_server.verdicts.series import due_notes, series_end
from support.databases import Databases
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report
from support.reports import make_skipped_report

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.both_databases

SLOW = {"GPU-2": 0.12}


def counted(fleet: Fleet, table: type[Any]) -> int:
    with fleet.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_an_evaluation_is_stored_with_what_it_rests_on(fleet: Fleet) -> None:
    """Time, rule, counts, and every number of a verdict, so that it can be recomputed by hand."""
    fleet.store(a_fleet(SLOW))

    saved = fleet.evaluate()

    with fleet.database.reading() as session:
        stored = session.get_one(StoredEvaluation, saved.evaluation_id)
    slow = fleet.verdicts()["GPU-2"]
    pi = next(own for own in slow.roofs if own.roof.kind == "compute")
    assert (stored.as_of, stored.rule_version, stored.gpus) == (fleet.now, RULE_VERSION, 8)
    assert stored.counts == {"ok": 7, "outlier": 1}
    assert stored.took_ms > 0
    assert slow.state == "outlier"
    assert pi.band.n == 8
    assert pi.loss == pytest.approx(1 - pi.value / pi.band.median)
    assert pi.z == pytest.approx((pi.value - pi.band.median) / pi.band.scale)
    assert {run.report_id for run in pi.runs} <= reports_of(fleet)


def reports_of(fleet: Fleet) -> set[str]:
    with fleet.database.reading() as session:
        return {str(report_id) for report_id in session.scalars(select(Report.id))}


def test_what_decides_whether_anything_changed_stands_beside_the_verdict(fleet: Fleet) -> None:
    """State, reason and roofs, in columns of their own."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()

    with fleet.database.reading() as session:
        slow, *others = session.scalars(select(CurrentVerdict).order_by(CurrentVerdict.state_rank)).all()
    assert (slow.identity, slow.accused, slow.last_state) == ("GPU-2", "pi bfloat16 burst", None)
    assert slow.reason is not None
    assert {row.accused for row in others} == {""}


def test_yesterdays_verdict_can_be_shown_after_todays(fleet: Fleet) -> None:
    """As it was told: state, sentence and loss."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    yesterday = fleet.verdicts()["GPU-2"]
    for day in (1, 2, 3):
        fleet.now = NOON + day * DAY + HOUR
        fleet.store(a_fleet(until=NOON + day * DAY, days=1))
    fleet.evaluate()

    told = [change for change in fleet.changes() if change.identity == "GPU-2"]
    assert fleet.states()["GPU-2"] == "ok"
    assert [(change.as_of, change.state) for change in told] == [
        (NOON + HOUR, "outlier"),
        (NOON + 3 * DAY + HOUR, "ok"),
    ]
    assert (told[0].text, told[0].loss, told[0].body) == (yesterday.text, yesterday.worst_loss, None)
    assert [body.counts.get("outlier", 0) for body in fleet.bodies()] == [1, 0]


def test_what_did_not_change_is_not_written_again(fleet: Fleet) -> None:
    """Neither as a change nor as the current verdict."""
    fleet.store(a_fleet())
    fleet.evaluate()
    with fleet.database.reading() as session:
        before = series_end(session, fleet.device_group())
        judgement = judge_device(session, fleet.device_group(), NOON + 2 * HOUR)
    fleet.evaluate(NOON + 2 * HOUR)

    again = evaluation_of(fleet.device_group(), judgement, made_at=NOON + 2 * HOUR)
    assert rows_of(again, before) == VerdictRows((), (), (), ())
    assert len(fleet.changes()) == 8


def test_of_a_fleet_that_did_what_it_did_before_only_those_who_reported_are_written(fleet: Fleet) -> None:
    """Though the median of all of them moved."""
    fleet.store(a_fleet(gpus=9))
    fleet.evaluate()
    fleet.now += HOUR
    fleet.store([a_report("GPU-4", 850.0, at=NOON + HOUR)])
    fleet.evaluator.bring_up_to_date(fleet.device_group())
    with fleet.database.reading() as session:
        before = series_end(session, fleet.device_group())
        judgement = judge_device(session, fleet.device_group(), fleet.now)

    rows = rows_of(evaluation_of(fleet.device_group(), judgement, made_at=fleet.now), before)

    assert [row["identity"] for row in rows.current] == ["GPU-4"]
    assert rows.changes == ()


def test_an_accused_gpu_is_told_anew_every_week(fleet: Fleet) -> None:
    """Its numbers move although its state does not; that of a healthy one is told once."""
    for day in range(10):
        fleet.now = NOON + day * DAY + HOUR
        fleet.store(a_fleet(SLOW, until=NOON + day * DAY, days=3 if day == 0 else 1))
        fleet.evaluate()

    told = [change for change in fleet.changes() if change.identity == "GPU-2"]
    others = {change.as_of for change in fleet.changes() if change.identity == "GPU-5"}
    assert len(told) >= 2
    assert max(later.as_of - earlier.as_of for earlier, later in pairwise(told)) <= 7 * DAY
    assert {change.since for change in told} == {NOON + HOUR}
    assert others == {NOON + HOUR}


def test_an_evaluation_of_the_past_stands_beside_the_series(fleet: Fleet) -> None:
    """Current verdicts, changes and alerts are left alone; asked for again it replaces itself."""
    fleet.store([*a_fleet(SLOW, until=NOON - 20 * DAY), *a_fleet()])
    fleet.evaluate()
    before = fleet.verdicts(), [change.id for change in fleet.changes()], len(fleet.alerts())
    past = NOON - 20 * DAY + HOUR

    ids = [fleet.evaluator.evaluate_past(fleet.device_group(), past) for _ in range(2)]

    historical = [change for change in fleet.changes() if change.historical]
    series = [change.id for change in fleet.changes() if not change.historical]
    assert (fleet.verdicts(), series, len(fleet.alerts())) == before
    assert {change.evaluation_id for change in historical} == {ids[1]}
    assert {change.identity: change.state for change in historical}["GPU-2"] == "outlier"
    assert len(historical) == 8
    assert counted(fleet, StoredEvaluation) == 2


@pytest.mark.parametrize("old_first", [True, False])
def test_a_gpu_that_turns_out_to_be_of_another_device_leaves_the_first(fleet: Fleet, *, old_first: bool) -> None:
    """Its past there stays, with an end, whichever of the two is evaluated first."""
    fleet.store([*a_fleet(gpus=4), a_report("GPU-9", gpu__device=None, gpu__architecture="sm_90")])
    with fleet.database.reading() as session:
        notes = sorted(due_notes(session), key=lambda own: own.device_id, reverse=old_first)
    for device_group in notes:
        fleet.evaluator.evaluate_now(device_group)
    fleet.now += DAY
    fleet.store([a_report("GPU-9", at=NOON + DAY)])
    for device_group in notes:
        fleet.evaluator.evaluate_now(device_group)

    told = [change for change in fleet.changes() if change.identity == "GPU-9"]
    assert sorted(fleet.states()) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-9"]
    assert None in [change.state for change in told]
    assert next(change for change in told if change.state is None).body is None


def test_a_roster_without_a_gpu_makes_it_missing(fleet: Fleet) -> None:
    """As the node's next run says, and until it is there again."""
    roster = [{"uuid": f"GPU-{number}"} for number in range(4)]
    whole: dict[str, Any] = {"run__roster": roster, "run__roster_complete": True}
    fleet.store(a_fleet(gpus=4, **whole))
    fleet.evaluate()
    there = fleet.states()
    fleet.now += DAY
    without: dict[str, Any] = {"run__roster": roster[:3], "run__roster_complete": True}
    fleet.store(a_fleet(gpus=3, days=1, until=NOON + DAY, **without))
    fleet.evaluate()

    assert there["GPU-3"] == "ok"
    assert fleet.states()["GPU-3"] == "missing"
    assert fleet.bodies()[-1].absences[0].gpu_ids == ("GPU-3",)


def test_a_gpu_that_a_roster_lists_as_lost_is_missing_with_its_first_report_of_that(fleet: Fleet) -> None:
    """The driver counts it and cannot use it."""
    roster: list[dict[str, Any]] = [{"uuid": f"GPU-{number}"} for number in range(4)]
    fleet.store(a_fleet(gpus=4, run__roster=roster, run__roster_complete=True))
    fleet.evaluate()
    fleet.now += DAY
    lost: dict[str, Any] = {"run__roster": [*roster[:3], {**roster[3], "state": "lost"}], "run__roster_complete": True}
    own = a_report(
        "GPU-3", at=NOON + DAY - DAY / 1440, outcome="failed", reason="gpu_lost", points=[], roofs=[], **lost
    )
    fleet.store([own, *a_fleet(gpus=3, days=1, until=NOON + DAY, **lost)])
    fleet.evaluate()

    assert fleet.states()["GPU-3"] == "missing"
    assert fleet.bodies()[-1].absences[0].gpu_ids == ("GPU-3",)


def test_time_alone_makes_a_gpu_stale(fleet: Fleet) -> None:
    """Nothing arrives, and what was said does not hold for ever."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    fleet.evaluate(NOON + 5 * DAY)

    assert set(fleet.states().values()) == {"stale"}
    assert fleet.verdicts()["GPU-2"].last_state == "outlier"


def test_made_up_gpus_are_judged_by_themselves(fleet: Fleet) -> None:
    """They share no cohort, verdict or alert with real ones."""
    fleet.store([*a_fleet(gpus=4), *a_fleet({"GPU-2": 0.3}, gpus=8, node__cluster="simulated")])

    fleet.evaluator.evaluate_now(fleet.device_group(simulated=True))
    fleet.evaluator.evaluate_now(fleet.device_group())

    made_up, real = fleet.bodies()
    assert (made_up.gpus, real.gpus) == (8, 4)
    assert (made_up.counts, real.counts) == ({"outlier": 1, "ok": 7}, {"ok": 4})
    assert [alert.simulated for alert in fleet.alerts()] == [True]


def test_an_evaluator_that_is_killed_leaves_the_evaluation_before_whole(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of storing; and what was due is due again."""
    fleet.store(a_fleet())
    fleet.evaluate()
    before = fleet.verdicts(), fleet.bodies(), len(fleet.changes())
    fleet.now += DAY
    fleet.store(a_fleet({"GPU-2": 0.3}, until=NOON + DAY))

    def killed(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(save, "settle_alerts", killed)
        with pytest.raises(KeyboardInterrupt):
            fleet.evaluate()
    after_kill = fleet.verdicts(), fleet.bodies(), len(fleet.changes())
    with fleet.database.reading() as session:
        due = set(due_notes(session))
    fleet.evaluate()

    assert after_kill == before
    assert due == {fleet.device_group()}
    assert fleet.states()["GPU-2"] == "outlier"


def test_of_two_evaluations_at_once_one_is_stored(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other finds that the course has gone on, and stores nothing."""
    fleet.store(a_fleet())
    other = Fleet(fleet.database, now=NOON + 2 * HOUR)

    def overtaken(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(evaluator, "judge_device", judge_device)
        made = judge_device(*arguments, **named)
        other.evaluate()
        return made

    monkeypatch.setattr(evaluator, "judge_device", overtaken)

    with pytest.raises(SupersededError):
        fleet.evaluate()

    assert [body.as_of for body in fleet.bodies()] == [NOON + 2 * HOUR]
    assert counted(fleet, VerdictChange) == 8


def a_restless_week() -> list[dict[str, Any]]:
    """Reports of ten gpus over nine days: one slow, one broken half way, moves, disturbances, an upgrade, a claim."""
    choose = random.Random(7)  # noqa: S311 # no secret
    reports = []
    for day in range(9):
        for gpu in range(10):
            at = NOON - (8 - day) * DAY + (gpu % 3) * HOUR / 60
            common: dict[str, Any] = {
                "at": at,
                "node__name": f"node-{(gpu + (day > 5 and gpu == 7)) % 2}",
                "node__labels": {"rack": f"r{gpu % 2}"},
                "environment__driver": "590.1" if day > 4 and gpu % 2 else "580.1",
                "run__roster": [{"uuid": f"GPU-{other}"} for other in range(10 - (day > 7))],
                "run__roster_complete": True,
            }
            if choose.random() < 0.1:
                moment = {"measured_from": at.isoformat(), "measured_to": common.pop("at").isoformat()}
                reports.append(make_skipped_report("busy", gpu__uuid=f"GPU-{gpu}", **moment, **common))
                continue
            slow = 0.9 if gpu == 3 or (gpu == 5 and day > 5) else 1.0
            value = 845 * slow * choose.gauss(1, 0.003)
            reports.append(a_report(f"GPU-{gpu}", value, evidence__contended=choose.random() < 0.1, **common))
    claimed = a_report("GPU-1", at=NOON + HOUR / 2, node__name="node-9", node__labels={})
    return [*reports, claimed]


def said_of(databases: Databases, calls: Sequence[Sequence[dict[str, Any]]], *, each: bool) -> Any:
    """What an evaluation says after reports came in these calls; `each` evaluates between them, too."""
    url = databases.create(migrated=True)
    with closing(open_database(url)) as database:
        fleet = Fleet(database, now=NOON + HOUR)
        for place, call in enumerate(calls):
            fleet.store(call, received_at=NOON + HOUR)
            if each:
                fleet.evaluate(NOON + HOUR + place * HOUR / 3600)
        fleet.evaluate(NOON + 2 * HOUR)
        said = fleet.verdicts(), fleet.bodies()[-1]
    databases.drop(url)
    return said


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_in_which_reports_arrive_never_matters(databases: Databases, seed: int) -> None:
    """All at once, or sideways in small calls with an evaluation after each: the same verdicts to the last digit."""
    reports = a_restless_week()
    shuffled = random.Random(seed).sample(reports, len(reports))  # noqa: S311 # no secret
    calls = [shuffled[start : start + 13] for start in range(0, len(shuffled), 13)]

    at_once = said_of(databases, [reports], each=False)
    sideways = said_of(databases, calls, each=True)

    assert at_once == sideways
    assert {verdict.state for verdict in at_once[0].values()} >= {"outlier", "ok", "missing"}
