"""
Gpus of a device, worst first.

Pure. Whatever else will be said of a gpu, its rank is the first thing that a reader sees.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.compare.place import GpuPlace
from fleetridge_server.compare.ridge import Filter, GpuRoofs, listed
from fleetridge_server.verdict.state import ACCUSING, STATES, State

_ACCUSED = tuple(state for state in STATES if state in ACCUSING)
NOT_ACCUSED = len(_ACCUSED)

# Of gpus that the evaluation does not know; whoever reads on finds them at the end.
NOT_EVALUATED = NOT_ACCUSED + 1

_DEVIATION = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1


class Rank(NamedTuple):
    """
    Key by which gpus stand worst first: those that are accused, in the order of their states; then by the lowest
    deviation from the peers over all judged roofs; then by the gpu's id.

    Of the gpus that nobody accuses those without a judged value come last, for no data is neither good nor bad.
    """

    severity: int
    unmeasured: bool
    deviation: float
    gpu_id: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A gpu, where it is, what it reaches, and its rank among the device's gpus."""

    place: GpuPlace
    roofs: GpuRoofs
    rank: Rank


def standings(
    places: Iterable[GpuPlace],
    roofs: Mapping[str, GpuRoofs],
    only: Filter,
    severities: Mapping[str, int] | None = None,
    *,
    measured_only: bool,
) -> list[Standing]:
    """
    Gpus worst first.

    Args:
        places: the gpus to list.
        roofs: of all gpus of the device, by gpu id.
        only: roofs to list and to rank by.
        severities: `severity` of the gpus that are accused.
        measured_only: whether gpus without a judged roof to list are left out.
    """
    ranks = severities or {}
    found = [_standing(place, roofs.get(place.gpu_id), only, ranks.get(place.gpu_id, NOT_ACCUSED)) for place in places]
    return sorted((gpu for gpu in found if not (measured_only and gpu.rank.unmeasured)), key=lambda gpu: gpu.rank)


def packed_rank(rank: Rank) -> bytes:
    """
    A rank as bytes that sort as ranks do, whichever database compares them.

    One byte of severity; eight of the deviation, all ones where there is none; then the gpu's id.
    """
    deviation = _ALL if rank.unmeasured else _sortable(rank.deviation)
    return bytes([rank.severity]) + _DEVIATION.pack(deviation) + rank.gpu_id.encode()


def unpacked_rank(packed: bytes) -> Rank:
    """The rank that `packed_rank` packed."""
    [deviation] = _DEVIATION.unpack_from(packed, 1)
    unmeasured = deviation == _ALL
    name = packed[1 + _DEVIATION.size :].decode()
    return Rank(packed[0], unmeasured, 0.0 if unmeasured else _from_sortable(deviation), name)


def first_rank_of(severity: int) -> bytes:
    """What no packed rank of this severity or of a higher one comes before."""
    return bytes([severity])


def _sortable(number: float) -> int:
    """The bits of a number, so that they count up as numbers do: those of negative ones are turned over."""
    [bits] = _DEVIATION.unpack(_DOUBLE.pack(number + 0.0))  # which makes a zero of a negative zero
    return int(bits ^ _ALL if bits & _SIGN else bits | _SIGN)


def _from_sortable(bits: int) -> float:
    [number] = _DOUBLE.unpack(_DEVIATION.pack(bits ^ _SIGN if bits & _SIGN else bits ^ _ALL))
    return float(number)


def severity(state: State, last_state: State | None) -> int:
    """How early a gpu comes by what is said of it, or was when it was last measured."""
    said = last_state or state
    return _ACCUSED.index(said) if said in _ACCUSED else NOT_ACCUSED


def _standing(place: GpuPlace, roofs: GpuRoofs | None, only: Filter, severity: int) -> Standing:
    own = listed(roofs or GpuRoofs(place.gpu_id, (), (), ()), only)
    worst = own.worst
    rank = Rank(severity, worst is None, 0.0 if worst is None else worst.deviation, place.gpu_id)
    return Standing(place, own, rank)
