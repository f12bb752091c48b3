"""Reports as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetridge.report import Envelope, Report
from fleetridge_agent.output.export import json_text
from fleetridge_agent.output.roofs import GivenPeaks
from support.reports import make_skipped_report
from support.scripted_device import ScriptedDevice
from support.sweeps import swept

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
