"""A fleet's nights of delivery through a bad network: measured reports in, and what became of each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx
from sqlalchemy import create_engine, text

from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.server_address import server_at
from fleetridge_agent.deliver.spool import Outgoing, Spool
from support.fault_proxy import CALM, FAULTS
from support.reports import make_report

# Long enough for an answer of a busy machine, short enough for tests that wait for silent servers.
PATIENCE = httpx.Timeout(1.0)

# Flushes after the last fault: one delivers all; the others are for answers that a busy machine gave too late.
_MAX_FLUSHES = 200


@dataclass(frozen=True)
class Soaked:
    """
    What one agent did.

    Attributes:
        sent: ids of all reports, in order.
        tallies: of each command.
        left: files in the spool at the end.
    """

    sent: list[str]
    tallies: list[Tally]
    left: int


def soak(
    address: str, state_dir: Path, *, runs: int, gpus: int, name: str = "node", timeouts: httpx.Timeout = PATIENCE
) -> Soaked:
    """Make and deliver reports, run by run, then flush until the spool is empty or nothing helps."""
    spool = Spool(state_dir)
    sent: list[str] = []
    tallies: list[Tally] = []
    for run in range(runs):
        fresh = [measured(spool, f"{name}-{run}", gpu) for gpu in range(gpus)]
        sent += [report.report_id for report in fresh]
        tallies.append(delivered(address, spool, fresh, timeouts=timeouts))
    for _ in range(_MAX_FLUSHES):
        if not spool.count():
            break
        tallies.append(delivered(address, spool, timeouts=timeouts))
    return Soaked(sent, tallies, spool.count())


def delivered(
    address: str, spool: Spool, fresh: Sequence[Outgoing] = (), *, timeouts: httpx.Timeout = PATIENCE
) -> Tally:
    """What a command does once everything is measured, without the pauses."""
    with Client(server_at(address, token=None), wait=lambda _: False, timeouts=timeouts) as client:
        return dispatch(client.deliver, spool, fresh, is_stopped=lambda: False)


def every_fault(times: int, *, calm_share: float, seed: int) -> list[str]:
    """Each fault some times, and calm calls between, in an order that a seed decides."""
    faults = [name for name in FAULTS if name != CALM] * times
    script = faults + [CALM] * round(len(faults) * calm_share / (1 - calm_share))
    random.Random(seed).shuffle(script)  # noqa: S311 # an order to repeat, no secret
    return script


def stored_ids(database_url: str) -> list[str]:
    """Ids of all reports in a database, as often as they are there, sorted."""
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            return sorted(_ids(connection.execute(text("SELECT id FROM reports")).scalars()))
    finally:
        engine.dispose()


def _ids(values: Iterator[object]) -> Iterator[str]:
    for value in values:
        yield str(value if isinstance(value, UUID) else UUID(str(value)))


def measured(spool: Spool, node: str, gpu: int) -> Outgoing:
    """Put a report of one gpu into a spool."""
    report = make_report(node__name=node, gpu__uuid=f"GPU-{node}-{gpu}", gpu__index=gpu)
    return spool.add(report["report_id"], json.dumps(report).encode())
