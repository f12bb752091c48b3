from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from psycopg.errors import DeadlockDetected
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError, OperationalError

from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.tables import Device, DeviceNameRow, Document, Gpu, Report, Roof
from fleetridge_server.intake import store
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import Stored, store_calls, write_reports
from support.patience import PATIENCE_S
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.orm import Session

pytestmark = pytest.mark.both_databases


def accepted(item: dict[str, Any]) -> Accepted:
    outcome = examined(item, sent_at=None, received_at=NOW)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def count(database: Database, table: type[Any]) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def together(work: Callable[[int], None], workers: int) -> None:
    """Run some work in many threads that start at one moment."""
    start = threading.Barrier(workers)

    def run(number: int) -> None:
        start.wait(PATIENCE_S)
        work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_a_report_is_stored_once(database: Database) -> None:
    """However often it comes, in one call or in several."""
    item = accepted(make_report())

    outcomes = [write_reports(database, items) for items in ([item, item], [item])]

    assert outcomes == [["created", "duplicate"], ["duplicate"]]
    assert (count(database, Report), count(database, Document), count(database, Roof)) == (1, 1, 2)


def test_another_content_under_the_same_id_is_a_conflict(database: Database) -> None:
    """What is stored stays."""
    report = make_report()
    other = {**report, "outcome": "failed", "reason": "crashed"}

    outcomes = [
        write_reports(database, [accepted(report), accepted(other)]),
        write_reports(database, [accepted(other)]),
    ]

    assert outcomes == [["created", "conflict"], ["conflict"]]
    with database.reading() as session:
        assert session.scalars(select(Report.outcome)).all() == ["measured"]


def test_a_failure_in_the_midst_stores_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """All reports of a call or none."""
    item = accepted(make_report())
    without_a_body = {"report_id": uuid4(), "received_at": NOW, "body": None}
    monkeypatch.setattr(store, "document_row", lambda _item: without_a_body)

    with pytest.raises(IntegrityError):
        write_reports(database, [item])

    assert (count(database, Report), count(database, Gpu)) == (0, 0)


def test_the_summary_holds_what_the_report_said(database: Database) -> None:
    """Typed columns for filters, as reported then."""
    report = make_report(evidence={"contended": True, "phases": [phase("a", 50.5), phase("b", 61), phase("c", None)]})
    write_reports(database, [accepted(report)])

    with database.reading() as session:
        stored = session.scalars(select(Report)).one()

    assert stored.driver == "580.159.04"
    assert stored.fill == "normal"
    assert stored.memory_bytes == 150754820096
    assert stored.contended is True
    assert stored.temperature_c == 61
    assert stored.received_at == NOW
    assert stored.measured_to == stored.ordered_at


def phase(name: str, temperature_c: float | None) -> dict[str, Any]:
    return {"phase": name, "temperature_c": temperature_c}


@pytest.mark.parametrize(
    ("device", "allow_tf32", "expected"),
    [
        ("NVIDIA H200", True, "tf32"),
        ("NVIDIA H200", False, "float32"),
        ("NVIDIA H200", None, "float32_or_tf32"),
        ("Tesla V100-SXM2-16GB", None, "float32"),
        ("NVIDIA Z999 1TB", None, "float32_or_tf32"),
    ],
)
def test_float32_is_compared_by_how_it_was_multiplied(
    database: Database, device: str, allow_tf32: bool | None, expected: str
) -> None:
    """TF32 on, off and unknown are three dtypes, but for a chip without TF32; reading memory multiplies nothing."""
    roofs = [compute_roof(19.0, dtype="float32"), compute_roof(100.0), memory_roof(4000.0)]
    write_reports(
        database, [accepted(make_report(gpu__device=device, environment__allow_tf32=allow_tf32, roofs=roofs))]
    )

    with database.reading() as session:
        dtypes = session.scalars(select(Roof.dtype).order_by(Roof.position)).all()

    assert dtypes == [expected, "bfloat16", "float32"]


def test_a_report_about_a_node_or_about_nobody_is_stored(database: Database) -> None:
    """Without gpu, without roofs; an import may not even know its node."""
    of_node = make_skipped_report("cuda_not_ready", outcome="failed", gpu=None)
    of_nobody = make_report(node={"cluster": "east"}, run__kind="import", measured_from=None, measured_to=None)

    assert write_reports(database, [accepted(of_node), accepted(of_nobody)]) == ["created", "created"]


def test_raw_names_are_kept_beside_the_canonical_one(database: Database) -> None:
    """Every name that some driver gave, once; an empty one is no name."""
    names = ["Tesla V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB", "V100-SXM2-16GB", "V100-SXM2-16GB", ""]
    for _ in range(2):
        write_reports(database, [accepted(make_report(gpu__device=name)) for name in names])

    with database.reading() as session:
        stored = session.execute(select(DeviceNameRow.name, DeviceNameRow.device_id).order_by(DeviceNameRow.name)).all()

    assert [name for name, _ in stored] == sorted(set(names) - {""})
    assert len({device_id for _, device_id in stored}) == 1


@pytest.mark.parametrize(
    ("names", "devices"),
    [
        (["Tesla V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB", "V100-SXM2-16GB"], 1),
        (["GTX 970", "GeForce GTX 970", "NVIDIA GeForce GTX 970"], 1),
        (["NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"], 3),
        (["NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL"], 3),
        (["NVIDIA H100 80GB HBM3", "NVIDIA Z999 1TB"], 2),
    ],
)
def test_names_that_differ_in_brand_words_only_are_one_device(
    database: Database, names: list[str], devices: int
) -> None:
    """And no others; an unheard-of one is a device like any."""
    write_reports(database, [accepted(make_report(gpu__device=name, gpu__uuid=f"GPU-{name}")) for name in names])

    assert (count(database, Device), count(database, Gpu)) == (devices, len(names))


def test_gpus_without_a_name_are_grouped_by_what_they_are(database: Database) -> None:
    """Never in one group of the nameless."""
    chips = [("gfx908", 32), ("gfx90a", 64), ("gfx90a", 64)]
    write_reports(
        database,
        [
            accepted(
                make_report(
                    gpu__uuid=f"GPU-{place + 1}",
                    gpu__device="",
                    gpu__architecture=architecture,
                    gpu__memory_bytes=gib * 2**30,
                )
            )
            for place, (architecture, gib) in enumerate(chips)
        ],
    )

    with database.reading() as session:
        assert set(session.scalars(select(Device.name))) == {"gfx908 32 GiB", "gfx90a 64 GiB"}


def test_sixteen_that_send_the_same_store_it_once(database_url: str) -> None:
    """Each through a connection of its own, as sixteen servers; one stores it, the others find it."""
    shared = [make_report(gpu__uuid=f"GPU-{number}", node__name=f"n{number % 3}") for number in range(8)]
    outcomes: Counter[str] = Counter()

    def send(number: int) -> None:
        database = open_database(database_url)
        order = shared[number % 8 :] + shared[: number % 8]
        outcomes.update(write_reports(database, [accepted(report) for report in order]))
        database.close()

    together(send, workers=16)

    assert outcomes == {"created": 8, "duplicate": 15 * 8}
    database = open_database(database_url)
    assert (count(database, Report), count(database, Roof), count(database, Gpu)) == (8, 16, 8)
    database.close()


def test_of_two_contents_that_race_for_an_id_one_wins(database: Database) -> None:
    """And nothing of the loser stays, not even in what is known of its gpu."""
    contents = [make_report(report_id=str(uuid4()), gpu__uuid=f"GPU-{number}") for number in range(8)]
    same_id = [{**report, "report_id": contents[0]["report_id"]} for report in contents]
    outcomes: list[Sequence[str]] = []

    together(lambda number: outcomes.append(write_reports(database, [accepted(same_id[number])])), workers=8)

    assert Counter(outcome for [outcome] in outcomes) == {"created": 1, "conflict": 7}
    assert (count(database, Report), count(database, Gpu)) == (1, 1)


def test_a_call_that_was_part_of_a_deadlock_is_tried_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL ends one of two calls that wait for each other; its reports are stored all the same."""
    tries = 0

    def store_after_a_deadlock(session: Session, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OperationalError("INSERT", {}, DeadlockDetected())
        return store_calls(session, calls)

    monkeypatch.setattr(store, "store_calls", store_after_a_deadlock)

    assert write_reports(database, [accepted(make_report())]) == ["created"]
    assert (tries, count(database, Report)) == (2, 1)
