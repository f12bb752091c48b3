from __future__ import annotations

from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.nodes import ExpectedNode
from fleetridge_server.fleet.expected import ExpectedGpu, expected_nodes, replace_inventory, shown_inventory
from fleetridge_server.fleet.find import device_named
from fleetridge_server.verdicts.series import DeviceGroup, due_notes
from support.evaluations import HOUR, Fleet, a_fleet, a_report

EAST_1 = NodeName("east", "node-01")


def expect(fleet: Fleet, *entries: ExpectedGpu, cluster: str = "east") -> None:
    with fleet.database.writing() as session:
        replace_inventory(session, cluster, entries, fleet.now)


def expected(fleet: Fleet, device: str = "H200") -> list[ExpectedNode]:
    with fleet.database.reading() as session:
        found = device_named(session, device)
        assert found is not None
        return expected_nodes(session, DeviceGroup(found.id, simulated=False))


def test_a_node_that_never_reported_is_missed(fleet: Fleet) -> None:
    """It has an alert until it reports."""
    fleet.store(a_fleet())
    expect(fleet, ExpectedGpu("node-01", expected_gpus=8), ExpectedGpu("node-02", device="h200", expected_gpus=8))
    fleet.evaluate()
    never = fleet.bodies()[-1].absences
    first = [(alert.kind, alert.node, alert.resolved_at) for alert in fleet.alerts()]
    fleet.store([a_report(f"GPU-2{number}", at=fleet.now, node__name="node-02") for number in range(8)])
    fleet.evaluate(fleet.now + HOUR)

    assert [(own.node, own.unnamed, own.never_reported) for own in never] == [("node-02", 8, True)]
    assert first == [("missing", "node-02", None)]
    assert [alert.resolved_at is not None for alert in fleet.alerts()] == [True]


def test_a_gpu_that_is_expected_and_was_never_seen_is_missing(fleet: Fleet) -> None:
    """It has a verdict, though it never reported."""
    fleet.store(a_fleet(gpus=4))
    expect(fleet, ExpectedGpu("node-01", gpu="GPU-0"), ExpectedGpu("node-01", gpu="GPU-77"))
    fleet.evaluate()

    assert fleet.states()["GPU-77"] == "missing"
    assert fleet.states()["GPU-0"] == "ok"


def test_an_import_replaces_what_was_expected_of_its_cluster(fleet: Fleet) -> None:
    """And of no other."""
    expect(fleet, ExpectedGpu("n1"), ExpectedGpu("n2"), cluster="east")
    expect(fleet, ExpectedGpu("n9"), cluster="west")
    expect(fleet, ExpectedGpu("n3", expected_gpus=4), cluster="east")

    with fleet.database.reading() as session:
        east = [(own.node, own.expected_gpus) for own, _ in shown_inventory(session, "east")]
        west = [own.node for own, _ in shown_inventory(session, "west")]
    assert (east, west) == ([("n3", 4)], ["n9"])


def test_a_device_that_nobody_reported_can_be_expected(fleet: Fleet) -> None:
    """Then its absence is what an evaluation says of it."""
    expect(fleet, ExpectedGpu("n1", device="NVIDIA B200", expected_gpus=8))
    with fleet.database.reading() as session:
        (device_group,) = due_notes(session)

    fleet.evaluator.evaluate_now(device_group)

    assert [(own.node, own.never_reported) for own in fleet.bodies()[0].absences] == [("n1", True)]
    assert expected(fleet, "B200") == [ExpectedNode(NodeName("east", "n1"), frozenset(), 8)]


def test_a_line_without_a_device_is_about_the_gpus_of_its_node(fleet: Fleet) -> None:
    """Or, where that never reported, about the device of which its cluster has most."""
    fleet.store([*a_fleet(gpus=4), a_report("GPU-9", gpu__device="NVIDIA A100-SXM4-80GB", node__name="node-09")])
    expect(fleet, *(ExpectedGpu(node, expected_gpus=4) for node in ("node-01", "node-09", "node-50")))

    assert [own.node.name for own in expected(fleet)] == ["node-01", "node-50"]
    assert [own.node.name for own in expected(fleet, "A100-SXM4-80GB")] == ["node-09"]


def test_a_gpu_that_reported_as_another_device_is_not_missing(fleet: Fleet) -> None:
    """The inventory is wrong about its model, not about the gpu."""
    fleet.store([*a_fleet(gpus=2), a_report("GPU-9", gpu__device="NVIDIA A100-SXM4-80GB")])
    expect(
        fleet, ExpectedGpu("node-01", gpu="GPU-9", device="H200"), ExpectedGpu("node-01", gpu="GPU-1", device="H200")
    )

    assert expected(fleet) == [ExpectedNode(EAST_1, frozenset({"GPU-1"}), None)]


def test_made_up_nodes_are_expected_by_themselves(fleet: Fleet) -> None:
    """A simulated fleet's inventory says nothing of real gpus."""
    fleet.store(a_fleet(gpus=2))
    expect(fleet, ExpectedGpu("n1", device="H200", expected_gpus=8), cluster="simulated")

    assert expected(fleet) == []
    with fleet.database.reading() as session:
        assert {own.simulated for own in due_notes(session)} == {False, True}
