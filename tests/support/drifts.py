"""Drift of single gpus from their whole past, as `evaluation.gpu_history` works it out for fleets."""

from collections.abc import Iterable, Mapping, Sequence

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.drift import Drift, DriftSample, comparable_looks, drift_of_epoch, drift_samples
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.rule import FLOOR_WHEN_UNKNOWN
from fleetridge_server.evaluation.gpu_history import runs_by_roof


def drift(runs: Iterable[DriftSample], floor: float) -> Drift:
    """Drift of one gpu in one roof by its valid runs, oldest first, beside the smallest scale of its cohort."""
    return drift_of_epoch(comparable_looks(drift_samples(runs)), floor)


def gpu_drifts(reports: Sequence[JudgedReport], floors: Mapping[Cohort, float]) -> dict[RoofKey, Drift]:
    """Drift in each judged roof of a gpu by its reports, newest first; a cohort without a floor has the usual one."""
    return {
        roof: drift(runs, floors.get(Cohort(roof, runs[-1].epoch.conditions), FLOOR_WHEN_UNKNOWN))
        for roof, runs in runs_by_roof(reports).items()
    }
