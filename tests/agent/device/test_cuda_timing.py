from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from fleetridge_agent.device.cuda_timing import ReplayedCopies, queued_ms, windows_ms
from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.device.interface import OutOfDeviceMemoryError, UnsupportedError


class _Gpu:
    """Takes down what it is asked for, and gives its events the times at which they were recorded."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.recorded = 0

    def event(self, *, enable_timing: bool) -> _Event:
        assert enable_timing
        return _Event(self)


class _Event:
    def __init__(self, gpu: _Gpu) -> None:
        self._gpu = gpu
        self._time = 0

    def record(self) -> None:
        self._gpu.asked.append("event")
        self._gpu.recorded += 1
        self._time = self._gpu.recorded**2

    def synchronize(self) -> None:
        self._gpu.asked.append("wait")

    def elapsed_time(self, end: _Event) -> float:
        assert self._gpu.asked[-1] == "wait"
        return float(end._time - self._time)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> _Gpu:
    """A gpu that stands for the real one."""
    gpu = _Gpu()
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: gpu.asked.append("wait"))
    return gpu


def test_calls_are_queued_behind_flushes_and_waited_for_once(gpu: _Gpu) -> None:
    """The host never waits between calls, so what it needs to queue one is never in a time."""
    queued_ms(lambda: gpu.asked.append("call"), lambda: gpu.asked.append("flush"), 3)

    assert gpu.asked == ["flush", "flush"] + ["flush", "event", "call", "event"] * 3 + ["wait"]


@pytest.mark.usefixtures("gpu")
def test_each_call_has_a_time_of_its_own() -> None:
    """Between the two events around it; the flush before it is left out."""
    assert queued_ms(lambda: None, lambda: None, 3) == (4 - 1, 16 - 9, 36 - 25)


def test_calls_that_empty_the_cache_themselves_go_without_flushes(gpu: _Gpu) -> None:
    """But for those that keep the gpu busy until the first call is queued."""
    queued_ms(lambda: gpu.asked.append("call"), lambda: gpu.asked.append("flush"), 2, flushed=False)

    assert gpu.asked == ["flush", "flush"] + ["event", "call", "event"] * 2 + ["wait"]


def test_windows_are_queued_ahead_and_follow_each_other_without_a_gap(gpu: _Gpu) -> None:
    """One event ends a window and begins the next, and two windows are queued before the first is waited for."""
    windows = windows_ms(lambda: gpu.asked.append("call"), 2, ahead=2)
    first = next(windows)
    second = next(windows)
    windows.close()

    window = ["call", "call", "event"]
    assert gpu.asked == ["event", *window, *window, "wait", *window, "wait", "wait"]
    assert (first, second) == (4 - 1, 9 - 4)


_GEMM = Gemm(32, 64, 16, GemmVariant("float32"))


class _Graph:
    """Counts the products that are made while it records."""

    recorded: int | None = None
    error: RuntimeError | None = None

    def capture_begin(self) -> None:
        _Graph.recorded = 0

    def capture_end(self) -> None:
        if _Graph.error is not None:
            raise _Graph.error

    def replay(self) -> None:
        """Do nothing."""


class _Stream:
    def synchronize(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> type[_Graph]:
    """A gpu's recording that stands for the real one."""

    @contextmanager
    def stream(_: _Stream) -> Iterator[None]:
        yield

    monkeypatch.setattr(_Graph, "recorded", None)
    monkeypatch.setattr(_Graph, "error", None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", _Graph)
    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return _Graph


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Which copy each recorded product was made of, and with how many rows."""
    made: list[tuple[int, int]] = []
    multiply = torch.mm

    def watched(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        if _Graph.recorded is not None:
            made.append((b.data_ptr(), a.shape[0]))
        return multiply(a, b, out=out)

    monkeypatch.setattr(torch, "mm", watched)
    return made


def _copies(count: int) -> ReplayedCopies:
    return ReplayedCopies(_GEMM, Fill(), count, torch.device("cpu"))


def test_the_calls_of_a_batch_take_the_copies_in_turn(made: list[tuple[int, int]]) -> None:
    """Each finds the cache full of the others."""
    _copies(4).batch(8, range(1, 4), 7)

    first, second, third = made[:3]
    assert len({first, second, third}) == 3
    assert made == [first, second, third] * 2 + [first]


def test_a_batch_uses_the_first_rows_of_its_copies(made: list[tuple[int, int]]) -> None:
    """So that several numbers of rows share the same weights."""
    _copies(1).batch(5, [0], 3)

    assert {rows for _, rows in made} == {5}


def test_copies_hold_numbers_of_their_own() -> None:
    """Equal ones might lie together."""
    one, other = _copies(2)._operands

    assert not torch.equal(one.b, other.b)


def test_a_call_that_cannot_be_recorded_is_unsupported_and_no_fault_of_the_gpu(graph: type[_Graph]) -> None:
    """CUDA says so with an error that leaves the context whole."""
    graph.error = RuntimeError("CUDA error: operation not permitted when stream is capturing")

    with pytest.raises(UnsupportedError, match="cannot be recorded"):
        _copies(1).batch(8, [0], 3)


def test_a_recording_that_runs_out_of_memory_says_so(graph: type[_Graph]) -> None:
    """Smaller shapes may fit."""
    graph.error = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(OutOfDeviceMemoryError):
        _copies(1).batch(8, [0], 3)


def test_libraries_choose_their_kernels_before_anything_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first call loads code, which no recording may contain."""
    before: list[int] = []
    multiply = torch.mm

    def watched(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        if _Graph.recorded is None:
            before.append(a.shape[0])
        return multiply(a, b, out=out)

    monkeypatch.setattr(torch, "mm", watched)
    _copies(1).batch(8, [0], 3)

    assert before == [8]
