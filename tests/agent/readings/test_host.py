from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import pytest

from fleetridge.report import Environment
from fleetridge_agent.readings.host import Host, host_readings, node_name
from fleetridge_agent.readings.optional_reading import model_of


def _host(root: Path, files: dict[str, str]) -> Host:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Host(root)


def test_a_cpu_has_the_name_that_the_kernel_gives_it(tmp_path: Path) -> None:
    """Of the first of its cores."""
    host = _host(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\n\nmodel name\t: other\n"})

    assert host.cpu_model() == "AMD EPYC 9654"


def test_a_host_that_says_nothing_has_no_readings(tmp_path: Path) -> None:
    """Every one of them is missing, and none of them raises."""
    host = Host(tmp_path)

    assert (host.cpu_model(), host.memory_bytes(), host.free_bytes(), host.cache_bytes()) == (None, None, None, None)
    assert (host.machine_id(), host.nvidia_gpus_on_bus()) == (None, None)
    assert host.usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "quota",
    [
        {"sys/fs/cgroup/cpu.max": "50000 100000\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
    ],
)
def test_the_quota_of_a_container_limits_its_cores(tmp_path: Path, quota: dict[str, str]) -> None:
    """Half a core still counts as one, whichever version of control groups says so."""
    assert _host(tmp_path, quota).usable_cores() == 1


@pytest.mark.parametrize("unlimited", ["max 100000\n", "-1 100000\n", "rubbish\n"])
def test_no_quota_limits_nothing(tmp_path: Path, unlimited: str) -> None:
    """All cores that the affinity allows."""
    host = _host(tmp_path, {"sys/fs/cgroup/cpu.max": unlimited})

    assert host.usable_cores() == len(os.sched_getaffinity(0))


def test_free_memory_is_what_host_and_container_both_have(tmp_path: Path) -> None:
    """8 GiB on the host, of which the container may take one more."""
    meminfo = "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n"
    limits = {"sys/fs/cgroup/memory.max": f"{3 * 1024**3}", "sys/fs/cgroup/memory.current": f"{2 * 1024**3}"}
    host = _host(tmp_path, {"proc/meminfo": meminfo, **limits})

    assert host.memory_bytes() == 16 * 1024**3
    assert host.free_bytes() == 1024**3


def test_a_cache_that_cores_share_counts_once(tmp_path: Path) -> None:
    """Two groups of two cores have 32 MiB each; smaller caches and those of instructions do not count."""
    files: dict[str, str] = {}
    for cpu, sharers in enumerate(("0-1", "0-1", "2-3", "2-3")):
        folder = f"sys/devices/system/cpu/cpu{cpu}/cache"
        for index, (level, kind, size, shared) in enumerate(
            [
                ("1", "Instruction", "64K", str(cpu)),
                ("2", "Unified", "1M", str(cpu)),
                ("3", "Unified", "32768K", sharers),
            ]
        ):
            files |= {
                f"{folder}/index{index}/level": level,
                f"{folder}/index{index}/type": kind,
                f"{folder}/index{index}/size": size,
                f"{folder}/index{index}/shared_cpu_list": shared,
            }

    assert _host(tmp_path, files).cache_bytes() == 2 * 32 * 1024**2


def test_an_empty_machine_id_is_none(tmp_path: Path) -> None:
    """Images leave the file empty for the first start to fill."""
    assert _host(tmp_path, {"etc/machine-id": "\n"}).machine_id() is None


@pytest.mark.parametrize(
    ("files", "environ"),
    [({".dockerenv": ""}, {}), ({"run/.containerenv": ""}, {}), ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})],
)
def test_a_container_knows_that_it_is_one(tmp_path: Path, files: dict[str, str], environ: dict[str, str]) -> None:
    """By the marks of its runtime."""
    assert _host(tmp_path, files).is_container(environ)
    assert not Host(tmp_path / "elsewhere").is_container({})


def test_gpus_are_counted_on_the_bus(tmp_path: Path) -> None:
    """Not their sound or switches, not those of others, and not those that were given to a virtual machine."""
    functions = {
        "0000:01:00.0": ("0x10de", "0x030200"),
        "0000:02:00.0": ("0x10de", "0x030000"),
        "0000:02:00.1": ("0x10de", "0x040300"),
        "0000:03:00.0": ("0x10de", "0x068000"),
        "0000:04:00.0": ("0x1002", "0x030200"),
        "0000:05:00.0": ("0x10de", "0x030200"),
    }
    files: dict[str, str] = {}
    for address, (vendor, kind) in functions.items():
        files |= {f"sys/bus/pci/devices/{address}/vendor": vendor, f"sys/bus/pci/devices/{address}/class": kind}
    host = _host(tmp_path, files)
    (tmp_path / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:05:00.0/driver").symlink_to(tmp_path / "sys/bus/pci/drivers/vfio-pci")

    assert host.nvidia_gpus_on_bus() == 2


def test_the_partition_of_an_amd_card_is_read_at_its_address(tmp_path: Path) -> None:
    """Compute and memory; a card that cannot be split has none."""
    card = "sys/bus/pci/devices/0000:05:00.0"
    host = _host(
        tmp_path,
        {f"{card}/current_compute_partition": "CPX", f"{card}/current_memory_partition": "NPS4", "dev/kfd": ""},
    )

    assert host.amd_partition("0000:05:00.0") == "CPX/NPS4"
    assert host.amd_partition("0000:15:00.0") is None
    assert host.has_amd_gpu()
    assert not Host(tmp_path / "elsewhere").has_amd_gpu()


def test_a_node_in_kubernetes_has_the_name_that_kubernetes_gives_it() -> None:
    """The host name there is the pod's, and another one after every restart."""
    assert node_name({"NODE_NAME": "gpu-node-7"}) == "gpu-node-7"


def test_a_node_elsewhere_has_its_host_name() -> None:
    """An empty variable counts as none."""
    assert node_name({}) == socket.gethostname()
    assert node_name({"NODE_NAME": " "}) == socket.gethostname()


def test_readings_of_the_host_come_in_the_words_of_the_report(tmp_path: Path) -> None:
    """What Linux does not say is null."""
    readings = host_readings(Host(tmp_path), {"FLEETRIDGE_CONTAINER_IMAGE": "registry.example/agent:1"})
    environment = model_of(Environment, readings)

    assert readings.keys() <= Environment.model_fields.keys()
    assert environment.python == platform.python_version()
    assert environment.container_image == "registry.example/agent:1"
    assert environment.cpu_model is None
