"""What Linux says of the host: cores, memory, caches, identity, software; None for each that it does not say."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetridge.quantities import GIB, KIB, MIB

_CACHE_UNITS = {"K": KIB, "M": MIB, "G": GIB}

# Files of container runtimes (Docker, Podman), and variables of Kubernetes and systemd-nspawn.
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_CONTAINER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "container")

# The door to AMD's compute driver (amdkfd) and, by the card's address, how the card is split (amdgpu).
_AMD_COMPUTE = "dev/kfd"
_AMD_PARTITIONS = ("current_compute_partition", "current_memory_partition")

# PCI SIG: vendor NVIDIA; classes VGA controller and 3D controller.
_NVIDIA_VENDOR = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")

# Kubernetes passes the node's name by this variable; the host name in a pod is the pod's and changes every time.
_NODE_NAME = "NODE_NAME"

# Only whoever starts the container knows its image.
IMAGE_VARIABLE = "FLEETRIDGE_CONTAINER_IMAGE"

# Distributions that bring cuBLAS along with torch, newest first; a torch built against the system's has none.
_CUBLAS_DISTRIBUTIONS = ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12", "nvidia-cublas-cu11")


@dataclass(frozen=True, slots=True)
class Host:
    """A Linux host, read below `root`, which is another folder in tests only."""

    root: Path = Path("/")

    def cpu_model(self) -> str | None:
        """Model name of the first CPU; ARM kernels give none."""
        found = re.search(r"^model name\s*:\s*(.+)$", self._text("proc/cpuinfo") or "", re.MULTILINE)
        return found[1].strip() if found else None

    def usable_cores(self) -> int:
        """Cores that this process may use, by affinity and by the quota of its container."""
        cores = len(os.sched_getaffinity(0))
        quota = self._cpu_quota()
        return cores if quota is None else max(1, min(cores, int(quota)))

    def memory_bytes(self) -> int | None:
        """Memory of the whole host in bytes."""
        return self._meminfo("MemTotal")

    def free_bytes(self) -> int | None:
        """Memory that could be taken without hurting others, within the limit of this container."""
        readings = (self._meminfo("MemAvailable"), self._container_free_bytes())
        return min((reading for reading in readings if reading is not None), default=None)

    def cache_bytes(self) -> int | None:
        """Last-level caches of all CPUs together, in bytes."""
        caches = {cache for cache in self._caches() if cache is not None}
        if not caches:
            return None
        last_level = max(level for level, _, _ in caches)
        return sum(size for level, size, _ in caches if level == last_level)

    def machine_id(self) -> str | None:
        """Identity of the installed system (machine-id(5)); None where it was left empty, as in images."""
        return self._text("etc/machine-id") or None

    def is_container(self, environ: Mapping[str, str]) -> bool:
        """Whether this looks like the inside of a container."""
        return any((self.root / name).exists() for name in _CONTAINER_FILES) or any(
            environ.get(name) for name in _CONTAINER_VARIABLES
        )

    def nvidia_gpus_on_bus(self) -> int | None:
        """Gpus on the PCI bus, those that are handed to a virtual machine left out; containers see all of the host."""
        addresses = self.nvidia_addresses()
        return None if addresses is None else len(addresses)

    def nvidia_addresses(self) -> tuple[str, ...] | None:
        """PCI addresses of these gpus, in order, as the kernel spells them."""
        folder = self.root / "sys/bus/pci/devices"
        if not folder.is_dir():
            return None
        return tuple(sorted(device.name for device in folder.iterdir() if self._is_own_gpu(device)))

    def has_amd_gpu(self) -> bool:
        """Whether there is an AMD gpu that can compute."""
        return (self.root / _AMD_COMPUTE).exists()

    def amd_partition(self, pci_bus_id: str) -> str | None:
        """How the AMD card at an address is split, such as `CPX/NPS4`; None where it cannot be."""
        folder = f"sys/bus/pci/devices/{pci_bus_id}"
        compute, memory = (self._text(f"{folder}/{name}") for name in _AMD_PARTITIONS)
        return "/".join(part for part in (compute, memory) if part) or None

    def _is_own_gpu(self, device: Path) -> bool:
        vendor, kind = self._text(device / "vendor"), self._text(device / "class") or ""
        driver = device / "driver"
        return (
            vendor == _NVIDIA_VENDOR
            and kind.startswith(_GPU_CLASSES)
            and not (driver.exists() and driver.resolve().name == "vfio-pci")
        )

    def _text(self, path: str | Path) -> str | None:
        with suppress(OSError):
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        return None

    def _number(self, path: str) -> int | None:
        with suppress(ValueError):
            return int(self._text(path) or "")
        return None

    def _meminfo(self, name: str) -> int | None:
        found = re.search(rf"^{name}:\s*(\d+) kB$", self._text("proc/meminfo") or "", re.MULTILINE)
        return int(found[1]) * KIB if found else None

    def _cpu_quota(self) -> float | None:
        """Cores' worth of time that the container may use: cgroup version 2, else 1."""
        quota, _, period = (self._text("sys/fs/cgroup/cpu.max") or "").partition(" ")
        if not quota:
            quota = self._text("sys/fs/cgroup/cpu/cpu.cfs_quota_us") or ""
            period = self._text("sys/fs/cgroup/cpu/cpu.cfs_period_us") or ""
        with suppress(ValueError, ZeroDivisionError):
            cores = int(quota) / int(period)
            return cores if cores > 0 else None
        return None

    def _container_free_bytes(self) -> int | None:
        limit, used = self._number("sys/fs/cgroup/memory.max"), self._number("sys/fs/cgroup/memory.current")
        if limit is None:
            limit = self._number("sys/fs/cgroup/memory/memory.limit_in_bytes")
            used = self._number("sys/fs/cgroup/memory/memory.usage_in_bytes")
        return None if limit is None or used is None else max(0, limit - used)

    def _caches(self) -> Iterator[tuple[int, int, str] | None]:
        """Level, bytes and sharers of every data cache; a cache that cores share appears once for each of them."""
        for index in self.root.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
            level, size = self._text(index / "level"), self._text(index / "size") or ""
            if level and size[-1:] in _CACHE_UNITS and self._text(index / "type") != "Instruction":
                yield int(level), int(size[:-1]) * _CACHE_UNITS[size[-1]], self._text(index / "shared_cpu_list") or ""


def host_readings(host: Host, environ: Mapping[str, str]) -> dict[str, object]:
    """Readings of host and interpreter, by the names of `report.Environment`."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "container_image": environ.get(IMAGE_VARIABLE) or None,
        "cpu_model": host.cpu_model(),
        "cpu_count": host.usable_cores(),
    }


def cublas_version() -> str | None:
    """Version of the cuBLAS that was installed for torch, None where none was."""
    from importlib import metadata  # noqa: PLC0415 # takes as long as all else here, and is asked for beside torch only

    for name in _CUBLAS_DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def node_name(environ: Mapping[str, str]) -> str:
    """Name of the node: what Kubernetes says, else the host's own."""
    return environ.get(_NODE_NAME, "").strip() or socket.gethostname()
