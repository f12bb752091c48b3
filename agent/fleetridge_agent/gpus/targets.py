"""Which devices a command measures, and the environment in which a process sees one of them alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fleetridge.report import Gpu
from fleetridge_agent.errors import MigWithoutSliceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.discovery import VISIBLE_DEVICES, chosen_gpu, gpus_without_slice, visible_gpus
from fleetridge_agent.measurement_protocol import DeviceKind

# By address, as NVML and `nvidia-smi` number them; CUDA by itself puts the fastest first.
_BY_ADDRESS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

# Keeps modules of the folder that the agent was started in out of the worker, from Python 3.11 on.
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}

# ROCm's own name of the variable goes before CUDA's, which it knows too.
_VARIABLE_OF_ROCM = "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Target:
    """
    One device to measure.

    Attributes:
        gpu: None where the CPU is measured.
    """

    kind: DeviceKind
    gpu: CudaGpu | None = None

    @property
    def which(self) -> int | str | None:
        """What `open_device` knows it by: the UUID, else CUDA's number."""
        return None if self.gpu is None else self.gpu.uuid or self.gpu.number

    @property
    def identity(self) -> Gpu | None:
        """What is known of it before it is opened, for the report of one that cannot be; None for the CPU."""
        if self.gpu is None:
            return None
        return Gpu(
            uuid=self.gpu.uuid,
            pci_bus_id=self.gpu.pci_bus_id,
            device=self.gpu.device,
            mig_profile=self.gpu.mig_profile,
            partition=self.gpu.partition,
            # Where there is no UUID, any number is better than none to tell it apart.
            index=self.gpu.number if self.gpu.uuid is None else None,
        )

    def __str__(self) -> str:
        if self.gpu is None:
            return "CPU"
        return f"{self.gpu.device or 'gpu'} ({self.gpu.uuid or self.gpu.pci_bus_id or self.gpu.number})"


def targets(kind: DeviceKind, chosen: Sequence[str] | None, *, but: Collection[Gpu] = ()) -> tuple[Target, ...]:
    """
    Devices to measure, each once, in the order asked for.

    Args:
        kind: whether to measure the CPU or gpus.
        chosen: CUDA numbers and UUIDs; None for all.
        but: those that are known not to be measurable, and are left out.

    Raises:
        NoDeviceError: there is no gpu, or not one that was chosen.
    """
    if kind == "cpu":
        return (Target("cpu"),)
    uuids = {gpu.uuid for gpu in but if gpu.uuid is not None}
    wanted = None if chosen is None else [word for word in chosen if word not in uuids]
    if chosen and not wanted:
        return ()
    there = visible_gpus()
    gpus = there if wanted is None else [chosen_gpu(there, int(w) if w.isdecimal() else w) for w in wanted]
    places = {gpu.pci_bus_id for gpu in but if gpu.pci_bus_id is not None and gpu.uuid is None}
    kept = [gpu for gpu in dict.fromkeys(gpus) if gpu.uuid not in uuids and gpu.pci_bus_id not in places]
    return tuple(Target("cuda", gpu) for gpu in kept)


def measurable(
    kind: DeviceKind, chosen: Sequence[str] | None, lost: Collection[Gpu] = ()
) -> tuple[tuple[tuple[Target, MigWithoutSliceError], ...], tuple[Target, ...]]:
    """
    What a command that measures a whole node makes of its gpus: those that cannot be measured and why, and the others.

    Args:
        kind: whether to measure the CPU or gpus.
        chosen: CUDA numbers and UUIDs; None for all.
        lost: gpus that the driver has lost, which CUDA may still list.

    Raises:
        NoDeviceError: there is no gpu, or not one that was chosen.
    """
    unusable = without_slice(kind, chosen)
    try:
        cards = [card.identity for card, _ in unusable]
        gpus = targets(kind, chosen, but=[*lost, *(card for card in cards if card is not None)])
    except MigWithoutSliceError:
        if not unusable:
            raise
        gpus = ()
    return unusable, gpus


def without_slice(kind: DeviceKind, chosen: Sequence[str] | None) -> tuple[tuple[Target, MigWithoutSliceError], ...]:
    """Cards that were chosen, or all where none was, and cannot be measured as they are in MIG mode without a slice."""
    cards = () if kind == "cpu" else gpus_without_slice()
    wanted = [card for card in cards if chosen is None or card.uuid in chosen]
    return tuple((Target("cuda", card), _without_slice(card)) for card in wanted)


def one_gpu_environ(target: Target, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment in which a process sees one gpu and no other; that of a CPU sees what it did before."""
    if target.gpu is None:
        return {**environ, **_SAFE_PATH}
    if target.gpu.uuid is not None:
        return {**environ, **_SAFE_PATH, **_BY_ADDRESS, VISIBLE_DEVICES: target.gpu.uuid}
    variable = VISIBLE_DEVICES if VISIBLE_DEVICES in environ and _VARIABLE_OF_ROCM not in environ else _VARIABLE_OF_ROCM
    return {**environ, **_SAFE_PATH, variable: _place(target.gpu.number, environ.get(variable))}


def _without_slice(card: CudaGpu) -> MigWithoutSliceError:
    return MigWithoutSliceError(
        f"gpu {card.uuid or card.pci_bus_id} is in MIG mode and has no slice; create one (`nvidia-smi mig -cgi`)"
    )


def _place(number: int, setting: str | None) -> str:
    """Word by which the driver knows the gpu of this number among those that a variable leaves."""
    return str(number) if setting is None else setting.split(",")[number].strip()
