"""Published peaks: exact names, honest gaps, and agreement with the formulas."""

from __future__ import annotations

import json
from datetime import date
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetridge.dtypes import DTYPES, dtype_named
from fleetridge.peaks import PeaksTable, lacks_dtype, published_beta, published_pi, why_left_out
from fleetridge.roofline import ridge_flop_per_byte, square_t_star_tokens, t_star_tokens
from fleetridge.weight_shapes import DEFAULT_MODEL, served_model

if TYPE_CHECKING:
    from collections.abc import Callable

H100_SXM = "NVIDIA H100 80GB HBM3"


def pi(device_name: str, dtype: str = "bfloat16") -> float | None:
    """Value of the published compute peak, or None."""
    peak = published_pi(device_name, dtype)
    return None if peak is None else peak.value


def beta(device_name: str) -> float | None:
    """Value of the published memory bandwidth, or None."""
    peak = published_beta(device_name)
    return None if peak is None else peak.value


def table() -> dict[str, Any]:
    """The table as it is shipped, to be spoiled by a test."""
    text = resources.files("fleetridge").joinpath("peaks.json").read_text(encoding="utf-8")
    shipped: dict[str, Any] = json.loads(text)
    return shipped


LISTED = tuple(name for device in table()["devices"] for name in device["names"])


def published_ridge(name: str, dtype: str) -> float:
    """Ridge point of the published peaks in FLOP/byte, of a device that has both."""
    tflops, gbps = pi(name, dtype), beta(name)
    assert tflops is not None
    assert gbps is not None
    return ridge_flop_per_byte(tflops, gbps)


def test_a_peak_says_where_and_when_it_was_read() -> None:
    """A figure that nobody can check is worse than none."""
    peak = published_pi("NVIDIA H200", "bfloat16")

    assert peak is not None
    assert (989.4, "glennklockwood.com, processors H100 and B300", date(2026, 11, 29), "cited") == (
        peak.value,
        peak.source,
        peak.read_on,
        peak.certainty,
    )
    assert "H100" in peak.note


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H200", "H200", "NVIDIA GeForce RTX 4090", "GeForce RTX 4090", "RTX 4090", "Tesla T4", "NVIDIA T4", "T4"],
)
def test_a_device_is_found_by_its_raw_and_by_its_canonical_name(name: str) -> None:
    """Drivers began to prefix names over the years."""
    assert pi(name, "float16") is not None
    assert beta(name) is not None


@pytest.mark.parametrize(
    ("name", "bfloat16", "gbps"),
    [
        ("NVIDIA A10", 125, 600),
        ("NVIDIA A10G", None, None),
        ("NVIDIA A10M", None, None),
        ("NVIDIA RTX A1000", None, None),
        ("NVIDIA A100-PCIE-40GB", 312, 1555),
        ("NVIDIA A100-SXM4-40GB", 312, 1555),
        ("NVIDIA A100 80GB PCIe", 312, 1935),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100-SXM-64GB", None, None),
        ("NVIDIA A100", None, None),
        ("NVIDIA A40", 149.7, 696),
        ("NVIDIA RTX A400", None, None),
        ("NVIDIA RTX A4000", None, None),
        ("NVIDIA L4", 121, 300),
        ("NVIDIA L40", 181.05, 864),
        ("NVIDIA L40S", 362, 864),
        ("NVIDIA L2", None, None),
        ("NVIDIA L20", 119.5, 864),
        ("NVIDIA H20", 148, 4000),
        ("NVIDIA H20-3e", 148, 4800),
        ("NVIDIA H20 NVL16", None, None),
        ("NVIDIA H200", 989.4, 4800),
        ("NVIDIA H200 NVL", 835, 4800),
        ("NVIDIA GH200 480GB", 989, 4000),
        ("NVIDIA GH200 120GB", 989, 4000),
        ("NVIDIA GH200 144G HBM3e", 989, 4800),
        ("NVIDIA H100 80GB HBM3", 989.4, 3350),
        ("NVIDIA H100 PCIe", 756, 2000),
        ("NVIDIA H100 NVL", 835, 3900),
        ("NVIDIA H100", None, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, None),
        ("NVIDIA H100 NVL MIG 1g.12gb", None, None),
        ("NVIDIA B200", 2250, 7700),
        ("NVIDIA GB200", 2500, 8000),
        ("NVIDIA B300 SXM6 AC", 2250, 8000),
        ("NVIDIA B300", None, None),
        ("NVIDIA GB300", 2500, 8000),
        ("NVIDIA GeForce RTX 4090", 165.2, 1008),
        ("NVIDIA GeForce RTX 4090 D", None, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None),
        ("NVIDIA GeForce RTX 5090", 209.5, 1792),
        ("NVIDIA GeForce RTX 5090 D", None, None),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None, None),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8, 1792),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None, None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, None),
        ("AMD Instinct MI300X", 1307.4, 5300),
        ("AMD Instinct MI300X OAM", None, None),
        ("AMD Radeon Graphics", None, None),
        ("NVIDIA Z999 1TB", None, None),
        ("nvidia h200", None, None),
        ("NVIDIA H-200", None, None),
        ("", None, None),
    ],
)
def test_names_that_contain_one_another_are_different_products(
    name: str, bfloat16: float | None, gbps: float | None
) -> None:
    """A device has its own figures or none; case and every character count."""
    assert (bfloat16, gbps) == (pi(name), beta(name))


@pytest.mark.parametrize(
    ("name", "float16", "gbps"),
    [
        ("Tesla V100-SXM2-16GB", 125, 900),
        ("Tesla V100-SXM2-32GB", 125, 900),
        ("Tesla V100-PCIE-16GB", 112, 900),
        ("Tesla V100S-PCIE-32GB", 130, 1134),
        ("Tesla V100-SXM3-32GB", None, None),
        ("Tesla T4", 65, 320),
        ("NVIDIA T400", None, None),
        ("NVIDIA T400 4GB", None, None),
    ],
)
def test_volta_and_turing_are_told_apart_by_their_float16(name: str, float16: float | None, gbps: float | None) -> None:
    """A V100S is 4 % faster than a V100, a T400 is no T4."""
    assert (float16, gbps) == (pi(name, "float16"), beta(name))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mig_slice_never_gets_the_figures_of_its_device(dtype: str) -> None:
    """A slice has a share of the SMs and of the memory."""
    for name in LISTED:
        assert pi(f"{name} MIG 1g.12gb", dtype) is None
        assert beta(f"{name} MIG 1g.12gb") is None


@given(name=st.sampled_from(LISTED), suffix=st.text(min_size=1).map(str.strip).filter(bool))
def test_a_name_with_anything_behind_it_is_another_device(name: str, suffix: str) -> None:
    """Nothing is matched by its beginning."""
    assert f"{name}{suffix}" in LISTED or beta(f"{name}{suffix}") is None


@pytest.mark.parametrize(
    ("dtype", "tflops"),
    [
        ("float64", 66.9),
        ("float32", 66.9),
        ("tf32", 494.7),
        ("float16", 989.4),
        ("bfloat16", 989.4),
        ("float8_e4m3fn", 1978.9),
        ("int8", 1978.9),
        ("float32_or_tf32", None),
        ("float4", None),
    ],
)
def test_an_h100_has_a_peak_for_each_dtype_of_its_own(dtype: str, tflops: float | None) -> None:
    """An unknown TF32 switch has none: 66.9 and 494.7 are both possible."""
    assert pi(H100_SXM, dtype) == tflops


def test_float32_never_gets_the_peak_of_a_smaller_type() -> None:
    """It is slower than bfloat16 on every chip, which a table that mixes columns up would break."""
    for name in LISTED:
        float32, bfloat16 = pi(name, "float32"), pi(name, "bfloat16")
        assert float32 is None or bfloat16 is None or float32 < bfloat16


def test_no_figure_is_sparse_beside_a_dense_one() -> None:
    """Fp8 is twice bfloat16 on every chip that has both; a sparse figure among dense ones would be four times."""
    for name in LISTED:
        bfloat16, fp8 = pi(name, "bfloat16"), pi(name, "float8_e4m3fn")
        assert bfloat16 is None or fp8 is None or fp8 == pytest.approx(2 * bfloat16, rel=0.03)


def test_an_mi250x_is_one_of_its_two_dies() -> None:
    """Torch shows each die as a device, so the module's 383 TFLOP/s and 3277 GB/s are halved."""
    assert (pi("AMD Instinct MI250X"), beta("AMD Instinct MI250X")) == (191.5, 1638.0)


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("Tesla V100-SXM2-16GB", {"bfloat16", "tf32", "float8_e4m3fn"}),
        ("Tesla V100-PCIE-16GB", {"bfloat16", "tf32", "float8_e4m3fn"}),
        ("Tesla T4", {"bfloat16", "tf32", "float8_e4m3fn"}),
        ("NVIDIA A100-SXM4-80GB", {"float8_e4m3fn"}),
        ("AMD Instinct MI210", {"tf32", "float8_e4m3fn"}),
        ("AMD Instinct MI250X", {"tf32", "float8_e4m3fn"}),
        ("NVIDIA H200", set()),
        ("NVIDIA Z999 1TB", set()),
    ],
)
def test_a_chip_says_which_dtypes_it_lacks(name: str, lacking: set[str]) -> None:
    """So that a sweep reports TF32 on a V100 as unsupported; of an unknown chip nothing is claimed."""
    assert {dtype for dtype in DTYPES if lacks_dtype(name, dtype)} == lacking


def test_sources_that_disagree_are_named_as_such() -> None:
    """A disputed figure carries the other one in its note."""
    peak = published_beta("NVIDIA B200")

    assert peak is not None
    assert (peak.certainty, "8000" in peak.note) == ("disputed", True)


def test_a_figure_that_sources_dispute_by_far_is_left_out() -> None:
    """Int8 on a B300 is 4500 or about 150 TOP/s, depending on whom one reads."""
    assert pi("NVIDIA B300 SXM6 AC", "int8") is None


@pytest.mark.parametrize("name", ["NVIDIA H100", "NVIDIA A10G", "AMD Instinct MI300X OAM", "AMD Radeon Graphics"])
def test_a_known_name_without_figures_says_why(name: str) -> None:
    """Silence would look like an oversight."""
    assert why_left_out(name)


@pytest.mark.parametrize("name", ["NVIDIA H200", "NVIDIA Z999 1TB"])
def test_neither_a_listed_nor_an_unheard_of_device_is_left_out(name: str) -> None:
    """The reason belongs to those that were weighed and found doubtful."""
    assert why_left_out(name) is None


def test_a_figure_from_memory_claims_no_day_on_which_it_was_read() -> None:
    """The H200 NVL's sheet is not at hand."""
    peak = published_pi("NVIDIA H200 NVL", "bfloat16")

    assert peak is not None
    assert (peak.certainty, peak.read_on) == ("recalled", None)


def test_every_figure_that_is_not_plainly_cited_explains_itself() -> None:
    """Derived and disputed figures have a note; recalled ones say so by their source."""
    for device in table()["devices"]:
        for group in device["figures"]:
            assert group["certainty"] in ("cited", "recalled") or group.get("note"), device["part"]
            assert (group["certainty"] == "recalled") == (group["source"] == "datasheet"), device["part"]


@pytest.mark.parametrize(
    ("name", "dtype", "tokens"),
    [
        (H100_SXM, "bfloat16", 345.1),
        (H100_SXM, "tf32", 345.1),
        (H100_SXM, "float8_e4m3fn", 376.9),
        (H100_SXM, "float32", 40.7),
        ("NVIDIA H200", "bfloat16", 229.2),
        ("NVIDIA A100-SXM4-80GB", "bfloat16", 165.4),
    ],
)
def test_table_and_formula_agree_on_t_star(name: str, dtype: str, tokens: float) -> None:
    """T* of a projection of width 4096, from the table's ridge and the dtype's bytes."""
    element, ridge = dtype_named(dtype), published_ridge(name, dtype)
    t_star = square_t_star_tokens(
        ridge, hidden_size=4096, input_bytes=element.input_bytes, output_bytes=element.output_bytes
    )
    assert t_star == pytest.approx(tokens, abs=0.05)


def test_table_and_formula_agree_on_the_llama_8b_shapes() -> None:
    """QKV, o_proj, gate+up and down_proj on an H100."""
    ridge = published_ridge(H100_SXM, "bfloat16")

    assert [
        pytest.approx(t_star_tokens(ridge, k=shape.k, n=shape.n, input_bytes=2, output_bytes=2), abs=0.05)
        for shape in served_model(DEFAULT_MODEL).shapes
    ] == [335.7, 345.1, 321.9, 325.5]


def device_named_twice(shipped: dict[str, Any]) -> None:
    """Two entries for one name."""
    shipped["devices"][1]["names"] = shipped["devices"][0]["names"]


def device_with_a_raw_name(shipped: dict[str, Any]) -> None:
    """A name that no lookup would ever reach."""
    shipped["devices"][0]["names"] = ["NVIDIA H500"]


def unlisted_source(shipped: dict[str, Any]) -> None:
    """A figure from nowhere."""
    shipped["devices"][0]["figures"][0]["source"] = "hearsay"


def misspelt_dtype(shipped: dict[str, Any]) -> None:
    """A figure that nobody would find."""
    shipped["devices"][0]["figures"][0]["pi_tflops"] = {"bf16": 1.0}


def unknown_switch(shipped: dict[str, Any]) -> None:
    """A peak for a switch that is unknown."""
    shipped["devices"][0]["lacks"] = ["float32_or_tf32"]


def lacking_what_it_has(shipped: dict[str, Any]) -> None:
    """A peak for a dtype that the chip lacks."""
    shipped["devices"][0]["lacks"] = ["float16"]


def two_bandwidths(shipped: dict[str, Any]) -> None:
    """Two figures where one can be meant."""
    shipped["devices"][0]["figures"] *= 2
    shipped["devices"][0]["figures"][1] = {"source": "gpu-specs", "certainty": "cited", "beta_gbps": 1.0}


def no_figure_at_all(shipped: dict[str, Any]) -> None:
    """Zero in place of unknown."""
    shipped["devices"][0]["figures"][0]["beta_gbps"] = 0


def misspelt_field(shipped: dict[str, Any]) -> None:
    """A field that would be ignored."""
    shipped["devices"][0]["figures"][0]["beta_gb"] = 900


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (device_named_twice, "device names listed twice: V100-SXM2-16GB, V100-SXM2-32GB"),
        (device_with_a_raw_name, "'NVIDIA H500' is not canonical; store 'H500'"),
        (unlisted_source, "source 'hearsay' is not listed"),
        (misspelt_dtype, "'bf16' is no dtype that a peak is published for"),
        (unknown_switch, "'float32_or_tf32' is no dtype that a peak is published for"),
        (lacking_what_it_has, "dtypes of V100 SXM2 listed twice: float16"),
        (two_bandwidths, "more than one memory bandwidth"),
        (no_figure_at_all, "greater than 0"),
        (misspelt_field, "Extra inputs are not permitted"),
    ],
)
def test_a_spoilt_table_is_refused(spoil: Callable[[dict[str, Any]], None], complaint: str) -> None:
    """The table is checked whole when it is loaded, and the message names the entry."""
    shipped = table()
    spoil(shipped)

    with pytest.raises(ValidationError, match=complaint):
        PeaksTable.model_validate_json(json.dumps(shipped))
