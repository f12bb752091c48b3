from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import reduce
from itertools import permutations
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from fleetridge_server.db.tables import Device, Gpu, Node
from fleetridge_server.fleet.find import device_named
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.hardware import merged_nodes
from fleetridge_server.intake.store import write_reports
from support.reports import make_report
from support.times import NOW

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

HOUR = timedelta(hours=1)
times = st.none() | st.datetimes(timezones=st.just(timezone.utc))


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of one node, each from a report of its own."""
    ids = draw(st.lists(st.integers(1, 2**128 - 1), min_size=1, max_size=5, unique=True))
    return [_row(UUID(int=number), draw(times), has_roster=draw(st.booleans())) for number in ids]


def _row(report_id: UUID, at: datetime | None, *, has_roster: bool) -> dict[str, Any]:
    return {
        "labels": {"of": str(report_id)},
        "first_seen": at,
        "last_seen": at,
        "last_report_id": report_id,
        "last_rank": f"{at} {report_id}",
        "roster": [{"gpu_id": str(report_id)}] if has_roster else None,
        "roster_seen": at if has_roster else None,
        "roster_report_id": report_id if has_roster else None,
        "roster_rank": f"{at} {report_id}" if has_roster else None,
    }


def at(hours: int, **changes: Any) -> Accepted:
    moment = (NOW - 100 * HOUR + hours * HOUR).isoformat()
    item = examined(make_report(measured_from=moment, measured_to=moment, **changes), sent_at=None, received_at=NOW)
    assert isinstance(item, Accepted)
    return item


@given(rows(), st.randoms())
def test_the_order_of_arrival_never_matters(seen: list[dict[str, Any]], random: Any) -> None:
    """Any order of the same sightings gives the same row."""
    shuffled = random.sample(seen, len(seen))

    assert reduce(merged_nodes, shuffled) == reduce(merged_nodes, seen)


@given(rows())
def test_seeing_the_same_twice_changes_nothing(seen: list[dict[str, Any]]) -> None:
    """Nor does any sighting repeated after others."""
    once = reduce(merged_nodes, seen)

    assert merged_nodes(once, seen[0]) == once


def test_a_gpu_is_where_its_newest_report_says(database: Database) -> None:
    """A unit that moved is on its new node, also when an old report comes late."""
    moves = [at(1, node__name="n1"), at(3, node__name="n3", gpu__index=7), at(2, node__name="n2")]
    for item in moves:
        write_reports(database, [item])

    with database.reading() as session:
        gpu, node = session.execute(select(Gpu, Node.name).join(Node, Node.id == Gpu.node_id)).one()

    assert (node, gpu.gpu_index) == ("n3", 7)
    assert (gpu.first_seen, gpu.last_seen) == (moves[0].ordering.ordered_at, moves[1].ordering.ordered_at)


def test_one_call_and_many_give_the_same_rows(database: Database) -> None:
    """Whether reports come together or one by one, in any order."""
    items = [at(hour, node__labels={"hour": str(hour)}, gpu__index=hour) for hour in (1, 2, 3)]
    found = []
    for place, order in enumerate(permutations(items)):
        moved = [examined_in(f"c{place}", item) for item in order]
        batches = [moved] if place % 2 else [[item] for item in moved]
        for batch in batches:
            write_reports(database, batch)
        with database.reading() as session:
            node = session.scalars(select(Node).where(Node.cluster == f"c{place}")).one()
            found.append((node.labels, node.first_seen, node.last_seen))

    assert found == [found[0]] * 6
    assert found[0][0] == {"hour": "3"}


def examined_in(cluster: str, item: Accepted) -> Accepted:
    """The same report from another cluster and gpu."""
    moment = item.report.measured_to
    assert moment is not None
    changed = make_report(
        measured_from=moment.isoformat(),
        measured_to=moment.isoformat(),
        node={"cluster": cluster, "name": "n1", "labels": item.report.node.labels},
        gpu__uuid=f"GPU-{cluster}",
    )
    again = examined(changed, sent_at=None, received_at=NOW)
    assert isinstance(again, Accepted)
    return again


def test_a_gpu_keeps_one_history_when_its_host_is_renamed(database: Database) -> None:
    """A pod's name that changes with every restart makes no second gpu."""
    write_reports(database, [at(1, node__name="agent-abcde"), at(2, node__name="agent-fghij")])

    with database.reading() as session:
        assert len(session.scalars(select(Gpu)).all()) == 1


def test_one_host_name_in_two_clusters_is_two_nodes(database: Database) -> None:
    """A short name says nothing without its cluster."""
    write_reports(database, [at(1, node__cluster=cluster, node__name="n01") for cluster in ("east", "west")])

    with database.reading() as session:
        assert len(session.scalars(select(Node)).all()) == 2


def test_two_machines_with_one_host_name_have_their_own_gpus(database: Database) -> None:
    """Gpus are told apart by their own identity."""
    write_reports(database, [at(1, node__name="localhost", gpu__uuid=uuid) for uuid in ("GPU-1", "GPU-2")])

    with database.reading() as session:
        assert len(session.scalars(select(Gpu)).all()) == 2


def test_a_node_keeps_its_newest_complete_roster(database: Database) -> None:
    """A container that hides gpus takes none away from the node."""
    full = [{"uuid": "GPU-1"}, {"uuid": "GPU-2"}, {"uuid": None, "pci_bus_id": None}]
    write_reports(
        database,
        [
            at(1, run__roster=[], run__roster_complete=True),
            at(2, run__roster=full, run__roster_complete=True),
            at(3, run__roster=[{"uuid": "GPU-1"}], run__roster_complete=False),
            at(4, run__roster=None, run__roster_complete=None),
        ],
    )

    with database.reading() as session:
        node = session.scalars(select(Node)).one()

    assert [entry["gpu_id"] for entry in node.roster or []] == ["GPU-1", "GPU-2", None]


def test_two_names_with_one_slug_are_two_devices(database: Database) -> None:
    """The second gets a slug of its own, and both stay as they are."""
    names = ["RTX 3060/PCIe", "RTX 3060 PCIe", "RTX 3060-PCIe"]
    for _ in range(2):
        write_reports(database, [at(1, gpu__device=name, gpu__uuid=f"GPU-{name}") for name in names])

    with database.reading() as session:
        devices = session.execute(select(Device.name, Device.slug)).all()

    assert {name for name, _ in devices} == set(names)
    assert len({slug for _, slug in devices}) == 3
    assert "rtx-3060-pcie" in {slug for _, slug in devices}


def test_a_slug_that_is_taken_by_design_is_passed_over(database: Database) -> None:
    """Names whose plain slug is what another one falls back on; each device can be read by its own."""
    names = ["hx-200", "hx 200 198dde7e", "hx 200 198dde7e 2", "HX 200"]
    for name in names:
        write_reports(database, [at(1, gpu__device=name, gpu__uuid=name)])

    with database.reading() as session:
        devices = session.execute(select(Device.name, Device.slug)).all()
        read_back = [device_named(session, slug) for _, slug in devices]

    assert {name for name, _ in devices} == set(names)
    assert [device and device.name for device in read_back] == [name for name, _ in devices]


def test_two_names_with_one_slug_in_one_call(database: Database) -> None:
    """Neither is lost when both are new at once."""
    write_reports(database, [at(1, gpu__device=name, gpu__uuid=name) for name in ("a b", "a-b", "a/b")])

    with database.reading() as session:
        assert set(session.scalars(select(Device.name))) == {"a b", "a-b", "a/b"}


FACTS = ("pci_bus_id", "gpu_index", "architecture", "memory_bytes", "sm_count", "mig_profile", "partition")


def failed(hours: int, **gpu: Any) -> Accepted:
    """A report that failed and knows of its gpu no more than is given."""
    return at(hours, outcome="failed", reason="crashed", points=[], roofs=[], gpu={"uuid": "GPU-00000001", **gpu})


def test_a_report_that_knows_nothing_takes_no_knowledge_away(database: Database) -> None:
    """A newer one with nothing but the UUID leaves the gpu what and where it was."""
    write_reports(database, [at(1, gpu__partition="SPX")])
    before = the_gpu(database)
    write_reports(database, [failed(2)])
    after = the_gpu(database)

    assert {name: getattr(after, name) for name in (*FACTS, "device_id")} == {
        name: getattr(before, name) for name in (*FACTS, "device_id")
    }
    assert (before.sm_count, after.last_report_id != before.last_report_id) == (132, True)


def test_each_fact_is_that_of_the_newest_report_that_states_it(database: Database) -> None:
    """In whatever order reports with parts of the truth arrive."""
    items = [
        at(1, gpu__index=1, gpu__sm_count=1, gpu__memory_bytes=1 << 30, gpu__mig_profile="1g.18gb"),
        failed(2, index=2, sm_count=2),
        at(3, gpu__index=None, gpu__sm_count=3, gpu__memory_bytes=None),
        failed(4),
    ]
    for number, order in enumerate(permutations(items)):
        for item in order:
            write_reports(database, [renamed(item, f"GPU-{number}")])

    with database.reading() as session:
        gpus = session.scalars(select(Gpu)).all()
        names = set(session.scalars(select(Device.name).join(Gpu, Gpu.device_id == Device.id)))

    assert {(gpu.gpu_index, gpu.sm_count, gpu.memory_bytes, gpu.mig_profile) for gpu in gpus} == {(2, 3, 1 << 30, None)}
    assert (len(gpus), names) == (24, {"H200"})


def renamed(item: Accepted, uuid: str) -> Accepted:
    """The same report of another gpu, under another id."""
    document = item.report.model_dump(mode="json") | {"report_id": make_report()["report_id"]}
    document["gpu"]["uuid"] = uuid
    again = examined(document, sent_at=None, received_at=NOW)
    assert isinstance(again, Accepted)
    return again


def the_gpu(database: Database) -> Gpu:
    """The only gpu."""
    with database.reading() as session:
        return session.scalars(select(Gpu)).one()


def test_a_made_up_gpu_is_another_one_than_the_real_gpu_of_its_name(database: Database) -> None:
    """Neither changes the other, also within one call."""
    write_reports(database, [at(1), at(2, node__cluster="simulated", gpu__index=7, gpu__device="Toy")])
    write_reports(database, [at(3, node__cluster="simulated", gpu__index=8, gpu__device="Toy")])

    with database.reading() as session:
        found = session.execute(select(Gpu, Device.name).join(Device, Device.id == Gpu.device_id)).all()

    assert {(gpu.simulated, gpu.gpu_index, name) for gpu, name in found} == {(False, 0, "H200"), (True, 8, "Toy")}
