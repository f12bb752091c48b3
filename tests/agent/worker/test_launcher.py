"""Workers as real processes, on scripted gpus that get into trouble."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetridge.report import Node, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.lock import gpu_lock
from fleetridge_agent.progress import Progress
from fleetridge_agent.stop import Stop
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import Assignment, Measured
from fleetridge_agent.worker import process_handle
from fleetridge_agent.worker.launcher import Launcher
from support.scripted_node import SCRIPTED_WORKER

_QUICK = SweepOptions(profile="quick", square=(512,), m_sweep=(1,))

# Far more than a scripted sweep takes on a loaded machine; what a test waits for where all workers hang, and where some
# have to get somewhere before that.
_LIMIT_S, _SHORT_LIMIT_S, _LONGER_LIMIT_S = 120.0, 1.0, 10.0

Measure = Callable[..., Measured]


def target(uuid: str | None = "GPU-a", number: int = 0) -> Target:
    return Target("cuda", CudaGpu(number, uuid, "0000:01:00.0", "NVIDIA H200", None))


def assignment(state_dir: Path, options: SweepOptions = _QUICK) -> Assignment:
    return Assignment(Run(run_id=uuid7(), kind="manual"), Node(name="n1"), options, ("run",), state_dir)


def launcher(
    *troubles: str, limit_s: float = _LIMIT_S, stop: Stop | None = None, steps: list[Progress] | None = None
) -> Launcher:
    program = (sys.executable, str(SCRIPTED_WORKER), *troubles)
    told: list[Progress] = [] if steps is None else steps
    return Launcher(limit_s, lambda _, progress: told.append(progress), stop or Stop(), program)


@pytest.fixture
def _without_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Insist soon after asking."""
    monkeypatch.setattr(process_handle, "GRACE_S", 0.2)


@pytest.fixture
def measured(tmp_path: Path) -> Measure:
    """Measures one gpu whose worker gets into some trouble."""
    return lambda trouble, limit_s=_LIMIT_S: launcher(f"*={trouble}", limit_s=limit_s).measure(
        target(), assignment(tmp_path)
    )


def test_a_worker_measures_the_one_gpu_that_it_sees(tmp_path: Path) -> None:
    """Its report is whole: points, roofs, the run and the node that it was told of."""
    told: list[Progress] = []
    asked = assignment(tmp_path)
    ended = launcher(steps=told).measure(target("GPU-a"), asked)

    assert (ended.report.outcome, ended.code) == ("measured", ExitCode.DONE)
    assert ended.report.gpu is not None
    assert ended.report.gpu.uuid == "GPU-a"
    assert (ended.report.run, ended.report.node) == (asked.run, asked.node)
    assert ended.report.points
    assert ended.report.roofs
    assert told[-1].step == told[-1].steps


def test_what_libraries_print_does_not_disturb_the_report(measured: Measure) -> None:
    assert measured("chatty").report.outcome == "measured"


@pytest.mark.parametrize("trouble", ["hang", "hang_deaf"])
@pytest.mark.usefixtures("_without_grace")
def test_a_gpu_that_hangs_is_given_up_at_the_limit(measured: Measure, trouble: str) -> None:
    """Also where the process does not hear the signal that asks it."""
    ended = measured(trouble, _SHORT_LIMIT_S)

    assert (ended.report.outcome, ended.code) == ("failed", ExitCode.FAILED)
    assert ended.report.reason == "timed_out"
    assert "--limit" in (ended.report.detail or "")


def test_what_was_measured_before_the_limit_is_kept(tmp_path: Path) -> None:
    ended = launcher("*=slow", limit_s=_LONGER_LIMIT_S).measure(target(), assignment(tmp_path))

    assert (ended.report.outcome, ended.report.reason) == ("failed", "timed_out")
    assert ended.report.points


@pytest.mark.parametrize(
    ("trouble", "reason", "seen"),
    [
        ("segfault", "crashed", "SIGSEGV"),
        ("segfault", "crashed", "Fatal Python error: Segmentation fault"),
        ("killed", "crashed", "memory runs out"),
        ("broken", "crashed", "RuntimeError: nobody expected this"),
        ("broken", "crashed", "exit code 1"),
        ("babble", "crashed", "Segments: 5"),
        ("out_of_memory", "out_of_memory", "80 GiB"),
        ("out_of_memory_unseen", "out_of_memory", "CUDA out of memory"),
        ("other", "crashed", "GPU-other"),
    ],
)
def test_a_worker_that_dies_or_lies_is_reported_with_what_was_seen(
    measured: Measure, trouble: str, reason: str, seen: str
) -> None:
    ended = measured(trouble)

    assert (ended.report.outcome, ended.report.reason, ended.code) == ("failed", reason, ExitCode.FAILED)
    assert ended.report.gpu is not None
    assert ended.report.gpu.uuid == "GPU-a"
    assert seen in (ended.report.detail or "")


def test_a_program_that_cannot_be_started_is_a_report_too(tmp_path: Path) -> None:
    broken = Launcher(_LIMIT_S, lambda *_: None, Stop(), ("/nonexistent/python",))
    ended = broken.measure(target(), assignment(tmp_path))

    assert (ended.report.outcome, ended.report.reason) == ("failed", "crashed")


def test_a_gpu_that_another_agent_measures_is_left_alone(tmp_path: Path) -> None:
    """No process is even started."""
    with gpu_lock(tmp_path, "GPU-a"):
        ended = launcher("--mark", str(tmp_path)).measure(target(), assignment(tmp_path))

    assert (ended.report.outcome, ended.report.reason) == ("skipped", "already_running")
    assert not list(tmp_path.glob("opened.*"))


def test_a_gpu_without_a_uuid_is_reported_by_its_place(tmp_path: Path) -> None:
    """The worker sees it as number 0, and its node as number 3."""
    ended = launcher().measure(target(None, number=3), assignment(tmp_path))

    assert ended.report.outcome == "measured"
    assert ended.report.gpu is not None
    assert (ended.report.gpu.index, ended.report.gpu.pci_bus_id) == (3, "0000:01:00.0")


def test_gpus_that_are_measured_together_begin_when_all_are_ready(tmp_path: Path) -> None:
    """None measures before the last is open; each report says how many there were."""
    targets = [target(uuid, number) for number, uuid in enumerate(("GPU-a", "GPU-b", "GPU-c"))]
    found = list(launcher("--mark", str(tmp_path)).measure_together(targets, assignment(tmp_path)))
    opened = [path.stat().st_mtime_ns for path in tmp_path.glob("opened.*")]
    begun = [path.stat().st_mtime_ns for path in tmp_path.glob("measuring.*")]

    assert {ended.report.gpu.uuid for ended in found if ended.report.gpu} == {"GPU-a", "GPU-b", "GPU-c"}
    assert {ended.report.agent.method for ended in found} == {"standard_together"}
    assert [ended.report.sweep.gpus_at_once for ended in found if ended.report.sweep] == [3, 3, 3]
    assert max(opened) <= min(begun)


@pytest.mark.usefixtures("_without_grace")
def test_one_that_crashes_or_hangs_does_not_hold_up_those_that_are_measured_with_it(tmp_path: Path) -> None:
    targets = [target(uuid, number) for number, uuid in enumerate(("GPU-a", "GPU-b", "GPU-c", "GPU-d"))]
    gang = launcher("GPU-b=segfault", "GPU-d=hang", limit_s=_LONGER_LIMIT_S)
    found = {
        ended.report.gpu.uuid: ended.report
        for ended in gang.measure_together(targets, assignment(tmp_path))
        if ended.report.gpu
    }

    assert (found["GPU-b"].reason, found["GPU-b"].agent.method) == ("crashed", "standard_together")
    assert found["GPU-d"].reason == "timed_out"
    assert [found[uuid].outcome for uuid in ("GPU-a", "GPU-c")] == ["measured", "measured"]
    assert found["GPU-a"].sweep is not None
    assert found["GPU-a"].sweep.gpus_at_once == 2


@pytest.mark.usefixtures("_without_grace")
def test_after_every_worker_its_process_is_gone(tmp_path: Path) -> None:
    measured = launcher("*=hang", "--mark", str(tmp_path), limit_s=_LONGER_LIMIT_S).measure(
        target(), assignment(tmp_path)
    )
    (mark,) = tmp_path.glob("opened.*")

    assert measured.report.reason == "timed_out"
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.suffix[1:]), 0)
