"""One gpu: what it reaches, its verdict, its history."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from uuid import UUID

from fleetridge.report import RoofKey
from fleetridge_server.db.tables import Roof
from fleetridge_server.engine.drift import Epoch
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.groups import level_name
from fleetridge_server.engine.rule import NEWEST_REPORTS
from fleetridge_server.engine.statistics import median
from fleetridge_server.fleet.reports import NamedReport, ReportSettings
from fleetridge_server.responses.verdict import EvaluatedAnswer
from fleetridge_server.verdicts.roof_shapes import (
    Answer,
    DeviceName,
    Flag,
    GpuBandwidth,
    GpuRidge,
    ReportSummary,
    RoofName,
    ShownRoof,
    Worst,
    shape_of,
)
from fleetridge_server.verdicts.sentence import roof_name, unit_of
from fleetridge_server.verdicts.verdict_shapes import DriftShown, GpuVerdict


class GpuAnswer(EvaluatedAnswer):
    """
    One gpu: who and where it is, what it reaches against its peers, and its newest reports, newest first.

    `verdict` has every number that it rests on; `verdict_since` is when its state began. Both are null before the first
    evaluation. `not_judged_yet` is the newest report since the evaluation, of which no number here knows.
    """

    gpu_id: str
    as_of: datetime
    device: DeviceName
    cluster: str
    node: str | None
    index: int | None
    pci_bus_id: str | None
    architecture: str | None
    memory_bytes: int | None
    sm_count: int | None
    mig_profile: str | None
    partition: str | None
    first_seen: datetime | None
    last_seen: datetime | None
    verdict_since: datetime | None
    verdict: GpuVerdict | None
    latest: ReportSummary | None
    not_judged_yet: ReportSummary | None
    worst: Worst | None
    flags: tuple[Flag, ...]
    ridges: tuple[GpuRidge, ...]
    bandwidths: tuple[GpuBandwidth, ...]
    other_roofs: tuple[ShownRoof, ...]
    reports: tuple[ReportSummary, ...]


@dataclass(frozen=True, slots=True)
class RunRoof:
    """One judged roof of one report, in `unit`, with what the device said of itself meanwhile."""

    roof: RoofName
    unit: str
    value: float
    converged: bool | None
    implausible: bool
    trend: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle_ms: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One report of a gpu, measured or not; `epoch` is the number of the span that it belongs to, null where none."""

    report_id: UUID
    ordered_at: datetime
    run_kind: str
    cluster: str
    node: str | None
    outcome: str
    reason: str | None
    contended: bool | None
    epoch: int | None
    roofs: tuple[RunRoof, ...]


@dataclass(frozen=True, slots=True)
class EpochShown:
    """
    A span in which nothing is known to have changed: software, settings, and how was measured.

    Attributes:
        number: 1 for the oldest that is known.
        first, last: ordering times of its runs.
        settings: what is known of it, as people write it.
    """

    number: int
    first: datetime
    last: datetime
    runs: int
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class OwnEffect:
    """A roof before and after a change: medians of at most three runs each, and their ratio less 1."""

    roof: RoofName
    unit: str
    before: float
    after: float
    effect: float


@dataclass(frozen=True, slots=True)
class ChangeShown:
    """What changed between two epochs (`before` and `after` by setting), and what the gpu's own roofs did."""

    ordered_at: datetime
    before: dict[str, str]
    after: dict[str, str]
    effects: tuple[OwnEffect, ...]


@dataclass(frozen=True, slots=True)
class VerdictChangeShown:
    """What was said of the gpu from a time on; a null state where it was no longer spoken of."""

    as_of: datetime
    state: State | None
    last_state: State | None
    reason: str | None
    loss: float | None
    text: str | None


class GpuHistoryAnswer(Answer):
    """
    One gpu's past, newest first: its runs page by page, and what is known of all of it.

    `epochs` and `changes` rest on its newest 1000 measured reports; `drifts` is as of the newest evaluation.
    """

    gpu_id: str
    device: DeviceName
    as_of: datetime
    epochs: tuple[EpochShown, ...]
    changes: tuple[ChangeShown, ...]
    drifts: tuple[DriftShown, ...]
    verdict_changes: tuple[VerdictChangeShown, ...]
    runs: tuple[HistoryRun, ...]
    next: str | None


# Changes whose effects are shown; older ones are seen in the epochs.
MOST_CHANGES = 20

RoofsByReport = Mapping[UUID, Mapping[RoofKey, Roof]]


def epochs_of(settings: Sequence[ReportSettings]) -> list[list[ReportSettings]]:
    """Spans between which something is known to have changed, oldest first."""
    epochs: list[list[ReportSettings]] = []
    for setting in settings:
        if epochs and setting.epoch.continues(epochs[-1][-1].epoch):
            epochs[-1].append(setting)
        else:
            epochs.append([setting])
    return epochs


def around_changes(
    epochs: Sequence[Sequence[ReportSettings]],
) -> list[tuple[list[ReportSettings], list[ReportSettings]]]:
    """Runs before and after each of the newest changes, newest change first; only those whose rates count."""
    return [(_valid(before)[-NEWEST_REPORTS:], _valid(after)[:NEWEST_REPORTS]) for before, after in _steps(epochs)]


def epochs_shown(epochs: Sequence[Sequence[ReportSettings]]) -> tuple[EpochShown, ...]:
    """Epochs, newest first."""
    shown = [
        EpochShown(number, runs[0].ordered_at, runs[-1].ordered_at, len(runs), _known(runs[-1].epoch))
        for number, runs in enumerate(epochs, start=1)
    ]
    return tuple(reversed(shown))


def changes_shown(epochs: Sequence[Sequence[ReportSettings]], roofs: RoofsByReport) -> tuple[ChangeShown, ...]:
    """What changed between epochs and what the gpu's roofs did, newest first."""
    return tuple(
        _change(before[-1], after[0], _effects(*runs, roofs))
        for (before, after), runs in zip(_steps(epochs), around_changes(epochs), strict=True)
    )


def runs_shown(
    reports: Iterable[NamedReport], roofs: RoofsByReport, epochs: Sequence[Sequence[ReportSettings]]
) -> tuple[HistoryRun, ...]:
    """Reports with their judged roofs."""
    number_of = {run.report_id: number for number, runs in enumerate(epochs, start=1) for run in runs}
    return tuple(
        shape_of(
            HistoryRun,
            named.report,
            report_id=named.report.id,
            node=named.node,
            epoch=number_of.get(named.report.id),
            roofs=tuple(
                shape_of(RunRoof, roof, roof=roof_name(key), unit=unit_of(key))
                for key, roof in roofs.get(named.report.id, {}).items()
            ),
        )
        for named in reports
        if named.report.ordered_at is not None
    )


def _steps(
    epochs: Sequence[Sequence[ReportSettings]],
) -> list[tuple[Sequence[ReportSettings], Sequence[ReportSettings]]]:
    """Epochs that follow one another, the newest first."""
    return list(pairwise(epochs))[: -MOST_CHANGES - 1 : -1]


def _valid(runs: Iterable[ReportSettings]) -> list[ReportSettings]:
    return [run for run in runs if run.is_valid]


def _effects(
    before: Sequence[ReportSettings], after: Sequence[ReportSettings], roofs: RoofsByReport
) -> Iterable[OwnEffect]:
    old, new = _values(before, roofs), _values(after, roofs)
    for key in old:
        if key in new:
            was, became = median(old[key]), median(new[key])
            yield OwnEffect(roof_name(key), unit_of(key), was, became, became / was - 1)


def _values(runs: Iterable[ReportSettings], roofs: RoofsByReport) -> dict[RoofKey, list[float]]:
    found: dict[RoofKey, list[float]] = {}
    for run in runs:
        for key, roof in roofs.get(run.report_id, {}).items():
            if not roof.implausible:
                found.setdefault(key, []).append(roof.value)
    return found


def _change(before: ReportSettings, after: ReportSettings, effects: Iterable[OwnEffect]) -> ChangeShown:
    old, new = _known(before.epoch), _known(after.epoch)
    changed = [name for name in new if name in old and old[name] != new[name]]
    return ChangeShown(
        ordered_at=after.ordered_at,
        before={name: old[name] for name in changed},
        after={name: new[name] for name in changed},
        effects=tuple(effects),
    )


def _known(epoch: Epoch) -> dict[str, str]:
    """Settings that are known, as people write them."""
    readings = epoch.factors._asdict() | asdict(epoch.conditions)
    return {name: level_name(reading) for name, reading in readings.items() if reading is not None}
