"""
Count how often the state of a gpu near the limit changes.

    python bench/changes.py [--evaluations N] [--seed N]

One gpu of a fleet loses about as much as counts. All report once a day and are evaluated after that; nobody repairs
anything, so that every change of its state is one too many.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise, product
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the fleets of the tests

from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.rule import REMEMBERED_REPORTS
from fleetridge_server.simulate.faults import Fault
from support.simulated_fleet import FleetPlan, gpu_id, simulated_reports

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_DAY = timedelta(days=1)
_SEED = 7
_NOISE = 0.005
_SIZES = (8, 64)
_LOSSES = (0.025, 0.03, 0.035, 0.04, 0.05)


def states(gpus: int, loss: float, evaluations: int, seed: int) -> list[str]:
    """State of the gpu after each day, from the day on that ten runs are known."""
    rng = random.Random(seed)  # noqa: S311 # a simulation
    days = evaluations + REMEMBERED_REPORTS
    plan = FleetPlan(gpus, _NOISE, {0: Fault("silent", loss)}, reports=days)
    by_day: dict[int, list[JudgedReport]] = defaultdict(list)
    for report in simulated_reports(plan, _MONDAY, rng):
        by_day[(report.ordered_at - _MONDAY).days].append(report)
    return [_state_on(day, by_day) for day in range(REMEMBERED_REPORTS, days)]


def _state_on(day: int, by_day: dict[int, list[JudgedReport]]) -> str:
    known = [report for past in range(day - REMEMBERED_REPORTS + 1, day + 1) for report in by_day[past]]
    return evaluate(Fleet(known), _MONDAY + day * _DAY).states[gpu_id(0)].state


def _row(gpus: int, loss: float, said: Sequence[str]) -> list[str]:
    changes = sum(before != after for before, after in pairwise(said))
    accused = sum(state != "ok" for state in said) / len(said)
    return [str(gpus), f"{loss:.1%}", str(changes), f"{accused:.0%}"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Count how often the state of a gpu near the limit changes.")
    parser.add_argument("--evaluations", type=int, default=200, help="of each fleet, a day apart")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the simulated fleets")
    options = parser.parse_args()
    rows = [
        _row(gpus, loss, states(gpus, loss, options.evaluations, options.seed))
        for gpus, loss in product(_SIZES, _LOSSES)
    ]
    print(text_table([Column(name) for name in ("gpus", "loss", "changes", "accused")], rows))
    print(f"{options.evaluations} evaluations each, noise {_NOISE:.1%}; accused: part of the evaluations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
