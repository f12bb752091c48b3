from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, select

from fleetridge_server.db.tables import Gpu
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.evaluation import judged_reports as evidence
from fleetridge_server.evaluation.gpu_history import runs_by_roof
from fleetridge_server.evaluation.judged_reports import GpuOfDevice, judged_reports
from support.drifts import drift
from support.evaluations import DAY, HOUR, NOON, Fleet, a_report
from support.reports import compute_roof, make_skipped_report, memory_roof

PHASE = {
    "phase": "reference bfloat16",
    "memory_clock_mhz": 3201.0,
    "temperature_c": 66.0,
    "throttle_ms": {"sw_power_cap": 12.0},
    "pcie_width": 8,
}


def subjects(fleet: Fleet) -> list[GpuOfDevice]:
    with fleet.database.reading() as session:
        return [GpuOfDevice(*row) for row in session.execute(select(Gpu.id, Gpu.identity, Gpu.device_id))]


def read(fleet: Fleet, **arguments: object) -> dict[str, list[JudgedReport]]:
    wanted = subjects(fleet)
    with fleet.database.reading() as session:
        found = judged_reports(session, wanted, **arguments)  # type: ignore[arg-type] # as_of alone
    return {own.gpu_id: found[own.gpu_row] for own in wanted}


def test_a_report_is_told_as_it_was_sent(fleet: Fleet) -> None:
    """All that a verdict may need of it."""
    roof = compute_roof(845.0, converged=True, trend=-0.01, sm_clock_mhz=1710.0, power_w=690.0)
    sent = a_report(
        "GPU-1",
        roofs=[roof, compute_roof(850.0, kernel="gemm_best"), memory_roof(9000.0, level="l2")],
        node__labels={"rack": "r7"},
        evidence__phases=[PHASE],
        environment__ecc_enabled=True,
    )
    fleet.store([sent])

    (told,) = read(fleet)["GPU-1"]

    assert told.report_id == sent["report_id"]
    assert (told.gpu_id, told.ordered_at, told.outcome) == ("GPU-1", NOON, "measured")
    assert (told.node, told.rack) == (NodeName("east", "node-01"), "r7")
    assert told.conditions == Conditions(150754820096, 132, None, None, "normal", "standard", 1)
    assert told.factors == Factors("580.159.04", "2.11.0", None, 700.0, True, None)
    assert told.health == GpuHealth(pcie_width=8)
    assert list(told.roofs.values()) == [
        RoofReading(845.0, True, False, -0.01, 1710.0, 3201.0, 690.0, 66.0, {"sw_power_cap": 12.0})
    ]


def test_reports_come_newest_first_up_to_a_time(fleet: Fleet) -> None:
    """Failed and skipped ones too; those without a time never."""
    common: dict[str, Any] = {"run__roster": None, "gpu__uuid": "GPU-1", "measured_to": (NOON - HOUR).isoformat()}
    fleet.store(
        [
            a_report("GPU-1"),
            make_skipped_report("busy", measured_from=(NOON - HOUR).isoformat(), **common),
            a_report("GPU-1", at=NOON - DAY),
            a_report("GPU-1", run__kind="import", measured_from=None, measured_to=None),
        ]
    )

    assert [own.outcome for own in read(fleet)["GPU-1"]] == ["measured", "skipped", "measured"]
    assert [own.ordered_at for own in read(fleet, as_of=NOON - HOUR)["GPU-1"]] == [NOON - HOUR, NOON - DAY]


def test_a_roof_that_is_stated_twice_has_one_vote(fleet: Fleet) -> None:
    """The median of its values, whatever their order."""
    fleet.store([a_report("GPU-1", roofs=[compute_roof(value) for value in (850.0, 830.0, 840.0)])])

    (told,) = read(fleet)["GPU-1"]

    assert [own.value for own in told.roofs.values()] == [840.0]


def test_what_a_gpu_measured_under_another_name_is_left_out(fleet: Fleet) -> None:
    """A driver that names the device is believed; that an unnamed run failed counts all the same."""
    fleet.store(
        [
            a_report("GPU-1"),
            a_report("GPU-1", 500.0, at=NOON - DAY, gpu__device=None),
            make_skipped_report("crashed", outcome="failed", gpu__uuid="GPU-1", gpu__device=None, run__roster=None),
        ]
    )

    assert [own.outcome for own in read(fleet)["GPU-1"]] == ["measured", "failed"]


def test_reports_of_two_nodes_within_an_hour_contradict_each_other(fleet: Fleet) -> None:
    """Days later the card has moved."""
    fleet.store(
        [
            a_report("GPU-1", node__name="a"),
            a_report("GPU-1", node__name="b", at=NOON + HOUR / 2),
            a_report("GPU-1", node__name="c", at=NOON - DAY),
        ]
    )

    assert [own.conflict for own in read(fleet)["GPU-1"]] == [True, True, False]


def test_many_gpus_are_asked_for_in_few_queries(fleet: Fleet) -> None:
    """Not one by one."""
    fleet.store([a_report(f"GPU-{number}") for number in range(30)])
    statements: list[str] = []
    event.listen(fleet.database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    assert len(read(fleet)) == 30

    assert len(statements) <= 5


def test_a_long_history_is_bounded_and_keeps_its_baseline(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drift beside the first runs of the epoch, although those between are not read."""
    monkeypatch.setattr(evidence, "DEPTH_REPORTS", 12)
    monkeypatch.setattr(evidence, "_BASELINE_REPORTS", 9)
    older = [a_report("GPU-1", 990.0, at=NOON - (60 + day) * DAY, environment__driver="535.1") for day in range(3)]
    creeping = [a_report("GPU-1", 850.0 - day, at=NOON - (39 - day) * DAY) for day in range(40)]
    fleet.store([*older, *creeping])

    told = read(fleet)["GPU-1"]

    assert len(told) == 12 + 9
    assert {own.factors.driver for own in told} == {"580.159.04"}
    found = next(drift(runs, 0.01) for roof, runs in runs_by_roof(told).items() if roof.kind == "compute")
    assert found.baseline == pytest.approx(846.5)


def test_rare_runs_are_not_hidden_by_frequent_ones(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of run count apart."""
    monkeypatch.setattr(evidence, "DEPTH_REPORTS", 5)
    monkeypatch.setattr(evidence, "_BASELINE_REPORTS", 1)
    checks = [a_report("GPU-1", at=NOON - number * HOUR, run__kind="check") for number in range(20)]
    weekly = [a_report("GPU-1", at=NOON - week * 7 * DAY - HOUR / 2) for week in range(3)]
    fleet.store([*checks, *weekly])

    assert sum(own.ordered_at.minute == 30 for own in read(fleet)["GPU-1"]) == 3


def test_an_empty_question_has_an_empty_answer(fleet: Fleet) -> None:
    """And asks the database nothing."""
    with fleet.database.reading() as session:
        assert judged_reports(session, []) == {}
