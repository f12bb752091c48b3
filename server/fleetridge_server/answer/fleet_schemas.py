"""Shape of the one answer about the whole fleet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleetridge_server.answer.alert_schemas import AlertShown
from fleetridge_server.answer.node_schemas import WorstGpu
from fleetridge_server.answer.place_schemas import SlowPlace
from fleetridge_server.answer.schemas import Answer
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.verdict.notices import NoticeKind
from fleetridge_server.verdict.state import State


@dataclass(frozen=True, slots=True)
class LongUnmeasured:
    """A gpu that was not measured for long; `measured_at` is null where it never was."""

    gpu_id: str
    device: str
    cluster: str
    node: str | None
    measured_at: datetime | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the fleet was measured, without disturbance, in the last days; null share where there are no gpus."""

    days: int
    gpus: int
    measured: int
    share: float | None
    longest_unmeasured: tuple[LongUnmeasured, ...]


@dataclass(frozen=True, slots=True)
class DeviceVerdicts:
    """
    Verdicts on the gpus of one device by state.

    Attributes:
        noted: kinds of notices on groups of its gpus, such as those with a driver that makes them slower; no gpu is
            accused of that, and the device's ridge has them in full.
        evaluated_as_of: null before the first evaluation.
    """

    name: str
    slug: str
    gpus: int
    verdicts: dict[State, int]
    noted: tuple[NoticeKind, ...]
    evaluated_as_of: datetime | None


class WorstNode(Answer):
    """A node with gpus in trouble: how many, and the one that is worst off."""

    cluster: str
    name: str
    troubled: int
    worst: WorstGpu


@dataclass(frozen=True, slots=True)
class VerdictStep:
    """How often a gpu's verdict went from one state to another; `before` is null for gpus that are new."""

    before: State | None
    after: State | None
    gpus: int


class Changes(Answer):
    """What became different: alerts that were opened and resolved, the newest first; verdicts by their steps."""

    since: datetime
    opened: int
    resolved: int
    still_open: int
    alerts: tuple[AlertShown, ...]
    verdicts: tuple[VerdictStep, ...]


class FleetAnswer(Answer):
    """
    The one answer: is the fleet good, and if not, where.

    `nodes_never_reported` counts nodes that only the inventory knows, `unnamed` the gpus that it expects beyond those
    that anybody has seen. `slow_nodes` and `slow_racks` are those that are slow as a whole, each once, in the roof in
    which it loses most. `stragglers` are the jobs that lose most to their slowest gpu: over a device, a rack and a
    node, in one roof each.
    """

    as_of: datetime
    sentence: str
    gpus: int
    verdicts: dict[State, int]
    devices: tuple[DeviceVerdicts, ...]
    coverage: Coverage
    nodes_never_reported: int
    unnamed: int
    worst_nodes: tuple[WorstNode, ...]
    slow_nodes: tuple[SlowPlace, ...]
    slow_racks: tuple[SlowPlace, ...]
    changes: Changes
    stragglers: tuple[StragglerShown, ...]
