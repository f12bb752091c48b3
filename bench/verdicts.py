"""
Score the verdicts: how many faults are found, how many healthy gpus are accused.

    python bench/verdicts.py [--rounds N] [--seed N] [--json FILE]
    python bench/verdicts.py --points POINTS.csv --labels LABELS.csv [--json FILE]

Without files it simulates fleets and prints recall and false alarms of gpus and of nodes beside the goals. With files
it judges each device of a real fleet as of its last time and as of each day before, and ends with 1 if a gpu labelled
`slow_must_flag` is not flagged or one labelled `ok_must_not_flag` is at any time; other labels are free. Flagged is a
gpu that is suspect, outlier or drifted, or was when it was last measured. Two more figures are of the same fleet: how
many gpus are flagged when fast is taken for slow (faults do not make silicon faster), and how many of good gpus are
found once a loss is put into their newest runs. Points have the columns of an import; labels have `gpu` and `label`,
and further columns are shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # surveys as judged reports

from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.upgrades import floors
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.simulate.faults import Fault
from support.csv_reports import csv_fleet, csv_gpu_id
from support.drifts import gpu_drifts
from support.simulated_fleet import PI, FleetPlan, gpu_id, simulated_reports

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
    for gpus in _SIZES:
        yield Setting(f"healthy {gpus}", gpus, 0, _GOAL_NOISE, 0.0)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A healthy fleet of nodes, by its spreads as standard deviations in parts of the value."""

    name: str
    nodes: int
    gpus_per_node: int
    noise: float
    gpu_spread: float
    node_spread: float
    reports: int


NODE_SHAPES = (
    NodeShape("5 × 8", 5, 8, 0.005, 0.003, 0.0, 3),
    NodeShape("12 × 8", 12, 8, 0.005, 0.005, 0.005, 3),
    NodeShape("25 × 4, noisy", 25, 4, 0.01, 0.01, 0.01, 10),
    NodeShape("73 × 4, nodes 1.6 %", 73, 4, 0.01, 0.012, 0.016, 10),
    NodeShape("100 × 8, nodes 2 %", 100, 8, 0.005, 0.01, 0.02, 4),
    NodeShape("40 × 8, gpus 1.5 %", 40, 8, 0.005, 0.015, 0.0, 3),
    NodeShape("20 × 2", 20, 2, 0.01, 0.015, 0.01, 10),
    NodeShape("200 × 8", 200, 8, 0.003, 0.005, 0.003, 3),
)
_NODE_LOSSES = (0.0, 0.03, 0.05, 0.07)
_MOST_NOTED, _MOST_ACCUSED = 0.05, 0.005
_GPUS_PER_NODE_ROUND = 60


def node_reports(shape: NodeShape, loss: float, rng: random.Random) -> Iterator[JudgedReport]:
    """Reports of a fleet whose first node has lost something."""
    for node in range(shape.nodes):
        of_node = rng.gauss(1, shape.node_spread) * (1 - loss if node == 0 else 1)
        for gpu in range(shape.gpus_per_node):
            own = of_node * rng.gauss(1, shape.gpu_spread)
            for day in range(shape.reports):
                yield JudgedReport(
                    f"{node}-{gpu}-{day}",
                    f"GPU-{node:04d}-{gpu}",
                    _MONDAY + day * _DAY,
                    _CONDITIONS,
                    node=NodeName("simulated", f"node-{node:04d}"),
                    roofs={PI: RoofReading(800 * own * rng.gauss(1, shape.noise), converged=True)},
                )


def node_table(rounds: int, seed: int) -> tuple[list[dict[str, object]], bool]:
    """Print how often healthy fleets have a node noted or accused, and how often a slow node is."""
    rows: list[dict[str, object]] = []
    cells: list[list[str]] = []
    for shape in NODE_SHAPES:
        fleets = max(20, min(2 * rounds, 2 * rounds * _GPUS_PER_NODE_ROUND // (shape.nodes * shape.gpus_per_node)))
        shares = [_node_shares(shape, loss, fleets if loss == 0 else fleets // 4, seed) for loss in _NODE_LOSSES]
        healthy = shares[0]
        reached = healthy[0] <= _MOST_NOTED and healthy[1] <= _MOST_ACCUSED
        rows.append(asdict(shape) | {"fleets": fleets, "shares": shares, "reached": reached})
        found = [f"{noted:.0%}/{accused:.0%}" for noted, accused in shares[1:]]
        cells.append(
            [shape.name, f"{fleets}", f"{healthy[0]:.1%}", f"{healthy[1]:.1%}", *found, "yes" if reached else "NO"]
        )
    names = ("healthy fleet", "evaluations", "noted", "accused", "node -3 %", "-5 %", "-7 %", "reached")
    print(text_table([Column(name) for name in names], cells, width=120))
    print(f"goal: a node noted in at most {_MOST_NOTED:.0%} of healthy evaluations, accused in {_MOST_ACCUSED:.1%}")
    return rows, all(row["reached"] for row in rows)


def _node_shares(shape: NodeShape, loss: float, fleets: int, seed: int) -> tuple[float, float]:
    """Parts of the evaluations in which a node was noted and accused: any of a healthy fleet, else the slow one."""
    rng = random.Random(seed)  # noqa: S311 # a simulation
    noted = accused = 0
    for _ in range(fleets):
        said = evaluate(Fleet(list(node_reports(shape, loss, rng))), _MONDAY + shape.reports * _DAY).nodes
        chosen = [node for node in said if loss == 0 or node.place.name == "node-0000"]
        noted += bool(chosen)
        accused += any(node.is_accused for node in chosen)
    return noted / fleets, accused / fleets


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
    by_label = {gpu: row["label"] for gpu, row in read_labels(labels).items()}
    figures: dict[str, object] = {}
    for device, reports in sorted(fleet.reports.items()):
        evaluation = judged(reports, max(report.ordered_at for report in reports))
        _print_device(device, evaluation)
        for gpu, state in evaluation.states.items():
            word = state.state if state.last_state is None else f"{state.state}, was {state.last_state}"
            said[gpu] = word + _numbers(evaluation, gpu)
            if state.is_flagged:
                flagged.add(gpu)
        figures[device] = _further_figures(reports, by_label)
    print(f"\nleft out: {fleet.repeated} repeated lines, ", end="")
    print(f"{fleet.bad} that are no measurement, {fleet.untimed} without a time")
    outcome, is_good = _compare(read_labels(labels), flagged, said)
    ever = any(own["good gpus ever flagged"] for own in figures.values() if isinstance(own, dict))
    return outcome | {"figures": figures}, is_good and not ever


_INJECTED = (0.03, 0.05, 0.07)
_INJECTED_GPUS = 40
_INJECTED_RUNS = 3


def _further_figures(reports: Sequence[JudgedReport], labels: Mapping[str, str]) -> dict[str, object]:
    """Print what a real fleet says beyond its labels: each day, mirrored, and with losses put in."""
    end = max(report.ordered_at for report in reports)
    good = sorted(gpu for gpu, label in labels.items() if label == "ok_must_not_flag")
    days = [end - day * _DAY for day in range((end - min(report.ordered_at for report in reports)).days)]
    ever = {gpu for at in days for gpu in _flagged(judged(reports, at))} & set(good)
    center = median(own.value for report in reports for own in report.roofs.values())
    mirrored = _flagged(judged([_changed(report, lambda value: center**2 / value) for report in reports], end))
    rng = random.Random(_SEED)  # noqa: S311 # which gpus
    chosen = rng.sample(good, min(_INJECTED_GPUS, len(good)))
    found = {
        loss: sum(_is_found(reports, gpu, loss, end) for gpu in chosen) / max(1, len(chosen)) for loss in _INJECTED
    }
    print(f"  as of each of {len(days)} days before: {len(ever)} good gpus flagged at any time")
    print(f"  mirrored, fast for slow: {len(mirrored)} flagged")
    shown = ", ".join(f"-{loss:.0%} {share:.0%}" for loss, share in found.items())
    print(f"  losses put into the newest {_INJECTED_RUNS} runs of one of {len(chosen)} good gpus: found {shown}")
    return {"days": len(days), "good gpus ever flagged": sorted(ever), "mirrored": len(mirrored), "found": found}


def _flagged(evaluation: Evaluation) -> set[str]:
    return {gpu for gpu, state in evaluation.states.items() if state.is_flagged}


def _changed(report: JudgedReport, change: Callable[[float], float]) -> JudgedReport:
    return replace(report, roofs={roof: replace(own, value=change(own.value)) for roof, own in report.roofs.items()})


def _is_found(reports: Sequence[JudgedReport], gpu: str, loss: float, at: datetime) -> bool:
    own = sorted((report for report in reports if report.gpu_id == gpu), key=lambda report: report.ordered_at)
    newest = {report.report_id for report in own[-_INJECTED_RUNS:]}
    slowed = [
        _changed(report, lambda value: value * (1 - loss)) if report.report_id in newest else report
        for report in reports
    ]
    return gpu in _flagged(judged(slowed, at))


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
        gpus, gpus_are_good = simulated_table(options.rounds, options.seed)
        nodes, nodes_are_good = node_table(options.rounds, options.seed)
        result, is_good = {"gpus": gpus, "nodes": nodes}, gpus_are_good and nodes_are_good
    else:
        result, is_good = labelled_score(options.points, options.labels)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
