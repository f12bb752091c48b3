"""
What an evaluation costs: processor seconds for fleets of growing size, and whether the cost grows with the size alone.

    python bench/evaluation_cost.py [--gpus N ...] [--roofs N] [--reports N] [--json FILE]

Only the pure part is timed: reports are made before, nothing is stored. Drift is timed by itself, as it changes with a
gpu's own reports only and is kept between evaluations.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fleetridge.report import RoofKey
from fleetridge.text_table import Column, text_table
from fleetridge_server.simulated_fleet import BETA, PI, Fault, FleetPlan, simulated_reports
from fleetridge_server.verdict.evaluation import Fleet, evaluate
from fleetridge_server.verdict.evidence import JudgedReport, RoofReading
from fleetridge_server.verdict.histories import gpu_drifts
from fleetridge_server.verdict.members import by_gpu

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_SEED = 7
_NOISE = 0.005

# One gpu in a hundred is slow: accusing costs more than letting pass.
_ONE_IN = 100

_DTYPES = ("float16", "float8_e4m3fn", "tf32", "float32", "int8", "float64")

# Drift is timed on some gpus with a history of a quarter of a year.
_DRIFT_GPUS = 200
_DRIFT_REPORTS = 90


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds of one evaluation, and per gpu × roof in µs."""

    gpus: int
    roofs: int
    reports: int
    seconds: float
    us_per_pair: float


def fleet_reports(gpus: int, roofs: int, reports: int) -> list[JudgedReport]:
    """Reports of a fleet with pi, beta and as many further dtypes as it takes to have `roofs` roofs."""
    faults = {position: Fault("silent", 0.08) for position in range(0, gpus, _ONE_IN)}
    plan = FleetPlan(gpus=gpus, noise=_NOISE, faults=faults, spread=_NOISE, reports=reports)
    rng = random.Random(_SEED)  # noqa: S311 # a simulation
    keys = [PI._replace(dtype=dtype) for dtype in _DTYPES[: max(0, roofs - 2)]]
    return [_widened(report, keys) for report in simulated_reports(plan, _MONDAY, rng)]


def _widened(report: JudgedReport, keys: list[RoofKey]) -> JudgedReport:
    roofs: dict[RoofKey, RoofReading] = {PI: report.roofs[PI], BETA: report.roofs[BETA]}
    roofs |= dict.fromkeys(keys, report.roofs[PI])
    return replace(report, roofs=roofs)


def evaluation_cost(gpus: int, roofs: int, reports: int) -> Cost:
    """Cost of one evaluation of a fleet."""
    fleet = Fleet(fleet_reports(gpus, roofs, reports))
    # What was there before is no garbage: without it the collector's rounds cost what an evaluation allocates.
    gc.collect()
    gc.freeze()
    started = time.process_time()
    evaluation = evaluate(fleet, _MONDAY + timedelta(days=reports))
    seconds = time.process_time() - started
    gc.unfreeze()
    if len(evaluation.states) != gpus:
        raise RuntimeError(f"{len(evaluation.states)} states for {gpus} gpus")
    return Cost(gpus, roofs, reports, seconds, seconds / (gpus * roofs) * 1e6)


def drift_us() -> float:
    """Microseconds for the drift of one gpu in one roof with a quarter of a year of daily reports."""
    histories = by_gpu(fleet_reports(_DRIFT_GPUS, 2, _DRIFT_REPORTS), _MONDAY + timedelta(days=_DRIFT_REPORTS))
    started = time.process_time()
    for own in histories.values():
        gpu_drifts(own, {})
    return (time.process_time() - started) / (_DRIFT_GPUS * 2) * 1e6


def main() -> int:
    """Time what the command line asks for."""
    parser = argparse.ArgumentParser(description="Time evaluations of growing fleets.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--roofs", type=int, default=3, help="judged roofs of each gpu, 2 to 8")
    parser.add_argument("--reports", type=int, default=3, help="newest reports of each gpu, up to 10")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args()
    costs = [evaluation_cost(gpus, options.roofs, options.reports) for gpus in options.gpus]
    names = (("gpus", ""), ("roofs", ""), ("reports", ""), ("time", "s"), ("a pair", "µs"), ("times the first", ""))
    rows = [
        [
            f"{cost.gpus}",
            f"{cost.roofs}",
            f"{cost.reports}",
            f"{cost.seconds:.3f}",
            f"{cost.us_per_pair:.1f}",
            f"{cost.us_per_pair / costs[0].us_per_pair:.2f}",
        ]
        for cost in costs
    ]
    print(text_table([Column(*name) for name in names], rows))
    print("pair: one gpu × roof; linear growth is a ratio that stays near 1")
    drift = drift_us()
    print(f"drift of one pair over {_DRIFT_REPORTS} reports: {drift:.0f} µs")
    if options.json is not None:
        result = {"costs": [asdict(cost) for cost in costs], "drift_us": drift}
        options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
