"""The roofline in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge.report import Report
from fleetridge_agent.output.roof_selection import Achieved, GivenPeaks, achieved, variants_in
from fleetridge_agent.output.roofline import ModelTraits, roofline_block, shape_table, t_star_sentence, workload_table
from fleetridge_agent.sweep.options import SweepOptions
from support.reports import compute_roof, make_report, memory_roof
from support.sweeps import swept

NOTHING_GIVEN = GivenPeaks()


def block(report: Report, given: GivenPeaks = NOTHING_GIVEN) -> dict[str, str]:
    """Values by name, with lines that were broken put together again."""
    (variant, *_) = variants_in(report)
    lines = roofline_block(report, achieved(report, variant), given, width=1000).splitlines()[2:]
    return {name.strip(): value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def report(**changes: Any) -> Report:
    return Report.model_validate(make_report(**changes))


def test_achieved_numbers_and_their_ratio() -> None:
    values = block(report(pi_tflops=845.0, beta_gbps=4225.0))

    assert values["achieved pi, burst"].startswith("845 TFLOP/s, reference shape")
    assert values["achieved beta, burst"].startswith("4225 GB/s, read")
    assert values["measured ridge I*, burst"] == "200 FLOP/byte = pi / beta"


def test_both_regimes_have_a_ridge_of_their_own() -> None:
    roofs = [compute_roof(600.0, regime="sustained"), compute_roof(800.0), memory_roof(4000.0)]
    values = block(report(roofs=roofs))

    assert values["measured ridge I*, burst"].startswith("200 FLOP/byte")
    assert values["measured ridge I*, sustained"].startswith("150 FLOP/byte")


def test_published_peaks_are_those_of_this_device_and_dtype_with_their_source() -> None:
    values = block(report(pi_tflops=494.7, beta_gbps=2400.0))

    assert values["published pi"].startswith("989 TFLOP/s (")
    assert ", read 20" in values["published pi"]
    assert values["published beta"].startswith("4800 GB/s (")
    assert values["published ridge"] == "206 FLOP/byte"
    assert values["compute efficiency"] == "50.0 % of the published pi"
    assert values["bandwidth efficiency"] == "50.0 % of the published beta"


def test_float32_is_never_held_against_the_bfloat16_peak() -> None:
    roofs = [compute_roof(50.0, dtype="float32", out_dtype="float32"), memory_roof(4400.0)]
    values = block(report(points=[], roofs=roofs))

    assert values["published pi"].startswith("66.9 TFLOP/s")


@pytest.mark.parametrize(
    "device", ["NVIDIA H100 PCIe MIG 1g.10gb", "NVIDIA Z999 1TB", "NVIDIA GeForce RTX 4090 Laptop GPU", ""]
)
def test_an_unknown_device_gets_no_peak_and_no_efficiency(device: str) -> None:
    values = block(report(gpu__device=device))

    assert values["published pi"].startswith("unknown: ")
    assert "--peak-tflops" in values["published pi"]
    assert "published ridge" not in values
    assert "compute efficiency" not in values


def test_a_given_peak_wins_and_is_said_to_be_given() -> None:
    values = block(report(pi_tflops=500.0), GivenPeaks(pi_tflops=1000.0))

    assert values["published pi"] == "1000 TFLOP/s (given with --peak-tflops)"
    assert values["compute efficiency"] == "50.0 % of the published pi"
    assert values["published beta"].startswith("4800 GB/s (")


def test_the_fastest_shape_is_shown_beside_the_judged_roof() -> None:
    roofs = [compute_roof(845.0), compute_roof(870.0, kernel="gemm_best"), memory_roof(4430.0)]
    values = block(report(roofs=roofs))

    assert values["achieved pi, burst"].startswith("845 TFLOP/s")
    assert values["best shape"].startswith("870 TFLOP/s")
    assert values["measured ridge I*, burst"].startswith("191 FLOP/byte")


def test_reading_alone_counts_and_the_other_streams_stand_beside_it() -> None:
    roofs = [
        compute_roof(845.0),
        memory_roof(4279.0, kernel="copy"),
        memory_roof(4430.0),
        memory_roof(4500.0, kernel="write"),
    ]
    values = block(report(roofs=roofs))

    assert values["achieved beta, burst"] == "4430 GB/s, read (write 4500, copy 4279)"


def test_a_rate_that_falls_while_it_is_measured_is_said_to() -> None:
    values = block(report(roofs=[compute_roof(845.0, trend=-0.15), memory_roof(4430.0, converged=False)]))

    assert values["achieved pi, burst"].endswith("; falling, −15.0 % from first to last block")
    assert values["achieved beta, burst"].endswith("; not settled within its time")


def test_pi_per_ghz_stands_beside_the_clock_and_power_that_it_was_measured_under() -> None:
    roofs = [
        compute_roof(845.0, sm_clock_mhz=1980.0),
        compute_roof(704.0, regime="sustained", sm_clock_mhz=1470.0, power_w=696.0),
        memory_roof(4430.0),
    ]
    values = block(report(roofs=roofs))

    assert values["pi per GHz, burst"] == "427 TFLOP/s, at 1980 MHz"
    assert values["pi per GHz, sustained"] == "479 TFLOP/s, at 1470 MHz and 696 W"


def test_the_shape_behind_pi_is_named() -> None:
    assert "reference shape [4608,13568]×[13568,5632]" in block(swept())["achieved pi, burst"]


def test_points_stand_in_for_roofs_that_a_broken_sweep_did_not_reach() -> None:
    values = block(report(roofs=[]))

    assert values["achieved pi, burst"].startswith("846 TFLOP/s, fastest of the sweep [1536,13568]")
    assert values["achieved beta, burst"].startswith("4432 GB/s, read")


def test_without_memory_there_is_no_ridge() -> None:
    values = block(swept(options=SweepOptions(mode="gemm", profile="quick")))

    assert "achieved pi, burst" in values
    assert not [name for name in values if "ridge I*" in name]


TRAITS = ModelTraits(hidden_size=4096, gqa_group=4)


def roofs_at(ridge: float, dtype: str = "bfloat16", out_dtype: str | None = None) -> Achieved:
    """Roofs whose ratio is the given ridge."""
    roofs = [compute_roof(ridge * 4.0, dtype=dtype, out_dtype=out_dtype), memory_roof(4000.0)]
    report = Report.model_validate(make_report(points=[], roofs=roofs))
    return achieved(report, variants_in(report)[0])


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "tokens"),
    [
        # T* = I*·b_in·d / (2d − I*(b_in + b_out)) with I* = 200 and d = 4096, worked out by hand.
        ("bfloat16", None, 200 * 2 * 4096 / (8192 - 200 * 4)),
        ("float32", None, 200 * 4 * 4096 / (8192 - 200 * 8)),
        ("float8_e4m3fn", "bfloat16", 200 * 1 * 4096 / (8192 - 200 * 3)),
        ("int8", "int32", 200 * 1 * 4096 / (8192 - 200 * 5)),
    ],
)
def test_t_star_is_right_for_every_element_size(dtype: str, out_dtype: str | None, tokens: float) -> None:
    sentence = joined(t_star_sentence(roofs_at(200, dtype, out_dtype), TRAITS, width=80))

    assert f"T* = {tokens:.1f} tokens" in sentence


def test_a_width_that_never_reaches_the_ridge_is_said_to_and_why() -> None:
    sentence = joined(t_star_sentence(roofs_at(200), ModelTraits(hidden_size=256), width=80))

    assert sentence.startswith("No number of tokens")
    assert "stays below 2d / (b_in + b_out) = 128 FLOP/byte, and the ridge lies at 200" in sentence


def test_reference_workloads_say_what_limits_them_and_what_they_can_reach() -> None:
    lines = [joined(line) for line in workload_table(roofs_at(200), TRAITS, width=80).splitlines()]

    assert "decode GEMV, batch 1 1.00 memory 4.00 0.5" in lines
    assert "decode attention, GQA g=4 4.00 memory 16.0 2.0" in lines
    assert "prefill GEMM, T=2048, d=4096 1024 compute 800 100.0" in lines


def test_the_users_model_is_placed_and_not_another() -> None:
    table = workload_table(roofs_at(200), ModelTraits(hidden_size=8192, gqa_group=8), width=80)

    assert "GQA g=8" in table
    assert "d=8192" in table


def test_weight_shapes_of_the_sweeps_model_have_their_own_t_star() -> None:
    report = swept(options=SweepOptions(square=(512,), m_sweep=(1,), tensor_parallel=2))
    table = shape_table(report, achieved(report, variants_in(report)[0]), width=80)
    ridge = 800 / 4.4
    tokens = ridge * 2 * 4096 * 3072 / (2 * 4096 * 3072 - ridge * 2 * (4096 + 3072))

    assert joined(table.splitlines()[4]) == f"fused QKV 4096 3072 {tokens:.1f}"


def test_without_a_ridge_nothing_is_placed() -> None:
    report = swept(options=SweepOptions(mode="gemm", square=(512,), m_sweep=(1,)))
    roofs = achieved(report, variants_in(report)[0])

    assert workload_table(roofs, TRAITS, width=80) == ""
    assert t_star_sentence(roofs, TRAITS, width=80) == ""
    assert shape_table(report, roofs, width=80) == ""
