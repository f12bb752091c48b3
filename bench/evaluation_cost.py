"""
What an evaluation costs: processor seconds for fleets of growing size, and whether the cost grows with the size alone.

    python bench/evaluation_cost.py [--gpus N ...] [--roofs N] [--reports N] [--json FILE]
    python bench/evaluation_cost.py --database URL [--gpus N ...] …

Without a database only the pure part is timed: reports are made before, nothing is stored. Drift is timed by itself, as
it changes with a gpu's own reports only and is kept between evaluations. With an empty database, which is left empty,
every part of a stored evaluation is timed (processor seconds on SQLite; by the clock on PostgreSQL, where another
process works too): histories of gpus that are due, reading them, judging, shaping
what is said, storing it; and a second evaluation after one gpu in a hundred reported anew. The fleet is made and
stored by another process, so that the peak of memory is that of the evaluations.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the fleets of the tests

from sqlalchemy import select
from stored_fleet import add_reports, store_fleet

from fleetridge.report import RoofKey
from fleetridge.text_table import Column, text_table
from fleetridge_server.db import schema
from fleetridge_server.db.database import Database, create_database_engine, open_database
from fleetridge_server.db.tables import Gpu
from fleetridge_server.engine.evaluation import Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, RoofReading
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.evaluation.evaluator import Evaluator, collector_held_back, evaluation_of
from fleetridge_server.evaluation.judgement import judge_device
from fleetridge_server.evaluation.kept_histories import histories
from fleetridge_server.simulate.faults import Fault
from fleetridge_server.verdicts.save import rows_of, save_evaluation
from fleetridge_server.verdicts.series import DeviceGroup, series_end
from support.drifts import gpu_drifts
from support.simulated_fleet import BETA, PI, FleetPlan, simulated_reports

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_SEED = 7
_NOISE = 0.005

# One gpu in a hundred is slow: accusing costs more than letting pass.
_ONE_IN = 100

_DTYPES = ("float16", "float8_e4m3fn", "tf32", "float32", "int8", "float64")

# Drift is timed on some gpus with a history of a quarter of a year.
_DRIFT_GPUS = 200
_DRIFT_REPORTS = 90

_Result = TypeVar("_Result")


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


@dataclass(frozen=True, slots=True)
class StoredCost:
    """
    Seconds of the parts of a first evaluation, and of a second one after few reports.

    `peak_mib` is the most memory that this process ever had.
    """

    gpus: int
    due: float
    read: float
    judge: float
    shape: float
    store: float
    again: float
    peak_mib: float

    @property
    def evaluation(self) -> float:
        """An evaluation of histories that are up to date."""
        return self.read + self.judge + self.shape + self.store


def _clock_of(database: Database) -> Callable[[], float]:
    return time.perf_counter if database.data_file is None else time.process_time


@dataclass(frozen=True, slots=True)
class Stored:
    """A fleet in a database."""

    url: str
    gpus: int
    roofs: int
    reports: int

    @property
    def as_of(self) -> datetime:
        """Time of its first evaluation."""
        return _MONDAY + timedelta(days=self.reports)

    def make(self) -> tuple[DeviceGroup, list[JudgedReport]]:
        """Store it; reports of one gpu in a hundred, for another time."""
        database = open_database(self.url, statement_timeout_ms=0)
        fleet = fleet_reports(self.gpus, self.roofs, self.reports)
        device_group = store_fleet(database, f"Simulated {self.gpus}", fleet)
        database.analyze()
        database.close()
        return device_group, fleet[:: self.reports * _ONE_IN]


def stored_cost(database: Database, fleet: Stored) -> StoredCost:
    """Cost of evaluating a fleet that is stored."""
    device_group, few = _elsewhere(fleet.make)
    as_of = fleet.as_of
    evaluator = Evaluator(database, now=lambda: as_of)
    clock_s = _clock_of(database)
    with collector_held_back():
        times = [clock_s()]
        evaluator.bring_up_to_date(device_group)
        times.append(clock_s())
        with database.reading() as session:
            histories(session, device_group, as_of)
            times.append(clock_s())
            judgement = judge_device(session, device_group, as_of)
            times.append(clock_s())
            before = series_end(session, device_group)
        evaluation = evaluation_of(device_group, judgement, made_at=as_of)
        rows = rows_of(evaluation, before)
        times.append(clock_s())
        with database.writing() as session:
            save_evaluation(session, evaluation, rows, after=None)
        times.append(clock_s())
    due, read, judge, shape, store = (end - start for start, end in itertools.pairwise(times))
    del judgement, evaluation, rows
    _report_anew(database, device_group, few, as_of)
    later = replace(evaluator, now=lambda: as_of + timedelta(hours=1))
    started = clock_s()
    later.evaluate_now(device_group)
    again = clock_s() - started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return StoredCost(fleet.gpus, due, read, judge - read, shape, store, again, peak_mib)


def _elsewhere(task: Callable[[], _Result]) -> _Result:
    """Result of a task that another process does, whose memory goes with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(task).result()


def _report_anew(database: Database, device_group: DeviceGroup, few: Sequence[JudgedReport], at: datetime) -> None:
    """Have some gpus report once more."""
    with database.reading() as session:
        rows = {row.identity: row.id for row in session.execute(select(Gpu.identity, Gpu.id))}
    newer = [replace(own, report_id=f"{own.report_id}-again", ordered_at=at) for own in few]
    add_reports(database, device_group, newer, [rows[own.gpu_id] for own in newer])


def print_stored_costs(costs: Sequence[StoredCost]) -> None:
    """Table of stored evaluations."""
    parts = ("due", "read", "judge", "shape", "store", "again")
    names = (("gpus", ""), *((part, "s") for part in parts), ("a gpu", "µs"), ("growth", ""), ("peak", "MiB"))
    per_gpu = [cost.evaluation / cost.gpus * 1e6 for cost in costs]
    rows = [
        [
            f"{cost.gpus}",
            *(f"{getattr(cost, part):.2f}" for part in parts),
            f"{us:.0f}",
            f"{us / per_gpu[0]:.2f}",
            f"{cost.peak_mib:.0f}",
        ]
        for cost, us in zip(costs, per_gpu, strict=True)
    ]
    print(text_table([Column(*name) for name in names], rows))
    print("a gpu: read to store; growth: over the first line; again: all of it after one gpu in a hundred reported")


def main() -> int:
    """Time what the command line asks for."""
    parser = argparse.ArgumentParser(description="Time evaluations of growing fleets.")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--roofs", type=int, default=3, help="judged roofs of each gpu, 2 to 8")
    parser.add_argument("--reports", type=int, default=3, help="newest reports of each gpu, up to 10")
    parser.add_argument("--json", type=Path, help="also write the result here")
    parser.add_argument("--database", metavar="URL", help="time stored evaluations in this empty database")
    options = parser.parse_args()
    if options.database is not None:
        return time_stored(options)
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


def time_stored(options: argparse.Namespace) -> int:
    """Time stored evaluations, one fleet after the other."""
    engine = create_database_engine(options.database)
    is_empty = schema.current_revision(engine) is None
    engine.dispose()
    if not is_empty:
        print("the database is in use: name an empty one, which is left empty", file=sys.stderr)
        return 2
    costs: list[StoredCost] = []
    for gpus in options.gpus:
        schema.migrate(options.database)
        database = open_database(options.database)
        try:
            costs.append(stored_cost(database, Stored(options.database, gpus, options.roofs, options.reports)))
        finally:
            database.close()
            schema.downgrade(options.database, "base")
        gc.collect()
    print_stored_costs(costs)
    if options.json is not None:
        result = {"stored": [asdict(cost) for cost in costs]}
        options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
