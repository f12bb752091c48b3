"""Measured points as CSV."""

from __future__ import annotations

import csv
import io

import pytest

from fleetridge.report import Report
from fleetridge_agent.output.export import csv_text
from support.reports import make_report
from support.sweeps import swept


def rows(*reports: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(reports))))


def test_the_first_columns_are_those_that_scripts_already_read() -> None:
    header = csv_text([swept()]).splitlines()[0]

    assert header.startswith("kind,label,M,K,N,ms,tflops,intensity,gbps,dtype,")


def test_every_point_is_a_row() -> None:
    report = swept()

    assert len(rows(report)) == len(report.points)


def test_kinds_tell_squares_weights_streams_and_reference_shapes_apart() -> None:
    kinds = [row["kind"] for row in rows(swept())]

    assert set(kinds) == {"reference", "best", "square", "skinny", "bandwidth"}
    # The smaller square and the single rows have a cold and a warm point each.
    assert kinds.count("square") == 3
    assert kinds.count("skinny") == 4 * 3


def test_a_product_has_its_rate_and_intensity_and_no_bandwidth() -> None:
    (row,) = [row for row in rows(swept()) if row["kind"] == "square" and row["M"] == "8192"]

    assert float(row["tflops"]) == pytest.approx(800, rel=1e-6)
    assert float(row["tflops"]) == pytest.approx(2 * 8192**3 / float(row["ms"]) * 1e-9, rel=1e-5)
    assert float(row["intensity"]) == pytest.approx(8192 / 3, rel=1e-6)
    assert row["gbps"] == ""


def test_the_intensity_of_float8_counts_its_wider_output() -> None:
    point = {"kind": "gemm", "dtype": "float8_e4m3fn", "out_dtype": "bfloat16", "M": 64, "K": 64, "N": 64, "ms": 1.0}
    (row,) = rows(Report.model_validate(make_report(points=[point], pi_tflops=None, beta_gbps=None)))

    assert float(row["intensity"]) == pytest.approx(2 * 64**3 / (64 * 64 * (1 + 1 + 2)), rel=1e-6)


def test_a_stream_has_its_bandwidth_and_no_shape() -> None:
    (row,) = [row for row in rows(swept()) if row["label"] == "copy"]

    assert row["kind"] == "bandwidth"
    assert float(row["gbps"]) == pytest.approx(4400, rel=1e-6)
    assert float(row["gbps"]) == pytest.approx(float(row["bytes"]) / float(row["ms"]) * 1e-6, rel=1e-5)
    assert (row["M"], row["K"], row["N"], row["tflops"], row["intensity"]) == ("", "", "", "", "")


def test_rows_of_several_gpus_say_whose_they_are() -> None:
    reports = [Report.model_validate(make_report(gpu__uuid=f"GPU-{number}")) for number in (1, 2)]

    assert {row["gpu"] for row in rows(*reports)} == {"GPU-1", "GPU-2"}


def test_a_label_never_becomes_a_formula() -> None:
    point = {"kind": "gemm", "dtype": "float32", "label": "=HYPERLINK(1)", "M": 1, "K": 1, "N": 1, "ms": 1.0}
    (row,) = rows(
        Report.model_validate(make_report(points=[point], gpu__device="@SUM(A1)", pi_tflops=None, beta_gbps=None))
    )

    assert row["label"] == "'=HYPERLINK(1)"
    assert row["device"] == "'@SUM(A1)"
