from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select

from fleetridge_server.db.tables import Report, Roof
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.verdicts.series import DeviceGroup, due_notes, note_due, settle_due, take_due
from support.evaluations import NOON, Fleet, a_report
from support.reports import make_skipped_report


def test_a_stored_report_makes_its_gpu_and_its_device_due(fleet: Fleet) -> None:
    """In the transaction that stores it."""
    fleet.store([a_report("GPU-1")])

    with fleet.database.reading() as session:
        notes = due_notes(session)
    assert fleet.due_gpus() == ["GPU-1"]
    assert [(note.since, note.latest) for note in notes.values()] == [(fleet.now, fleet.now)]


def test_a_report_that_was_stored_before_makes_nothing_due(fleet: Fleet) -> None:
    """Sending again is safe, and costs no evaluation."""
    report = a_report("GPU-1")
    fleet.store([report])
    fleet.evaluate()

    with fleet.database.reading() as session:
        before = due_notes(session)
    again = examined(report, sent_at=None, received_at=fleet.now)
    assert isinstance(again, Accepted)
    assert write_reports(fleet.database, [again]) == ["duplicate"]

    with fleet.database.reading() as session:
        assert due_notes(session) == before == {}
    assert fleet.due_gpus() == []


def test_an_old_report_that_comes_late_makes_its_gpu_due_too(fleet: Fleet) -> None:
    """It may change what the newest ones mean."""
    fleet.store([a_report("GPU-1")])
    fleet.evaluate()

    fleet.store([a_report("GPU-1", at=NOON - timedelta(days=3))])

    assert fleet.due_gpus() == ["GPU-1"]


def test_a_report_about_a_node_makes_the_devices_of_its_gpus_due(fleet: Fleet) -> None:
    """Its roster may lack one of them."""
    fleet.store([a_report("GPU-1")])
    fleet.evaluate()

    fleet.store([make_skipped_report("nvml_unknown_error", outcome="failed", gpu=None)])

    with fleet.database.reading() as session:
        assert set(due_notes(session)) == {fleet.device_group()}


def test_a_note_keeps_its_beginning_and_the_last_arrival(fleet: Fleet) -> None:
    """To the second: calls of one device must not wait for each other."""
    fleet.store([a_report("GPU-1")], received_at=NOON)
    for seconds in (0.5, 7, 7.5):
        fleet.store([a_report(f"GPU-{seconds}")], received_at=NOON + timedelta(seconds=seconds))

    with fleet.database.reading() as session:
        (note,) = due_notes(session).values()
    assert note.since == NOON
    assert note.latest == NOON + timedelta(seconds=7)


def test_a_note_that_was_taken_stays_until_it_is_settled_or_something_arrives(fleet: Fleet) -> None:
    """And is not settled by somebody else, who may have read less."""
    fleet.store([a_report("GPU-1")])
    device_group = fleet.device_group()
    with fleet.database.writing() as session:
        first, second = take_due(session, device_group), take_due(session, device_group)
        settle_due(session, device_group, first)
        after_first = set(due_notes(session))
        note_due(session, [device_group], NOON + timedelta(hours=2))
        settle_due(session, device_group, second)
    with fleet.database.reading() as session:
        (note,) = due_notes(session).values()
    with fleet.database.writing() as session:
        settle_due(session, device_group, take_due(session, device_group))

    assert after_first == {device_group}
    assert note.since == note.latest == NOON + timedelta(hours=2)
    with fleet.database.reading() as session:
        assert due_notes(session) == {}


def test_a_note_that_was_settled_is_gone_until_something_arrives(fleet: Fleet) -> None:
    """Of its own population only."""
    fleet.store([a_report("GPU-1"), a_report("GPU-1", node__cluster="simulated")])
    real = fleet.device_group()
    made_up = DeviceGroup(real.device_id, simulated=True)

    with fleet.database.writing() as session:
        settle_due(session, real, take_due(session, real))

    with fleet.database.reading() as session:
        assert set(due_notes(session)) == {made_up}
    with fleet.database.writing() as session:
        note_due(session, [real], NOON)
    with fleet.database.reading() as session:
        assert set(due_notes(session)) == {real, made_up}


def test_evidence_is_stored_beside_the_rates(fleet: Fleet) -> None:
    """Rack, health, and the readings of the phase that timed a roof."""
    readings = {
        "memory_clock_mhz": 3201.0,
        "temperature_c": 66.0,
        "throttle_ms": {"sw_power_cap": 12.0, "thermal": None},
    }
    fleet.store(
        [
            a_report(
                "GPU-1",
                4000.0,
                node__labels={"rack": "r7"},
                evidence__phases=[{"phase": "reference bfloat16", **readings}, {"phase": "stream read"}],
                evidence__remapped_rows_pending=True,
            )
        ]
    )

    with fleet.database.reading() as session:
        report = session.scalars(select(Report)).one()
        pi, beta = session.scalars(select(Roof).order_by(Roof.position)).all()
    assert report.rack == "r7"
    assert report.health == {
        "remapped_rows_pending": True,
        "implausible": ["pi bfloat16 burst 4000 TFLOP/s is above 1237 TFLOP/s, 1.25 × the published peak"],
    }
    assert (pi.memory_clock_mhz, pi.temperature_c, pi.throttle_ms) == (3201.0, 66.0, {"sw_power_cap": 12.0})
    assert (pi.implausible, beta.implausible) == (True, False)
    assert (beta.memory_clock_mhz, beta.throttle_ms) == (None, None)
