"""Shapes of an evaluation as a whole: notices, slow places, stragglers, figures."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort, Conditions
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.health import HealthCode
from fleetridge_server.engine.nodes import WithoutWorst
from fleetridge_server.engine.notices import NoticeKind
from fleetridge_server.engine.remedies import ReasonCode
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.engine.wording import Fact
from fleetridge_server.verdicts.roof_shapes import Answer, FleetBandwidth, FleetRidge, LevelName, RoofName
from fleetridge_server.verdicts.verdict_shapes import Band, CohortShown, JudgedRoof


@dataclass(frozen=True, slots=True)
class NoticeShown:
    """
    One sentence on a cohort or on the device.

    Attributes:
        effect, low, high: with the interval, as fractions, where there is one.
        gpus: how many it is about; `gpu_ids` names the first of them.
    """

    kind: NoticeKind
    text: str
    roof: RoofName | None
    conditions: Conditions | None
    effect: float | None
    low: float | None
    high: float | None
    levels: tuple[LevelName, ...]
    gpus: int
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpgradeShown:
    """
    What a change of one factor did to the gpus that met it, each against itself.

    Attributes:
        n: gpus.
        effect: after over before, less 1 (Hodges–Lehmann on log ratios).
        low, high: its interval, of the given `confidence`: 95 %, or less where there are fewer than six gpus.
    """

    roof: RoofName
    unit: str
    factor: str
    before: str
    after: str
    n: int
    effect: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class SlowPlace:
    """
    A node or a rack that is slow as a whole in one roof.

    Attributes:
        loss: of the median of its gpus, against the median of all `compared` places of its kind.
        q: share of healthy places to expect among all that are as unlikely.
        accused: both halves of its newest runs say so, and its gpus are accused with it; else it is a note.
        gpus, gpu_ids: its gpus that share the loss.
        roofs: all in which the place is slow, worst first.
        slow_since: median over its accused gpus of since when each is slow; with `slow_since_is_bound` or before.
        cause: code of what most of its gpus have in common, null where there is nothing; cause_text: in words, with
            how many of them; facts: medians of the readings that it rests on; next_step: for the place.
    """

    cluster: str
    name: str
    roof: RoofName
    conditions: Conditions
    loss: float
    q: float
    compared: int
    accused: bool
    gpus: int
    gpu_ids: tuple[str, ...]
    roofs: tuple[RoofName, ...] = ()
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    cause: ReasonCode | None = None
    cause_text: str | None = None
    facts: tuple[Fact, ...] = ()
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class AbsenceShown:
    """What is missing from a node; `unnamed` counts those that nobody has ever seen."""

    cluster: str
    node: str
    gpu_ids: tuple[str, ...]
    unnamed: int
    never_reported: bool


@dataclass(frozen=True, slots=True)
class StragglerShown:
    """
    What a synchronous job over a group loses to its slowest gpu in one roof.

    Attributes:
        scope: `device` for all its gpus, else `rack` or `node`.
        loss: part of the sum of all rates that waiting costs.
        without: the job without the worst 1, 2, … gpus; best: what wins most back, null where nothing does.
    """

    scope: Literal["device", "rack", "node"]
    cluster: str | None
    name: str | None
    roof: RoofName
    unit: str
    conditions: Conditions
    n: int
    slowest: float
    slowest_gpu_id: str
    loss: float
    without: tuple[WithoutWorst, ...]
    best: WithoutWorst | None


class CohortFigures(Answer):
    """
    The values of the gpus that may be compared in one roof.

    `quantiles` are 101 values, ascending: those at 0 %, 1 % … 100 % of the gpus, so that charts of a large fleet need
    not know each gpu.
    """

    roof: RoofName
    unit: str
    conditions: Conditions
    peers: Distribution
    quantiles: tuple[float, ...]


class FleetFigures(Answer):
    """What the gpus of a device reach, from the values that their verdicts rest on."""

    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]
    cohorts: tuple[CohortFigures, ...]


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Gpus of a node with one thing that needs action, whatever their rates are; null for those of no node."""

    cluster: str | None
    node: str | None
    code: HealthCode
    gpu_ids: tuple[str, ...]


class EvaluationBody(Answer):
    """
    What is said of one device at one time, besides its gpus.

    `stragglers` are those of the device in each of its judged roofs, then the worst racks and nodes. `figures` are null
    in evaluations of servers that did not store them. `differing` are the gpus that lie far below the fastest of their
    few peers.
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
    differing: tuple[str, ...] = ()
    health: tuple[NodeHealth, ...] = ()


# Nine bytes are twelve letters of base64, and among some dozens of groups no two are ever alike.
_KEY_BYTES = 9


@dataclass(frozen=True, slots=True)
class Reference:
    """
    What the gpus of one group are held against in one roof.

    Attributes:
        cohort: its number among the cohorts of the evaluation; group: its number within that.
    """

    roof: RoofName
    unit: str
    conditions: Conditions
    band: Band
    cohort: int
    group: int


References = Mapping[str, Reference]
"""By `reference_key`."""


def reference_key(roof: RoofKey | RoofName, conditions: Conditions, levels: Iterable[Level | LevelName]) -> str:
    """Key of a group: the same in every evaluation that has it."""
    name = (roof.kind, roof.dtype, roof.out_dtype, roof.fast_accumulation, roof.regime, roof.level, roof.kernel)
    shared = tuple(getattr(conditions, field) for field in Conditions.__dataclass_fields__)
    text = repr((name, shared, tuple((level.factor, level.name) for level in levels)))
    return base64.b85encode(blake2b(text.encode(), digest_size=_KEY_BYTES).digest()).decode()


def references_of(cohorts: Iterable[CohortShown]) -> dict[str, Reference]:
    """Reference of every group of an evaluation's cohorts."""
    return {
        reference_key(own.roof, own.conditions, band.levels): Reference(
            own.roof, own.unit, own.conditions, band, number, group
        )
        for number, own in enumerate(cohorts)
        for group, band in enumerate(own.bands)
    }


def cohort_of(shown: CohortShown | CohortFigures | JudgedRoof) -> Cohort:
    """Key of a cohort as the engine has it."""
    return Cohort(RoofKey(*(getattr(shown.roof, name) for name in RoofKey._fields)), shown.conditions)
