"""Fleets that do not exist."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import get_args

import pytest

from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.simulate.faults import Fault, FaultName
from support.simulated_fleet import BETA, PI, FleetPlan, gpu_id, simulated_reports

MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)


def simulated(plan: FleetPlan, seed: int = 1) -> list[JudgedReport]:
    """Reports of a plan."""
    return list(simulated_reports(plan, MONDAY, random.Random(seed)))  # noqa: S311 # a simulation


def flagged(plan: FleetPlan) -> set[str]:
    """Gpus that the engine accuses."""
    states = evaluate(Fleet(simulated(plan)), MONDAY + timedelta(days=plan.reports)).states
    return {gpu for gpu, state in states.items() if state.is_flagged}


def test_every_gpu_reports_as_often_as_planned_from_the_simulated_cluster() -> None:
    reports = simulated(FleetPlan(gpus=20, noise=0.005, reports=4))
    assert len(reports) == 80
    assert {report.gpu_id for report in reports} == {gpu_id(place) for place in range(20)}
    assert {report.node.cluster for report in reports if report.node} == {SIMULATED}


def test_the_same_seed_gives_the_same_fleet() -> None:
    plan = FleetPlan(gpus=8, noise=0.01, spread=0.01)
    assert simulated(plan, 3) == simulated(plan, 3)
    assert simulated(plan, 3) != simulated(plan, 4)


@pytest.mark.parametrize("name", get_args(FaultName))
def test_every_fault_is_found_and_nothing_else(name: FaultName) -> None:
    assert flagged(FleetPlan(gpus=24, noise=0.003, faults={5: Fault(name, 0.08)})) == {gpu_id(5)}


@pytest.mark.parametrize(("name", "roof"), [("thermal", PI), ("slow_memory", BETA)])
def test_a_fault_costs_the_roof_that_it_is_in(name: FaultName, roof: object) -> None:
    report = simulated(FleetPlan(gpus=1, noise=0.0, faults={0: Fault(name, 0.1)}, reports=1))[0]
    sound = simulated(FleetPlan(gpus=1, noise=0.0, reports=1))[0]
    ratios = {key: report.roofs[key].value / sound.roofs[key].value for key in (PI, BETA)}
    assert ratios == {key: pytest.approx(0.9 if key == roof else 1.0) for key in (PI, BETA)}


def test_half_an_upgraded_fleet_is_slower_and_nobody_is_accused() -> None:
    plan = FleetPlan(gpus=32, noise=0.003, upgraded=True)
    rates = sorted(report.roofs[PI].value for report in simulated(plan))
    assert rates[0] / rates[-1] == pytest.approx(0.95, abs=0.02)
    assert flagged(plan) == set()
