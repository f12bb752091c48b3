"""
Gpus of a device, worst first.

Pure. Whatever else will be said of a gpu, its rank is the first thing that a reader sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fleetridge_server.compare.place import GpuPlace
from fleetridge_server.compare.ridge import Filter, GpuRoofs, listed
from fleetridge_server.verdict.state import ACCUSING, STATES, State

_ACCUSED = tuple(state for state in STATES if state in ACCUSING)
NOT_ACCUSED = len(_ACCUSED)


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


def severity(state: State, last_state: State | None) -> int:
    """How early a gpu comes by what is said of it, or was when it was last measured."""
    said = last_state or state
    return _ACCUSED.index(said) if said in _ACCUSED else NOT_ACCUSED


def _standing(place: GpuPlace, roofs: GpuRoofs | None, only: Filter, severity: int) -> Standing:
    own = listed(roofs or GpuRoofs(place.gpu_id, (), (), ()), only)
    worst = own.worst
    rank = Rank(severity, worst is None, 0.0 if worst is None else worst.deviation, place.gpu_id)
    return Standing(place, own, rank)
