"""From one gpu's reports to its history: epochs, what changed between them, and its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import cast
from uuid import UUID

from fleetridge.report import RoofKey
from fleetridge_server.answer.gpu_schemas import (
    ChangeShown,
    EpochShown,
    HistoryRun,
    OwnEffect,
    RunRoof,
    VerdictChangeShown,
)
from fleetridge_server.answer.verdicts import roof_name, unit_of
from fleetridge_server.compare.cohort import NEWEST_REPORTS
from fleetridge_server.compare.stats import median
from fleetridge_server.store.models import Roof
from fleetridge_server.store.series import Setting
from fleetridge_server.store.summaries import NamedReport
from fleetridge_server.store.verdict_models import VerdictChange
from fleetridge_server.verdict.drift import Epoch
from fleetridge_server.verdict.levels import level_name
from fleetridge_server.verdict.state import State

# Changes whose effects are told; older ones are seen in the epochs.
MOST_CHANGES = 20

Roofs = Mapping[UUID, Mapping[RoofKey, Roof]]


def epochs_of(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Spans between which something is known to have changed, oldest first."""
    epochs: list[list[Setting]] = []
    for setting in settings:
        if epochs and setting.epoch.continues(epochs[-1][-1].epoch):
            epochs[-1].append(setting)
        else:
            epochs.append([setting])
    return epochs


def around_changes(epochs: Sequence[Sequence[Setting]]) -> list[tuple[list[Setting], list[Setting]]]:
    """Runs before and after each of the newest changes, newest change first; only those whose rates count."""
    return [(_valid(before)[-NEWEST_REPORTS:], _valid(after)[:NEWEST_REPORTS]) for before, after in _steps(epochs)]


def epochs_shown(epochs: Sequence[Sequence[Setting]]) -> tuple[EpochShown, ...]:
    """Epochs, newest first."""
    shown = [
        EpochShown(number, runs[0].ordered_at, runs[-1].ordered_at, len(runs), _known(runs[-1].epoch))
        for number, runs in enumerate(epochs, start=1)
    ]
    return tuple(reversed(shown))


def changes_shown(epochs: Sequence[Sequence[Setting]], roofs: Roofs) -> tuple[ChangeShown, ...]:
    """What changed between epochs and what the gpu's roofs did, newest first."""
    return tuple(
        _change(before[-1], after[0], _effects(*runs, roofs))
        for (before, after), runs in zip(_steps(epochs), around_changes(epochs), strict=True)
    )


def runs_shown(
    reports: Iterable[NamedReport], roofs: Roofs, epochs: Sequence[Sequence[Setting]]
) -> tuple[HistoryRun, ...]:
    """Reports with their judged roofs."""
    number_of = {run.report_id: number for number, runs in enumerate(epochs, start=1) for run in runs}
    return tuple(
        HistoryRun(
            report_id=named.report.id,
            ordered_at=named.report.ordered_at,
            run_kind=named.report.run_kind,
            cluster=named.report.cluster,
            node=named.node,
            outcome=named.report.outcome,
            reason=named.report.reason,
            contended=named.report.contended,
            epoch=number_of.get(named.report.id),
            roofs=tuple(_run_roof(key, roof) for key, roof in roofs.get(named.report.id, {}).items()),
        )
        for named in reports
        if named.report.ordered_at is not None
    )


def verdict_changes_shown(changes: Iterable[VerdictChange]) -> tuple[VerdictChangeShown, ...]:
    """Changes of a verdict as they are listed."""
    return tuple(_verdict_change(change) for change in changes)


def _steps(epochs: Sequence[Sequence[Setting]]) -> list[tuple[Sequence[Setting], Sequence[Setting]]]:
    """Epochs that follow one another, the newest first."""
    return list(pairwise(epochs))[: -MOST_CHANGES - 1 : -1]


def _valid(runs: Iterable[Setting]) -> list[Setting]:
    return [run for run in runs if run.is_valid]


def _verdict_change(change: VerdictChange) -> VerdictChangeShown:
    return VerdictChangeShown(
        as_of=change.as_of,
        state=cast("State | None", change.state),
        last_state=cast("State | None", change.last_state),
        reason=change.reason,
        loss=change.loss,
        text=change.text,
    )


def _run_roof(key: RoofKey, roof: Roof) -> RunRoof:
    return RunRoof(
        roof=roof_name(key),
        unit=unit_of(key),
        value=roof.value,
        converged=roof.converged,
        implausible=roof.implausible,
        trend=roof.trend,
        sm_clock_mhz=roof.sm_clock_mhz,
        memory_clock_mhz=roof.memory_clock_mhz,
        power_w=roof.power_w,
        temperature_c=roof.temperature_c,
        throttle_ms=roof.throttle_ms,
    )


def _effects(before: Sequence[Setting], after: Sequence[Setting], roofs: Roofs) -> Iterable[OwnEffect]:
    old, new = _values(before, roofs), _values(after, roofs)
    for key in old:
        if key in new:
            was, became = median(old[key]), median(new[key])
            yield OwnEffect(roof_name(key), unit_of(key), was, became, became / was - 1)


def _values(runs: Iterable[Setting], roofs: Roofs) -> dict[RoofKey, list[float]]:
    found: dict[RoofKey, list[float]] = {}
    for run in runs:
        for key, roof in roofs.get(run.report_id, {}).items():
            if not roof.implausible:
                found.setdefault(key, []).append(roof.value)
    return found


def _change(before: Setting, after: Setting, effects: Iterable[OwnEffect]) -> ChangeShown:
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
