"""Gpus that are ill, fast or not: what is told of them, and that it makes none of them slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import GpuHealth, JudgedReport
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.health import HEALTH_CODES, HEALTH_STEPS
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.verdicts.alert_causes import alert_causes
from support.judged import AS_OF, DAY, H2D, at_node, reading, series

SOUND = GpuHealth(
    remapped_rows_pending=False, remapped_rows_uncorrectable=0, ecc_uncorrected=0, pcie_generation=5, pcie_width=16,
    pcie_generation_max=5, pcie_width_max=16, remapped_rows_failure=False, application_sm_clock_mhz=1980.0,
)  # fmt: skip


def gpus(count: int, health: GpuHealth = SOUND) -> list[JudgedReport]:
    """Healthy gpus, two on a node, that were measured on three days."""
    return [
        replace(own, health=health)
        for place in range(count)
        for own in at_node(series(f"gpu-{place}", [100.0] * 3), f"n{place // 2}")
    ]


def odd(health: GpuHealth, value: float = 100.0) -> list[JudgedReport]:
    """One more gpu."""
    return [replace(own, health=health) for own in at_node(series("odd", [value] * 3), "n9")]


def judged(reports: Sequence[JudgedReport], *marks: Mark) -> Evaluation:
    """Evaluation of the reports."""
    return evaluate(Fleet(reports, marks=marks), AS_OF)


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"remapped_rows_failure": True}, "repair_failed", "a memory repair failed"),
        ({"remapped_rows_pending": True}, "repair_pending", "a memory repair waits for a reset"),
        (
            {"remapped_rows_uncorrectable": 3},
            "rows_remapped",
            "3 memory rows remapped after errors that ECC could not correct",
        ),
        (
            {"ecc_uncorrected": 12},
            "ecc_uncorrected",
            "12 memory errors since the driver was loaded that ECC could not correct",
        ),
        ({"pcie_width": 8}, "narrow_link", "link under load: PCIe lanes 8 (peers 16)"),
        ({"pcie_generation": 1}, "narrow_link", "link under load: PCIe generation 1 (peers 5)"),
        (
            {"application_sm_clock_mhz": 1200.0},
            "application_clocks",
            "application clock set to 1200 MHz, peers 1980 MHz",
        ),
        (
            {"throttle_reasons": ["hw_thermal_slowdown", "sw_power_cap"]},
            "clocks_held",
            "its driver says that HW thermal slowdown held it back",
        ),
    ],
)
def test_a_gpu_that_is_fast_and_ill_is_told_and_not_called_slow(
    changes: dict[str, object], code: str, text: str
) -> None:
    found = judged([*gpus(8), *odd(replace(SOUND, **changes))])  # type: ignore[arg-type] # by name
    assert found.states["odd"].state == "ok"
    assert set(found.health) == {"odd"}
    assert [(own.code, own.text) for own in found.health["odd"]] == [(code, text)]


def test_a_repair_wakes_somebody_and_nothing_else_does() -> None:
    def kinds(health: GpuHealth) -> list[tuple[str, str]]:
        found = judged([*gpus(8), *odd(health)])
        return [(own.kind, own.state) for own in alert_causes(found, explanations(found))]

    assert kinds(replace(SOUND, remapped_rows_pending=True)) == [("health", "repair_pending")]
    assert kinds(replace(SOUND, remapped_rows_failure=True)) == [("health", "repair_failed")]
    assert kinds(replace(SOUND, ecc_uncorrected=12, remapped_rows_uncorrectable=3, pcie_width=8)) == []


def test_what_most_gpus_share_is_how_they_are_run() -> None:
    shared = replace(SOUND, pcie_width=8, application_sm_clock_mhz=1400.0, throttle_reasons=["hw_slowdown"])
    assert judged(gpus(8, shared)).health == {}


def test_of_few_gpus_lanes_are_held_against_what_the_slot_can_do() -> None:
    (fault,) = judged(odd(replace(SOUND, pcie_width=8, pcie_generation=1))).health["odd"]
    assert fault.text == "link under load: PCIe lanes 8 (of 16)"


def test_what_was_repaired_since_is_not_told() -> None:
    before = odd(replace(SOUND, remapped_rows_pending=True))[:2]
    assert judged([*gpus(8), *before, *odd(SOUND)[2:]]).health == {}


def test_a_report_without_readings_leaves_what_is_known() -> None:
    before = odd(replace(SOUND, remapped_rows_pending=True))[:2]
    assert set(judged([*gpus(8), *before, *odd(GpuHealth())[2:]]).health) == {"odd"}


def test_a_retired_gpu_needs_no_action() -> None:
    ill = odd(replace(SOUND, remapped_rows_pending=True))
    assert judged([*gpus(8), *ill], Mark("retired", "sent back", AS_OF - DAY, gpu_id="odd")).health == {}


def test_a_slow_link_needs_action_once_and_makes_no_gpu_slow() -> None:
    def linked(reports: Sequence[JudgedReport], gbps: float) -> list[JudgedReport]:
        return [replace(own, roofs={**own.roofs, H2D: reading(gbps)}) for own in reports]

    found = judged([*linked(gpus(8), 55.0), *linked(odd(replace(SOUND, pcie_width=1)), 3.0)])
    assert found.states["odd"].state == "ok"
    assert [(own.code, own.text) for own in found.health["odd"]] == [
        ("slow_link", "pcie h2d uint8 burst 94.5 % below the median of 9 gpus")
    ]


def test_what_needs_action_is_counted_by_node_and_kind() -> None:
    ill = replace(SOUND, remapped_rows_pending=True, ecc_uncorrected=1)
    body = evaluation_body(judged([*gpus(8), *odd(ill)]))
    assert [(own.cluster, own.node, own.code, own.gpu_ids) for own in body.health] == [
        ("east", "n9", "repair_pending", ("odd",)),
        ("east", "n9", "ecc_uncorrected", ("odd",)),
    ]


def test_every_kind_has_a_step() -> None:
    assert set(HEALTH_STEPS) == set(HEALTH_CODES)
