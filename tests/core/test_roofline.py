"""Formulas of the roofline model, against hand-checked figures and the laws that they must keep."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import arithmetic_intensity, roofline

# H100 SXM5, H200 SXM5 and A100 80 GB SXM4 on paper.
H100_GBPS = 3350.0
H200_GBPS = 4800.0
A100_GBPS = 2039.0

D = 4096

shares = st.floats(min_value=1e-3, max_value=0.999)
ridges = st.floats(min_value=0.1, max_value=1e5)
sizes = st.integers(min_value=1, max_value=1_000_000)
element_bytes = st.sampled_from([1, 2, 4, 8])
roofs = st.floats(min_value=1e-3, max_value=1e6)
intensities = st.floats(min_value=1e-3, max_value=1e6)


def asymptote(k: int, n: int, input_bytes: int, output_bytes: int) -> float:
    """Intensity that a GEMM nears as its rows grow: the weights no longer count."""
    return 2 * k * n / (input_bytes * k + output_bytes * n)


def test_the_ridge_is_pi_over_beta_in_flop_per_byte() -> None:
    """989.4 TFLOP/s over 3350 GB/s."""
    assert roofline.ridge_flop_per_byte(989.4, H100_GBPS) == pytest.approx(295.343, abs=1e-3)


@pytest.mark.parametrize(
    ("intensity", "tflops"), [(1.0, 3.35), (100.0, 335.0), (295.3, 989.255), (296.0, 989.4), (1e6, 989.4)]
)
def test_the_lower_roof_is_what_can_be_attained(intensity: float, tflops: float) -> None:
    """Memory below the ridge of 295.3, compute above it."""
    assert roofline.attainable_tflops(intensity, pi_tflops=989.4, beta_gbps=H100_GBPS) == pytest.approx(tflops)


@pytest.mark.parametrize(("intensity", "bound"), [(295.2, "memory"), (295.3, "compute"), (295.4, "compute")])
def test_a_kernel_is_memory_bound_below_the_ridge_only(intensity: float, bound: str) -> None:
    """At the ridge itself it reaches the compute roof."""
    assert roofline.bound_by(intensity, 295.3) == bound


@pytest.mark.parametrize(
    ("pi_tflops", "beta_gbps", "input_bytes", "output_bytes", "tokens"),
    [
        pytest.param(989.4, H100_GBPS, 2, 2, 345.1, id="H100 bfloat16"),
        pytest.param(494.7, H100_GBPS, 4, 4, 345.1, id="H100 TF32"),
        pytest.param(1978.9, H100_GBPS, 1, 1, 345.1, id="H100 fp8 written as fp8"),
        pytest.param(1978.9, H100_GBPS, 1, 2, 376.9, id="H100 fp8 written as bfloat16"),
        pytest.param(66.9, H100_GBPS, 4, 4, 40.7, id="H100 float32"),
        pytest.param(989.4, H200_GBPS, 2, 2, 229.2, id="H200 bfloat16"),
        pytest.param(312.0, A100_GBPS, 2, 2, 165.4, id="A100 bfloat16"),
    ],
)
def test_t_star_of_a_square_projection(
    pi_tflops: float, beta_gbps: float, input_bytes: int, output_bytes: int, tokens: float
) -> None:
    """At d = 4096 on paper peaks; halving the bytes and doubling pi changes nothing."""
    ridge = roofline.ridge_flop_per_byte(pi_tflops, beta_gbps)

    t_star = roofline.square_t_star_tokens(ridge, hidden_size=D, input_bytes=input_bytes, output_bytes=output_bytes)

    assert t_star == pytest.approx(tokens, abs=0.05)


@pytest.mark.parametrize(
    ("k", "n", "tokens"),
    [
        pytest.param(4096, 6144, 335.7, id="fused QKV"),
        pytest.param(4096, 4096, 345.1, id="o_proj"),
        pytest.param(4096, 28672, 321.9, id="gate+up"),
        pytest.param(14336, 4096, 325.5, id="down_proj"),
    ],
)
def test_t_star_of_the_llama_8b_shapes_on_an_h100(k: int, n: int, tokens: float) -> None:
    """A wider matrix reaches the ridge a little earlier."""
    ridge = roofline.ridge_flop_per_byte(989.4, H100_GBPS)

    t_star = roofline.t_star_tokens(ridge, k=k, n=n, input_bytes=2, output_bytes=2)

    assert t_star == pytest.approx(tokens, abs=0.05)


def test_a_narrow_projection_never_reaches_a_high_ridge() -> None:
    """With d = 512 and b·I* = 590 no number of tokens is enough."""
    ridge = roofline.ridge_flop_per_byte(989.4, H100_GBPS)

    assert roofline.square_t_star_tokens(ridge, hidden_size=512, input_bytes=2, output_bytes=2) is None


def test_the_asymptote_itself_is_never_reached() -> None:
    """With d = b·I* the intensity only nears the ridge."""
    assert roofline.square_t_star_tokens(256.0, hidden_size=512, input_bytes=2, output_bytes=2) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_roof_that_is_no_rate_is_refused_by_name(bad: float) -> None:
    """Missing readings must not pass as numbers."""
    with pytest.raises(ValueError, match="pi_tflops must be a positive, finite number"):
        roofline.ridge_flop_per_byte(bad, H100_GBPS)
    with pytest.raises(ValueError, match="beta_gbps must be a positive, finite number"):
        roofline.attainable_tflops(1.0, pi_tflops=1.0, beta_gbps=bad)


@given(share=shares, k=sizes, n=sizes, input_bytes=element_bytes, output_bytes=element_bytes)
def test_at_t_star_a_gemm_has_the_intensity_of_the_ridge(
    share: float, k: int, n: int, input_bytes: int, output_bytes: int
) -> None:
    """That is what T* means, for every ridge below the shape's asymptote."""
    ridge = share * asymptote(k, n, input_bytes, output_bytes)

    t_star = roofline.t_star_tokens(ridge, k=k, n=n, input_bytes=input_bytes, output_bytes=output_bytes)

    assert t_star is not None
    intensity = arithmetic_intensity.gemm_intensity(t_star, k, n, input_bytes=input_bytes, output_bytes=output_bytes)
    assert intensity == pytest.approx(ridge, rel=1e-9)


@given(
    excess=st.floats(min_value=1.001, max_value=100),
    k=sizes,
    n=sizes,
    input_bytes=element_bytes,
    output_bytes=element_bytes,
)
def test_a_ridge_beyond_the_asymptote_is_never_reached(
    excess: float, k: int, n: int, input_bytes: int, output_bytes: int
) -> None:
    """The intensity grows with the rows, so a very tall product stands for all."""
    ridge = excess * asymptote(k, n, input_bytes, output_bytes)

    tallest = arithmetic_intensity.gemm_intensity(1e15, k, n, input_bytes=input_bytes, output_bytes=output_bytes)

    assert tallest < ridge
    assert roofline.t_star_tokens(ridge, k=k, n=n, input_bytes=input_bytes, output_bytes=output_bytes) is None


@given(ridge=ridges, factor=st.floats(min_value=1, max_value=1000), k=sizes, n=sizes, size=element_bytes)
def test_t_star_grows_with_the_ridge(ridge: float, factor: float, k: int, n: int, size: int) -> None:
    """A gpu with more compute per byte needs more tokens, until none suffice."""
    t_star = roofline.t_star_tokens(ridge, k=k, n=n, input_bytes=size, output_bytes=size)
    later = roofline.t_star_tokens(ridge * factor, k=k, n=n, input_bytes=size, output_bytes=size)

    assert later is None or (t_star is not None and t_star <= later)


@given(share=shares, d=sizes, size=element_bytes)
def test_the_rectangular_formula_gives_the_square_one(share: float, d: int, size: int) -> None:
    """For K = N = d and equal types: b·I*·d / (2(d - b·I*))."""
    ridge = share * d / size

    square = roofline.square_t_star_tokens(ridge, hidden_size=d, input_bytes=size, output_bytes=size)

    assert square == pytest.approx(size * ridge * d / (2 * (d - size * ridge)), rel=1e-9)
    assert square == roofline.t_star_tokens(ridge, k=d, n=d, input_bytes=size, output_bytes=size)


@given(intensity=intensities, pi_tflops=roofs, beta_gbps=roofs)
def test_nothing_attainable_lies_above_a_roof(intensity: float, pi_tflops: float, beta_gbps: float) -> None:
    """Neither above compute nor above memory, and always on one of them."""
    attainable = roofline.attainable_tflops(intensity, pi_tflops=pi_tflops, beta_gbps=beta_gbps)

    slope = beta_gbps * intensity / 1000
    assert attainable <= pi_tflops
    assert attainable <= slope
    assert attainable in (pi_tflops, slope)


@given(pi_tflops=roofs, beta_gbps=roofs)
def test_the_roofs_meet_at_the_ridge(pi_tflops: float, beta_gbps: float) -> None:
    """Just below the ridge the slope is as high as the flat roof."""
    ridge = roofline.ridge_flop_per_byte(pi_tflops, beta_gbps)

    below = roofline.attainable_tflops(ridge * (1 - 1e-9), pi_tflops=pi_tflops, beta_gbps=beta_gbps)

    assert below == pytest.approx(pi_tflops, rel=1e-8)


@given(intensity=intensities, pi_tflops=roofs, beta_gbps=roofs)
def test_memory_bound_work_gains_from_faster_memory(intensity: float, pi_tflops: float, beta_gbps: float) -> None:
    """And work bound by compute does not."""
    bound = roofline.bound_by(intensity, roofline.ridge_flop_per_byte(pi_tflops, beta_gbps))

    before = roofline.attainable_tflops(intensity, pi_tflops=pi_tflops, beta_gbps=beta_gbps)
    after = roofline.attainable_tflops(intensity, pi_tflops=pi_tflops, beta_gbps=2 * beta_gbps)

    assert after > before if bound == "memory" else after == pytest.approx(before)
