"""Shape of what an evaluation says of a device, besides its gpus."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.band_schemas import CohortShown
from fleetridge_server.answer.figure_schemas import FleetFigures
from fleetridge_server.answer.notice_schemas import NoticeShown, UpgradeShown
from fleetridge_server.answer.place_schemas import AbsenceShown, SlowPlace
from fleetridge_server.answer.schemas import Answer
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.verdict.state import State


class EvaluationBody(Answer):
    """
    What is said of one device at one time, besides its gpus.

    `stragglers` are those of the device in each of its judged roofs, then the worst racks and nodes. `figures` are null
    in evaluations of servers that did not store them.
    """

    as_of: datetime
    rule_version: int
    gpus: int
    counts: dict[State, int]
    cohorts: tuple[CohortShown, ...]
    notices: tuple[NoticeShown, ...]
    slow_nodes: tuple[SlowPlace, ...]
    slow_racks: tuple[SlowPlace, ...]
    absences: tuple[AbsenceShown, ...]
    stragglers: tuple[StragglerShown, ...]
    upgrades: tuple[UpgradeShown, ...]
    figures: FleetFigures | None = None
