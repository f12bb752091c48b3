from __future__ import annotations

from pathlib import Path

import pytest

from fleetridge_agent.gpus.visible import node_roster
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import open_nvml
from support.stub_nvml import StubCard, StubNvml


def _cards(number: int) -> StubNvml:
    return StubNvml(*(StubCard(f"GPU-{card}", f"0000:{card:02x}:00.0", "NVIDIA H200") for card in range(number)))


def _host(root: Path, gpus_on_bus: int, *, in_container: bool) -> Host:
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for number in range(gpus_on_bus):
        (devices / f"{number}").mkdir()
        (devices / f"{number}/vendor").write_text("0x10de\n")
        (devices / f"{number}/class").write_text("0x030200\n")
    if in_container:
        (root / ".dockerenv").touch()
    return Host(root)


def test_every_gpu_of_the_node_is_listed_measured_or_not(tmp_path: Path) -> None:
    """With identity, place, index and name; CUDA_VISIBLE_DEVICES hides nothing from the driver."""
    host = _host(tmp_path, 2, in_container=False)

    roster = node_roster(open_nvml(_cards(2)), host, {"CUDA_VISIBLE_DEVICES": "1"})

    assert roster.gpus is not None
    assert [(gpu.uuid, gpu.index, gpu.pci_bus_id, gpu.device) for gpu in roster.gpus] == [
        ("GPU-0", 0, "0000:00:00.0", "NVIDIA H200"),
        ("GPU-1", 1, "0000:01:00.0", "NVIDIA H200"),
    ]
    assert roster.is_complete is True


@pytest.mark.parametrize(
    ("listed", "on_bus", "in_container", "environ", "is_complete"),
    [
        (8, 8, True, {}, True),  # the container was given all of them
        (2, 8, True, {}, False),  # or some
        (2, 8, False, {"SLURM_JOB_ID": "1"}, False),  # a job sees its own only
        (7, 8, False, {}, True),  # on the bare host the eighth is not hidden, but lost
    ],
)
def test_a_list_is_complete_unless_something_hides_gpus(
    tmp_path: Path, listed: int, on_bus: int, in_container: bool, environ: dict[str, str], is_complete: bool
) -> None:
    """Only then may a reader conclude that a gpu has gone."""
    host = _host(tmp_path, on_bus, in_container=in_container)

    assert node_roster(open_nvml(_cards(listed)), host, environ).is_complete is is_complete


def test_in_a_container_that_does_not_show_the_bus_nobody_can_tell(tmp_path: Path) -> None:
    """Unknown is not complete."""
    (tmp_path / ".dockerenv").touch()

    assert node_roster(open_nvml(_cards(2)), Host(tmp_path), {}).is_complete is None


def test_a_driver_that_cannot_be_asked_gives_no_list(tmp_path: Path) -> None:
    """Which is not an empty one."""
    roster = node_roster(None, Host(tmp_path), {})

    assert (roster.gpus, roster.is_complete) == (None, None)


def test_a_split_card_is_listed_by_its_slices_or_by_itself(tmp_path: Path) -> None:
    """Without a slice it cannot be measured, but it is there."""
    piece = StubCard("MIG-1", "", "NVIDIA H100 NVL MIG 1g.12gb")
    split = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", slices=[piece])
    empty = StubCard("GPU-2", "0000:02:00.0", "NVIDIA H100 NVL", slices=[])

    roster = node_roster(open_nvml(StubNvml(split, empty)), Host(tmp_path), {})

    assert roster.gpus is not None
    assert [(gpu.uuid, gpu.mig_profile) for gpu in roster.gpus] == [("MIG-1", "1g.12gb"), ("GPU-2", None)]
