"""The catalogue of weight shapes and its split over gpus."""

from __future__ import annotations

import pytest

from fleetridge.weight_shapes import DEFAULT_MODEL, SERVED_MODELS, ServedModel, served_model

# Every dense model of the catalogue has heads of this size.
HEAD_SIZE = 128

DEEPSEEK = "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct"

every_model = pytest.mark.parametrize("model", SERVED_MODELS.values(), ids=SERVED_MODELS)


def shapes_of(model: str, tp: int = 1) -> list[tuple[str, int, int]]:
    """Label, K and N of each matrix on one of `tp` gpus."""
    return [(shape.label, shape.k, shape.n) for shape in served_model(model).divided_by(tp)]


def test_the_default_is_llama_31_8b() -> None:
    """The four projections that a sweep multiplies."""
    assert shapes_of(DEFAULT_MODEL) == [
        ("fused QKV", 4096, 6144),
        ("o_proj", 4096, 4096),
        ("gate+up", 4096, 28672),
        ("down_proj", 14336, 4096),
    ]


def test_columns_split_the_output_and_rows_the_sum() -> None:
    """QKV and gate+up divide N, o_proj and down_proj divide K."""
    assert shapes_of(DEFAULT_MODEL, tp=4) == [
        ("fused QKV", 4096, 1536),
        ("o_proj", 1024, 4096),
        ("gate+up", 4096, 7168),
        ("down_proj", 3584, 4096),
    ]


@pytest.mark.parametrize(
    ("key", "matrices"),
    [
        ("meta-llama/Llama-2-7b-hf", [(4096, 12288), (4096, 4096), (4096, 22016), (11008, 4096)]),
        ("meta-llama/Llama-2-13b-hf", [(5120, 15360), (5120, 5120), (5120, 27648), (13824, 5120)]),
        ("meta-llama/Llama-3.3-70B-Instruct", [(8192, 10240), (8192, 8192), (8192, 57344), (28672, 8192)]),
        ("meta-llama/Llama-3.1-405b-hf", [(16384, 18432), (16384, 16384), (16384, 106496), (53248, 16384)]),
        ("mistralai/Mistral-Large-Instruct-2407", [(12288, 14336), (12288, 12288), (12288, 57344), (28672, 12288)]),
        ("Qwen/Qwen2.5-7B-Instruct", [(3584, 4608), (3584, 3584), (3584, 37888), (18944, 3584)]),
        ("Qwen/Qwen2.5-32B-Instruct", [(5120, 7168), (5120, 5120), (5120, 55296), (27648, 5120)]),
        ("Qwen/Qwen2.5-72B-Instruct", [(8192, 10240), (8192, 8192), (8192, 59136), (29568, 8192)]),
        ("CohereLabs/c4ai-command-a-03-2025", [(12288, 14336), (12288, 12288), (12288, 73728), (36864, 12288)]),
    ],
)
def test_a_models_matrices_are_those_of_the_engine(key: str, matrices: list[tuple[int, int]]) -> None:
    """K and N as the source lists them."""
    assert matrices == [(k, n) for _, k, n in shapes_of(key)]


@every_model
def test_queries_keys_and_values_fill_the_fused_matrix(model: ServedModel) -> None:
    """N = hidden + 2 × KV heads × head size, which checks the head counts against the shapes."""
    fused = [shape for shape in model.shapes if shape.label == "fused QKV"]

    assert [shape.k + 2 * model.head_groups * HEAD_SIZE for shape in fused] == [shape.n for shape in fused]


def test_two_doubtful_rows_of_deepseek_are_left_out() -> None:
    """One has a wrong K, the other is copied to every gpu."""
    matrices = [(k, n) for _, k, n in shapes_of(DEEPSEEK)]

    assert len(matrices) == 6
    assert (2048, 4096) not in matrices
    assert (2048, 576) not in matrices


@every_model
def test_a_split_leaves_no_remainder(model: ServedModel) -> None:
    """The parts of all gpus together are the whole matrix."""
    for tp in model.allowed_tp:
        for whole, part in zip(model.shapes, model.divided_by(tp), strict=True):
            assert (part.k * part.n * tp, part.label) == (whole.k * whole.n, whole.label)


@pytest.mark.parametrize(
    ("key", "tp", "allowed"),
    [
        pytest.param(DEFAULT_MODEL, 16, "1, 2, 4, 8", id="more gpus than KV heads"),
        pytest.param(DEFAULT_MODEL, 3, "1, 2, 4, 8", id="heads do not divide"),
        pytest.param("Qwen/Qwen2.5-7B-Instruct", 8, "1, 2, 4", id="four KV heads"),
        pytest.param("meta-llama/Llama-2-13b-hf", 5, "1, 2, 4, 8", id="40 heads divide, 13824 features do not"),
        pytest.param(DEFAULT_MODEL, 0, "1, 2, 4, 8", id="no gpu"),
        pytest.param(DEFAULT_MODEL, -2, "1, 2, 4, 8", id="negative"),
    ],
)
def test_a_split_that_no_engine_makes_is_refused_with_those_that_are(key: str, tp: int, allowed: str) -> None:
    """Beyond the KV heads engines copy heads, and N // tp would be wrong."""
    with pytest.raises(ValueError, match=f"over {tp} gpus; choose a tensor-parallel size of {allowed}$"):
        served_model(key).divided_by(tp)


def test_an_unknown_model_is_answered_with_the_known_ones() -> None:
    """Keys match exactly."""
    with pytest.raises(ValueError, match=f"'gpt-2'.*{DEFAULT_MODEL}"):
        served_model("gpt-2")
