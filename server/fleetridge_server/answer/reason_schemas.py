"""Shapes of why a gpu is slow."""

from __future__ import annotations

from typing import Literal

from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.record import json_record
from fleetridge_server.verdict.remedies import ReasonCode


@json_record
class FactShown:
    """
    A reading beside that of the peers.

    Attributes:
        reading: its name in reports.
        own, peers: as people write them; `peers` is empty where there is nothing beside it.
        own_value, peers_value: as numbers in `unit`; null where they are words.
    """

    reading: str
    own: str
    peers: str
    own_value: float | None = None
    peers_value: float | None = None
    unit: str = ""


@json_record
class PlaceShown:
    """A node or a rack."""

    kind: Literal["node", "rack"]
    cluster: str
    name: str


@json_record
class ReasonShown:
    """
    Why a gpu is slow, as far as its readings say.

    Attributes:
        cause: whether it explains a loss by itself; the others say where or when.
        facts: readings that it rests on; of a place the medians over the gpus that share them.
        place: node or rack that shares the loss, where the reason is `whole_node` or `whole_rack`.
        roofs: in which it was found; sentence and facts are those of the first.
    """

    code: ReasonCode
    text: str
    next_step: str
    cause: bool
    facts: tuple[FactShown, ...]
    roofs: tuple[RoofName, ...]
    place: PlaceShown | None = None
