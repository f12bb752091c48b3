from __future__ import annotations

import pytest
import torch

from fleetridge_agent.device.cuda_queue import queued_ms, windows_ms


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
