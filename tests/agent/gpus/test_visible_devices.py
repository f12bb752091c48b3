"""What a user's variable leaves where CUDA itself cannot be asked."""

from __future__ import annotations

import pytest

from fleetridge_agent.gpus.visible import visible
from fleetridge_agent.readings.nvml import open_nvml
from support.stub_nvml import StubCard, StubNvml

_SLICES = [StubCard(f"MIG-{number}c0ffee", "", "NVIDIA H100 NVL MIG 1g.12gb") for number in range(2)]
_NVML = open_nvml(
    StubNvml(
        StubCard("GPU-aaaa", "0000:01:00.0", "NVIDIA H100 NVL"),
        StubCard("GPU-bbbb", "0000:02:00.0", "NVIDIA H100 NVL", slices=_SLICES),
    )
)


@pytest.mark.parametrize(
    ("environ", "uuids"),
    [
        ({}, ["GPU-aaaa", "MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1c0ffee"}, ["MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1, GPU-aa"}, ["MIG-1c0ffee", "GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, ["MIG-0c0ffee", "MIG-1c0ffee"]),
        ({"CUDA_VISIBLE_DEVICES": "0,0"}, ["GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, ["GPU-aaaa"]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_the_variable_leaves_what_it_names(environ: dict[str, str], uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in visible(_NVML.gpus(), environ)] == uuids
