from __future__ import annotations

from typing import Any

import pytest

from fleetridge.report import Report
from fleetridge_server.intake.rows import above_words, health_fields, is_implausible, phase_of
from support.reports import compute_roof, make_report, memory_roof

H200 = "H200"


def parsed(**changes: Any) -> Report:
    return Report.model_validate(make_report(**changes))


def phase(name: str, **readings: Any) -> dict[str, Any]:
    return {"phase": name, **readings}


@pytest.mark.parametrize(
    ("roof", "name"),
    [
        (compute_roof(845.0), "reference bfloat16"),
        (compute_roof(700.0, regime="sustained"), "sustained bfloat16"),
        (
            compute_roof(1500.0, dtype="float8_e4m3fn", fast_accumulation=True),
            "reference float8_e4m3fn fast accumulation",
        ),
        (memory_roof(4430.0), "stream read"),
        (memory_roof(55.0, level="pcie", kernel="h2d"), "link h2d"),
    ],
)
def test_a_roof_has_the_readings_of_the_phase_that_timed_it(roof: dict[str, Any], name: str) -> None:
    """As agents name their phases."""
    names = ["search bfloat16", "reference bfloat16", "sustained bfloat16", "stream read", "stream copy", "link h2d"]
    phases = [phase(other) for other in (*names, "reference float8_e4m3fn fast accumulation")]

    report = parsed(roofs=[roof], evidence__phases=phases)

    found = phase_of(report.roofs[0], report)
    assert found is not None
    assert found.phase == name


def test_the_only_phase_is_that_of_every_roof() -> None:
    """An import has one, under a name of its own."""
    report = parsed(evidence__phases=[phase("import", temperature_c=61.0)])

    assert [own and own.temperature_c for own in (phase_of(roof, report) for roof in report.roofs)] == [61.0, 61.0]


def test_a_roof_without_a_phase_has_no_readings() -> None:
    """Those of another phase say nothing of it."""
    report = parsed(evidence__phases=[phase("search bfloat16"), phase("stream copy")])

    assert [phase_of(roof, report) for roof in report.roofs] == [None, None]


def test_health_is_what_was_read_and_nothing_else() -> None:
    """The link's best under load, beside the most that it can do."""
    report = parsed(
        evidence__phases=[phase("a", pcie_generation=1, pcie_width=16), phase("b", pcie_generation=4, pcie_width=8)],
        evidence__remapped_rows_pending=False,
        environment__pcie_generation=5,
    )

    assert health_fields(report) == {
        "remapped_rows_pending": False,
        "pcie_generation": 4,
        "pcie_width": 16,
        "pcie_generation_max": 5,
    }
    assert health_fields(parsed()) is None


def test_bits_that_nobody_counted_a_set_clock_and_a_failed_repair_are_kept() -> None:
    """A bit that has a counter is told by that."""
    counted = {"sw_power_cap": 900.0}
    report = parsed(
        evidence__phases=[
            phase("a", throttle_reasons=["applications_clocks_setting", "sw_power_cap"], throttle_ms=counted),
            phase("b", throttle_reasons=["hw_slowdown"]),
        ],
        evidence__remapped_rows_failure=True,
        environment__application_sm_clock_mhz=1200.0,
    )

    assert health_fields(report) == {
        "remapped_rows_failure": True,
        "application_sm_clock_mhz": 1200.0,
        "throttle_reasons": ["applications_clocks_setting", "hw_slowdown"],
    }


def test_a_rate_above_the_silicon_is_told_with_value_and_limit() -> None:
    """By clock and bus where they are known."""
    report = parsed(
        gpu__architecture="sm_89",
        roofs=[memory_roof(3868.0, dtype="uint8")],
        environment__memory_clock_max_mhz=10501.0,
        environment__memory_bus_bits=384,
    )
    words = "beta uint8 burst 3868 GB/s is above 1059 GB/s, what memory clock × bus width can do"

    assert above_words(report.roofs[0], "uint8", report, "GeForce RTX 4090") == words
    assert health_fields(report, "GeForce RTX 4090", [(report.roofs[0], "uint8")]) == {"implausible": [words]}


def test_a_rate_that_no_silicon_reaches_is_implausible() -> None:
    """Four times the datasheet is a clock that was read wrongly, or work that was not waited for."""
    report = parsed(pi_tflops=4000.0)
    honest = parsed(pi_tflops=845.0)

    assert is_implausible(report.roofs[0], "bfloat16", report, H200)
    assert not is_implausible(honest.roofs[0], "bfloat16", honest, H200)


def test_a_part_of_a_card_is_not_held_against_the_datasheet_of_the_whole() -> None:
    """Nothing is known of what a partition can do; a slow one must not look honest by the whole card's figure."""
    changes: dict[str, Any] = {"pi_tflops": 4000.0, "gpu__partition": "CPX/NPS4", "gpu__architecture": None}
    report = parsed(**changes)

    assert not is_implausible(report.roofs[0], "bfloat16", report, H200)
