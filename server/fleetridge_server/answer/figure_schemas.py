"""Shapes of the figures of a whole device, which an evaluation stores so that no answer works them out again."""

from __future__ import annotations

from datetime import datetime

from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.schemas import Answer, FleetBandwidth, FleetRidge
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.compare.stats import Distribution
from fleetridge_server.verdict.state import State


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


class ClusterFigures(Answer):
    """
    What a cluster has of the device: gpus, nodes, and the ordering time of the newest report, whatever its outcome.

    `verdicts` counts its gpus by state; those that never reported are in no cluster.
    """

    cluster: str
    gpus: int
    nodes: int
    newest_report: datetime | None
    verdicts: dict[State, int]


class FleetFigures(Answer):
    """
    What the gpus of a device reach, from the values that their verdicts rest on, and where they are.

    `clusters` is null where the evaluation was made for a time of the past, of which only reports are known.
    """

    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]
    cohorts: tuple[CohortFigures, ...]
    clusters: tuple[ClusterFigures, ...] | None
