"""`fleetridge-server simulate`: a made-up fleet posts its reports; what is true of it is written beside."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pydantic import TypeAdapter, ValidationError

from fleetridge.identity import canonical_device_name, device_slug
from fleetridge.quantities import percent
from fleetridge.report.values import UtcTime
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.simulate.fleet import FAULTS, FaultError, Order, order_of
from fleetridge_server.simulate.plan import (
    GPUS_PER_NODE,
    PRODUCTS,
    Ask,
    Plan,
    PlanError,
    Product,
    plan_of,
    product_named,
)
from fleetridge_server.simulate.wire import gpu_uuid, node_name, rack_name

if TYPE_CHECKING:
    from fleetridge_server.commands.arguments import Commands
    from fleetridge_server.simulate.posting import Poster, PostOutcome


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


# A month is what a verdict looks back on; a drift needs about half of it for its baseline.
_DAYS = 28
_MOST_DAYS = 366
_MOST_GPUS = 1_000_000

# A full scale of noise between honest runs; beyond it no fault shows.
_MOST_NOISE = 0.1

# A line for so many parts of a posting that takes its time.
_PROGRESS_PARTS = 10
_NODES_WITHOUT_PROGRESS = 100

_TIME: TypeAdapter[datetime] = TypeAdapter(UtcTime)


def add_simulate(commands: Commands) -> None:
    """Add the command to those of `fleetridge-server`."""
    parser = commands.add_parser(
        "simulate",
        help="post a made-up fleet with known faults to a running server",
        description=(
            f"Makes the reports of a fleet that does not exist and posts them to a running server, always in the "
            f"cluster `{SIMULATED}`, which never mixes with real ones. The same options give the same reports, so that "
            "posting twice changes nothing."
        ),
        epilog="Faults: " + "; ".join(f"{name} ({kind.what})" for name, kind in FAULTS.items()) + ".",
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000", metavar="URL", help="default: %(default)s")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token that the server asks for")
    parser.add_argument("--gpus", type=_whole(_MOST_GPUS), default=64, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--days", type=_whole(_MOST_DAYS), default=_DAYS, metavar="D", help="one report of each a day (%(default)s)"
    )
    parser.add_argument("--device", type=_device, default="H200", metavar="NAME", help=f"one of {', '.join(PRODUCTS)}")
    parser.add_argument(
        "--fault",
        type=_order,
        action="append",
        default=[],
        metavar="NAME[:COUNT[:LOSS]]",
        help="a fault, on how many gpus (or nodes), and the part of the rate that it costs; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=1, help="another one makes another fleet (default: %(default)s)")
    parser.add_argument(
        "--noise", type=_noise, default=0.005, help="between runs of one gpu, as a part of its rate (%(default)s)"
    )
    parser.add_argument(
        "--until", type=_time, metavar="TIME", help="end of the history (default: the start of this day in UTC)"
    )
    parser.add_argument("--truth", type=Path, metavar="FILE", help="write what is wrong with which gpu, as CSV")
    parser.add_argument("--cluster", type=_cluster, default=SIMULATED, help=f"only `{SIMULATED}` is possible")
    parser.set_defaults(command=_simulate)


def _simulate(options: argparse.Namespace, _settings: object) -> int:
    from fleetridge_server.simulate.posting import Poster, token_in

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
    from fleetridge_server.simulate.posting import PostOutcome
    from fleetridge_server.simulate.wire import clock_ahead, node_reports

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


def _whole(most: int) -> Callable[[str], int]:
    def whole(word: str) -> int:
        if not word.isdecimal() or not 1 <= int(word) <= most:
            raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1 to {most}")
        return int(word)

    return whole


def _device(name: str) -> Product:
    silicon = product_named(name)
    if silicon is None:
        raise argparse.ArgumentTypeError(f"{name!r} is not known well enough to make one up; {', '.join(PRODUCTS)} are")
    return silicon


def _order(text: str) -> Order:
    try:
        return order_of(text)
    except FaultError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _noise(word: str) -> float:
    try:
        noise = float(word)
    except ValueError:
        noise = -1.0
    if not 0 <= noise <= _MOST_NOISE:
        raise argparse.ArgumentTypeError(f"{word!r} is no part from 0 to {_MOST_NOISE}, such as 0.005")
    return noise


def _time(word: str) -> datetime:
    try:
        return _TIME.validate_python(word)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is no time; write it as 2026-01-31T00:00:00Z") from error


def _cluster(name: str) -> str:
    if name != SIMULATED:
        raise argparse.ArgumentTypeError(
            f"made-up gpus live in the cluster `{SIMULATED}` alone, so that they never mix with real ones; leave it out"
        )
    return name
