"""
Which gpus a node is known to have, on disk: by PCI address as the last complete list of its driver had them.

A card that is lost often does not say any more who it is; what it was when it last answered still tells. One file a
node, as a home directory and the state in it may be shared by many.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleetridge.device_names import is_identity
from fleetridge.quantities import MIB
from fleetridge_agent.durable_file import write_durably
from fleetridge_agent.lock import file_name_of
from fleetridge_agent.readings.nvml import NvmlGpu

log = logging.getLogger(__name__)

_FOLDER = "gpus"

# As many as a roster may have, each with some hundred bytes, stay far below.
_MOST_FILE_BYTES = 1 * MIB
_MOST_GPUS = 512


class KnownGpu(BaseModel):
    """
    One gpu or MIG slice as it was when it answered.

    Attributes:
        card_uuid: of the card that it is, or is a slice of.
        index: of the card, by PCI address.
    """

    model_config = ConfigDict(frozen=True)

    uuid: str | None = None
    card_uuid: str | None = None
    pci_bus_id: str | None = None
    index: int | None = None
    device: str | None = None
    memory_bytes: int | None = None
    mig_profile: str | None = None


class _KnownGpus(BaseModel):
    format: Literal[1] = 1
    node: str
    gpus: Annotated[tuple[KnownGpu, ...], Field(max_length=_MOST_GPUS)] = ()


def known_gpus_path(state_dir: Path, node: str) -> Path:
    """Where the gpus of a node are kept."""
    return state_dir / _FOLDER / f"node-{file_name_of(node)}.json"


def known_gpus(state_dir: Path, node: str) -> tuple[KnownGpu, ...]:
    """Gpus that a node is known to have; none where nothing was kept that can be read."""
    try:
        with known_gpus_path(state_dir, node).open("rb") as file:
            known = _KnownGpus.model_validate_json(file.read(_MOST_FILE_BYTES))
    except (OSError, ValidationError):
        return ()
    # Two names that differ in unsafe characters alone share a file.
    return known.gpus if known.node == node else ()


def keep_known(state_dir: Path, node: str, gpus: Sequence[KnownGpu]) -> None:
    """Write down the gpus of a node; where that cannot be done it is said."""
    try:
        write_durably(
            known_gpus_path(state_dir, node),
            _KnownGpus(node=node, gpus=tuple(gpus)[:_MOST_GPUS]).model_dump_json(exclude_none=True).encode(),
        )
    except OSError as error:
        log.warning(
            "the gpus of this node cannot be kept in %s (%s); one that is lost may have no name in its report",
            state_dir,
            error.strerror,
        )


def known_gpu(gpu: NvmlGpu) -> KnownGpu:
    """What to keep of a gpu that answers."""
    return KnownGpu(
        uuid=_identity(gpu.uuid),
        card_uuid=_identity(gpu.card_uuid),
        pci_bus_id=gpu.pci_bus_id,
        index=gpu.index,
        device=gpu.device,
        memory_bytes=gpu.memory_bytes,
        mig_profile=gpu.mig_profile,
    )


def after_listing(before: Sequence[KnownGpu], now: Sequence[KnownGpu]) -> tuple[KnownGpu, ...]:
    """
    What is known after a complete list: all that answer, and those that did once and were not replaced since.

    Whatever is at an address now takes the place of what was there; a unit that has moved is known where it is.
    """
    uuids, places = {gpu.uuid for gpu in now} - {None}, {gpu.pci_bus_id for gpu in now}
    silent = [gpu for gpu in before if gpu.pci_bus_id not in places and gpu.uuid not in uuids]
    return (*now, *silent)


def _identity(uuid: str | None) -> str | None:
    return uuid if is_identity(uuid) else None
