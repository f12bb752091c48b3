"""Whether gpus can be seen and used."""

from __future__ import annotations

import pytest

from fleetridge_agent.doctor import driver_probes
from fleetridge_agent.doctor.facts import CardFacts, CudaFacts, LostCardFacts, NvmlFacts, TorchFacts, Trouble
from fleetridge_agent.doctor.probe import Probe
from support.nodes import CARDS, SickNode, severities

NODES = ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1")
ROCM = TorchFacts(version="2.11.0+rocm6.4", hip="6.4", rocm_gpus=8)


def test_device_nodes_that_may_be_used_are_well(node: SickNode) -> None:
    assert severities(node.with_device_nodes(*NODES).findings(driver_probes.device_nodes)) == [("device nodes", "ok")]


def test_device_nodes_without_permission_are_named(node: SickNode) -> None:
    node.closed = frozenset({"nvidia1"})
    (found,) = node.with_device_nodes(*NODES).findings(driver_probes.device_nodes)

    assert (found.severity, found.seen) == ("problem", "this user may not read and write /dev/nvidia1")
    assert "ls -l /dev/nvidia*" in found.remedy


def test_a_missing_node_of_the_driver_is_named(node: SickNode) -> None:
    (found,) = node.with_device_nodes("nvidiactl", "nvidia0").findings(driver_probes.device_nodes)

    assert (found.severity, found.seen) == ("problem", "/dev/nvidia-uvm missing")
    assert "nvidia-modprobe" in found.remedy


def test_a_container_without_a_gpu_is_told_how_to_get_one(node: SickNode) -> None:
    (found,) = node.with_file(".dockerenv", "").findings(driver_probes.device_nodes)

    assert (found.severity, found.seen) == ("problem", "this container has none of an NVIDIA gpu")
    assert "--gpus all" in found.remedy


def test_gpus_on_the_bus_without_a_node_want_their_driver(node: SickNode) -> None:
    (found,) = node.with_gpus_on_bus(2).findings(driver_probes.device_nodes)

    assert (found.severity, found.seen) == ("problem", "there are gpus on the bus and no /dev/nvidia*")


def test_a_host_without_a_gpu_is_told_of_the_cpu(node: SickNode) -> None:
    (found,) = node.findings(driver_probes.device_nodes)

    assert found.severity == "problem"
    assert "--device cpu" in found.remedy


@pytest.mark.parametrize(
    "probe", [driver_probes.device_nodes, driver_probes.nvml, driver_probes.cards, driver_probes.cuda]
)
def test_who_measures_the_cpu_needs_no_driver(node: SickNode, probe: Probe) -> None:
    node.nvml = node.cuda = "it does not answer within 60 s"

    assert node.findings(probe, "--device", "cpu") == []


def test_a_driver_that_answers_is_named_with_its_module(node: SickNode) -> None:
    node.with_file(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 12.2.0\n",
    )
    (found,) = node.findings(driver_probes.nvml)

    assert (found.severity, found.seen) == ("ok", "driver 580.159.04, cards: 2; the kernel module is 580.159.04")


def test_driver_and_library_that_differ_are_told_with_the_module(node: SickNode) -> None:
    sentence = "NVML: Driver/library version mismatch; reboot the node, or reload the kernel module"
    node.nvml = NvmlFacts(trouble=Trouble(reason="driver_library_mismatch", sentence=sentence))
    node.with_file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue")
    (found,) = node.findings(driver_probes.nvml)

    assert found.severity == "problem"
    assert found.seen == "Driver/library version mismatch; the kernel module is 570.86.15"
    assert found.remedy == "reboot the node, or reload the kernel module"


def test_a_library_that_hangs_is_a_problem_and_not_a_wait(node: SickNode) -> None:
    node.nvml = node.cuda = "it does not answer within 60 s"

    assert severities(node.findings(driver_probes.nvml)) == [("NVML", "problem")]
    assert severities(node.findings(driver_probes.cuda)) == [("CUDA", "problem")]
    assert node.findings(driver_probes.cards) == []


def test_cuda_that_is_not_ready_names_the_fabric_manager(node: SickNode) -> None:
    sentence = "CUDA answers 802: the system is not ready; wait for, or start, nvidia-fabricmanager"
    node.cuda = CudaFacts(trouble=Trouble(reason="cuda_not_ready", sentence=sentence))
    (found,) = node.findings(driver_probes.cuda)

    assert (found.severity, found.seen) == ("problem", "CUDA answers 802: the system is not ready")
    assert "fabricmanager" in found.remedy


def test_gpus_that_cuda_is_told_to_hide_are_a_warning(node: SickNode) -> None:
    node.environ["CUDA_VISIBLE_DEVICES"] = "1"
    node.cuda = CudaFacts(newest_cuda=13000, gpus=1)
    (found,) = node.findings(driver_probes.cuda)

    assert (found.severity, found.seen) == ("warning", "shows 1 of 2 gpus (CUDA_VISIBLE_DEVICES=1)")


def test_a_gpu_that_somebody_uses_is_a_warning(node: SickNode) -> None:
    held = CARDS[1].model_copy(update={"use": "processes on it: 2"})
    node.nvml = NvmlFacts(driver="580", cards=(CARDS[0], held))
    (found,) = node.findings(driver_probes.cards)

    assert (found.what, found.severity, found.seen) == (
        "gpu in use",
        "warning",
        "gpu 1 NVIDIA H200 (GPU-1): processes on it: 2",
    )
    assert "--wait" in found.remedy


def test_a_card_in_mig_mode_without_a_slice_is_a_warning_while_others_can_be_measured(node: SickNode) -> None:
    node.nvml = NvmlFacts(driver="580", cards=(CARDS[0], CARDS[1].model_copy(update={"split": True})))

    assert ("MIG", "warning") in severities(node.findings(driver_probes.cards))


def test_only_cards_without_a_slice_are_a_problem(node: SickNode) -> None:
    node.nvml = NvmlFacts(driver="580", cards=(CARDS[0].model_copy(update={"split": True}),))
    found = node.findings(driver_probes.cards)

    assert (found[0].what, found[0].severity) == ("MIG", "problem")
    assert "nvidia-smi mig -cgi" in found[0].remedy


def test_a_card_that_fell_off_is_missed_on_a_host(node: SickNode) -> None:
    found = node.with_gpus_on_bus(3).findings(driver_probes.cards)

    assert (found[0].severity, found[0].seen) == ("problem", "3 on the bus, 2 answer")


def test_a_card_that_the_driver_has_lost_is_named_in_a_container_too(node: SickNode) -> None:
    node.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    node.nvml = NvmlFacts(driver="580", cards=CARDS, lost=(LostCardFacts(index=2, error="GPU is lost"),))
    found = node.with_gpus_on_bus(3).findings(driver_probes.cards)

    assert (found[0].severity, found[0].seen) == ("problem", "gpu 2 cannot be used: GPU is lost")
    assert "Xid" in found[0].remedy
    assert [one.what for one in found[1:]] == ["gpu in use"]


def test_a_container_may_have_been_given_some_cards_only(node: SickNode) -> None:
    node.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"

    assert severities(node.with_gpus_on_bus(3).findings(driver_probes.cards))[0] == ("cards", "not checked")


def test_a_rocm_node_has_neither_nvml_nor_cuda_and_is_no_worse_for_it(node: SickNode) -> None:
    node.torch = ROCM
    node.nvml = NvmlFacts(trouble=Trouble(reason="nvml_missing", sentence="NVML's bindings are missing; install"))
    node.cuda = CudaFacts(trouble=Trouble(reason="no_driver", sentence="no NVIDIA driver here; install it"))
    found = [
        *node.findings(driver_probes.device_nodes),
        *node.findings(driver_probes.nvml),
        *node.findings(driver_probes.cards),
        *node.findings(driver_probes.cuda),
    ]

    assert {finding.severity for finding in found} == {"not checked"}


def test_a_card_without_a_name_is_still_told_apart(node: SickNode) -> None:
    node.nvml = NvmlFacts(cards=(CardFacts(index=0, use="40960 MiB of its memory are in use"),))

    assert node.findings(driver_probes.cards)[0].seen == "gpu 0: 40960 MiB of its memory are in use"
