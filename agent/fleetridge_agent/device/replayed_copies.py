"""Batches of small products on a gpu, recorded once as a CUDA graph and replayed without the host between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fleetridge_agent.device.contract import Fill, Launch, UnsupportedError
from fleetridge_agent.device.product import Gemm
from fleetridge_agent.device.torch_errors import device_errors
from fleetridge_agent.device.torch_kernels import Multiply, gemm_operands

# Calls before a recording: libraries load kernels and choose plans on the first, which no recording may contain.
_CALLS_AHEAD = 2


class ReplayedCopies:
    """Copies of the operands of one product; satisfies `contract.Copies`."""

    def __init__(self, gemm: Gemm, fill: Fill, count: int, device: torch.device) -> None:
        self._gemm = gemm
        self._operands = [
            gemm_operands(gemm, replace(fill, seed=fill.seed + number), device) for number in range(count)
        ]

    def batch(self, rows: int, which: Sequence[int], calls: int) -> Launch:
        """Record the calls and give back their replay."""
        products = [self._operands[number].with_rows(rows) for number in which]
        with device_errors():
            try:
                return _recorded(products, calls)
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as error:
                # A call that cannot be recorded says so with an error of CUDA that costs nothing but the recording.
                raise UnsupportedError(f"calls of {self._gemm.product} cannot be recorded: {error}") from error


def _recorded(products: Sequence[Multiply], calls: int) -> Launch:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch's own
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for product in products[:_CALLS_AHEAD]:
            product()
        stream.synchronize()
        # Not by torch.cuda.graph, which collects garbage and empties the allocator each time: tens of milliseconds.
        graph.capture_begin()
        try:
            for number in range(calls):
                products[number % len(products)]()
        finally:
            graph.capture_end()
    return graph.replay
