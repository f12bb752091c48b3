"""What gpus reach beside what they are held against, by one evaluation."""

from __future__ import annotations

from uuid import UUID

import pytest

from fleetridge_server.engine.ridge import GpuRoofs
from fleetridge_server.fleet.reports import readings_of
from fleetridge_server.responses.verdict import newest_reports, roofs_of
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report
from support.reports import compute_roof, memory_roof


def roofs_by_gpu(fleet: Fleet) -> dict[str, GpuRoofs]:
    """What each gpu reaches by the newest evaluation."""
    body, found = fleet.bodies()[-1], {}
    for gpu_id, verdict in fleet.verdicts().items():
        found[gpu_id] = of_verdict(fleet, verdict, body)
    return found


def of_verdict(fleet: Fleet, verdict: GpuVerdict, body: EvaluationBody) -> GpuRoofs:
    """What one gpu reaches."""
    with fleet.database.reading() as session:
        return roofs_of(verdict, body, readings_of(session, newest_reports(verdict)))


def test_a_gpu_is_held_against_its_own_level_and_the_fleet_stays_whole(fleet: Fleet) -> None:
    """Two drivers: each has its median, and the distribution is over both."""
    old = [a_report(f"GPU-{n}", 845.0 + n, at=NOON - day * DAY) for n in range(8) for day in range(3)]
    new = [
        a_report(f"NEW-{n}", 780.0 + n, at=NOON - day * DAY, environment__driver="590.1")
        for n in range(8)
        for day in range(3)
    ]
    fleet.store([*old, *new])
    fleet.evaluate()

    found = roofs_by_gpu(fleet)

    for gpu_id, median in (("GPU-0", 848.5), ("NEW-0", 783.5)):
        [ridge] = found[gpu_id].ridges
        assert (ridge.pi.against.n, ridge.pi.against.median, ridge.pi.cohort.n) == (8, median, 16)
        assert ridge.pi.deviation == pytest.approx(ridge.pi.own.value / median - 1)
    [shown] = [own for own in fleet.bodies()[-1].cohorts if own.roof.kind == "compute"]
    assert (shown.n, [band.n for band in shown.bands]) == (16, [8, 8])


def test_a_cohort_that_nobody_was_measured_in_lately_is_shown_and_judges_nobody(fleet: Fleet) -> None:
    """With a word why, and without a number that depends on the scale."""
    fleet.store(a_fleet({"GPU-2": 0.12}, until=NOON - 40 * DAY))
    fleet.evaluate()

    verdict = fleet.verdicts()["GPU-2"]

    [ridge] = roofs_by_gpu(fleet)["GPU-2"].ridges
    assert ridge.pi.against.note == "nobody was measured in the last 30 days; old values stand beside one another"
    assert ridge.pi.deviation == pytest.approx(-0.12, abs=1e-3)
    assert (verdict.state, verdict.roofs[0].z, verdict.roofs[0].standing) == ("stale", None, "clear")
    [figures] = fleet.bodies()[-1].figures.ridges  # type: ignore[union-attr] # it has some
    assert figures.peers == 8


def test_roofs_that_are_only_shown_are_those_of_the_newest_report(fleet: Fleet) -> None:
    """One report, where the judged value rests on three."""
    for day, best in ((2, 900.0), (1, 910.0), (0, 870.0)):
        roofs = [compute_roof(845.0), compute_roof(best, kernel="gemm_best"), memory_roof(9e3 - day, level="l2")]
        fleet.store([a_report("GPU-0", at=NOON - day * DAY, roofs=roofs)])
    fleet.evaluate()

    found = roofs_by_gpu(fleet)["GPU-0"]

    [ridge] = found.ridges
    assert (ridge.best_pi_tflops, ridge.pi.own.reports, ridge.beta) == (870.0, 3, None)
    assert [(own.value, own.reports) for own in found.others] == [(870.0, 1), (9e3, 1)]


def test_a_sweep_and_the_checks_since_are_both_read(fleet: Fleet) -> None:
    """Each value has its own newest report, and what a sweep alone measures is shown."""
    sweep = a_report("GPU-0", at=NOON - HOUR, roofs=[compute_roof(1600.0, dtype="int8"), memory_roof(9e3, level="l2")])
    check = a_report("GPU-0", at=NOON, roofs=[compute_roof(845.0)])
    fleet.store([sweep, check])
    fleet.evaluate()

    verdict = fleet.verdicts()["GPU-0"]

    assert newest_reports(verdict) == [UUID(check["report_id"]), UUID(sweep["report_id"])]
    found = roofs_by_gpu(fleet)["GPU-0"]
    assert [ridge.pi.own.newest and str(ridge.pi.own.newest.report_id) for ridge in found.ridges] == [
        check["report_id"],
        sweep["report_id"],
    ]
    assert [own.value for own in found.others] == [9e3]


def test_what_nobody_can_read_any_more_leaves_the_values(fleet: Fleet) -> None:
    """They are kept with the verdict; clock and power are not."""
    fleet.store(a_fleet())
    fleet.evaluate()
    verdict, body = fleet.verdicts()["GPU-3"], fleet.bodies()[-1]

    bare, whole = roofs_of(verdict, body, {}), of_verdict(fleet, verdict, body)

    assert [own.own.value for own in bare.judged] == [own.own.value for own in whole.judged]
    assert [own.against for own in bare.judged] == [own.against for own in whole.judged]
    assert {own.own.newest and own.own.newest.measured_to for own in bare.judged} == {None}
