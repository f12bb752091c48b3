"""Gpus of one product whose drivers leave different numbers of bytes are one cohort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.app_client import AppClient
from support.evaluated import SOUND, runs
from support.fleet import post_judged, read, ridge

MIB = 1024**2
UNIFIED = [128_501_256_192 + offset for offset in (0, 4_096, -4_096, 40_960, -40_960, 90_112, 150_000)] + [
    130_663_165_952
]
H100 = [size * MIB for size in (81_082, 81_089, 81_090)] * 3
A100 = [int(40_536 * MIB * part) for part in (1, 1.0013)] * 4


def sized(sizes: Sequence[int], slow: float) -> list[dict[str, Any]]:
    """Gpus of one node with three runs each and these memories, the last of them slower."""
    reports = runs("n01", [SOUND] * (len(sizes) - 1) + [SOUND * slow])
    return [{**own, "gpu": {**own["gpu"], "memory_bytes": sizes[own["gpu"]["index"]]}} for own in reports]


@pytest.mark.parametrize("sizes", [UNIFIED, H100, A100])
def test_sizes_that_differ_by_what_the_driver_keeps_make_one_cohort(client: AppClient, sizes: list[int]) -> None:
    post_judged(client, sized(sizes, 0.9))
    answer = ridge(client)
    assert answer["verdicts"] == {"outlier": 1, "ok": len(sizes) - 1}
    assert {cohort["n"] for cohort in answer["cohorts"]} == {len(sizes)}
    assert answer["notices"] == []


def test_the_bytes_stay_a_fact_of_each_gpu(client: AppClient) -> None:
    post_judged(client, sized(H100, 1.0))
    assert {read(client, f"/gpus/{own['gpu_id']}")["memory_bytes"] for own in ridge(client)["gpus"]} == set(H100)


def test_one_name_for_two_sizes_is_noted_with_the_sizes(client: AppClient) -> None:
    sizes = [40_536 * MIB] * 8 + [81_920 * MIB] * 4
    post_judged(client, sized(sizes, 1.0))
    (notice,) = ridge(client)["notices"]
    assert "8 with 40 GiB and 132 SMs, 4 with 80 GiB and 132 SMs" in notice["text"]
