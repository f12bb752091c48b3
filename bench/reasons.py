"""
Score the reasons: how often the first reason of an accused gpu is the fault that the simulator gave it.

    python bench/reasons.py [--rounds N] [--json FILE]

Ends with 1 if one kind of fault is named right less often than its goal.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fleetridge.text_table import Column, text_table
from fleetridge_server.simulated_fleet import Fault, FaultName, FleetPlan, gpu_id, simulated_reports
from fleetridge_server.verdict.evaluation import Fleet, evaluate
from fleetridge_server.verdict.explanation import explanations
from fleetridge_server.verdict.remedies import ReasonCode

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_SEED = 7
_GPUS = 64
_FAULTY = 2
_NOISE = 0.005
_LOSS = 0.08
_REPORTS = 3
_GOAL = 0.95

EXPECTED: Mapping[FaultName, ReasonCode] = {
    "power_cap": "power_limit_lower",
    "thermal": "thermal",
    "power_brake": "power_brake",
    "low_clock": "clock_lower",
    "slow_memory": "memory_clock_lower",
    "ecc": "ecc_differs",
    "remapped_rows": "remapped_rows_pending",
    "falling": "falling_within_run",
    "old_driver": "software_differs",
    "silent": "not_explained",
}


def first_reasons(fault: FaultName, rounds: int) -> Counter[str]:
    """How often each reason comes first for gpus with a fault; "not accused" for those that were not found."""
    rng = random.Random(_SEED)  # noqa: S311 # a simulation
    found: Counter[str] = Counter()
    for _ in range(rounds):
        positions = rng.sample(range(_GPUS), _FAULTY)
        plan = FleetPlan(_GPUS, _NOISE, {position: Fault(fault, _LOSS) for position in positions}, reports=_REPORTS)
        told = explanations(evaluate(Fleet(simulated_reports(plan, _MONDAY, rng)), _MONDAY + timedelta(days=_REPORTS)))
        for position in positions:
            own = told.get(gpu_id(position))
            found[_first_cause([reason.code for reason in own[0].reasons]) if own else "not accused"] += 1
    return found


def _first_cause(codes: list[ReasonCode]) -> str:
    # Where nothing explains, that is said after where and when, which are no explanation.
    return "not_explained" if "not_explained" in codes else codes[0]


def main() -> int:
    """Score every kind of fault."""
    parser = argparse.ArgumentParser(description="Score the reasons on simulated fleets.")
    parser.add_argument("--rounds", type=int, default=100, help="fleets of each kind of fault")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args()
    rows: list[list[str]] = []
    shares: dict[str, float] = {}
    for fault, expected in EXPECTED.items():
        found = first_reasons(fault, options.rounds)
        shares[fault] = found[expected] / found.total()
        others = ", ".join(f"{name} {times}" for name, times in found.most_common() if name != expected)
        rows.append([fault, expected, f"{shares[fault]:.1%}", others])
    columns = [Column("fault", align="left"), Column("first reason", align="left"), Column("right")]
    print(text_table([*columns, Column("else", align="left")], rows, width=100))
    print(f"goal: {_GOAL:.0%} each; {_FAULTY} of {_GPUS} gpus lose {_LOSS:.0%}, noise {_NOISE:.1%}")
    if options.json is not None:
        options.json.write_text(json.dumps(shares, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if min(shares.values()) >= _GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
