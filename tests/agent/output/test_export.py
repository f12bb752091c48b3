"""Measured points as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from fleetridge.report import Envelope, Report
from fleetridge_agent.output.export import csv_text, json_text
from fleetridge_agent.output.roof_selection import GivenPeaks
from support.reports import make_report, make_skipped_report
from support.scripted_device import ScriptedDevice
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


NOTHING_GIVEN = GivenPeaks()


def written(*reports: Report, given: GivenPeaks = NOTHING_GIVEN) -> Any:
    return json.loads(json_text(reports, given))


def test_one_report_is_the_wire_report() -> None:
    report = swept()

    assert Report.model_validate({k: v for k, v in written(report).items() if k != "derived"}) == report


def test_what_is_written_can_be_posted_as_it_is() -> None:
    assert Report.model_validate(written(swept())).outcome == "measured"
    assert len(Envelope[Report].model_validate(written(swept(), swept())).reports) == 2


def test_the_derived_numbers_stand_beside_the_report() -> None:
    (derived,) = written(swept())["derived"]

    assert derived["dtype"] == "bfloat16"
    assert derived["pi_tflops"] == pytest.approx(800)
    assert derived["beta_gbps"] == pytest.approx(4400)
    assert derived["ridge_flop_per_byte"] == pytest.approx(800e12 / 4400e9)
    assert derived["published_pi_tflops"] == 989.4
    assert derived["published_ridge_flop_per_byte"] == pytest.approx(989.4e12 / 4800e9)


def test_given_peaks_win_over_the_published_ones() -> None:
    (derived,) = written(swept(), given=GivenPeaks(pi_tflops=1000.0, beta_gbps=5000.0))["derived"]

    assert derived["published_pi_tflops"] == 1000.0
    assert derived["published_ridge_flop_per_byte"] == pytest.approx(200)


def test_what_is_unknown_is_null() -> None:
    device = ScriptedDevice()
    report = swept(device).model_copy(update={"gpu": device.description.gpu.model_copy(update={"device": "Z999"})})
    (derived,) = written(report)["derived"]

    assert derived["published_pi_tflops"] is None
    assert derived["published_ridge_flop_per_byte"] is None


def test_a_report_without_rates_has_nothing_derived() -> None:
    assert written(Report.model_validate(make_skipped_report("busy")))["derived"] == []
