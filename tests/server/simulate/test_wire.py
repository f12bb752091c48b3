"""Reports of simulated gpus, as they travel."""

from __future__ import annotations

import statistics
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from fleetridge.report import Report
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.simulate.faults import FAULTS, order_of
from fleetridge_server.simulate.plan import PRODUCTS, Ask, Plan, plan_of
from fleetridge_server.simulate.wire import clock_ahead, gpu_uuid, node_reports

if TYPE_CHECKING:
    from collections.abc import Callable

UNTIL = datetime(2026, 11, 20, tzinfo=timezone.utc)


def planned(*faults: str, gpus: int = 8, days: int = 4, noise: float = 0.0, device: str = "H200") -> Plan:
    ask = Ask(PRODUCTS[device], gpus, days, 1, noise, UNTIL)
    return plan_of(ask, [order_of(fault) for fault in faults])


def reports_of(plan: Plan) -> list[Report]:
    return [report for node in range(plan.ask.nodes) for report in node_reports(plan, node)]


def sick_and_sound(plan: Plan) -> tuple[Report, Report]:
    """Last reports of the one faulty gpu and of the same gpu in the same fleet without its fault."""
    [position] = plan.faults
    uuid = gpu_uuid(plan.ask, position)
    return tuple(  # type: ignore[return-value] # two
        [report for report in reports_of(of) if report.gpu is not None and report.gpu.uuid == uuid][-1]
        for of in (plan, plan_of(plan.ask, []))
    )


def rates(report: Report) -> dict[tuple[str, str], float]:
    return {(roof.dtype, roof.regime): roof.value for roof in report.roofs}


@pytest.mark.parametrize("device", PRODUCTS)
def test_every_report_is_one_that_a_server_takes_and_that_loses_nothing_on_the_way(device: str) -> None:
    for report in reports_of(planned(*(f"{name}:1" for name in FAULTS), gpus=64, device=device)):
        sent = report.model_dump(mode="json", exclude_none=True)
        item = examined(sent, sent_at=None, received_at=UNTIL + timedelta(days=400))
        assert isinstance(item, Accepted), item
        assert item.sha256 == report.content_sha256()
        assert report.node.cluster == "simulated"


def test_a_report_has_all_that_a_verdict_looks_at() -> None:
    report = reports_of(planned())[0]
    assert {(roof.kind, roof.dtype, roof.regime) for roof in report.roofs} == {
        ("compute", "bfloat16", "burst"),
        ("compute", "bfloat16", "sustained"),
        ("compute", "float8_e4m3fn", "burst"),
        ("compute", "float8_e4m3fn", "sustained"),
        ("memory", "float32", "burst"),
    }
    assert [phase.phase for phase in report.evidence.phases] == [
        "reference bfloat16",
        "sustained bfloat16",
        "reference float8_e4m3fn fast accumulation",
        "sustained float8_e4m3fn fast accumulation",
        "stream read",
    ]
    assert all(roof.points for roof in report.roofs)
    assert report.run.roster is not None
    assert (len(report.run.roster), report.run.roster_complete) == (8, True)
    assert report.node.labels["rack"]


def test_the_same_plan_makes_the_same_reports() -> None:
    assert reports_of(planned("thermal", noise=0.01)) == reports_of(planned("thermal", noise=0.01))


def test_no_two_reports_share_an_id_and_other_content_has_another() -> None:
    plan, other = planned(noise=0.01, gpus=16), planned("thermal", noise=0.01, gpus=16)
    ids = {report.report_id for report in reports_of(plan)}
    assert len(ids) == 16 * 4
    changed = {report.report_id for report in reports_of(other)} - ids
    assert len(changed) == 4


def test_a_longer_history_repeats_the_shorter_one() -> None:
    short, long = planned(days=3, noise=0.01), planned(days=6, noise=0.01)
    assert {report.report_id for report in reports_of(short)} <= {report.report_id for report in reports_of(long)}


def test_nothing_is_measured_after_the_end_of_the_history() -> None:
    times = [report.measured_to for report in reports_of(planned(gpus=64))]
    assert max(time for time in times if time is not None) <= UNTIL


@pytest.mark.parametrize(
    ("fault", "shows"),
    [
        ("power_cap", lambda report: report.environment.power_limit_w),
        ("thermal", lambda report: -max(phase.temperature_c for phase in report.evidence.phases)),
        (
            "power_brake",
            lambda report: -(report.evidence.phases[1].throttle_ms or {}).get("hw_power_brake_slowdown", 0),
        ),
        ("low_clock", lambda report: report.evidence.phases[1].sm_clock_mhz),
        ("slow_memory", lambda report: report.evidence.phases[-1].memory_clock_mhz),
        ("ecc", lambda report: -int(report.environment.ecc_enabled)),
        ("remapped_rows", lambda report: -int(report.evidence.remapped_rows_pending)),
        ("falling", lambda report: report.roofs[1].trend),
        ("old_driver", lambda report: report.environment.driver),
        ("contention", lambda report: -int(report.evidence.contended)),
    ],
)
def test_a_fault_shows_in_the_reading_that_it_is_known_by(fault: str, shows: Callable[[Report], float]) -> None:
    """Each reading is turned so that the faulty gpu's is the lower one."""
    sick, sound = sick_and_sound(planned(fault))
    assert shows(sick) < shows(sound)


@pytest.mark.parametrize("fault", ["thermal", "power_cap", "silent", "drift"])
def test_a_fault_of_computing_costs_its_loss_in_every_compute_roof_and_none_in_memory(fault: str) -> None:
    sick, sound = (rates(report) for report in sick_and_sound(planned(f"{fault}:1:0.1", days=10)))
    lost = {key: 1 - sick[key] / sound[key] for key in sound}
    assert lost.pop(("float32", "burst")) == pytest.approx(0, abs=1e-3)
    assert list(lost.values()) == pytest.approx([0.1] * 4, abs=1e-3)


def test_a_fault_of_memory_costs_its_loss_in_reading_alone() -> None:
    sick, sound = (rates(report) for report in sick_and_sound(planned("slow_memory:1:0.1")))
    lost = {key: 1 - sick[key] / sound[key] for key in sound}
    assert lost.pop(("float32", "burst")) == pytest.approx(0.1, abs=1e-3)
    assert list(lost.values()) == pytest.approx([0] * 4, abs=1e-3)


def test_a_new_driver_costs_its_nodes_a_part_from_one_day_on() -> None:
    plan = planned("driver_regression:1:0.06", gpus=16, days=6)
    [node] = plan.upgraded
    reports = list(node_reports(plan, node, only=frozenset({node * 8})))
    drivers = [report.environment.driver for report in reports]
    pis = [report.roofs[0].value for report in reports]
    assert [driver == drivers[0] for driver in drivers] == [True] * 3 + [False] * 3
    assert pis[-1] / pis[0] == pytest.approx(0.94, abs=1e-3)


def test_a_missing_gpu_leaves_the_roster_of_its_node() -> None:
    plan = planned("missing", days=8)
    rosters = [len(report.run.roster or ()) for report in node_reports(plan, 0)]
    assert (rosters[0], rosters[-1]) == (8, 7)


def test_a_wrong_clock_is_that_of_the_whole_node() -> None:
    plan = planned("clock_skew", gpus=16)
    node = min(plan.faults) // 8
    wrong, right = list(node_reports(plan, node)), list(node_reports(plan, 1 - node))
    assert clock_ahead(plan, 1 - node) == timedelta(0)
    assert min(report.measured_to for report in wrong if report.measured_to) > UNTIL + timedelta(days=300)
    assert max(report.measured_to for report in right if report.measured_to) <= UNTIL


def test_noise_is_what_was_asked_for() -> None:
    plan = planned(gpus=1, days=200, noise=0.01)
    pis = [report.roofs[0].value for report in reports_of(plan)]
    assert statistics.stdev(pis) / statistics.mean(pis) == pytest.approx(0.01, rel=0.2)
