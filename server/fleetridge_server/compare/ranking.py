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


class Rank(NamedTuple):
    """
    Key by which gpus stand worst first: the lowest deviation from the peers over all judged roofs, then the gpu's id.

    Gpus without a judged value come last, for no data is neither good nor bad.
    """

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
    places: Iterable[GpuPlace], roofs: Mapping[str, GpuRoofs], only: Filter, *, measured_only: bool
) -> list[Standing]:
    """
    Gpus worst first.

    Args:
        places: the gpus to list.
        roofs: of all gpus of the device, by gpu id.
        only: roofs to list and to rank by.
        measured_only: whether gpus without a judged roof to list are left out.
    """
    found = [_standing(place, roofs.get(place.gpu_id), only) for place in places]
    return sorted((gpu for gpu in found if not (measured_only and gpu.rank.unmeasured)), key=lambda gpu: gpu.rank)


def _standing(place: GpuPlace, roofs: GpuRoofs | None, only: Filter) -> Standing:
    own = listed(roofs or GpuRoofs(place.gpu_id, (), (), ()), only)
    worst = own.worst
    rank = Rank(worst is None, 0.0 if worst is None else worst.deviation, place.gpu_id)
    return Standing(place, own, rank)
