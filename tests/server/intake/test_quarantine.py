from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete, select

from fleetridge_server.auth.tokens import NewToken, sha256_of, store_token
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.tables import Device, Document, Gpu, Node, Report
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.quarantine import move_some, quarantine_token, release_token
from fleetridge_server.intake.store import write_reports
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report
from support.patience import PATIENCE_S
from support.reports import make_report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.databases import Databases

pytestmark = pytest.mark.both_databases

# Rows of the two tokens that these tests make.
GOOD, BAD = 1, 2

# Of no consequence for what is said: rows of their own, and what is only looked at more closely.
UNTOLD = {"id", "is_due", "several_nodes", "device_id", "node_id", "gpu_id", "stated"}


def make_token(database: Database, name: str) -> int:
    """Row of a new token."""
    with database.writing() as session:
        return store_token(session, NewToken(name, sha256_of(name), frozenset({"ingest"})), NOON).id


def store(database: Database, reports: Iterable[dict[str, Any]], token_id: int, at: datetime = NOON + HOUR) -> None:
    """Store some reports with a token, each in a call of its own."""
    for own in reports:
        item = examined(own, sent_at=None, received_at=at, token_id=token_id)
        assert isinstance(item, Accepted), item
        assert write_reports(database, [item]) == ["created"]


def move(database: Database, token_id: int) -> int:
    """Let all reports of a token follow it; how many did."""
    total, after = 0, 0
    while True:
        with database.writing() as session:
            step = move_some(session, token_id, after_gpu=after, at=NOON + 2 * HOUR)
        total, after = total + step.reports, step.last_gpu or after
        if step.is_last:
            return total


def quarantine(database: Database, token_id: int, since: datetime | None = None) -> int:
    with database.writing() as session:
        quarantine_token(session, token_id, since, NOON + 2 * HOUR)
    return move(database, token_id)


def release(database: Database, token_id: int) -> int:
    with database.writing() as session:
        release_token(session, token_id)
    return move(database, token_id)


def told(database: Database) -> dict[str, Any]:
    """Everything that is stored and counts, by names instead of rows."""
    with database.reading() as session:
        names = {row.id: row.name for row in session.scalars(select(Device))}
        nodes = {row.id: (row.cluster, row.name) for row in session.scalars(select(Node))}
        gpus = {row.id: row.identity for row in session.scalars(select(Gpu))}

        def shown(row: Any) -> dict[str, Any]:
            own = {name: getattr(row, name) for name in row.__mapper__.column_attrs.keys() if name not in UNTOLD}  # noqa: SIM118 # no dict
            refers: dict[str, dict[int, Any]] = {"device_id": names, "node_id": nodes, "gpu_id": gpus}
            return own | {name: by.get(getattr(row, name)) for name, by in refers.items() if hasattr(row, name)}

        return {
            "gpus": {row.identity: shown(row) for row in session.scalars(select(Gpu).where(~Gpu.quarantined))},
            "nodes": {nodes[row.id]: shown(row) for row in session.scalars(select(Node).where(~Node.quarantined))},
            "conflicts": {
                row.id: row.conflict_from for row in session.scalars(select(Report).where(~Report.quarantined))
            },
        }


def scenario(seed: int, count: int = 24) -> list[dict[str, Any]]:
    """Reports of few gpus that wander between few nodes, some failed, some of the node alone, some without a time."""
    dice = random.Random(seed)  # noqa: S311 # a scenario, no secret
    found = []
    for _ in range(count):
        at = NOON - dice.randrange(600) * timedelta(minutes=1)
        node = f"n{dice.randrange(3)}"
        gpu = f"GPU-{dice.randrange(4)}"
        changes: dict[str, Any] = {"node__name": node, "node__labels": {"rack": f"r{dice.randrange(2)}"}}
        if dice.random() < 0.5:
            changes |= {"run__roster": [{"uuid": gpu, "index": 0, "device": "H200"}], "run__roster_complete": True}
        if dice.random() < 0.2:
            changes["gpu__device"] = dice.choice(["NVIDIA A100-SXM4-80GB", "", "NVIDIA H200"])
        if dice.random() < 0.2:
            failed = {"outcome": "failed", "reason": "crashed", "points": [], "roofs": []}
            bare = {"uuid": gpu, "index": dice.randrange(3)}
            changes |= failed | ({"gpu": bare} if dice.random() < 0.5 else {"gpu": None})
            report = make_report(measured_from=at.isoformat(), measured_to=at.isoformat(), **changes)
        else:
            report = a_report(gpu, 800.0 + dice.randrange(100), at=at, **changes)
        found.append(report)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("since", [None, NOON + 3 * HOUR])
def test_what_is_said_is_as_if_a_quarantined_token_had_never_posted(
    databases: Databases, seed: int, since: datetime | None
) -> None:
    """Values, conflicts, where gpus and nodes are; and once it is released as if it had never been suspected."""
    reports = scenario(seed)
    good, early, late = reports[0::3], reports[1::3], reports[2::3]
    bad = [*early, *late] if since is None else late
    trusted = [*good, *([] if since is None else early)]
    urls = [databases.create(migrated=True) for _ in range(3)]
    mixed, clean, never = opened = [open_database(url) for url in urls]
    try:
        for database in opened:
            assert [make_token(database, name) for name in ("good", "bad")] == [GOOD, BAD]
            store(database, good, GOOD)
            store(database, early if database is not clean or since is not None else [], BAD)
            store(database, late if database is not clean else [], BAD, at=NOON + 4 * HOUR)

        assert quarantine(mixed, BAD, since) == len(bad)

        assert len(told(mixed)["conflicts"]) == len(trusted)
        assert told(mixed) == told(clean)
        assert release(mixed, BAD) == len(bad)
        assert told(mixed) == told(never)
    finally:
        for database, url in zip(opened, urls, strict=True):
            database.close()
            databases.drop(url)


def test_verdicts_are_those_without_the_reports_of_a_quarantined_token(fleet: Fleet) -> None:
    """And with them again once it is released."""
    make_token(fleet.database, "good")
    make_token(fleet.database, "bad")
    store(fleet.database, a_fleet(), GOOD, at=fleet.now)
    store(fleet.database, [a_report("GPU-0", 400.0, at=NOON - 10 * HOUR + hour * HOUR) for hour in range(0, 9, 2)], BAD)
    fleet.evaluate()
    before = fleet.states()

    quarantine(fleet.database, BAD)
    fleet.evaluate(NOON + 3 * HOUR)
    without = fleet.states()
    release(fleet.database, BAD)
    fleet.evaluate(NOON + 4 * HOUR)

    assert before["GPU-0"] == fleet.states()["GPU-0"] != "ok"
    assert set(without.values()) == {"ok"}


def test_a_gpu_that_only_a_quarantined_token_reported_is_said_nothing_of(fleet: Fleet) -> None:
    """No verdict, and no alert that stays open."""
    make_token(fleet.database, "good")
    make_token(fleet.database, "bad")
    store(fleet.database, a_fleet(), GOOD)
    store(fleet.database, [a_report("GPU-x", 300.0, at=NOON - day * DAY) for day in range(3)], BAD)
    fleet.evaluate()
    assert fleet.states()["GPU-x"] == "outlier"

    quarantine(fleet.database, BAD)
    fleet.evaluate(NOON + 3 * HOUR)

    assert "GPU-x" not in fleet.states()
    assert [alert.resolved_at for alert in fleet.alerts() if alert.gpu == "GPU-x"] == [NOON + 3 * HOUR]


def test_what_a_token_in_quarantine_posts_counts_for_nothing(database: Database) -> None:
    """Neither new gpus and nodes nor known ones are moved by it."""
    make_token(database, "good")
    make_token(database, "bad")
    store(database, [a_report("GPU-0")], GOOD)
    before = told(database)
    quarantine(database, BAD)

    store(database, [a_report("GPU-0", 1.0, node__name="n9"), a_report("GPU-9")], BAD)

    assert told(database) == before


def test_whoever_is_interrupted_goes_on_with_the_rest(database: Database) -> None:
    """A step is whole or was not begun."""
    make_token(database, "good")
    make_token(database, "bad")
    store(database, [a_report(f"GPU-{number}") for number in range(12)], BAD)
    with database.writing() as session:
        quarantine_token(session, BAD, None, NOON)
        move_some(session, BAD, after_gpu=0, at=NOON)

    assert 0 < move(database, BAD) < 12
    assert told(database) == {"gpus": {}, "nodes": {}, "conflicts": {}}


def test_a_dropped_document_takes_no_knowledge_away(database: Database) -> None:
    """What trusted reports said of a gpu and a node stays."""
    make_token(database, "good")
    make_token(database, "bad")
    labels: dict[str, Any] = {"node__labels": {"rack": "r7"}}
    store(database, [a_report("GPU-0", gpu__pci_bus_id="0000:1A:00.0", **labels)], GOOD)
    store(database, [a_report("GPU-0", at=NOON + HOUR, **labels)], BAD)
    with database.writing() as session:
        session.execute(delete(Document))

    quarantine(database, BAD)

    [gpu], [node] = told(database)["gpus"].values(), told(database)["nodes"].values()
    assert (gpu["pci_bus_id"], gpu["last_seen"]) == ("0000:1A:00.0", NOON)
    assert (node["labels"], node["last_seen"]) == ({"rack": "r7"}, NOON)


def test_no_report_slips_past_a_quarantine_that_begins_while_it_is_stored(database: Database) -> None:
    """Calls that are in hand end before it or find it."""
    make_token(database, "good")
    make_token(database, "bad")
    begin, stop = threading.Barrier(4), threading.Event()

    def keep_storing(worker: int) -> int:
        begin.wait(timeout=PATIENCE_S)
        stored = 0
        while not stop.is_set() or stored < 3:
            store(database, [a_report(f"GPU-{worker}-{stored % 5}", at=NOON - stored * timedelta(minutes=1))], BAD)
            stored += 1
        return stored

    with ThreadPoolExecutor(max_workers=3) as pool:
        workers = [pool.submit(keep_storing, worker) for worker in range(3)]
        begin.wait(timeout=PATIENCE_S)
        quarantine(database, BAD)
        stop.set()
        total = sum(worker.result(timeout=PATIENCE_S) for worker in workers)

    with database.reading() as session:
        flags = list(session.scalars(select(Report.quarantined)))
    assert flags == [True] * total
    assert told(database) == {"gpus": {}, "nodes": {}, "conflicts": {}}
