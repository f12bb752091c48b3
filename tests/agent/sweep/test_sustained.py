"""The sustained roof, over a scripted course of rates in TFLOP/s and seconds."""

from __future__ import annotations

import pytest

from fleetridge.report import Roof
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.results import SweepResult
from support.scripted_device import ScriptedDevice, described

_OPTIONS = SweepOptions(mode="gemm", m_sweep=())


def _sustained(result: SweepResult) -> Roof:
    (roof,) = (roof for roof in result.roofs if roof.regime == "sustained")
    return roof


def test_the_ramp_is_left_out() -> None:
    """A gpu starts at its boost clock and undershoots before its power governor settles."""
    device = ScriptedDevice(course=((830.0, 0.5), (590.0, 1.0), (700.0, 60.0)))

    roof = _sustained(run_sweep(device, _OPTIONS))

    assert roof.value == pytest.approx(700.0, rel=2e-3)
    assert roof.converged
    assert roof.trend == pytest.approx(0.0, abs=0.01)


def test_a_gpu_that_drops_after_a_while_is_given_with_what_it_dropped_to_and_marked() -> None:
    """6.6, 6.6, 6.5, 5.6, 5.5, 5.5 TFLOP/s: 5.5 is what it keeps up; the fall is in the roof and in a sentence."""
    course = tuple((rate, 1.0) for rate in (6.6, 6.6, 6.5, 5.6, 5.5, 5.5))

    result = run_sweep(ScriptedDevice(pi_tflops=6.6, course=course), _OPTIONS)

    roof = _sustained(result)
    assert roof.value == pytest.approx(5.5, rel=0.02)
    assert roof.first_block is not None
    assert roof.first_block == pytest.approx(6.55, rel=0.02)
    assert roof.last_block == pytest.approx(5.5, rel=0.01)
    assert roof.trend is not None
    assert roof.trend < -0.03
    assert [note.reason for note in result.notes] == ["falling"]
    assert "fell by 15.9 %" in result.notes[0].detail


def test_a_gpu_that_never_stops_falling_is_given_up_on_in_time() -> None:
    """After nine seconds, with what it has come to."""
    course = tuple((800.0 * 0.97**step, 0.5) for step in range(40))
    device = ScriptedDevice(course=course)

    roof = _sustained(run_sweep(device, _OPTIONS))

    assert roof.trend is not None
    assert roof.trend < -0.3
    assert roof.value == pytest.approx(800.0 * 0.97**18, rel=0.05)


def test_swings_of_the_power_governor_average_out() -> None:
    """Half a second up, half a second down, as on an H200."""
    course = ((830.0, 1.5), *(((715.0, 0.5), (690.0, 0.5)) * 10))

    roof = _sustained(run_sweep(ScriptedDevice(course=course), _OPTIONS))

    assert roof.value == pytest.approx(702.3, rel=3e-3)
    assert abs(roof.trend or 0.0) < 0.01


def test_a_device_without_regimes_has_no_sustained_roof() -> None:
    """A CPU's clock follows its load and its other users: neither regime would be true."""
    cpu = described(kind="cpu", default_dtype="float32", burst_regime="unspecified", has_replay=False, has_link=False)

    result = run_sweep(ScriptedDevice(cpu), _OPTIONS)

    assert {roof.regime for roof in result.roofs} == {"unspecified"}
