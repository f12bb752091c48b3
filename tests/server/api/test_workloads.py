"""What served models can expect of a device."""

from __future__ import annotations

import pytest

from fleetridge.roofline import t_star_tokens
from support.app_client import AppClient
from support.evaluated import NOW, SLOW, SOUND, gpu_id, runs
from support.fleet import AS_TEXT, post, post_judged, read
from support.reports import compute_roof, memory_roof

URL = "/devices/h200/workloads"


@pytest.fixture
def fleet_client(client: AppClient) -> AppClient:
    """Four gpus of which the last is slow."""
    post_judged(client, runs("n01", [SOUND] * 3 + [SLOW]))
    return client


def test_workloads_are_placed_on_every_gpus_own_roofs(fleet_client: AppClient) -> None:
    """A typical one, the slowest, and the spread between."""
    [ridge] = read(fleet_client, URL)["ridges"]

    gemv, attention, prefill = ridge["workloads"]
    assert (gemv["bound"], attention["bound"], prefill["bound"]) == ("memory", "memory", "compute")
    assert gemv["attainable_tflops"]["median"] == pytest.approx(4430.0 / 1000)
    assert (prefill["attainable_tflops"]["median"], prefill["slowest_tflops"]) == (SOUND, SLOW)
    assert prefill["slowest_gpu_id"] == gpu_id("n01", 3)
    assert (ridge["gpus"], ridge["slowest"]["pi_tflops"]) == (4, SLOW)


def test_t_star_of_a_shape_follows_from_the_ridge(fleet_client: AppClient) -> None:
    """By the formula of the roofline."""
    [ridge] = read(fleet_client, URL)["ridges"]

    shape = ridge["shapes"][0]
    expected = t_star_tokens(1000 * SOUND / 4430.0, k=shape["k"], n=shape["n"], input_bytes=2, output_bytes=2)
    assert shape["t_star_tokens"]["typical"] == pytest.approx(expected)
    assert shape["t_star_tokens"]["slowest"] < shape["t_star_tokens"]["typical"]
    assert (shape["model"], shape["label"]) == ("meta-llama/Llama-3.1-8B-Instruct", "fused QKV")


def test_the_catalogue_is_placed_as_a_whole_or_by_model_and_split(fleet_client: AppClient) -> None:
    """Of all models those that can be split so."""
    [everything] = read(fleet_client, URL, model="all")["ridges"]
    [split] = read(fleet_client, URL, model="meta-llama/Llama-3.3-70B-Instruct", tp=8)["ridges"]
    [wide] = read(fleet_client, URL, model="all", tp=16)["ridges"]

    assert len({shape["model"] for shape in everything["shapes"]}) > 10
    first = split["shapes"][0]
    assert (first["label"], first["k"], first["n"]) == ("fused QKV", 8192, 1280)
    assert {shape["model"] for shape in wide["shapes"]} < {shape["model"] for shape in everything["shapes"]}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"model": "gpt-none"}, "query.model"),
        ({"model": "meta-llama/Llama-3-8b", "tp": 3}, "query.tp"),
        ({"tp": 0}, "query.tp"),
        ({"hidden_size": 0}, "query.hidden_size"),
        ({"simulated": True}, "query.simulated"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_the_field(
    fleet_client: AppClient, params: dict[str, object], field: str
) -> None:
    """And with what there is."""
    answer = fleet_client.get(URL, params=params)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field


def test_burst_and_sustained_stand_apart(client: AppClient) -> None:
    """Each with its own pi; filters choose among them."""
    roofs = [compute_roof(SOUND), compute_roof(700.0, regime="sustained"), memory_roof(4430.0)]
    post_judged(client, runs("n01", [SOUND] * 4, roofs=roofs))

    ridges = read(client, URL)["ridges"]

    assert [(ridge["regime"], ridge["pi_tflops"]["median"]) for ridge in ridges] == [
        ("burst", SOUND),
        ("sustained", 700.0),
    ]
    assert [ridge["regime"] for ridge in read(client, URL, regime="sustained")["ridges"]] == ["sustained"]


def test_the_output_of_a_dtype_counts_with_its_bytes(client: AppClient) -> None:
    """float8 written as float16 or as float8 has another T*."""
    for name, output in (("n01", "float16"), ("n02", "float8_e4m3fn")):
        roofs = [compute_roof(1600.0, dtype="float8_e4m3fn", out_dtype=output), memory_roof(4430.0)]
        post_judged(client, runs(name, [SOUND] * 4, roofs=roofs))

    narrow, wide = sorted(ridge["square_t_star_tokens"]["typical"] for ridge in read(client, URL)["ridges"])

    assert narrow < wide


def test_a_dtype_whose_size_is_not_known_is_left_out(client: AppClient) -> None:
    """Nothing is invented."""
    post(client, runs("n01", [SOUND] * 4, roofs=[compute_roof(SOUND, dtype="posit16"), memory_roof(4430.0)]))

    assert read(client, URL)["ridges"] == []


def test_made_up_gpus_are_placed_only_where_asked_for(fleet_client: AppClient) -> None:
    """And then alone; a cluster has its own spread."""
    post_judged(fleet_client, runs("s01", [600.0] * 4, node__cluster="simulated"))

    assert read(fleet_client, URL)["ridges"][0]["gpus"] == 4
    assert read(fleet_client, URL, cluster="simulated")["ridges"][0]["pi_tflops"]["median"] == 600.0
    assert read(fleet_client, URL, cluster="west")["ridges"] == []
    assert read(fleet_client, URL, as_of="2020-01-01")["ridges"] == []
    assert read(fleet_client, URL, as_of=NOW.isoformat())["ridges"][0]["gpus"] == 4


def test_the_text_form_has_workloads_and_weights(fleet_client: AppClient) -> None:
    """Within 80 columns."""
    text = fleet_client.get(URL, params={"model": "all"}, headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    for expected in ("bfloat16 burst: 4 gpus", "prefill GEMM", "square projection", "tokens from which"):
        assert expected in text
    assert "no ridges" in fleet_client.get(URL, params={"dtype": "int8"}, headers=AS_TEXT).text
