"""Reference workloads placed under a pair of roofs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.dtypes import DTYPES, Dtype, dtype_named
from fleetridge.weight_shapes import DEFAULT_MODEL, served_model
from fleetridge.workloads import Workload, place, place_shapes, reference_workloads

BFLOAT16 = dtype_named("bfloat16")
FP8 = dtype_named("float8_e4m3fn")

rates = st.floats(min_value=1e-2, max_value=1e5)


def test_the_three_reference_workloads_on_h100_paper_peaks() -> None:
    """Decode is bound by memory, a long prompt by compute."""
    placements = [place(workload, pi_tflops=989.4, beta_gbps=3350) for workload in reference_workloads(BFLOAT16)]

    assert [
        (at.workload.name, pytest.approx(at.workload.intensity), at.bound, pytest.approx(at.attainable_tflops))
        for at in placements
    ] == [
        ("decode GEMV, batch 1", 1.0, "memory", 3.35),
        ("decode attention, GQA g=4", 4.0, "memory", 13.4),
        ("prefill GEMM, T=2048, d=4096", 1024.0, "compute", 989.4),
    ]


def test_the_cache_may_have_a_dtype_of_its_own() -> None:
    """An fp8 cache doubles the intensity of attention, and of nothing else."""
    plain = reference_workloads(BFLOAT16)
    small_cache = reference_workloads(BFLOAT16, kv_cache=FP8)

    assert [other.intensity / one.intensity for one, other in zip(plain, small_cache, strict=True)] == [1.0, 2.0, 1.0]


def test_fp8_prefill_counts_its_output_in_bfloat16() -> None:
    """2Td / (b_in(T + d) + b_out·T) with one byte in and two out."""
    prefill = reference_workloads(FP8, prefill_tokens=2048, hidden_size=4096)[2]

    assert prefill.intensity == pytest.approx(2 * 2048 * 4096 / (2048 + 4096 + 2 * 2048))


def test_names_say_what_was_assumed() -> None:
    """Group, prompt and width are part of a workload's name."""
    names = [
        workload.name for workload in reference_workloads(BFLOAT16, gqa_group=8, prefill_tokens=512, hidden_size=64)
    ]

    assert names == ["decode GEMV, batch 1", "decode attention, GQA g=8", "prefill GEMM, T=512, d=64"]


def test_weight_shapes_are_placed_by_their_t_star() -> None:
    """The projections of Llama-3.1-8B on H100 paper peaks."""
    ridge = 989.4e12 / 3350e9

    placed = place_shapes(served_model(DEFAULT_MODEL).shapes, BFLOAT16, ridge=ridge)

    assert [(at.shape.label, pytest.approx(at.t_star_tokens, abs=0.05)) for at in placed] == [
        ("fused QKV", 335.7),
        ("o_proj", 345.1),
        ("gate+up", 321.9),
        ("down_proj", 325.5),
    ]


def test_a_slice_of_a_weight_may_never_become_compute_bound() -> None:
    """o_proj over eight gpus has K = 512, too little work per byte for an H100's ridge."""
    slices = served_model(DEFAULT_MODEL).divided_by(8)

    placed = {at.shape.label: at.t_star_tokens for at in place_shapes(slices, BFLOAT16, ridge=600.0)}

    assert placed["o_proj"] is None


@given(dtype=st.sampled_from(list(DTYPES.values())), pi_tflops=rates, beta_gbps=rates)
def test_a_placement_never_promises_more_than_the_compute_roof(
    dtype: Dtype, pi_tflops: float, beta_gbps: float
) -> None:
    """And reaches it where compute is the limit."""
    for workload in reference_workloads(dtype):
        at = place(workload, pi_tflops=pi_tflops, beta_gbps=beta_gbps)

        assert at.attainable_tflops <= pi_tflops
        assert at.bound == "memory" or at.attainable_tflops == pytest.approx(pi_tflops)


def test_a_workload_cannot_be_placed_under_a_missing_roof() -> None:
    """0 is no reading."""
    with pytest.raises(ValueError, match="beta_gbps"):
        place(Workload("copy", 1.0), pi_tflops=1.0, beta_gbps=0.0)
