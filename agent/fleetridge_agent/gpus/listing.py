"""
The gpus of a node as its driver counts them: those that answer, those that are lost, and what was known before.

A lost card is there: on the bus, and in the driver's count. It stays in the roster, marked as lost, under the name that
it had when it last answered, and gets a report of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleetridge.report import LOST, Gpu, RosterGpu
from fleetridge_agent.gpus.discovery import (
    Roster,
    is_visible,
    may_hide_gpus,
    node_roster,
    nvml_or_none,
    units_of,
)
from fleetridge_agent.gpus.known_gpus import KnownGpu, after_listing, keep_known, known_gpu, known_gpus
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.kernel_log import newest_xid
from fleetridge_agent.readings.nvml import LostCard, Nvml
from fleetridge_agent.readings.optional_reading import canonical_bus_id, model_of

_REMEDY = "see `dmesg` for Xid errors, reset the gpu or reboot the node, and have the card looked at if it comes back"


@dataclass(frozen=True, slots=True)
class LostGpu:
    """
    A gpu that the driver has lost.

    Attributes:
        gpu: as far as it is known, from the driver or from what was remembered of it.
        reason: such as `gpu_lost`.
        detail: sentence for people.
    """

    gpu: Gpu
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Listing:
    """
    The gpus of a node.

    Attributes:
        lost: those of the roster that are lost and that this process could use if they were not.
        known: those that the node had before; empty where nobody remembers.
        may_hide: whether a gpu that is not in the roster may be there nevertheless.
    """

    roster: Roster = field(default_factory=lambda: Roster(None, None))
    lost: tuple[LostGpu, ...] = ()
    known: tuple[KnownGpu, ...] = ()
    may_hide: bool = False

    def lost_of(self, chosen: Collection[str] | None) -> tuple[LostGpu, ...]:
        """Lost gpus among those that were chosen by UUID; all where none was. Numbers name gpus that CUDA lists."""
        return tuple(one for one in self.lost if chosen is None or one.gpu.uuid in chosen)


def node_listing(state_dir: Path, node: str, environ: Mapping[str, str], host: Host | None = None) -> Listing:
    """
    List the gpus of a node, and remember them where the list is complete.

    Args:
        state_dir: where they are remembered.
        node: its name.
        environ: of this process.
        host: the node; None for the one that this runs on.
    """
    host = Host() if host is None else host
    nvml, known = nvml_or_none(), known_gpus(state_dir, node)
    lost = () if nvml is None else lost_gpus(nvml, host, known)
    entries = {_entry(one.gpu): one for one in lost}
    roster = node_roster(nvml, host, environ, lost=tuple(entries))
    if nvml is not None and roster.is_complete:
        now = [known_gpu(gpu) for card in nvml.cards() for gpu in units_of(card)]
        _remember(state_dir, node, known, now)
    return Listing(
        roster=roster,
        lost=tuple(one for entry, one in entries.items() if is_visible(entry, environ)),
        known=known,
        may_hide=may_hide_gpus(roster, host, environ),
    )


def lost_gpus(nvml: Nvml, host: Host, known: Sequence[KnownGpu]) -> tuple[LostGpu, ...]:
    """Gpus and slices of the cards that are lost, each under the name that it had when it last answered."""
    cards = nvml.lost_cards()
    if not cards:
        return ()
    answering = {card.pci_bus_id for card in nvml.cards()}
    places = _places(cards, answering, host, known)
    return tuple(
        _lost(card, unit, places.get(card.index), host)
        for card in cards
        for unit in _units(card, places.get(card.index), known)
    )


def _remember(state_dir: Path, node: str, known: Sequence[KnownGpu], now: Sequence[KnownGpu]) -> None:
    after = after_listing(known, now)
    if set(after) != set(known):
        keep_known(state_dir, node, after)


def _places(
    cards: Sequence[LostCard], answering: set[str | None], host: Host, known: Sequence[KnownGpu]
) -> dict[int, str]:
    """
    Address of each lost card: what the driver says, else what is left of the bus, else of those remembered.

    The driver counts cards in the order of their addresses, so that as many addresses as cards without one are theirs
    in turn; where the numbers differ, nothing is guessed.
    """
    places = {card.index: card.pci_bus_id for card in cards if card.pci_bus_id is not None}
    of_uuid = {uuid: gpu.pci_bus_id for gpu in known for uuid in (gpu.uuid, gpu.card_uuid)}
    for card in cards:
        remembered = of_uuid.get(card.uuid) if card.uuid else None
        if card.index not in places and remembered is not None:
            places[card.index] = remembered
    unplaced = sorted(card.index for card in cards if card.index not in places)
    on_bus = {canonical_bus_id(address) for address in host.nvidia_addresses() or ()}
    for addresses in (on_bus, {gpu.pci_bus_id for gpu in known}):
        left = sorted(address for address in addresses - answering - {*places.values()} if address is not None)
        if len(left) == len(unplaced):
            return places | dict(zip(unplaced, left, strict=True))
    return places


def _units(card: LostCard, place: str | None, known: Sequence[KnownGpu]) -> Sequence[KnownGpu]:
    """What a lost card was when it last answered, itself or its slices; something unknown where nobody remembers."""
    there = [gpu for gpu in known if place is not None and gpu.pci_bus_id == place]
    # Another card was put there since.
    own = [gpu for gpu in there if card.uuid is None or card.uuid in (gpu.uuid, gpu.card_uuid)]
    return own or [KnownGpu()]


def _lost(card: LostCard, unit: KnownGpu, place: str | None, host: Host) -> LostGpu:
    values = {
        "uuid": unit.uuid or card.uuid,
        "pci_bus_id": place,
        "index": card.index,
        "device": unit.device or card.device,
        "memory_bytes": unit.memory_bytes,
        "mig_profile": unit.mig_profile,
    }
    xid = None if place is None else newest_xid(host, place)
    said = f"NVML: {card.error}" if xid is None else f"NVML: {card.error}; Xid {xid} in the kernel's log"
    return LostGpu(model_of(Gpu, values), card.reason, f"{said}; {_REMEDY}")


def _entry(gpu: Gpu) -> RosterGpu:
    shared = gpu.model_dump(include={"uuid", "pci_bus_id", "index", "device", "mig_profile"})
    return RosterGpu(**shared, state=LOST)
