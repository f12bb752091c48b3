"""What is wrong with which gpu of a simulated fleet: the truth that verdicts are held against."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from fleetridge.quantities import percent
from fleetridge.text_table import Column, text_table
from fleetridge_server.simulating.faults import Order
from fleetridge_server.simulating.plan import GPUS_PER_NODE, Plan
from fleetridge_server.simulating.wire import gpu_uuid, node_name, rack_name

# A table that fits a screen; the file has all.
_ROWS_SHOWN = 30

_COLUMNS = ("gpu", "node", "rack", "samples", "fault", "loss", "since", "expected", "label")
_SOUND_LABEL = "ok_must_not_flag"


@dataclass(frozen=True, slots=True)
class Truth:
    """
    One gpu: its fault, or none.

    Attributes:
        samples: reports that it sends.
        since: day on which the fault sets in.
    """

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
