"""
Shapes of the verdict on one gpu: judged roofs with their limits, runs, reasons, drift, excuse.

Every number that a verdict rests on is in them, so that it can be recomputed by hand. The parts that a gpu has many of
are plain dataclasses, since a fleet has millions of them. `verdicts.record` says what of them is kept with the gpu and
what is put beside it when it is read.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.drift import DriftStatus
from fleetridge_server.engine.explanation import SettingChange
from fleetridge_server.engine.fast_dataclass import json_dataclass
from fleetridge_server.engine.gpu_state import MarkKind, State
from fleetridge_server.engine.health import HealthCode
from fleetridge_server.engine.remedies import ReasonCode
from fleetridge_server.engine.statistics import ScaleSource
from fleetridge_server.engine.verdict import GroupWord, PlaceWord
from fleetridge_server.engine.wording import Fact
from fleetridge_server.verdicts.roof_shapes import Answer, LevelName, RoofName


@json_dataclass
class Band:
    """
    What the gpus of one group are held against.

    With `scale` = max(1.4826·b_n·MAD, floor·median), pooled over the levels where the cohort has them:
    limit = min(max(gate, 3.5·scale/median), 10 %), without the 10 % in a `wide` cohort. A gpu is beyond it where
    1 - value/median > limit, which is below `lowest`.

    Attributes:
        n: gpus behind the median.
        median, scale, lowest: in the unit of the roof.
        scale_source: `mad` where the values gave it, `floor` where the floor is larger.
        degrees: of freedom of Student's t for p; null where p is from the normal distribution.
        pooled_n: gpus behind the scale.
        floor, gate, limit: as fractions of the median.
        levels: by which the cohort was split.
        of_faster_half: whether the median is that of the faster half of the values, as the slower half lies apart.
        note: why there is no verdict, if there is none.
    """

    n: int
    median: float
    scale: float
    scale_source: ScaleSource
    degrees: float | None
    pooled_n: int
    floor: float
    gate: float
    limit: float
    lowest: float
    wide: bool
    levels: tuple[LevelName, ...]
    note: str | None
    of_faster_half: bool = False


@dataclass(frozen=True, slots=True)
class CohortShown:
    """Gpus that may be compared in one roof, with the band of each of its groups; more than one where it has steps."""

    roof: RoofName
    unit: str
    conditions: Conditions
    n: int
    bands: tuple[Band, ...]


@json_dataclass
class PlaceShown:
    """A node or a rack."""

    kind: PlaceWord
    cluster: str
    name: str


@json_dataclass
class ReasonShown:
    """
    Why a gpu is slow, as far as its readings say.

    Attributes:
        cause: whether it explains a loss by itself; the others say where or when.
        facts: readings that it rests on; of a place the medians over the gpus that share them.
        place: node or rack that shares the loss, where the reason is `whole_node` or `whole_rack`.
        roofs: in which it was found; sentence and facts are those of the first.
        explains: part of the loss in the first of the roofs that it explains, from 0 to 1; null where nobody knows and
            for what says where or when.
    """

    code: ReasonCode
    text: str
    next_step: str
    cause: bool
    facts: tuple[Fact, ...]
    roofs: tuple[RoofName, ...]
    place: PlaceShown | None = None
    explains: float | None = None


@json_dataclass
class DriftShown:
    """
    One gpu beside its own past in one roof.

    Attributes:
        looks: runs an hour or more apart in the current epoch.
        baseline: median of the first eight of them; scale of those, floored. Null while learning.
        low, high: sums (CUSUM) of slower and faster looks in scales; beyond 5 something changed.
        onset: first look of the change.
        change: median of the newest (at most five) looks since the onset over the baseline, less 1.
        recent_change: the same of the newest looks, changed or not.
        gate: smallest loss that counts.
        first: first look of the current epoch; null while learning.
        counts: whether it makes the gpu `drifted`: no mark excuses it and its peers did not lose as much.
        excused: whether it would, but for a mark.
    """

    roof: RoofName
    status: DriftStatus
    looks: int
    baseline: float | None
    scale: float | None
    low: float
    high: float
    onset: datetime | None
    looks_since: int
    change: float | None
    recent_change: float
    gate: float
    counts: bool
    first: datetime | None = None
    excused: bool = False


AccusationName = Literal["clear", "suspect", "outlier"]


@json_dataclass
class RunShown:
    """
    One report's value in a roof.

    Attributes:
        value: as it was measured.
        beyond: whether it lies beyond today's limit.
        carried: what an upgrade since then did to the gpus that met it; the run counts for value·carried. 1 where
            nothing is known to have changed the rate.
        converged: as the agent said; a loss of a quarter counts at once only in a run that converged.
        fell_with_node: it lost a quarter, and so did every other gpu of its node within the hour, and went on so.
    """

    report_id: str
    ordered_at: datetime
    value: float
    beyond: bool
    carried: float = 1.0
    converged: bool | None = None
    fell_with_node: bool = False


@json_dataclass
class JudgedRoof:
    """
    One gpu in one roof beside its peers.

    Attributes:
        value: median of value·carried of the newest `value_runs` of `runs`, in `unit`.
        value_runs: at most three, all of the window of 30 days where any is.
        runs: newest first; those behind the value, and all (at most ten) that were looked at where one lies beyond.
        recent: whether the value is recent enough to count for others.
        counted: whether it is one of the `band.n` values behind the median.
        band: what it is held against.
        loss: 1 - value/median.
        z: (value - median)/scale, negative for slower; p: two-sided probability of such a distance among healthy
            gpus; q: share of false ones to expect among all that are as unlikely. Null where there are too few peers.
        standing: what its runs accuse it of; `excused` where a mark says that this is known.
        retest: only the newest run lies beyond the limit.
        intermittent: it comes and goes: some runs lie beyond, then clearly inside, then beyond again, and the good ones
            since are not yet as many as the bad ones. A note, no accusation.
        with_group: where the gpu is accused not for its own runs, but because its `node` or `rack` is slow as a whole
            or those that share a `setting` are.
        runs_beyond: how many of `runs` lie beyond the limit.
        newest_beyond: how many of them follow one another up to the newest that does.
        slow_since: the oldest of those; earlier where its drift tells of older runs. Null where it is not accused.
        slow_since_is_bound: no older run is known that lies inside, so that it is slow since then or before.
        slow_with: settings that changed with the first of those runs.
        behind: part that it lacks of the fastest of its few peers (two or three with it) where that is a tenth or more,
            which is no accusation; else null.
    """

    roof: RoofName
    unit: str
    conditions: Conditions
    value: float
    runs: tuple[RunShown, ...]
    recent: bool
    band: Band
    loss: float
    z: float | None
    p: float | None
    q: float | None
    standing: AccusationName
    excused: bool
    retest: bool
    intermittent: bool
    counted: bool = True
    value_runs: int = 1
    with_group: GroupWord | None = None
    runs_beyond: int = 0
    newest_beyond: int = 0
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    slow_with: tuple[SettingChange, ...] = ()
    behind: float | None = None


VerdictFlag = Literal["differs", "excused", "identity_conflict", "intermittent", "retest", "slow_link"]


@json_dataclass
class HealthShown:
    """What is wrong with a gpu whatever its rates are, and needs somebody's action."""

    code: HealthCode
    text: str
    next_step: str


@json_dataclass
class ExcuseShown:
    """A mark without which the state would be another; `mark_id` is null where it is not stored."""

    mark_id: int | None
    kind: MarkKind
    reason: str
    made_at: datetime
    until: datetime | None


class GpuVerdict(Answer):
    """
    What is said of one gpu, with everything that it rests on.

    `state` is the first that holds of `known`, `missing`, `unmeasured`, `stale`, `contended`, `implausible`, `outlier`,
    `drifted`, `suspect`, `insufficient_peers`, `ok`; `last_state` is what its runs say where the state is about missing
    or unusable measurements, and what it would be without its `excuses` where it is `known`. `reason` is the code of
    the first of `reasons`: what the gpu shares with its whole node or rack, else a cause where there is one.
    `worst_loss` is the largest loss over its judged roofs. `slow_since` is since when the gpu has been slow in the roof
    that `text` is about, by its runs and not by when somebody looked (with `slow_since_is_bound` since then or before);
    null for a gpu that is not accused. `measured_at` is the time of its newest measurement, whatever came of it.
    `next_step` is the one thing to do next: that of the first reason, or what its state asks for; null where there is
    nothing to do.
    `health` is what needs action whatever the rates are (repairs, memory errors, links, clocks that are held down),
    each with a step of its own; it makes no gpu slow.
    """

    gpu_id: str
    state: State
    last_state: State | None
    text: str
    reason: ReasonCode | None
    worst_loss: float | None
    flags: tuple[VerdictFlag, ...]
    reasons: tuple[ReasonShown, ...]
    roofs: tuple[JudgedRoof, ...]
    links: tuple[JudgedRoof, ...]
    drifts: tuple[DriftShown, ...]
    excuses: tuple[ExcuseShown, ...]
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    measured_at: datetime | None = None
    next_step: str | None = None
    health: tuple[HealthShown, ...] = ()

    @property
    def is_gone(self) -> bool:
        """Whether it is not there, be it known or not."""
        return "missing" in (self.state, self.last_state)
