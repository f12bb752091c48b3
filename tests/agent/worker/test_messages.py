from __future__ import annotations

from pathlib import Path

import pytest

from fleetridge.report import Node, RosterGpu, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.targets import Target, one_gpu_environ
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import Assignment
from fleetridge_agent.worker.messages import Job, job_json, job_of


def _target(uuid: str | None, number: int = 2) -> Target:
    return Target("cuda", CudaGpu(number, uuid, "0000:01:00.0", "NVIDIA H200", None))


@pytest.mark.parametrize("uuid", ["GPU-2", "MIG-4b5f1b2a-0000-0000-0000-00000000c0de", "MIG-GPU-2/7/0"])
def test_a_worker_sees_one_gpu_or_slice_by_its_uuid(uuid: str) -> None:
    """Whatever the user's variable left: a number would mean another gpu once only one is visible."""
    environ = one_gpu_environ(_target(uuid), {"CUDA_VISIBLE_DEVICES": "2,3", "HOME": "/root"})

    assert environ["CUDA_VISIBLE_DEVICES"] == uuid
    assert (environ["CUDA_DEVICE_ORDER"], environ["HOME"]) == ("PCI_BUS_ID", "/root")


@pytest.mark.parametrize(
    ("variables", "changed"),
    [
        ({}, {"HIP_VISIBLE_DEVICES": "2"}),
        ({"HIP_VISIBLE_DEVICES": "4, 5, 6"}, {"HIP_VISIBLE_DEVICES": "6"}),
        ({"CUDA_VISIBLE_DEVICES": "1,3,7"}, {"CUDA_VISIBLE_DEVICES": "7"}),
    ],
)
def test_without_a_uuid_the_word_by_which_the_user_names_a_gpu_stays(
    variables: dict[str, str], changed: dict[str, str]
) -> None:
    """The third gpu that torch shows is the third that the variable names."""
    environ = one_gpu_environ(_target(None), variables)

    assert {name: environ[name] for name in environ if name.endswith("VISIBLE_DEVICES")} == changed


def test_a_cpu_is_measured_in_the_environment_as_it_is() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in one_gpu_environ(Target("cpu"), {})


def test_an_order_survives_its_way(tmp_path: Path) -> None:
    """A roster of a large node too, which is more than a pipe holds."""
    roster = tuple(RosterGpu(uuid=f"GPU-{'x' * 200}{number}") for number in range(256))
    run = Run(run_id=uuid7(), kind="cron", roster=roster, roster_complete=True)
    options = SweepOptions(dtypes=("bfloat16",), square=(512,), force=True)
    assignment = Assignment(run, Node(name="n1", labels={"rack": "r1"}), options, ("run", "--force"), tmp_path)
    job = Job(_target("GPU-1"), assignment, parent=7, is_together=True)

    assert job_of(job_json(job)) == job
    assert b"\n" not in job_json(job)


def test_what_is_no_order_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        job_of(b"hello")
