"""Gpus of ROCm as another process lists them; no AMD gpu has been at hand."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus.rocm import rocm_gpus


def _listing(*gpus: dict[str, Any]) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({json.dumps(gpus)!r})")


def _gpu(number: int, pci_bus_id: str | None, partition: str | None = None) -> dict[str, Any]:
    name = "AMD Instinct MI300X"
    return {
        "number": number,
        "uuid": None,
        "pci_bus_id": pci_bus_id,
        "device": name,
        "mig_profile": None,
        "partition": partition,
    }


def test_gpus_are_told_apart_by_their_addresses() -> None:
    gpus = rocm_gpus(_listing(_gpu(0, "0000:05:00.0", "SPX/NPS1"), _gpu(1, "0000:15:00.0", "SPX/NPS1")))

    assert [gpu.pci_bus_id for gpu in gpus] == ["0000:05:00.0", "0000:15:00.0"]


def test_partitions_of_one_card_are_told_apart_by_their_numbers() -> None:
    """All eight sit at one address, and must not become one gpu."""
    gpus = rocm_gpus(_listing(*(_gpu(number, "0000:05:00.0", "CPX/NPS4") for number in range(8))))

    assert [(gpu.number, gpu.pci_bus_id) for gpu in gpus] == [(number, None) for number in range(8)]
    assert {gpu.partition for gpu in gpus} == {"CPX/NPS4"}


@pytest.mark.parametrize("lister", [(sys.executable, "-c", "raise SystemExit(1)"), (sys.executable, "-c", "print(1)")])
def test_a_torch_that_cannot_list_them_is_an_error_with_a_remedy(lister: tuple[str, ...]) -> None:
    with pytest.raises(NoDeviceError, match="device_count") as caught:
        rocm_gpus(lister)

    assert caught.value.reason == "rocm_error"


def test_no_gpu_is_no_device() -> None:
    with pytest.raises(NoDeviceError, match="HIP_VISIBLE_DEVICES"):
        rocm_gpus(_listing())


def test_a_build_of_torch_for_something_else_lists_none() -> None:
    """The real lister, with whatever torch is installed."""
    with pytest.raises(NoDeviceError, match="build for ROCm"):
        rocm_gpus()
