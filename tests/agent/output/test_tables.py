"""Measured points as tables."""

from __future__ import annotations

from fleetridge.report import Report
from fleetridge_agent.device.gemm_variants import Gemm, GemmVariant
from fleetridge_agent.output.roof_selection import Achieved, achieved, variants_in
from fleetridge_agent.output.tables import reference_table, run_table, square_table, stream_table, weight_shape_table
from fleetridge_agent.sweep.options import SweepOptions
from support.reports import make_skipped_report
from support.scripted_device import ScriptedDevice
from support.sweeps import SMALL, swept


def found(report: Report) -> Achieved:
    return achieved(report, variants_in(report)[0])


def cells(table: str) -> list[list[str]]:
    """Rows below the rule of dashes, split at gaps."""
    lines = table.splitlines()
    rule = next(position for position, line in enumerate(lines) if set(line) <= {"-", " "})
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[rule + 1 :]]


def test_squares_show_time_rate_intensity_and_what_limits_them() -> None:
    report = swept()

    assert cells(square_table(report, found(report), width=80)) == [
        ["512", "0.000357", "0.0", "751", "171", "memory", "100.0", "0.000357"],
        ["8192", "1.37", "0.0", "800", "2731", "compute", "100.0", "–"],
    ]


def test_a_product_below_its_roof_shows_by_how_much() -> None:
    square = Gemm(8192, 8192, 8192, GemmVariant("bfloat16"))
    report = swept(ScriptedDevice(samples={square: [2 * 8192**3 / 400e12 * 1e3]}))
    (row,) = [row for row in cells(square_table(report, found(report), width=80)) if row[0] == "8192"]

    assert row[-2:] == ["50.0", "–"]


def test_weight_shapes_show_their_name_and_size() -> None:
    report = swept()
    rows = cells(weight_shape_table(report, found(report), width=110))

    assert [row[:4] for row in rows[:2]] == [["fused QKV", "4096", "6144", "1"], ["fused QKV", "4096", "6144", "4096"]]
    assert {row[0] for row in rows} == {"fused QKV", "o_proj", "gate+up", "down_proj"}


def test_reference_shapes_are_shown_with_the_best() -> None:
    report = swept()

    assert [row[0] for row in cells(reference_table(report, found(report), width=80))] == [
        "burst",
        "sustained",
        "best",
    ]


def test_streams_show_their_traffic_in_countable_words() -> None:
    rows = {row[0]: row for row in cells(stream_table(swept(), width=80))}

    assert rows["read"][1:3] == ["1 read", "4.00 GiB"]
    assert rows["triad"][1:3] == ["2 reads + 1 write", "12.0 GiB"]
    assert {row[-1] for kernel, row in rows.items() if kernel not in {"h2d", "d2h"}} == {"4400"}
    assert rows["h2d"][1:3] == ["host to device", "256 MiB"]


def test_without_memory_no_roof_is_made_up() -> None:
    report = swept(options=SweepOptions(mode="gemm", square=(512,), m_sweep=(1,)))
    (row,) = cells(square_table(report, found(report), width=80))

    assert row == ["512", "0.000357", "0.0", "751", "171", "0.000357"]


def test_tables_without_rows_are_not_printed() -> None:
    report = swept(options=SweepOptions(profile="quick"))

    assert square_table(report, found(report), width=80) == ""
    assert weight_shape_table(report, found(report), width=80) == ""


def test_a_run_is_one_line_a_gpu() -> None:
    skipped = Report.model_validate(make_skipped_report("busy", gpu__uuid="GPU-2"))
    rows = cells(run_table([swept(options=SMALL), skipped]))

    assert rows == [
        ["GPU-1", "NVIDIA H200", "bfloat16", "800", "4400", "182", "measured"],
        ["GPU-2", "NVIDIA H200", "–", "–", "–", "–", "skipped: busy"],
    ]


def test_a_run_that_multiplied_nothing_still_shows_its_bandwidth() -> None:
    (row,) = cells(run_table([swept(options=SweepOptions(mode="bandwidth"))]))

    assert row == ["GPU-1", "NVIDIA H200", "–", "–", "4400", "–", "measured"]


def test_a_node_that_could_not_be_measured_is_named() -> None:
    report = Report.model_validate(make_skipped_report("no_device", outcome="failed", gpu=None))

    assert cells(run_table([report])) == [["node node-01", "–", "–", "–", "–", "–", "failed: no_device"]]
