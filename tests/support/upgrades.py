"""Effects of upgrades straight from reports, as the kept histories of gpus must give them too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fleetridge.report import RoofKey
from fleetridge_server.engine.drift import DriftSample, drift_samples
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect, epoch_effects
from fleetridge_server.evaluation.gpu_history import runs_by_roof


def upgrade_effects(
    histories: Mapping[str, Sequence[JudgedReport]],
) -> dict[RoofKey, dict[EpochChange, PairedEffect]]:
    """Effects of the newest change of each factor, by roof, from the reports of each gpu, newest first."""
    looks: dict[RoofKey, dict[str, list[DriftSample]]] = defaultdict(dict)
    for gpu_id, reports in histories.items():
        for roof, runs in runs_by_roof(reports).items():
            looks[roof][gpu_id] = drift_samples(runs)
    return {roof: epoch_effects(by_id) for roof, by_id in looks.items()}
