"""Which gpus a node has, measured or not, and whether anything may be hidden from that list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetridge.report import RosterGpu
from fleetridge_agent.node.host import Host
from fleetridge_agent.node.nvml import Nvml, NvmlGpu
from fleetridge_agent.node.readings import model_of

# Slurm lets a job see only its own gpus.
_SLURM_JOB = "SLURM_JOB_ID"


@dataclass(frozen=True, slots=True)
class Roster:
    """
    The gpus of a node.

    Attributes:
        gpus: None where the driver could not be asked.
        is_complete: whether nothing was hidden from the list; None where nobody can tell. Only a complete list lets a
            reader conclude that a gpu has gone.
    """

    gpus: tuple[RosterGpu, ...] | None
    is_complete: bool | None


def node_roster(nvml: Nvml | None, host: Host, environ: Mapping[str, str]) -> Roster:
    """
    Gpus of this node by NVML, which CUDA_VISIBLE_DEVICES does not hide anything from; containers and Slurm do.

    A split card stands for itself while it has no slices, as it cannot be measured then but is there.
    """
    if nvml is None:
        return Roster(None, None)
    cards = nvml.cards()
    gpus = [gpu for card in cards for gpu in (tuple(card.slices()) or (card,))]
    return Roster(tuple(_entry(gpu) for gpu in gpus), _is_complete(len(cards), host, environ))


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
