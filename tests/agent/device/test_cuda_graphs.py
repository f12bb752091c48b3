"""Batches of products, on operands of the CPU and a graph that stands for CUDA's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from fleetridge_agent.device.contract import OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.device.cuda_queue import ReplayedCopies
from fleetridge_agent.device.product import Fill, Gemm, Product

_GEMM = Gemm(32, 64, 16, Product("float32"))


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
