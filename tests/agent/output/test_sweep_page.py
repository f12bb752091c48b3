"""What a sweep prints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetridge.report import Environment, Evidence, Gpu, Report
from fleetridge.terminal_text import display_width
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.output.sweep_page import View, sweep_page
from fleetridge_agent.sweep.options import SweepOptions
from support.reports import make_skipped_report
from support.scripted_device import ScriptedDevice
from support.sweeps import SMALL, swept

FULL = swept(options=SweepOptions(dtypes=("bfloat16", "float8_e4m3fn"), square=(512,), m_sweep=(1, 4096)))


def test_everything_is_there_and_in_order() -> None:
    page = sweep_page(swept(), View())
    titles = [
        "Environment (paste it with any result)",
        "Square GEMM, bfloat16, measured",
        "Weight shapes, M tokens, bfloat16, measured",
        "Reference shapes, bfloat16, measured",
        "Streaming kernels, measured",
        "Roofline, bfloat16",
        "FLOP/byte",
        "Reference workloads on the measured ridge, derived",
        "reaches the ridge at T* =",
        "Tokens at which each weight shape reaches the ridge, derived",
    ]
    places = [page.index(title) for title in titles[:6]]

    assert places == sorted(places)
    assert all(title in page for title in titles)


@pytest.mark.parametrize("width", [60, 80, 110])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    page = sweep_page(FULL, View(width=width))

    assert max(map(display_width, page.splitlines())) <= width


@given(name=st.text(max_size=60))
@settings(max_examples=30)
def test_a_name_from_a_driver_can_neither_widen_nor_command_the_page(name: str) -> None:
    gpu = Gpu.model_construct(uuid=name, device=name)
    report = swept(options=SweepOptions(profile="quick")).model_copy(update={"gpu": gpu})
    page = sweep_page(report, View())

    assert max(map(display_width, page.split("\n"))) <= 80
    assert not [char for char in page if char != "\n" and ord(char) < 32]


def test_each_way_to_multiply_has_tables_and_a_roofline_of_its_own() -> None:
    page = sweep_page(FULL, View())

    for name in ("bfloat16", "float8_e4m3fn to bfloat16", "float8_e4m3fn to bfloat16, fast accumulation"):
        assert f"Square GEMM, {name}, measured\n" in page
        assert f"Roofline, {name}\n" in page
    assert page.count("Streaming kernels") == 1


def test_half_a_roofline_says_what_is_missing() -> None:
    page = sweep_page(swept(options=SweepOptions(mode="gemm", square=(512,), m_sweep=(1,))), View())

    assert "--mode all" in page
    assert "Streaming kernels" not in page


def test_bandwidth_alone_is_held_against_the_published_one_and_says_what_is_missing() -> None:
    page = sweep_page(swept(options=SweepOptions(mode="bandwidth")), View())

    assert "Streaming kernels" in page
    assert "91.7 % of the published beta" in page
    assert "--mode all" in page
    assert "Square GEMM" not in page


def test_a_sweep_that_broke_shows_what_it_had_and_why_it_ended() -> None:
    page = sweep_page(swept(ScriptedDevice(fault_at=6)), View())

    assert "Outcome: failed (ecc_uncorrectable): CUDA error: uncorrectable ECC error" in page
    assert "Reference shapes, bfloat16" in page


def test_a_skipped_gpu_shows_why_and_no_table() -> None:
    page = sweep_page(Report.model_validate(make_skipped_report("busy", detail="somebody trains on it")), View())

    assert "Outcome: skipped (busy): somebody trains on it." in page
    assert "GEMM" not in page


def test_a_shared_gpu_is_said_to_be_shared() -> None:
    page = sweep_page(swept(ScriptedDevice(foreign=ForeignUse(processes=1))), View())

    assert "Somebody else used this gpu meanwhile" in page


def test_an_unstable_or_custom_measurement_carries_a_caution() -> None:
    custom = swept(options=SweepOptions(square=(512,), m_sweep=(1,), reps=3))
    unstable = custom.model_copy(update={"evidence": Evidence(unstable=True)})

    assert "compare these with no other report" in " ".join(sweep_page(custom, View()).split())
    assert "measure again" in sweep_page(unstable, View())


def test_a_terminal_without_unicode_gets_a_chart_without_it() -> None:
    page = sweep_page(swept(options=SMALL), View(ascii_only=True))
    chart = page[page.index("TFLOP/s\n", page.index("bandwidth efficiency")) :].split("\n\n")[0]

    assert chart.isascii()


def test_what_the_driver_does_not_tell_is_left_out() -> None:
    report = swept().model_copy(update={"environment": Environment(torch="2.11.0")})
    page = sweep_page(report, View())

    assert "power limit" not in page
    assert "None" not in page


def test_environment_names_what_a_result_depends_on() -> None:
    environment = Environment(
        torch="2.11.0",
        runtime="cuda 13.0",
        driver="580.159.04",
        vbios="96.00",
        power_limit_w=500.0,
        power_limit_default_w=700.0,
        ecc_enabled=True,
        allow_tf32=False,
        pcie_generation=5,
        pcie_width=16,
    )
    page = sweep_page(swept().model_copy(update={"environment": environment}), View())

    for fact in ("580.159.04, VBIOS 96.00", "torch 2.11.0, cuda 13.0", "500 W (default 700 W)", "generation 5, x16"):
        assert fact in page
    assert [line.split() for line in page.splitlines() if line.startswith("ECC")] == [["ECC", "on"]]


def test_what_the_sweep_has_to_say_of_single_results_is_said_before_the_tables() -> None:
    course = ((800.0, 2.5), (600.0, 60.0))
    page = sweep_page(swept(ScriptedDevice(course=course)), View())

    before = page.partition("Square GEMM")[0]
    assert "Note: sustained bfloat16: fell by 24.4 %" in " ".join(before.split())
