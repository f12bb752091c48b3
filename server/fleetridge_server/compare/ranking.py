"""
Gpus of a device, worst first.

Pure. Whatever else will be said of a gpu, its rank is the first thing that a reader sees.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.compare.place import GpuPlace
from fleetridge_server.compare.ridge import GpuRoofs
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


def ranks(
    gpus: Mapping[int, str],
    deviations: Mapping[int, float],
    severities: Mapping[str, int] | None = None,
    *,
    measured_only: bool,
) -> list[tuple[Rank, int]]:
    """
    Gpus worst first, each with its number.

    Args:
        gpus: to list: ids, by number.
        deviations: lowest of each gpu over its roofs to rank by (`cohort_values.worst_deviations`).
        severities: `severity` of the gpus that are accused, by id.
        measured_only: whether gpus without a deviation are left out.
    """
    severe = severities or {}
    found: list[tuple[Rank, int]] = []
    for number, gpu_id in gpus.items():
        deviation = deviations.get(number)
        if deviation is not None or not measured_only:
            rank = Rank(severe.get(gpu_id, NOT_ACCUSED), deviation is None, deviation or 0.0, gpu_id)
            found.append((rank, number))
    return sorted(found)


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
