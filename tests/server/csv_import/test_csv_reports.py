"""A fleet read from a CSV text, without a store."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleetridge_server.csv_import.lines import HeaderError
from support.csv_reports import csv_fleet, csv_gpu_id

HEADER = "device,node,gpu,gpu_index,measured_at,dtype,pi_tflops,beta_gbps,sm_clock_mhz,temperature_c,power_w"


def lines(*rows: str) -> str:
    """A CSV text."""
    return "\n".join([HEADER, *rows])


def test_rows_become_reports_of_their_devices() -> None:
    fleet = csv_fleet(
        lines(
            "Tesla V100-SXM2-16GB,n1,GPU-1,,2020-06-02T17:00:00Z,float32,13.5,,1350,70,296",
            "NVIDIA H200,n2,GPU-2,,2020-06-03T17:00:00Z,bfloat16,800,4400,,,",
        )
    )
    assert sorted(fleet.reports) == ["H200", "V100-SXM2-16GB"]
    (report,) = fleet.reports["H200"]
    assert sorted((roof.kind, roof.dtype, own.value) for roof, own in report.roofs.items()) == [
        ("compute", "bfloat16", 800.0),
        ("memory", "float32", 4400.0),
    ]
    (reading,) = fleet.reports["V100-SXM2-16GB"][0].roofs.values()
    assert (reading.sm_clock_mhz, reading.temperature_c, reading.power_w) == (1350.0, 70.0, 296.0)


def test_repeated_lines_count_once() -> None:
    row = "V100,n1,GPU-1,,2020-06-02T17:00:00Z,float32,13.5,,,,"
    fleet = csv_fleet(lines(row, row, row))
    assert (len(fleet.reports["V100"]), fleet.repeated) == (1, 2)


def test_rows_without_a_time_are_left_out_of_a_file_with_times() -> None:
    fleet = csv_fleet(lines("V100,n1,GPU-1,,2020-06-02T17:00:00Z,float32,13.5,,,,", "V100,n1,GPU-2,,,float32,13.5,,,,"))
    assert [report.gpu_id for report in fleet.reports["V100"]] == ["GPU-1"]
    assert fleet.untimed == 1


def test_a_file_without_times_is_taken_in_its_order() -> None:
    fleet = csv_fleet(lines(*[f"V100,n1,GPU-{gpu},,,float32,{rate},,,," for rate in (13.5, 13.6) for gpu in (1, 2)]))
    first, _, third, _ = fleet.reports["V100"]
    assert fleet.is_ordered_by_line
    assert first.gpu_id == third.gpu_id
    assert third.ordered_at - first.ordered_at >= timedelta(hours=1)


def test_lines_that_are_no_measurement_are_counted() -> None:
    fleet = csv_fleet(
        lines("V100,n1,GPU-1,,2020-06-02T17:00:00Z,float32,13.5,,,,", "V100,n1,GPU-1,,never,float32,x,,,,")
    )
    assert fleet.bad == 1


def test_a_gpu_without_a_name_is_told_by_its_place() -> None:
    fleet = csv_fleet(lines("V100,n1,,3,2020-06-02T17:00:00Z,float32,13.5,,,,"))
    assert fleet.reports["V100"][0].gpu_id == csv_gpu_id(None, "n1", 3)


def test_a_row_of_no_gpu_that_could_be_told_from_others_is_bad() -> None:
    rows = [f"V100,,{gpu},,2020-06-02T17:00:00Z,float32,13.5,,,," for gpu in ("GPU-000", "G1")]
    fleet = csv_fleet(lines(*rows))
    assert (fleet.bad, [report.gpu_id for report in fleet.reports["V100"]]) == (1, ["G1"])


def test_a_text_that_is_no_fleet_is_refused() -> None:
    with pytest.raises(HeaderError):
        csv_fleet("")
    with pytest.raises(ValueError, match="no line"):
        csv_fleet(HEADER)
