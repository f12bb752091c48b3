"""
Score the verdicts: how many faults are found, how many healthy gpus are accused.

    python bench/verdicts.py [--rounds N] [--seed N] [--json FILE]
    python bench/verdicts.py --points POINTS.csv --labels LABELS.csv [--json FILE]

Without files it simulates fleets and prints recall and false alarms beside the goals. With files it judges each device
of a real fleet as of its last time, and ends with 1 if a gpu labelled `slow_must_flag` is not flagged or one labelled
`ok_must_not_flag` is; other labels are free. Flagged is a gpu that is suspect, outlier or drifted, or was when it was
last measured. Points have the columns of an import; labels have `gpu` and `label`, and further columns are shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # surveys as judged reports

from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport
from fleetridge_server.engine.upgrades import floors
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.simulate.faults import Fault
from support.csv_reports import csv_fleet, csv_gpu_id
from support.drifts import gpu_drifts
from support.simulated_fleet import FleetPlan, gpu_id, simulated_reports

_CONDITIONS = Conditions(None, None, None, None, None, None, None)
_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_DAY = timedelta(days=1)
_SEED = 7

_SIZES = (8, 64, 1000)
_NOISES = (0.003, 0.005, 0.01)
_LOSSES = (0.03, 0.05, 0.10)

# Goals hold for 0.5 % noise and faults of 5 %: least recall for one of 8, two of 8 and in 64 or more.
_GOAL_NOISE, _GOAL_LOSS = 0.005, 0.05
_GOALS = {
    "one of 8": 0.98,
    "two of 8": 0.90,
    "64": 0.99,
    "1000": 0.99,
    "64, half upgraded": 0.99,
    "one of 8, half upgraded": 0.98,
    "two of 8, half upgraded": 0.90,
}
_MOST_FALSE_ALARMS = 0.001

# A gpu that was changed between two days of a file has no name in it; nothing but the time orders its rows.
_UNTIMED_STEP = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Setting:
    """A kind of fleet to simulate, with a goal for the part of its faults that is found."""

    name: str
    gpus: int
    faulty: int
    noise: float
    loss: float
    upgraded: bool = False
    reports: int = 3
    spread: float = 0.0

    @property
    def goal(self) -> float | None:
        """Least part of the faults to find; None where no goal is set."""
        return _GOALS.get(self.name) if (self.noise, self.loss) == (_GOAL_NOISE, _GOAL_LOSS) else None

    @property
    def has_goal(self) -> bool:
        """Whether this kind decides over the result; there is one for false alarms without any for faults."""
        return self.goal is not None or (not self.faulty and self.noise <= _GOAL_NOISE)


@dataclass
class Score:
    """What was found of what was there."""

    faulty: int = 0
    found: int = 0
    healthy: int = 0
    accused: int = 0

    @property
    def recall(self) -> float:
        """Part of the faults that was found; 1 where there are none."""
        return self.found / self.faulty if self.faulty else 1.0

    @property
    def false_alarms(self) -> float:
        """Part of the healthy gpus that was accused."""
        return self.accused / self.healthy

    def reaches(self, goal: float | None) -> bool:
        """Whether enough was found, and little enough else."""
        return self.recall >= (goal or 0.0) and self.false_alarms <= _MOST_FALSE_ALARMS

    def add(self, faulty: set[str], flagged: set[str], gpus: int) -> None:
        """Count one fleet."""
        self.faulty += len(faulty)
        self.found += len(faulty & flagged)
        self.healthy += gpus - len(faulty)
        self.accused += len(flagged - faulty)


def score(setting: Setting, rounds: int, seed: int = _SEED) -> Score:
    """Score of some fleets of one kind; the same seed for every kind."""
    rng = random.Random(seed)  # noqa: S311 # a simulation
    total = Score()
    for _ in range(rounds):
        positions = rng.sample(range(setting.gpus), setting.faulty)
        plan = FleetPlan(
            gpus=setting.gpus,
            noise=setting.noise,
            faults={position: Fault("silent", setting.loss) for position in positions},
            spread=setting.spread,
            upgraded=setting.upgraded,
            reports=setting.reports,
        )
        evaluation = evaluate(Fleet(simulated_reports(plan, _MONDAY, rng)), _MONDAY + setting.reports * _DAY)
        flagged = {gpu for gpu, state in evaluation.states.items() if state.is_flagged}
        total.add({gpu_id(position) for position in positions}, flagged, setting.gpus)
    return total


def settings() -> Iterator[Setting]:
    """All kinds of fleets to score."""
    for noise, loss in product(_NOISES, _LOSSES):
        yield Setting("one of 8", 8, 1, noise, loss)
        yield Setting("two of 8", 8, 2, noise, loss)
        for gpus in _SIZES[1:]:
            yield Setting(f"{gpus}", gpus, gpus // 32, noise, loss)
        yield Setting("64, half upgraded", 64, 2, noise, loss, upgraded=True)
    yield Setting("one of 8, one report", 8, 1, _GOAL_NOISE, _GOAL_LOSS, reports=1)
    yield Setting("two of 8, one report", 8, 2, _GOAL_NOISE, _GOAL_LOSS, reports=1)
    yield Setting("one of 8, spread 0.5 %", 8, 1, _GOAL_NOISE, _GOAL_LOSS, spread=0.005)
    yield Setting("two of 8, spread 0.5 %", 8, 2, _GOAL_NOISE, _GOAL_LOSS, spread=0.005)
    yield Setting("64, spread 0.5 %", 64, 2, _GOAL_NOISE, _GOAL_LOSS, spread=0.005)
    yield Setting("one of 8, half upgraded", 8, 1, _GOAL_NOISE, _GOAL_LOSS, upgraded=True)
    yield Setting("two of 8, half upgraded", 8, 2, _GOAL_NOISE, _GOAL_LOSS, upgraded=True)
    for gpus in _SIZES:
        yield Setting(f"healthy {gpus}", gpus, 0, _GOAL_NOISE, 0.0)


def simulated_table(rounds: int, seed: int) -> tuple[list[dict[str, object]], bool]:
    """Print recall and false alarms of every kind of fleet; whether every goal is reached."""
    rows: list[dict[str, object]] = []
    cells: list[list[str]] = []
    for setting in settings():
        found = score(setting, max(4, rounds * _SIZES[0] // setting.gpus), seed)
        reached = found.reaches(setting.goal) if setting.has_goal else None
        rows.append(asdict(setting) | asdict(found) | {"goal": setting.goal, "reached": reached})
        cells.append(_cells(setting, found, reached=reached))
    names = ("fleet", "noise", "fault", "found", "of", "goal", "false alarms", "of healthy", "reached")
    print(text_table([Column(name) for name in names], cells, width=120))
    print(f"goal for false alarms: at most {_MOST_FALSE_ALARMS:.1%} of the healthy gpus in one evaluation")
    return rows, all(row["reached"] is not False for row in rows)


def _cells(setting: Setting, found: Score, *, reached: bool | None) -> list[str]:
    return [
        setting.name,
        f"{setting.noise:.1%}",
        f"{setting.loss:.0%}" if setting.faulty else "–",
        f"{found.recall:.2%}" if found.faulty else "–",
        f"{found.found}/{found.faulty}",
        "–" if setting.goal is None else f"≥ {setting.goal:.0%}",
        f"{found.false_alarms:.3%}",
        f"{found.accused}/{found.healthy}",
        {True: "yes", False: "NO", None: ""}[reached],
    ]


def read_labels(path: Path) -> dict[str, dict[str, str]]:
    """Rows of a label file by gpu id."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {_labelled_id(row): row for row in csv.DictReader(lines)}


def _labelled_id(row: Mapping[str, str]) -> str:
    index = row.get("gpu_index")
    gpu_id = csv_gpu_id(row.get("gpu"), row.get("node"), int(index) if index else None)
    if gpu_id is None:
        raise ValueError(f"a label names no gpu that can be told from others: {dict(row)}")
    return gpu_id


def judged(reports: Sequence[JudgedReport], as_of: datetime) -> Evaluation:
    """Evaluation of one device with the drift of every gpu."""
    histories = by_gpu(reports, as_of)
    cohort_floors = floors(histories, as_of)
    drifts = {gpu_id: gpu_drifts(own, cohort_floors) for gpu_id, own in histories.items()}
    return evaluate(Fleet(reports, drifts=drifts), as_of)


def labelled_score(points: Path, labels: Path) -> tuple[dict[str, object], bool]:
    """Print hits, misses and false alarms of a labelled fleet; whether there is neither a miss nor a false alarm."""
    fleet = csv_fleet(points.read_text(encoding="utf-8"))
    if fleet.is_ordered_by_line:
        print("no row has a time: rows are taken as runs of each gpu in the order of the file")
    said: dict[str, str] = {}
    flagged: set[str] = set()
    for device, reports in sorted(fleet.reports.items()):
        evaluation = judged(reports, max(report.ordered_at for report in reports))
        _print_device(device, evaluation)
        for gpu, state in evaluation.states.items():
            word = state.state if state.last_state is None else f"{state.state}, was {state.last_state}"
            said[gpu] = word + _numbers(evaluation, gpu)
            if state.is_flagged:
                flagged.add(gpu)
    print(f"\nleft out: {fleet.repeated} repeated lines, ", end="")
    print(f"{fleet.bad} that are no measurement, {fleet.untimed} without a time")
    return _compare(read_labels(labels), flagged, said)


def _print_device(device: str, evaluation: Evaluation) -> None:
    as_of = f"{evaluation.as_of:%Y-%m-%d %H:%M} UTC"
    print(f"\n{device or '(no name)'}: {len(evaluation.states)} gpus, judged as of {as_of}")
    cohorts = {own.cohort.roof: own.limits for verdicts in evaluation.verdicts.values() for own in verdicts}
    for roof, limits in cohorts.items():
        print(
            f"  {roof.kind} {roof.dtype}: n {limits.n}, median {limits.median:.5g}, scale {limits.scale.value:.3g} "
            f"({limits.scale.source}, {limits.scale.value / limits.median:.2%}), floor {limits.floor:.2%}, "
            f"gate {limits.gate:.1%}, limit {limits.limit:.2%}"
        )
    for notice in evaluation.notices:
        print(f"  notice {notice.kind}: {notice.text}")
    for slow in (*evaluation.racks, *evaluation.nodes):
        print(f"  slow as a whole: {slow.place.name}, {slow.loss:.1%} below, {len(slow.gpu_ids)} gpus")


def _numbers(evaluation: Evaluation, gpu_id: str) -> str:
    verdicts = evaluation.verdicts.get(gpu_id, ())
    return "".join(
        f"; {own.cohort.roof.kind} {-own.loss:+.1%}"
        + ("" if own.z is None else f" z {own.z:.1f}")
        + ("" if own.q is None else f" q {own.q:.1g}")
        for own in verdicts
    )


def _compare(
    labels: Mapping[str, Mapping[str, str]], flagged: set[str], said: Mapping[str, str]
) -> tuple[dict[str, object], bool]:
    names: dict[str, list[str]] = defaultdict(list)
    for gpu, row in labels.items():
        label = row["label"]
        if label == "slow_must_flag":
            names["hit" if gpu in flagged else "miss"].append(gpu)
        elif label == "ok_must_not_flag":
            names["false alarm" if gpu in flagged else "quiet, rightly"].append(gpu)
        else:
            names[f"{label}, {'flagged' if gpu in flagged else 'not flagged'}"].append(gpu)
    for outcome, gpus in sorted(names.items()):
        print(f"{outcome}: {len(gpus)}")
        if outcome != "quiet, rightly":
            for gpu in sorted(gpus):
                print(f"  {gpu}: {said.get(gpu, 'no report with a time')}")
    unlabelled = sorted(flagged - set(labels))
    if unlabelled:
        print(f"flagged without a label: {', '.join(unlabelled)}")
    return {outcome: sorted(gpus) for outcome, gpus in names.items()}, not names["miss"] + names["false alarm"]


def main() -> int:
    """Score what the command line asks for."""
    parser = argparse.ArgumentParser(description="Score the verdicts on simulated fleets or on a labelled one.")
    parser.add_argument("--points", type=Path, help="CSV of measurements, with the columns of an import")
    parser.add_argument("--labels", type=Path, help="CSV with a label for each gpu")
    parser.add_argument("--rounds", type=int, default=200, help="fleets of 8 of each kind; larger ones are fewer")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the simulated fleets")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args()
    if (options.points is None) != (options.labels is None):
        parser.error("--points and --labels go together")
    result: object
    if options.points is None:
        result, is_good = simulated_table(options.rounds, options.seed)
    else:
        result, is_good = labelled_score(options.points, options.labels)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
