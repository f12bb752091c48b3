"""The gpus of a node: those that answer, those that are lost, and what is remembered of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetridge_agent.gpus import listing
from fleetridge_agent.gpus.known_gpus import known_gpus, known_gpus_path
from fleetridge_agent.gpus.listing import Listing, node_listing
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import open_nvml
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

_GIB = 1024**3


class Node:
    """A node with some cards, in the order of their addresses."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, cards: int = 4) -> None:
        self.root = root
        self.state = root / "state"
        memory = SimpleNamespace(total=141 * _GIB, used=0)
        self.cards = [
            StubCard(f"GPU-{place}", f"00000000:{place + 0x1A:02X}:00.0", "NVIDIA H200", {"MemoryInfo": memory})
            for place in range(cards)
        ]
        monkeypatch.setattr(listing, "nvml_or_none", lambda: open_nvml(StubNvml(*self.cards)))

    def lose(self, place: int, code: int = 15, text: str = "GPU is lost") -> None:
        """Have NVML give no handle of a card."""
        self.cards[place].handle_error = StubNvmlError(code, text)

    def put_on_bus(self, *addresses: str) -> None:
        """Show these gpus on the bus."""
        for address in addresses:
            device = self.root / "sys/bus/pci/devices" / address
            device.mkdir(parents=True)
            (device / "vendor").write_text("0x10de\n")
            (device / "class").write_text("0x030200\n")

    def listed(self, **environ: str) -> Listing:
        """List the gpus."""
        return node_listing(self.state, "n1", environ, Host(self.root))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with four cards."""
    return Node(tmp_path, monkeypatch)


def test_a_card_that_is_lost_keeps_the_name_that_it_had(node: Node) -> None:
    """Identity, address, model and memory are those of the last complete list."""
    node.listed()
    node.lose(2)
    found = node.listed()
    (lost,) = found.lost

    assert (lost.gpu.uuid, lost.gpu.pci_bus_id, lost.gpu.index) == ("GPU-2", "0000:1c:00.0", 2)
    assert (lost.gpu.device, lost.gpu.memory_bytes) == ("NVIDIA H200", 141 * _GIB)
    assert lost.reason == "gpu_lost"
    assert lost.detail.startswith("NVML: GPU is lost; see `dmesg`")


def test_the_roster_stays_complete_and_marks_it(node: Node) -> None:
    node.put_on_bus(*(f"0000:{0x1A + place:02x}:00.0" for place in range(4)))
    node.listed()
    node.lose(2)
    (node.root / ".dockerenv").touch()
    roster = node.listed().roster

    assert roster.is_complete is True
    assert roster.gpus is not None
    assert [(gpu.uuid, gpu.state) for gpu in roster.gpus] == [
        ("GPU-0", None),
        ("GPU-1", None),
        ("GPU-2", "lost"),
        ("GPU-3", None),
    ]


def test_what_is_lost_stays_known_however_often_the_node_is_listed(node: Node) -> None:
    node.listed()
    node.lose(2)
    node.listed()
    node.listed()

    assert {gpu.uuid for gpu in known_gpus(node.state, "n1")} == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    assert node.listed().lost[0].gpu.uuid == "GPU-2"


def test_without_memory_the_bus_still_says_where_it_is(node: Node) -> None:
    node.put_on_bus(*(f"0000:{0x1A + place:02x}:00.0" for place in range(4)))
    node.lose(1)
    (lost,) = node.listed().lost

    assert (lost.gpu.uuid, lost.gpu.pci_bus_id, lost.gpu.index) == (None, "0000:1b:00.0", 1)


def test_two_that_are_lost_are_told_apart_by_their_order(node: Node) -> None:
    node.listed()
    node.lose(0)
    node.lose(3, 16, "GPU requires restart")

    assert [(one.gpu.uuid, one.gpu.index, one.reason) for one in node.listed().lost] == [
        ("GPU-0", 0, "gpu_lost"),
        ("GPU-3", 3, "gpu_reset_required"),
    ]


def test_nothing_is_guessed_where_one_is_lost_and_another_has_left_the_bus(node: Node) -> None:
    node.listed()
    node.lose(0)
    del node.cards[3]
    (lost,) = node.listed().lost

    assert (lost.gpu.uuid, lost.gpu.pci_bus_id, lost.gpu.index) == (None, None, 0)


def test_what_the_driver_still_says_goes_before_what_is_remembered(node: Node) -> None:
    """The card was replaced since, and the new one is lost."""
    node.listed()
    node.cards[1] = StubCard(
        "GPU-new", "00000000:1B:00.0", "NVIDIA H200 NVL", {"MemoryInfo": StubNvmlError(15, "GPU is lost")}
    )
    (lost,) = node.listed().lost

    assert (lost.gpu.uuid, lost.gpu.pci_bus_id, lost.gpu.device) == ("GPU-new", "0000:1b:00.0", "NVIDIA H200 NVL")


def test_slices_of_a_lost_card_are_lost_each(node: Node) -> None:
    node.cards[1].slices = [StubCard(f"MIG-{number}", "", "NVIDIA H200 MIG 3g.71gb") for number in range(2)]
    node.listed()
    node.lose(1)

    assert [(one.gpu.uuid, one.gpu.mig_profile, one.gpu.pci_bus_id) for one in node.listed().lost] == [
        ("MIG-0", "3g.71gb", "0000:1b:00.0"),
        ("MIG-1", "3g.71gb", "0000:1b:00.0"),
    ]


def test_what_is_put_in_its_place_is_known_instead(node: Node) -> None:
    node.listed()
    node.cards[3] = StubCard("GPU-new", "00000000:1D:00.0", "NVIDIA H200")
    node.listed()

    assert [gpu.uuid for gpu in known_gpus(node.state, "n1")] == ["GPU-0", "GPU-1", "GPU-2", "GPU-new"]


def test_an_incomplete_list_teaches_nothing(node: Node) -> None:
    node.put_on_bus(*(f"0000:{0x1A + place:02x}:00.0" for place in range(8)))
    (node.root / ".dockerenv").touch()
    found = node.listed()

    assert (found.roster.is_complete, found.may_hide) == (False, True)
    assert not known_gpus_path(node.state, "n1").exists()


def test_a_lost_gpu_that_the_variable_does_not_leave_to_this_process_is_not_its_business(node: Node) -> None:
    """The roster lists it all the same."""
    node.listed()
    node.lose(2)
    found = node.listed(CUDA_VISIBLE_DEVICES="0,GPU-1")

    assert found.lost == ()
    assert found.roster.gpus is not None
    assert found.roster.gpus[2].state == "lost"
    assert node.listed(CUDA_VISIBLE_DEVICES="GPU-2").lost[0].gpu.uuid == "GPU-2"


def test_the_xid_is_told_where_the_kernels_log_can_be_read(node: Node) -> None:
    """Without the name of the process that the driver writes beside it."""
    (node.root / "dev").mkdir()
    (node.root / "dev/kmsg").write_text("4,1,2,-;NVRM: Xid (PCI:0000:1c:00): 79, pid=7, name=job, fallen off\n")
    node.listed()
    node.lose(2)
    (lost,) = node.listed().lost

    assert "GPU is lost; Xid 79 in the kernel's log;" in lost.detail
    assert "job" not in lost.detail


def test_a_file_that_is_none_of_ours_is_no_memory(node: Node) -> None:
    node.listed()
    known_gpus_path(node.state, "n1").write_text("{}")

    assert known_gpus(node.state, "n1") == ()
    assert len(node.listed().roster.gpus or ()) == 4


def test_a_folder_that_cannot_be_written_costs_the_memory_alone(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.state.write_text("a file")

    assert len(node.listed().roster.gpus or ()) == 4
    assert "cannot be kept" in caplog.text


def test_nodes_that_share_a_folder_are_known_apart(node: Node) -> None:
    node.listed()

    assert known_gpus(node.state, "n2") == ()
