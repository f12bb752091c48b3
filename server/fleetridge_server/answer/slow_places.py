"""Nodes and racks that are slow as a whole, as they are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fleetridge_server.answer.place_schemas import SlowPlace
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.verdicts import facts_shown, roof_name
from fleetridge_server.verdict.evidence import NodeName
from fleetridge_server.verdict.explanation import Explanation, place_onset, shared_causes
from fleetridge_server.verdict.nodes import RackName, SlowTogether
from fleetridge_server.verdict.onset import Onset
from fleetridge_server.verdict.reason import SharedCause
from fleetridge_server.verdict.remedies import REMEDIES

# A place or a notice may be about half of a fleet; so many names do to look one up, and the count says the rest.
MOST_NAMED = 100


def slow_places(
    places: Sequence[SlowTogether], explained: Mapping[str, Sequence[Explanation]]
) -> tuple[SlowPlace, ...]:
    """
    Places in each roof in which they are slow.

    Args:
        places: worst first.
        explained: reasons of all accused gpus, by id.
    """
    causes = shared_causes(explained)
    roofs: dict[NodeName | RackName, list[RoofName]] = defaultdict(list)
    for slow in places:
        roofs[slow.place].append(roof_name(slow.cohort.roof))
    return tuple(
        _slow_place(slow, tuple(roofs[slow.place]), causes.get((slow.place, slow.cohort)), place_onset(slow, explained))
        for slow in places
    )


def _slow_place(
    slow: SlowTogether, roofs: tuple[RoofName, ...], cause: SharedCause | None, since: Onset | None
) -> SlowPlace:
    return SlowPlace(
        cluster=slow.place.cluster,
        name=slow.place.name,
        roof=roof_name(slow.cohort.roof),
        conditions=slow.cohort.conditions,
        loss=slow.loss,
        gpus=len(slow.gpu_ids),
        gpu_ids=slow.gpu_ids[:MOST_NAMED],
        roofs=roofs,
        slow_since=None if since is None else since.since,
        slow_since_is_bound=since is not None and since.is_bound,
        cause=None if cause is None else cause.code,
        cause_text=None if cause is None else cause.text,
        facts=() if cause is None else facts_shown(cause.facts),
        next_step=_next_step(slow) if cause is None else cause.next_step,
    )


def _next_step(slow: SlowTogether) -> str:
    return REMEDIES["whole_rack" if isinstance(slow.place, RackName) else "whole_node"].next_step
