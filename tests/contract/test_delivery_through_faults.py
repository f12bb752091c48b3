"""Everything that a network can do to a call, between the agent's own delivery and a real server, on both databases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetridge_agent.deliver.dispatch import Tally
from fleetridge_agent.deliver.spool import Spool
from support.databases import SqliteDatabases
from support.fault_proxy import CALM, FAULTS, fault_proxy
from support.server_process import server_process
from support.soak import delivered, every_fault, measured, soak, stored_ids

pytestmark = pytest.mark.both_databases


def test_two_hundred_reports_through_every_fault_arrive_exactly_once(database_url: str, tmp_path: Path) -> None:
    faults = every_fault(2, calm_share=0.3, seed=20)
    with server_process(database_url) as server, fault_proxy(server.address(), faults) as proxy:
        soaked = soak(proxy.address, tmp_path, runs=50, gpus=4)

    assert set(proxy.counts) == set(FAULTS), "every fault was met"
    assert len(soaked.sent) == 200
    assert stored_ids(database_url) == sorted(soaked.sent)
    assert soaked.left == 0
    assert sum(tally.delivered for tally in soaked.tallies) == 200
    assert {(tally.dead, tally.lost) for tally in soaked.tallies} == {(0, 0)}


@pytest.fixture(scope="module")
def served(sqlite_databases: SqliteDatabases) -> Iterator[tuple[str, str]]:
    """A database, and the address of a server on it, whose first answer does not wait for a process to start."""
    url = sqlite_databases.create(migrated=True)
    with server_process(url, environment={"FLEETRIDGE_SERVER_INTAKE_PROCESSES": "0"}) as server:
        yield url, server.address()
    sqlite_databases.drop(url)


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != CALM])
def test_what_a_fault_without_end_does_not_let_through_waits_until_it_ends(
    served: tuple[str, str], tmp_path: Path, fault: str
) -> None:
    url, address = served
    spool = Spool(tmp_path)
    fresh = [measured(spool, fault, gpu) for gpu in range(4)]
    ids = {report.report_id for report in fresh}
    with fault_proxy(address, itertools.repeat(fault)) as proxy:
        during = delivered(proxy.address, spool, fresh)
    waiting = {report.report_id for report in spool.pending()}

    assert ids <= waiting | set(stored_ids(url))
    assert during == Tally(delivered=4 - len(waiting), waiting=len(waiting))

    after = delivered(address, spool)

    assert after == Tally(delivered=len(waiting))
    assert sorted(ids) == [report_id for report_id in stored_ids(url) if report_id in ids]
