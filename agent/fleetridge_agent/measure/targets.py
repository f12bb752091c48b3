"""Which devices a command measures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fleetridge.report import Gpu
from fleetridge_agent.device.contract import DeviceKind
from fleetridge_agent.device.cuda_driver import CudaGpu
from fleetridge_agent.device.opening import chosen_gpu, gpus_without_slice, visible_gpus
from fleetridge_agent.errors import MigWithoutSliceError

ALL = "all"


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


def targets(kind: DeviceKind, chosen: Sequence[str], *, but: Collection[Target] = ()) -> tuple[Target, ...]:
    """
    Devices to measure, each once, in the order asked for.

    Args:
        kind: whether to measure the CPU or gpus.
        chosen: CUDA numbers and UUIDs, or `all`.
        but: those that are known not to be measurable, and are left out.

    Raises:
        NoDeviceError: there is no gpu, or not one that was chosen.
    """
    if kind == "cpu":
        return (Target("cpu"),)
    there = visible_gpus()
    left_out = {str(target.which) for target in but}
    wanted = [word for word in chosen if word not in left_out]
    if ALL in wanted:
        return tuple(Target("cuda", gpu) for gpu in there)
    gpus = [chosen_gpu(there, int(word) if word.isdecimal() else word) for word in wanted]
    return tuple(Target("cuda", gpu) for gpu in dict.fromkeys(gpus))


def measurable(
    kind: DeviceKind, chosen: Sequence[str] | None
) -> tuple[tuple[tuple[Target, MigWithoutSliceError], ...], tuple[Target, ...]]:
    """
    What a command that measures a whole node makes of its gpus: those that cannot be measured and why, and the others.

    Args:
        kind: whether to measure the CPU or gpus.
        chosen: CUDA numbers and UUIDs, or `all`; None for all.

    Raises:
        NoDeviceError: there is no gpu, or not one that was chosen.
    """
    unusable = without_slice(kind, chosen)
    try:
        gpus = targets(kind, (ALL,) if chosen is None else chosen, but={card for card, _ in unusable})
    except MigWithoutSliceError:
        if not unusable:
            raise
        gpus = ()
    return unusable, gpus


def without_slice(kind: DeviceKind, chosen: Sequence[str] | None) -> tuple[tuple[Target, MigWithoutSliceError], ...]:
    """Cards that were chosen, or all where none was, and cannot be measured as they are in MIG mode without a slice."""
    cards = () if kind == "cpu" else gpus_without_slice()
    wanted = [card for card in cards if chosen is None or ALL in chosen or card.uuid in chosen]
    return tuple((Target("cuda", card), _without_slice(card)) for card in wanted)


def _without_slice(card: CudaGpu) -> MigWithoutSliceError:
    return MigWithoutSliceError(
        f"gpu {card.uuid or card.pci_bus_id} is in MIG mode and has no slice; create one (`nvidia-smi mig -cgi`)"
    )
