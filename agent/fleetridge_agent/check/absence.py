"""
Gpus that should be there and are not: known from the driver, from what was remembered of the node, or by a baseline.

A check that measured seven gpus must not call a node of eight ok. Where the list of gpus is complete, or nothing can
hide one, a gpu that is not there is missing, which is degraded; where a container, a job or a variable may hide it, its
absence accuses nobody and is unknown. What is at the address of a known gpu has replaced it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from fleetridge.device_names import is_identity
from fleetridge.report import LOST
from fleetridge_agent.check.verdict import GpuVerdict
from fleetridge_agent.gpus.discovery import is_visible
from fleetridge_agent.gpus.listing import Listing, LostGpu

_MISSING = "missing"
_HIDDEN = "others may be hidden"


@dataclass(frozen=True, slots=True)
class _Unit:
    """What tells a gpu from others, and what it is called."""

    uuid: str | None
    pci_bus_id: str | None
    index: int | None = field(default=None, compare=False)
    device: str | None = field(default=None, compare=False)


_NOBODY = _Unit(None, None)


def lost_verdicts(lost: Iterable[LostGpu], *, at: datetime) -> tuple[GpuVerdict, ...]:
    """Verdicts on the gpus that the driver has lost."""
    return tuple(
        GpuVerdict(
            uuid=one.gpu.uuid,
            pci_bus_id=one.gpu.pci_bus_id,
            index=one.gpu.index,
            device=one.gpu.device,
            state="degraded",
            reason=one.reason,
            judged_at=at,
            absent=1,
        )
        for one in lost
    )


def absent_verdicts(
    verdicts: Sequence[GpuVerdict],
    listing: Listing,
    last: Sequence[GpuVerdict],
    environ: Mapping[str, str],
    *,
    at: datetime,
) -> tuple[GpuVerdict, ...]:
    """
    Verdicts on known gpus of a node that are not among those that were measured or are lost.

    Args:
        verdicts: on all gpus of the node that this process can use, and on those that are lost.
        listing: the gpus that the driver lists, and those that it listed before.
        last: verdicts of an earlier check or run.
        environ: of this process.
        at: when the verdict is given.
    """
    entries = [entry for entry in listing.roster.gpus or () if entry.state != LOST]
    listed = [_Unit(_identity(entry.uuid), entry.pci_bus_id) for entry in entries]
    hidden = [unit for unit, entry in zip(listed, entries, strict=True) if not is_visible(entry, environ)]
    judged = [_unit(verdict) for verdict in verdicts]
    # Of what the driver lists, CUDA may never have been able to use some; what was judged once it could.
    was_listed = [_Unit(_identity(gpu.uuid), gpu.pci_bus_id, gpu.index, gpu.device) for gpu in listing.known]
    was_judged = [_unit(verdict) for verdict in last if verdict.has_name]
    absent = {
        unit.uuid or unit.pci_bus_id: unit
        for unit in (*_gone(was_judged, [*judged, *hidden]), *_gone(was_listed, [*judged, *listed]))
    }
    # A lost gpu of which nobody knows which one it is, is one of these.
    nameless = sum(bool(verdict.absent) and unit == _NOBODY for verdict, unit in zip(verdicts, judged, strict=True))
    gone = [*absent.values()][nameless:]
    if gone and listing.may_hide:
        known = len({unit.uuid or unit.pci_bus_id for unit in (*was_listed, *was_judged)})
        return _hidden(min(len(gone), known - len(judged) - len(hidden)), at=at)
    return tuple(GpuVerdict(**asdict(unit), state="degraded", reason=_MISSING, judged_at=at, absent=1) for unit in gone)


def fewer_than_baseline(
    verdicts: Sequence[GpuVerdict], gpus: int, listing: Listing, environ: Mapping[str, str], *, at: datetime
) -> tuple[GpuVerdict, ...]:
    """
    A verdict on what a baseline has beyond the gpus that are there, and beyond those that are known to be absent.

    It counts, as the gpus of a baseline may be those of another node.

    Args:
        verdicts: on all gpus of the node.
        gpus: how many the baseline has.
        listing: the gpus that the driver lists.
        environ: of this process.
        at: when the verdict is given.
    """
    lacking = gpus - sum(max(1, verdict.absent) for verdict in verdicts)
    entries = [entry for entry in listing.roster.gpus or () if entry.state != LOST]
    if listing.may_hide or not all(is_visible(entry, environ) for entry in entries):
        return _hidden(lacking, at=at)
    if lacking <= 0:
        return ()
    return (GpuVerdict(state="degraded", reason="the baseline has more", judged_at=at, absent=lacking),)


def _hidden(gpus: int, *, at: datetime) -> tuple[GpuVerdict, ...]:
    return () if gpus <= 0 else (GpuVerdict(state="unknown", reason=_HIDDEN, judged_at=at, absent=gpus),)


def _gone(known: Sequence[_Unit], there: Sequence[_Unit]) -> Iterator[_Unit]:
    """Known gpus of which nothing is there, and in whose place nothing else is."""
    uuids, places = {unit.uuid for unit in there}, {unit.pci_bus_id for unit in there}
    for unit in known:
        is_there = unit.uuid is not None and unit.uuid in uuids
        has_heir = unit.pci_bus_id is not None and unit.pci_bus_id in places
        if not (is_there or has_heir) and (unit.uuid or unit.pci_bus_id):
            yield unit


def _unit(verdict: GpuVerdict) -> _Unit:
    return _Unit(_identity(verdict.uuid), verdict.pci_bus_id, verdict.index, verdict.device)


def _identity(uuid: str | None) -> str | None:
    return uuid if is_identity(uuid) else None
