"""Workloads and weight shapes under the measured roofs."""

from __future__ import annotations

import pytest

from fleetridge.report import Report
from fleetridge_agent.output.roofline import ModelTraits, shape_table, t_star_sentence, workload_table
from fleetridge_agent.output.roofs import Achieved, achieved, products_in
from fleetridge_agent.sweep.options import SweepOptions
from support.reports import compute_roof, make_report, memory_roof
from support.sweeps import swept

TRAITS = ModelTraits(hidden_size=4096, gqa_group=4)


def roofs_at(ridge: float, dtype: str = "bfloat16", out_dtype: str | None = None) -> Achieved:
    """Roofs whose ratio is the given ridge."""
    roofs = [compute_roof(ridge * 4.0, dtype=dtype, out_dtype=out_dtype), memory_roof(4000.0)]
    report = Report.model_validate(make_report(points=[], roofs=roofs))
    return achieved(report, products_in(report)[0])


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
    table = shape_table(report, achieved(report, products_in(report)[0]), width=80)
    ridge = 800 / 4.4
    tokens = ridge * 2 * 4096 * 3072 / (2 * 4096 * 3072 - ridge * 2 * (4096 + 3072))

    assert joined(table.splitlines()[4]) == f"fused QKV 4096 3072 {tokens:.1f}"


def test_without_a_ridge_nothing_is_placed() -> None:
    report = swept(options=SweepOptions(mode="gemm", square=(512,), m_sweep=(1,)))
    roofs = achieved(report, products_in(report)[0])

    assert workload_table(roofs, TRAITS, width=80) == ""
    assert t_star_sentence(roofs, TRAITS, width=80) == ""
    assert shape_table(report, roofs, width=80) == ""
