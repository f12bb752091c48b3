"""Fleets of judged reports whose faults are known, by which detection is scored."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleetridge.judged_kernels import JUDGED_LEVEL, READ_STREAM, REFERENCE_GEMM
from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import SIMULATED, Conditions
from fleetridge_server.engine.evidence import Factors, JudgedReport, NodeName
from fleetridge_server.simulate.faults import Fault
from fleetridge_server.simulate.readings import drawn_run

PI = RoofKey("compute", "bfloat16", None, None, "burst", JUDGED_LEVEL, REFERENCE_GEMM)
BETA = RoofKey("memory", "uint8", None, None, "burst", JUDGED_LEVEL, READ_STREAM)

_CONDITIONS = Conditions(
    memory_gib=141,
    sm_count=132,
    mig_profile=None,
    partition=None,
    fill="normal",
    method="standard",
    protocol_version=1,
)
_GPUS_PER_NODE = 8
_NODES_PER_RACK = 4

# What the newer driver of a half upgraded fleet costs.
UPGRADE_LOSS = 0.05
_NEWER_DRIVER = "590.44.01"


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """
    A fleet to simulate.

    Attributes:
        gpus: how many.
        noise: between runs of one gpu, as a standard deviation in parts of the value.
        faults: by position of the gpu.
        spread: of healthy gpus, for good, on top of the noise.
        upgraded: whether every second node runs a newer driver that costs UPGRADE_LOSS of pi.
        reports: of each gpu, a day apart.
    """

    gpus: int
    noise: float
    faults: Mapping[int, Fault] = field(default_factory=dict)
    spread: float = 0.0
    upgraded: bool = False
    reports: int = 3


def gpu_id(position: int) -> str:
    """Id of a simulated gpu."""
    return f"GPU-simulated-{position:06d}"


def simulated_reports(plan: FleetPlan, first_at: datetime, rng: random.Random) -> Iterator[JudgedReport]:
    """Reports of a fleet, gpu by gpu, oldest first."""
    for position in range(plan.gpus):
        fault = plan.faults.get(position)
        pi_part, beta_part = rng.gauss(1, plan.spread), rng.gauss(1, plan.spread)
        is_upgraded = plan.upgraded and position // _GPUS_PER_NODE % 2 == 0
        if is_upgraded:
            pi_part *= 1 - UPGRADE_LOSS
        node = position // _GPUS_PER_NODE
        for day in range(plan.reports):
            drawn = drawn_run(fault, plan.noise, rng, pi_part=pi_part, beta_part=beta_part)
            yield JudgedReport(
                report_id=f"{position:06d}-{day:04d}",
                gpu_id=gpu_id(position),
                ordered_at=first_at + timedelta(days=day),
                conditions=_CONDITIONS,
                node=NodeName(SIMULATED, f"node-{node:05d}"),
                rack=f"rack-{node // _NODES_PER_RACK:04d}",
                factors=_factors(drawn.factors, fault, is_upgraded=is_upgraded),
                health=drawn.health,
                roofs={PI: drawn.pi, BETA: drawn.beta},
            )


def _factors(drawn: Factors, fault: Fault | None, *, is_upgraded: bool) -> Factors:
    is_old = fault is not None and fault.name == "old_driver"
    return drawn._replace(driver=_NEWER_DRIVER) if is_upgraded and not is_old else drawn
