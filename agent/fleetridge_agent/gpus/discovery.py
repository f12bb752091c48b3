"""
Discovery of the gpus of this node: those that this process may use, and all that there are; makes no CUDA context.

CUDA_VISIBLE_DEVICES, containers and Slurm hide gpus; MIG shows a process one slice only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetridge.report import RosterGpu
from fleetridge_agent.errors import MigWithoutSliceError, NoDeviceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu, cuda_gpus
from fleetridge_agent.gpus.rocm import rocm_gpus
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import Nvml, NvmlError, NvmlGpu, open_nvml
from fleetridge_agent.readings.optional_reading import model_of

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

# What CUDA says where the true cause is one that NVML knows better.
_VAGUE_REASONS = frozenset({"no_device", "cuda_unknown_error", "cuda_error"})

# Neither is there a CUDA driver where the gpus are AMD's.
_NO_DRIVER = "no_driver"

_CPU_HINT = "give --device cpu to measure the CPU instead"

# Variables of CUDA and ROCm that leave a process some gpus only.
_VISIBILITY_VARIABLES = (VISIBLE_DEVICES, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

# Slurm lets a job see only its own gpus.
_SLURM_JOB = "SLURM_JOB_ID"


def visible_gpus() -> tuple[CudaGpu, ...]:
    """
    The gpus that this process may use, by their CUDA numbers; makes no context.

    Raises:
        NoDeviceError: there are none; the reason says why as exactly as driver and NVML know it.
        MigWithoutSliceError: there are some, and each is in MIG mode without a slice.
    """
    try:
        return _slices_by_nvml() or cuda_gpus()
    except NoDeviceError as error:
        if error.reason == _NO_DRIVER and Host().has_amd_gpu():
            return rocm_gpus()
        raise (_cause_by_nvml(error) if error.reason in _VAGUE_REASONS else _with_hint(error)) from error


def gpus_without_slice() -> tuple[CudaGpu, ...]:
    """Cards in MIG mode that this process may use as soon as somebody creates a slice."""
    nvml = nvml_or_none()
    return () if nvml is None else _numbered(visible(nvml.cards_without_slice(), os.environ))


def chosen_gpu(gpus: Sequence[CudaGpu], which: int | str | None) -> CudaGpu:
    """
    The gpu with this CUDA number or UUID; the first where none is asked for.

    Raises:
        NoDeviceError: there is no such gpu; the message lists those that there are.
    """
    if which is None:
        return gpus[0]
    for gpu in gpus:
        if which in (gpu.number, gpu.uuid):
            return gpu
    there = ", ".join(f"{gpu.number} ({gpu.uuid}, {gpu.device})" for gpu in gpus)
    raise NoDeviceError(f"no gpu {which} is visible; choose among {there}")


def nvml_or_none() -> Nvml | None:
    """NVML, None where it cannot be used; then everything that it would say is unknown."""
    try:
        return open_nvml()
    except NvmlError:
        return None


def visible(gpus: Sequence[NvmlGpu], environ: Mapping[str, str]) -> tuple[NvmlGpu, ...]:
    """
    Those of these gpus that this process may use, in the order in which the variable names them.

    As the CUDA programming guide has it ("CUDA environment variables"): UUIDs may be shortened, and the first word that
    names nothing hides all that follow it. A word that names a split card stands for each of its slices.
    """
    if VISIBLE_DEVICES not in environ:
        return tuple(gpus)
    chosen: dict[NvmlGpu, None] = {}
    for word in environ[VISIBLE_DEVICES].split(","):
        named = [gpu for gpu in gpus if _is_named(gpu, word.strip())]
        if not named:
            break
        chosen |= dict.fromkeys(named)
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Roster:
    """
    The gpus of a node.

    Attributes:
        gpus: those that are lost included; None where the driver could not be asked.
        is_complete: whether nothing was hidden from the list; None where nobody can tell. Only a complete list lets a
            reader conclude that a gpu has gone.
    """

    gpus: tuple[RosterGpu, ...] | None
    is_complete: bool | None


def node_roster(nvml: Nvml | None, host: Host, environ: Mapping[str, str], *, lost: Sequence[RosterGpu] = ()) -> Roster:
    """
    Gpus of this node by NVML, which CUDA_VISIBLE_DEVICES does not hide anything from; containers and Slurm do.

    A split card stands for itself while it has no slices, as it cannot be measured then but is there.

    Args:
        nvml: None where it cannot be used.
        host: the node.
        environ: of this process.
        lost: entries of the gpus that NVML counts and that are lost.
    """
    if nvml is None:
        return Roster(None, None)
    cards = nvml.cards()
    gpus = [gpu for card in cards for gpu in units_of(card)]
    is_complete = _is_complete(len(cards) + len(nvml.lost_cards()), host, environ)
    entries = sorted((*map(_entry, gpus), *lost), key=lambda entry: -1 if entry.index is None else entry.index)
    return Roster(tuple(entries), is_complete)


def units_of(card: NvmlGpu) -> tuple[NvmlGpu, ...]:
    """The gpus that a card is to a roster: its slices, else itself."""
    return tuple(card.slices()) or (card,)


def may_hide_gpus(roster: Roster, host: Host, environ: Mapping[str, str]) -> bool:
    """Whether a gpu that is not seen may be there nevertheless: hidden from this container, job or process."""
    if roster.is_complete is not None:
        return not roster.is_complete
    return host.is_container(environ) or any(environ.get(name) for name in (_SLURM_JOB, *_VISIBILITY_VARIABLES))


def is_visible(entry: RosterGpu, environ: Mapping[str, str]) -> bool:
    """Whether the variable leaves a gpu of the roster to this process, as far as names and numbers tell."""
    words = environ.get(VISIBLE_DEVICES)
    return words is None or any(_names(word.strip(), entry.index, entry.uuid) for word in words.split(","))


def _is_named(gpu: NvmlGpu, word: str) -> bool:
    return _names(word, gpu.index, gpu.uuid, gpu.card_uuid)


def _names(word: str, index: int | None, *uuids: str | None) -> bool:
    if word.isdecimal():
        return index == int(word)
    return bool(word) and any((uuid or "").startswith(word) for uuid in uuids)


def _slices_by_nvml() -> tuple[CudaGpu, ...]:
    """
    Gpus of a node with slices, of which CUDA shows a process the first one only; none where there are no slices.

    Raises:
        NoDeviceError: CUDA cannot use any of them.
    """
    nvml = nvml_or_none()
    gpus = () if nvml is None else visible(nvml.gpus(), os.environ)
    if not any(gpu.is_slice for gpu in gpus):
        return ()
    # Only CUDA knows whether it is ready.
    cuda_gpus()
    return _numbered(gpus)


def _numbered(gpus: Sequence[NvmlGpu]) -> tuple[CudaGpu, ...]:
    return tuple(
        CudaGpu(number, gpu.uuid, gpu.pci_bus_id, gpu.device, gpu.mig_profile) for number, gpu in enumerate(gpus)
    )


def _cause_by_nvml(error: NoDeviceError) -> NoDeviceError:
    """What NVML knows better than CUDA; CUDA's own error where NVML knows of no trouble."""
    try:
        nvml = open_nvml()
    except NvmlError as cause:
        return _with_hint(NoDeviceError(str(cause), reason=cause.reason))
    cards = nvml.cards()
    if cards and len(nvml.cards_without_slice()) == len(cards):
        return MigWithoutSliceError(
            f"every gpu is in MIG mode and has no slice; create one (`nvidia-smi mig -cgi`); {_CPU_HINT}"
        )
    return _with_hint(error)


def _with_hint(error: NoDeviceError) -> NoDeviceError:
    return NoDeviceError(f"{error}; {_CPU_HINT}", reason=error.reason)


def _entry(gpu: NvmlGpu) -> RosterGpu:
    values = {
        "uuid": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "index": gpu.index,
        "device": gpu.device,
        "mig_profile": gpu.mig_profile,
    }
    return model_of(RosterGpu, values)


def _is_complete(cards: int, host: Host, environ: Mapping[str, str]) -> bool | None:
    on_bus = host.nvidia_gpus_on_bus()
    if on_bus is not None and cards >= on_bus:
        return True
    if host.is_container(environ) or environ.get(_SLURM_JOB):
        return None if on_bus is None else False
    # On the bare host nobody hides a gpu: one that is on the bus and not in the list has fallen out of it.
    return True
