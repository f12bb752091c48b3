"""Whether torch fits the device."""

from __future__ import annotations

import pytest

from fleetridge_agent.doctor import torch_probes
from fleetridge_agent.doctor.facts import CudaFacts, TorchFacts, Trouble
from support.nodes import SickNode, severities


def test_a_torch_for_this_driver_is_well(node: SickNode) -> None:
    (found,) = node.findings(torch_probes.torch)

    assert (found.severity, found.seen) == ("ok", "2.11.0+cu130, built for CUDA 13.0")


def test_a_missing_torch_says_how_to_install_it(node: SickNode) -> None:
    node.torch = TorchFacts(trouble=Trouble(reason="torch_missing", sentence="torch cannot be imported: no module"))
    (found,) = node.findings(torch_probes.torch)

    assert (found.severity, found.remedy) == (
        "problem",
        "install it with the agent: `pip install 'fleetridge[agent]'`",
    )


@pytest.mark.parametrize("why", ["it does not answer within 60 s", "it ends with signal 11: Illegal instruction"])
def test_an_import_that_hangs_or_crashes_is_a_problem(node: SickNode, why: str) -> None:
    node.torch = why
    (found,) = node.findings(torch_probes.torch)

    assert (found.severity, found.seen) == ("problem", f"importing it: {why}")


def test_a_torch_without_cuda_cannot_measure_gpus(node: SickNode) -> None:
    node.torch = TorchFacts(version="2.11.0+cpu")

    assert severities(node.findings(torch_probes.torch)) == [("torch", "problem")]
    assert severities(node.findings(torch_probes.torch, "--device", "cpu")) == [("torch", "ok")]


def test_a_torch_for_a_newer_major_cuda_than_the_drivers_is_a_problem(node: SickNode) -> None:
    node.cuda = CudaFacts(newest_cuda=12080, gpus=2)
    (found,) = node.findings(torch_probes.torch)

    assert found.severity == "problem"
    assert found.seen == "2.11.0+cu130, built for CUDA 13.0, and the driver knows CUDA up to 12.8"
    assert found.remedy == "upgrade the driver, or install a torch that is built for CUDA 12.8 or older"


def test_within_a_major_version_it_starts_and_is_a_warning(node: SickNode) -> None:
    node.torch = TorchFacts(version="2.8.0+cu129", cuda="12.9")
    node.cuda = CudaFacts(newest_cuda=12080, gpus=2)

    assert severities(node.findings(torch_probes.torch)) == [("torch", "warning")]


def test_a_driver_that_does_not_say_what_it_knows_is_not_held_against_torch(node: SickNode) -> None:
    node.cuda = CudaFacts()
    assert severities(node.findings(torch_probes.torch)) == [("torch", "ok")]

    node.cuda = "it does not answer within 60 s"
    assert severities(node.findings(torch_probes.torch)) == [("torch", "ok")]


def test_a_torch_that_is_too_old_is_a_problem(node: SickNode) -> None:
    node.torch = TorchFacts(version="2.3.1+cu121", cuda="12.1")

    assert severities(node.findings(torch_probes.torch)) == [("torch", "problem"), ("torch", "ok")]


@pytest.mark.parametrize(("gpus", "severity"), [(8, "ok"), (0, "problem"), (None, "problem")])
def test_a_build_for_rocm_must_show_gpus(node: SickNode, gpus: int | None, severity: str) -> None:
    node.torch = TorchFacts(version="2.11.0+rocm6.4", hip="6.4", rocm_gpus=gpus)

    assert severities(node.findings(torch_probes.torch)) == [("torch", severity)]
