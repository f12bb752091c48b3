"""
The past of each gpu, roof by roof: what drift is read from.

Needs more of the past than a verdict does. It changes only with a gpu's own reports, so a caller may keep the result
and ask again only for gpus that reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import NEWEST_REPORTS, Cohort, is_judged
from fleetridge_server.verdict.drift import Drift, Epoch, Look, drift
from fleetridge_server.verdict.evidence import JudgedReport
from fleetridge_server.verdict.members import members_by_cohort
from fleetridge_server.verdict.scale import FLOOR_WHEN_UNKNOWN, scale_floor


def runs_by_roof(reports: Sequence[JudgedReport]) -> dict[RoofKey, list[Look]]:
    """Valid runs of one gpu in every judged roof, oldest first."""
    found: dict[RoofKey, list[Look]] = defaultdict(list)
    for report in reversed(reports):
        if report.is_valid:
            epoch = Epoch(report.factors, report.conditions)
            for roof, reading in report.roofs.items():
                if is_judged(roof) and not reading.implausible:
                    found[roof].append(Look(report.ordered_at, reading.value, epoch))
    return found


def floors(histories: Mapping[str, Sequence[JudgedReport]], as_of: datetime) -> dict[Cohort, float]:
    """Smallest scale of every cohort, as a fraction."""
    return {
        cohort: scale_floor([run.value for run in member.runs[:NEWEST_REPORTS]] for member in members)
        for cohort, members in members_by_cohort(histories, as_of).items()
    }


def gpu_drifts(reports: Sequence[JudgedReport], cohort_floors: Mapping[Cohort, float]) -> dict[RoofKey, Drift]:
    """
    Drift of one gpu in each of its judged roofs.

    Args:
        reports: of the gpu, newest first, as many as there are.
        cohort_floors: of its cohorts; 1 % where none is given.
    """
    found: dict[RoofKey, Drift] = {}
    for roof, runs in runs_by_roof(reports).items():
        cohort = Cohort(roof, runs[-1].epoch.conditions)
        found[roof] = drift(runs, cohort_floors.get(cohort, FLOOR_WHEN_UNKNOWN))
    return found
