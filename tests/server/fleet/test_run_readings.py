"""What reports say of their roofs beside the values."""

from __future__ import annotations

from uuid import UUID, uuid4

from fleetridge.report import RoofKey
from fleetridge_server.fleet.reports import readings_of
from support.evaluations import NOON, Fleet, a_report
from support.reports import compute_roof, memory_roof

PI = RoofKey("compute", "bfloat16", "bfloat16", None, "burst", "device", "gemm_reference")


def test_each_roof_of_a_report_is_read_with_clock_and_power(fleet: Fleet) -> None:
    """Also those that nobody judges; of a report that there is not nothing is known."""
    roofs = [compute_roof(845.0, sm_clock_mhz=1935.0, power_w=690.5, converged=False), memory_roof(9e3, level="l2")]
    one, other = a_report("GPU-0", roofs=roofs), a_report("GPU-1")
    fleet.store([one, other])

    with fleet.database.reading() as session:
        found = readings_of(session, {UUID(one["report_id"]), uuid4()})

    [(report_id, own)] = found.items()
    assert str(report_id) == one["report_id"]
    assert {(roof.kind, roof.level): reading.value for roof, reading in own.readings.items()} == {
        ("compute", "device"): 845.0,
        ("memory", "l2"): 9e3,
    }
    [pi] = [reading for roof, reading in own.readings.items() if roof.kind == "compute"]
    assert (pi.sm_clock_mhz, pi.power_w, pi.converged, pi.clock_ahead) == (1935.0, 690.5, False, False)
    assert (pi.ordered_at, pi.measured_to, pi.report_id) == (NOON, NOON, report_id)
    assert own.cohort(PI).conditions == own.conditions
    assert own.conditions.method == "standard"


def test_of_a_roof_that_a_report_states_twice_the_first_is_read(fleet: Fleet) -> None:
    """One report, one reading."""
    report = a_report("GPU-0", roofs=[compute_roof(845.0), compute_roof(400.0)])
    fleet.store([report])

    with fleet.database.reading() as session:
        [own] = readings_of(session, [UUID(report["report_id"])]).values()

    assert [reading.value for reading in own.readings.values()] == [845.0]


def test_many_reports_are_read_at_once(fleet: Fleet) -> None:
    """More than one statement takes; of none nothing is asked."""
    reports = [a_report(f"GPU-{gpu}", 800.0 + gpu) for gpu in range(1100)]
    fleet.store(reports)

    with fleet.database.reading() as session:
        found = readings_of(session, [UUID(own["report_id"]) for own in reports])
        nothing = readings_of(session, [])

    assert len(found) == 1100
    assert nothing == {}
