"""`fleetridge-server simulate`: a made-up fleet posts its reports; what is true of it is written beside."""

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TextIO

from fleetridge.device_names import canonical_device_name, device_slug
from fleetridge.quantities import percent
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.simulate.faults import Order
from fleetridge_server.simulate.plan import GPUS_PER_NODE, Ask, Plan, PlanError, plan_of
from fleetridge_server.simulate.posting import Poster, PostOutcome, token_in
from fleetridge_server.simulate.wire import clock_ahead, gpu_uuid, node_name, node_reports, rack_name

# A table that fits a screen; the file has all.
_ROWS_SHOWN = 30

_COLUMNS = ("gpu", "node", "rack", "samples", "fault", "loss", "since", "expected", "label")
_SOUND_LABEL = "ok_must_not_flag"


@dataclass(frozen=True, slots=True)
class Truth:
    """One gpu: its fault, or none, how many reports it sends, and the day on which the fault sets in."""

    gpu: str
    node: str
    rack: str
    samples: int
    fault: Order | None
    since: str

    @property
    def cells(self) -> Mapping[str, str | int]:
        """Row of the file."""
        fault = self.fault
        return {
            "gpu": self.gpu,
            "node": self.node,
            "rack": self.rack,
            "samples": self.samples,
            "fault": "" if fault is None else fault.name,
            "loss": "" if fault is None else f"{fault.loss:.4g}",
            "since": self.since,
            "expected": "ok" if fault is None else fault.kind.expected,
            "label": _SOUND_LABEL if fault is None else fault.label,
        }


def truths(plan: Plan) -> Iterator[Truth]:
    """Every gpu of a plan, in order."""
    ask = plan.ask
    for position in range(ask.gpus):
        fault = plan.truth(position)
        yield Truth(
            gpu=gpu_uuid(ask, position),
            node=node_name(ask, position // GPUS_PER_NODE),
            rack=rack_name(ask, position // GPUS_PER_NODE),
            samples=sum(plan.is_present(position, day) for day in range(ask.days)),
            fault=fault,
            since="" if fault is None else f"{ask.day(fault.first_day(ask.days)):%Y-%m-%d}",
        )


def write_truth(plan: Plan, file: TextIO) -> None:
    """Write a CSV of all gpus, with the columns of label files and what a verdict should come to."""
    writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(truth.cells for truth in truths(plan))


def truth_table(plan: Plan) -> str:
    """The faulty gpus as a table for a terminal, whole nodes in one row."""
    rows = list(dict.fromkeys(_row(truth) for truth in truths(plan) if truth.fault is not None))
    if not rows:
        return "Nothing is wrong with any of them."
    heads = [Column(name, align="left") for name in ("gpu", "fault", "loss", "since")]
    table = text_table(heads, rows[:_ROWS_SHOWN])
    return table if len(rows) <= _ROWS_SHOWN else f"{table}\n… and {len(rows) - _ROWS_SHOWN} more; --truth FILE has all"


def _row(truth: Truth) -> tuple[str, ...]:
    fault = truth.fault
    assert fault is not None  # noqa: S101 # the caller asks of faulty ones only
    where = f"all of {truth.node}" if fault.kind.befalls_nodes else truth.gpu
    return where, fault.name, percent(fault.loss) if fault.loss else "none", truth.since


# A line for so many parts of a posting that takes its time.
_PROGRESS_PARTS = 10
_NODES_WITHOUT_PROGRESS = 100


def simulate(options: argparse.Namespace, _settings: object) -> int:
    """Post a made-up fleet, and say what is true of it; exit code."""
    plan = plan_of(_ask(options), options.fault)
    token = None if options.token_file is None else token_in(options.token_file)
    if options.truth is not None:  # before hours of posting, so that a path that cannot be written is reported at once
        with options.truth.open("w", encoding="utf-8", newline="") as file:
            write_truth(plan, file)
    with Poster(options.server, token=token) as poster:
        posted = _post(plan, poster)
    _say(plan, posted, poster.server)
    return 0


def _ask(options: argparse.Namespace) -> Ask:
    now = datetime.now(timezone.utc)
    until = options.until or now.replace(hour=0, minute=0, second=0, microsecond=0)
    if until > now:
        raise PlanError(f"--until {until:%Y-%m-%dT%H:%M:%SZ} lies in the future; nothing was measured then")
    return Ask(options.device, options.gpus, options.days, options.seed, options.noise, until)


def _post(plan: Plan, poster: Poster) -> PostOutcome:
    posted = PostOutcome()
    with _progress(plan.ask.nodes) as progress:
        for node in range(plan.ask.nodes):
            ahead = clock_ahead(plan, node)
            posted += poster.post(node_reports(plan, node), ahead=ahead)
            again = [position for position in plan.ask.positions(node) if plan.has(position, "duplicates")]
            if again:
                posted += poster.post(node_reports(plan, node, only=frozenset(again)), ahead=ahead)
            next(progress)
    return posted


@contextmanager
def _progress(nodes: int) -> Iterator[Iterator[None]]:
    """What is to be advanced after each node; a long posting shows how far it is."""

    def lines() -> Iterator[None]:
        for done in range(1, nodes + 1):
            is_mark = done * _PROGRESS_PARTS // nodes > (done - 1) * _PROGRESS_PARTS // nodes
            if nodes > _NODES_WITHOUT_PROGRESS and is_mark:
                print(f"{done} of {nodes} nodes posted", file=sys.stderr, flush=True)
            yield

    yield lines()


def _say(plan: Plan, posted: PostOutcome, server: str) -> None:
    ask = plan.ask
    slug = device_slug(canonical_device_name(ask.silicon.device))
    print(
        f"{ask.gpus} gpus of {ask.silicon.device} on {ask.nodes} nodes, {ask.days} days up to "
        f"{ask.until:%Y-%m-%d %H:%M} UTC, in cluster `{SIMULATED}` of {server}"
    )
    print(f"{posted.stored} reports stored, {posted.known} were there already")
    print(f"\n{truth_table(plan)}")
    print(f"\nNext: curl -H 'Accept: text/plain' '{server}/devices/{slug}/ridge?cluster={SIMULATED}'")
