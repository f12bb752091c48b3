"""Shapes of one gpu beside its peers in one roof."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fleetridge_server.answer.band_schemas import Band
from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.record import json_record

StandingName = Literal["clear", "suspect", "outlier"]


@json_record
class RunShown:
    """
    One report's value in a roof.

    Attributes:
        value: as it was measured.
        beyond: whether it lies beyond today's limit.
        carried: what an upgrade since then did to the gpus that met it; the run counts for value·carried. 1 where
            nothing is known to have changed the rate.
        converged: as the agent said; a loss of a quarter counts at once only in a run that converged.
    """

    report_id: str
    ordered_at: datetime
    value: float
    beyond: bool
    carried: float = 1.0
    converged: bool | None = None


@json_record
class SettingChangeShown:
    """A setting or version that changed between two runs of a gpu."""

    factor: str
    before: str
    after: str


@json_record
class JudgedRoof:
    """
    One gpu in one roof beside its peers.

    Attributes:
        value: median of value·carried of the newest (at most three) of `runs`, in `unit`.
        runs: newest first; those behind the value, and all (at most ten) that were looked at where one lies beyond.
        recent: whether the value is recent enough to count for others.
        counted: whether it is one of the `band.n` values behind the median.
        band: what it is held against.
        loss: 1 - value/median.
        z: (value - median)/scale, negative for slower; p: two-sided probability of such a distance among healthy
            gpus; q: share of false ones to expect among all that are as unlikely. Null where there are too few peers.
        standing: what its runs accuse it of; `excused` where a mark says that this is known.
        retest: only the newest run lies beyond the limit.
        intermittent: two or more of the newest ten do, and one that is newer than the oldest of those lies inside.
        runs_beyond: how many of `runs` lie beyond the limit.
        newest_beyond: how many of them follow one another up to the newest that does.
        slow_since: the oldest of those; earlier where its drift tells of older runs. Null where it is not accused.
        slow_since_is_bound: no older run is known that lies inside, so that it is slow since then or before.
        slow_with: settings that changed with the first of those runs.
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
    standing: StandingName
    excused: bool
    retest: bool
    intermittent: bool
    counted: bool = True
    runs_beyond: int = 0
    newest_beyond: int = 0
    slow_since: datetime | None = None
    slow_since_is_bound: bool = False
    slow_with: tuple[SettingChangeShown, ...] = ()
