"""
Checks on a machine with a gpu what no other machine can check: that the gpu is multiplied on, timed and read right.

    python bench/device_check.py [--json FILE]

Prints one line a check and ends with 1 if any failed. Takes two or three minutes on a large gpu, whose free memory it
fills once. Changes no setting of the gpu.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from fleetridge.report import Node, Report, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.busy.foreign_use import ForeignUseWatch
from fleetridge_agent.device.cuda import CudaDevice
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES, Fill, Gemm, GemmVariant, variants_of
from fleetridge_agent.device.interface import DeviceFaultError, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.device.kernels import gemm_operands, require_correct
from fleetridge_agent.errors import AgentError
from fleetridge_agent.gpus.discovery import node_roster, nvml_or_none, visible_gpus
from fleetridge_agent.measurement_protocol import REPS, WARMUP
from fleetridge_agent.readings.evidence import EvidenceLog
from fleetridge_agent.readings.host import Host, node_name
from fleetridge_agent.sweep.call_timer import Call, CallTimer, Pace
from fleetridge_agent.sweep.device_sweep import open_device, run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import build_report
from fleetridge_agent.sweep.shapes import reference_gemm
from fleetridge_agent.sweep.streams import measure_streams
from fleetridge_agent.sweep.timing_statistics import timing_of

_FILL = Fill()
_PACE = Pace(warmup=WARMUP, reps=REPS, budget_ms=2000.0)
_MIB = 1024**2
_GIB = 1024**3

# Two sweeps of one gpu a few seconds apart must agree this well, or nobody can tell a slow gpu by 3 %.
_REPEATABLE = 0.01
_JUDGED_RUNS = 3

# Beside the judged shapes: one row, an odd number of rows, the fewest rows of int8, one tile.
_ODD_SHAPES = ((1, 4096, 4096), (345, 4096, 6144), (17, 4096, 4096), (512, 512, 512))

_Check = Callable[[CudaDevice], str]


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    is_right: bool
    detail: str


def _measured_variants(device: CudaDevice) -> list[GemmVariant]:
    """Variants that this gpu does not refuse."""
    variants = (variant for dtype in MEASURED_DTYPES for variant in variants_of(dtype))
    return [variant for variant in variants if _refusal(device, Gemm(512, 512, 512, variant)) is None]


def _refusal(device: CudaDevice, gemm: Gemm) -> str | None:
    """Why the gpu refuses a product; None where it makes it, and makes it right."""
    try:
        device.check_output(gemm, _FILL)
    except UnsupportedError as error:
        return str(error)
    return None


def _call_timer(device: CudaDevice) -> CallTimer:
    return CallTimer(device, _FILL, _PACE, EvidenceLog(None), ForeignUseWatch(device.foreign_use))


def _identity(device: CudaDevice) -> str:
    description = device.description
    gpu = description.gpu
    wanted = (gpu.uuid, gpu.pci_bus_id, gpu.device, gpu.sm_count, gpu.memory_bytes, description.environment.driver)
    if None in wanted:
        raise AssertionError(f"identity incomplete: {wanted}")
    roster = node_roster(nvml_or_none(), Host(), os.environ)
    if roster.gpus is None or gpu.uuid not in {entry.uuid for entry in roster.gpus}:
        raise AssertionError(f"{gpu.uuid} is not on the roster {roster}")
    missing = [name for name, value in description.environment if value is None]
    return f"{gpu.device} {gpu.uuid} index {gpu.index}, roster complete: {roster.is_complete}; not read: {missing}"


def _products_are_right(device: CudaDevice) -> str:
    worst: dict[str, float] = {}
    for variant in _measured_variants(device):
        shapes = [Gemm(m, k, n, variant) for m, k, n in _ODD_SHAPES]
        sm_count = device.description.gpu.sm_count or 1
        judged = reference_gemm(variant, kind="cuda", sm_count=sm_count)
        able = [gemm for gemm in (judged, *shapes) if _refusal(device, gemm) is None]
        worst[str(variant)] = max(device.check_output(gemm, _FILL) for gemm in able)
    return ", ".join(f"{product} {error:.1e}" for product, error in worst.items())


def _tf32_is_switched(device: CudaDevice) -> str:
    sizes = (2048, 8192, 2048)
    exact, rounded = (device.check_output(Gemm(*sizes, GemmVariant(dtype)), _FILL) for dtype in ("float32", "tf32"))
    if not exact * 10 < rounded:
        raise AssertionError(f"float32 is off by {exact:.1e} and tf32 by {rounded:.1e}: the switch does nothing")
    return f"off by {exact:.1e} without, {rounded:.1e} with; left {torch.backends.cuda.matmul.allow_tf32}"


def _silent_kernels_are_caught(device: CudaDevice) -> str:
    caught = []
    for variant in _measured_variants(device):
        gemm = Gemm(1024, 1024, 1024, variant)
        operands = gemm_operands(gemm, _FILL, torch.device("cuda"))
        stale = operands.launch()
        operands.poison()
        torch.cuda.synchronize()
        try:
            require_correct(operands, lambda stale=stale: stale.fill_(0))  # type: ignore[misc] # bound on purpose
        except DeviceFaultError:
            caught.append(str(variant))
            continue
        raise AssertionError(f"zeros passed for a product in {variant}")
    return f"caught in {len(caught)} ways to multiply"


def _memory_comes_back(device: CudaDevice) -> str:
    free_bytes = device.free_bytes()
    size = int((free_bytes / 2) ** 0.5)
    huge = Gemm(size, size, size, GemmVariant("float16"))
    try:
        with device.gemm(huge, _FILL):
            raise AssertionError("three matrices of half the memory each were allocated")
    except OutOfDeviceMemoryError:
        pass
    device.release()
    lost_mib = (free_bytes - device.free_bytes()) / _MIB
    if lost_mib > 64:  # noqa: PLR2004 # a handle or two of cuBLAS
        raise AssertionError(f"{lost_mib:.0f} MiB did not come back")
    streams = measure_streams(_call_timer(device), int(free_bytes * 0.6) // _MIB * _MIB)
    device.release()
    return f"out of memory is told, {lost_mib:.0f} MiB kept; streams shrank to {streams.buffer_bytes / _GIB:.1f} GiB"


def _limits_are_told(device: CudaDevice) -> str:
    refusals = [
        _refusal(device, gemm)
        for gemm in (
            Gemm(16, 4096, 4096, GemmVariant("int8")),
            Gemm(64, 4104, 4096, GemmVariant("float8_e4m3fn", fast_accumulation=False)),
        )
    ]
    if None in refusals:
        raise AssertionError(f"something was not refused: {refusals}")
    return f"{refusals}"


def _gaps_stay_out(device: CudaDevice) -> str:
    """A call of some microseconds must not take longer for the host's sake: queued events against a graph of calls."""
    gemm = Gemm(1, 4096, 4096, GemmVariant("bfloat16"))
    with device.gemm(gemm, _FILL) as launch:
        device.run(launch, 50)
        cold_ms = timing_of(device.time(launch, 200)).ms
        warm_ms = _graph_ms(launch)
        synced_ms = _synced_ms(launch)
    rows = f"{cold_ms * 1e3:.1f} us in a queue with a cold cache, {warm_ms * 1e3:.1f} us in a graph with a warm one, "
    rows += f"{synced_ms * 1e3:.1f} us where the host waits for each"
    if not cold_ms < 2.5 * warm_ms:
        raise AssertionError(f"gaps of the host enter the time: {rows}")
    return rows


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch's own


def _graph_ms(launch: Callable[[], object], calls: int = 200) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            launch()
    start, end = _event(), _event()
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / calls


def _synced_ms(launch: Callable[[], object], calls: int = 100) -> float:
    samples = []
    for _ in range(calls):
        start, end = _event(), _event()
        start.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end))
    return float(statistics.median(samples))


def _cache_is_emptied(device: CudaDevice) -> str:
    """Weights that fit the cache must be read from memory: no rate above that of a long read."""
    timer = _call_timer(device)
    read_gbps = measure_streams(timer, 2 * _GIB).streams[0].point.derived_gbps
    rates = {}
    for k, n in ((4096, 4096), (4096, 28672)):
        gemm = Gemm(1, k, n, GemmVariant("bfloat16"))
        with device.gemm(gemm, _FILL) as launch:
            rates[f"{k}x{n}"] = gemm.bytes / timer.measure(Call(launch, "check")).ms * 1e-6
    if max(rates.values()) > read_gbps * 1.02:
        raise AssertionError(f"weights come faster than memory reads ({read_gbps:.0f} GB/s): {rates}")
    return f"read {read_gbps:.0f} GB/s; one row of " + ", ".join(f"{size} {rate:.0f}" for size, rate in rates.items())


def _telemetry_reads(device: CudaDevice) -> str:
    if device.telemetry is None:
        raise AssertionError("NVML cannot be used here")
    idle, counters = device.telemetry.sample(), device.telemetry.throttle_ms()
    start = time.perf_counter()
    for _ in range(20):
        device.telemetry.sample()
    cost_ms = (time.perf_counter() - start) / 20 * 1e3
    return f"{idle}; counters in ms {counters}; one sample costs {cost_ms:.2f} ms; foreign use {device.foreign_use()}"


def _judged_roofs_repeat(device: CudaDevice) -> str:
    options = SweepOptions(profile="quick", dtypes=tuple(dict.fromkeys(p.dtype for p in _measured_variants(device))))
    values: dict[str, list[float]] = {}
    for _ in range(_JUDGED_RUNS):
        result = run_sweep(device, options)
        if result.failure is not None:
            raise AssertionError(f"{result.failure}")
        for roof in result.roofs:
            way = " fast" if roof.fast_accumulation else ""
            values.setdefault(f"{roof.kernel} {roof.dtype}{way} {roof.unit}", []).append(roof.value)
    for name, runs in values.items():
        print(f"      {name:<44}", " ".join(f"{value:9.1f}" for value in runs), f"  {_spread(runs):6.2%}")
    loose = [name for name, runs in values.items() if _spread(runs) > _REPEATABLE]
    if loose:
        raise AssertionError(f"differ by more than {_REPEATABLE:.0%} between runs: {', '.join(loose)}")
    return f"{len(values)} roofs agree within {max(_spread(runs) for runs in values.values()):.2%}"


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / min(values)


def _a_standard_sweep_reports(device: CudaDevice) -> str:
    options = SweepOptions()
    start = time.perf_counter()
    result = run_sweep(device, options)
    took_s = time.perf_counter() - start
    run = Run(run_id=uuid7(), kind="manual")
    report = build_report(result, device, run=run, node=Node(name=node_name(os.environ)))
    sent = report.canonical_json()
    if report.outcome != "measured" or Report.model_validate_json(sent) != report:
        raise AssertionError(f"{report.outcome} {report.reason} {report.detail}")
    for phase in report.evidence.phases:
        print(f"      {phase.phase:<28} n={phase.samples} {phase.sm_clock_mhz} MHz {phase.power_w} W", end=" ")
        print(f"{phase.temperature_c} C {phase.throttle_reasons} {phase.throttle_ms}")
    best = max((roof for roof in report.roofs if roof.kind == "compute"), key=lambda roof: roof.value)
    return f"{len(report.points)} points in {took_s:.1f} s, {len(sent)} bytes; {best.kernel} {best.value:.1f} TFLOP/s"


_CHECKS: tuple[_Check, ...] = (
    _identity,
    _telemetry_reads,
    _products_are_right,
    _tf32_is_switched,
    _silent_kernels_are_caught,
    _limits_are_told,
    _gaps_stay_out,
    _cache_is_emptied,
    _memory_comes_back,
    _judged_roofs_repeat,
    _a_standard_sweep_reports,
)


def _row(check: _Check, device: CudaDevice) -> _Row:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        return _Row(name, is_right=True, detail=check(device))
    except Exception as error:  # noqa: BLE001 # whatever breaks in a check is its result
        return _Row(name, is_right=False, detail=f"{type(error).__name__}: {error}")


def main() -> int:
    """Run every check and print what it found."""
    parser = argparse.ArgumentParser(description="Check the gpu code of fleetridge-agent on this machine's gpu.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    options = parser.parse_args()
    try:
        print(f"torch {torch.__version__}, {visible_gpus()}")
        device = open_device("cuda")
    except AgentError as error:
        sys.exit(str(error))
    if not isinstance(device, CudaDevice):
        raise TypeError("open_device gave something other than a gpu")
    rows = []
    for check in _CHECKS:
        row = _row(check, device)
        rows.append(row)
        print(f"{'ok  ' if row.is_right else 'FAIL'}  {row.name}: {row.detail}", flush=True)
    if options.json is not None:
        content = [{"check": row.name, "ok": row.is_right, "detail": row.detail} for row in rows]
        options.json.write_text(json.dumps(content, indent=2))
    return 0 if all(row.is_right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
