"""Drift that peers share: where a fleet became slower together, no gpu of it drifted by itself."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.notices import Notice, fleet_drift_notice
from fleetridge_server.engine.rule import BEYOND_SCALES, FEWEST_PEERS
from fleetridge_server.engine.statistics import median, robust_deviation, small_sample_factor
from fleetridge_server.engine.verdict import Verdict

Drifts = Mapping[str, Mapping[RoofKey, Drift]]


@dataclass(frozen=True, slots=True)
class _Shared:
    """Median of the recent changes of a cohort's gpus, and their scale."""

    change: float
    scale: float

    def explains(self, own: Drift) -> bool:
        """Whether a gpu lost no more than its peers, give or take what sets them apart."""
        return own.recent_change - self.change > -max(own.gate, BEYOND_SCALES * self.scale)


def own_drifts(drifts: Drifts, verdicts: Iterable[Verdict]) -> tuple[Drifts, list[Notice]]:
    """
    Drifts less what peers share, and one notice for each cohort that became slower as a whole.

    With the changes of at least four gpus since their baselines: one that drifted is steady after all where its change
    lies within the gate, or within 3.5 robust scales, of their median.
    """
    cohorts: dict[Cohort, list[tuple[str, Drift]]] = defaultdict(list)
    for verdict in verdicts:
        own = drifts.get(verdict.gpu_id, {}).get(verdict.cohort.roof)
        if own is not None and own.status != "learning":
            cohorts[verdict.cohort].append((verdict.gpu_id, own))
    kept: dict[str, dict[RoofKey, Drift]] = {gpu_id: dict(by_roof) for gpu_id, by_roof in drifts.items()}
    notices: list[Notice] = []
    for cohort, members in cohorts.items():
        if len(members) < FEWEST_PEERS:
            continue
        shared = _shared([own.recent_change for _, own in members])
        losers = [(gpu_id, own) for gpu_id, own in members if own.status == "drifted"]
        if losers and shared.change <= -losers[0][1].gate:
            notices.append(fleet_drift_notice(cohort, [gpu_id for gpu_id, _ in losers], shared.change))
        for gpu_id, own in losers:
            if shared.explains(own):
                kept[gpu_id][cohort.roof] = replace(own, status="steady")
    return kept, notices


def _shared(changes: list[float]) -> _Shared:
    center = median(changes)
    deviation = robust_deviation([change - center for change in changes])
    return _Shared(center, small_sample_factor(len(changes)) * deviation)
