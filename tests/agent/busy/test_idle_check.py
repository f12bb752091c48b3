"""The look at a gpu before anything touches it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fleetridge_agent.busy.idle_check import check_idle, idle_bytes, memory_use, readable_beside_processes
from fleetridge_agent.readings.nvml import NvmlGpu, open_nvml
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

_MIB = 1024**2
_TOTAL = 141 * 1024**3


def _gpu(**readings: Any) -> NvmlGpu:
    idle = {
        "ComputeRunningProcesses": [],
        "GraphicsRunningProcesses": [],
        "MPSComputeRunningProcesses": [],
        "MemoryInfo": SimpleNamespace(used=4 * _MIB, total=_TOTAL),
        "UtilizationRates": SimpleNamespace(gpu=0),
    }
    (gpu,) = open_nvml(StubNvml(StubCard("GPU-1", "0000:01:00.0", "NVIDIA H200", {**idle, **readings}))).gpus()
    return gpu


def _utilized(*percent: int) -> Any:
    left = list(percent)
    return lambda: SimpleNamespace(gpu=left.pop(0) if left else 0)


def _why(gpu: NvmlGpu) -> str | None:
    return check_idle(gpu, wait=lambda _: None).why


def test_a_gpu_that_nobody_uses_is_idle() -> None:
    assert _why(_gpu()) is None


def test_a_gpu_with_a_process_on_it_is_busy() -> None:
    process = SimpleNamespace(pid=1, usedGpuMemory=100)

    assert _why(_gpu(ComputeRunningProcesses=[process])) == "processes on it: 1"


def test_a_gpu_whose_memory_is_in_use_is_busy_although_no_process_shows() -> None:
    """A container hides the process ids of others."""
    assert _why(_gpu(MemoryInfo=SimpleNamespace(used=61 * 1024**3, total=_TOTAL))) == (
        "62464 MiB of its memory are in use"
    )


def test_memory_that_the_driver_reserves_is_not_in_use() -> None:
    """The second version of the reading tells the two apart; an H200 reserves 615 MiB."""

    def info(version: int = 1) -> SimpleNamespace:
        return SimpleNamespace(used=0 if version > 1 else 615 * _MIB, total=_TOTAL)

    memory = memory_use(_gpu(MemoryInfo=info))

    assert memory is not None
    assert memory.used == 0


def test_a_large_gpu_may_show_more_memory_than_a_small_one() -> None:
    assert idle_bytes(16 * 1024**3) == 600 * _MIB
    assert idle_bytes(_TOTAL) == int(_TOTAL * 0.015)


def test_a_gpu_that_works_is_busy_although_nothing_else_shows() -> None:
    assert _why(_gpu(UtilizationRates=_utilized(0, 97, 0, 40))) == "it worked in 2 of 20 looks within 2 s"


def test_one_busy_look_is_another_tools_reading() -> None:
    assert _why(_gpu(UtilizationRates=_utilized(0, 97, 0))) is None


def test_a_person_does_not_wait_for_the_utilization() -> None:
    """Whoever measures by hand has looked."""
    assert check_idle(_gpu(UtilizationRates=_utilized(97, 97, 97)), wait=None).why is None


def test_every_look_at_the_utilization_is_a_tenth_of_a_second_after_the_last() -> None:
    waits: list[float] = []
    check_idle(_gpu(), wait=waits.append)

    assert waits == [0.1] * 20


@pytest.mark.parametrize("reading", ["ComputeRunningProcesses", "MemoryInfo", "UtilizationRates"])
def test_a_reading_that_is_missing_accuses_nobody(reading: str) -> None:
    """Under MIG there is no utilization; in some virtual machines there is no list."""
    assert _why(_gpu(**{reading: StubNvmlError()})) is None


def test_what_could_be_seen_is_said() -> None:
    """An empty answer of a container that hides everything is not the same as an idle gpu."""
    seen = check_idle(
        _gpu(ComputeRunningProcesses=StubNvmlError(), UtilizationRates=StubNvmlError()), wait=lambda _: None
    )

    assert check_idle(_gpu(), wait=lambda _: None).signals == ("processes", "memory", "utilization")
    assert (seen.why, seen.processes, seen.signals) == (None, None, ("memory",))


def test_an_empty_list_on_a_gpu_that_somebody_uses_counts_nobody() -> None:
    """It is that of a container, from which the processes of others cannot be seen."""
    seen = check_idle(_gpu(MemoryInfo=SimpleNamespace(used=61 * 1024**3, total=_TOTAL)), wait=lambda _: None)

    assert (seen.processes, seen.signals) == (None, ("memory",))


def test_a_slice_which_has_no_utilization_is_not_watched_for_two_seconds() -> None:
    waits: list[float] = []
    check_idle(_gpu(UtilizationRates=StubNvmlError()), wait=waits.append)

    assert not waits


def test_what_a_driver_can_tell_of_a_gpu_beside_its_processes_is_known_before_anything_is_measured() -> None:
    assert readable_beside_processes(_gpu()) == ("memory", "utilization")
    assert readable_beside_processes(_gpu(UtilizationRates=StubNvmlError())) == ("memory",)
    assert readable_beside_processes(_gpu(MemoryInfo=StubNvmlError(), UtilizationRates=StubNvmlError())) == ()
