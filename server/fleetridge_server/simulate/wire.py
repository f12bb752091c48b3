"""Simulated readings as wire reports: what an agent on such a gpu would have sent."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from fleetridge.arithmetic_intensity import gemm_flops
from fleetridge.dtypes import dtype_named
from fleetridge.judged_kernels import READ_STREAM, REFERENCE_GEMM
from fleetridge.report import (
    SCHEMA_VERSION,
    Agent,
    Environment,
    Evidence,
    GemmPoint,
    Gpu,
    Node,
    PhaseEvidence,
    Report,
    Roof,
    RosterGpu,
    Run,
    StreamPoint,
    Sweep,
)
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.evidence import RoofReading
from fleetridge_server.simulate.plan import GPUS_PER_NODE, NODES_PER_RACK, Ask, Plan
from fleetridge_server.simulate.readings import Compute, GpuDay, gpu_day

# Any fixed UUID; with another one the same fleet would count as new.
_NAMESPACE = UUID("0a0d2a1e-5e0c-5b7e-8a54-7d3f1c9b2e60")
_NO_ID_YET = UUID(int=1)

_WITH_FAST_ACCUMULATION = frozenset({"float8_e4m3fn"})
_BUFFER_BYTES = 4 * 1024**3
_REPS = 64
_TERA, _GIGA = 1e12, 1e9
_S_IN_MS = 1e3

# A node's sweeps follow each other, and nodes start at a time of their own within most of a day.
_SWEEP = timedelta(seconds=75)
_TURN = timedelta(seconds=90)
_LATEST_START_S = 20 * 3600

# Half of the interval that roofs are given, in parts of the value.
_CI_PART = 0.001

# Far enough that every measurement lies in the server's future, so that it shows.
_CLOCK_AHEAD = timedelta(days=365)


def node_name(ask: Ask, node: int) -> str:
    """Name of a node."""
    return f"{ask.name}-n{node:04d}"


def rack_name(ask: Ask, node: int) -> str:
    """Name of the rack that a node stands in."""
    return f"{ask.name}-r{node // NODES_PER_RACK:03d}"


def gpu_uuid(ask: Ask, position: int) -> str:
    """UUID of a gpu, in the driver's form."""
    return f"GPU-{uuid5(_NAMESPACE, f'{ask.name}/{position}')}"


def clock_ahead(plan: Plan, node: int) -> timedelta:
    """How far a node's clock is ahead."""
    return _CLOCK_AHEAD if plan.has(node * GPUS_PER_NODE, "clock_skew") else timedelta(0)


def node_reports(plan: Plan, node: int, *, only: frozenset[int] | None = None) -> Iterator[Report]:
    """
    Reports of a node, or of some of its gpus by position, oldest first.

    The same plan gives the same reports, ids included.
    """
    for day in range(plan.ask.days):
        present = [position for position in plan.ask.positions(node) if plan.is_present(position, day)]
        run = _run(plan, node, day, present)
        starts_at = _starts_at(plan, node, day)
        for turn, position in enumerate(present):
            if only is None or position in only:
                yield _report(plan, position, gpu_day(plan, position, day), run, starts_at + turn * _TURN)


def _starts_at(plan: Plan, node: int, day: int) -> datetime:
    offset_s = plan.ask.random("start", node).randrange(_LATEST_START_S)
    return plan.ask.day(day) + timedelta(seconds=offset_s) + clock_ahead(plan, node)


def _run(plan: Plan, node: int, day: int, present: list[int]) -> Run:
    ask = plan.ask
    gpus = [_gpu(ask, position) for position in present]
    return Run(
        run_id=uuid5(_NAMESPACE, f"{ask.name}/{node}/{ask.day(day).isoformat()}"),
        kind="daemon",
        roster=tuple(
            RosterGpu(uuid=gpu.uuid, pci_bus_id=gpu.pci_bus_id, index=gpu.index, device=gpu.device) for gpu in gpus
        ),
        roster_complete=True,
    )


def _gpu(ask: Ask, position: int) -> Gpu:
    silicon, slot = ask.silicon, position % GPUS_PER_NODE
    return Gpu(
        uuid=gpu_uuid(ask, position),
        pci_bus_id=f"00000000:{0x1A + 0x10 * slot:02X}:00.0",
        index=slot,
        device=silicon.device,
        architecture=silicon.architecture,
        memory_bytes=silicon.memory_bytes,
        sm_count=silicon.sm_count,
    )


def _report(plan: Plan, position: int, read: GpuDay, run: Run, measured_from: datetime) -> Report:
    ask, node = plan.ask, position // GPUS_PER_NODE
    points: tuple[GemmPoint | StreamPoint, ...] = (
        *(_gemm(ask, compute) for compute in read.computes),
        _stream(read.memory),
    )
    readings = (*(compute.reading for compute in read.computes), read.memory)
    report = Report(
        schema_version=SCHEMA_VERSION,
        report_id=_NO_ID_YET,
        measured_from=measured_from,
        measured_to=measured_from + _SWEEP,
        run=run,
        outcome="measured",
        # No version of the product: an upgrade must not make the same fleet another one.
        agent=Agent(version="simulated", protocol_version=1, method="standard", arguments=("simulate",)),
        node=Node(cluster=SIMULATED, name=node_name(ask, node), labels={"rack": rack_name(ask, node)}),
        gpu=_gpu(ask, position),
        environment=_environment(ask, read),
        evidence=_evidence(read),
        sweep=Sweep(profile="standard", dtypes=ask.silicon.dtypes, buffer_bytes=_BUFFER_BYTES, fill="normal", seed=0),
        points=points,
        roofs=tuple(
            _roof(point, reading, place) for place, (point, reading) in enumerate(zip(points, readings, strict=True))
        ),
    )
    return report.model_copy(update={"report_id": uuid5(_NAMESPACE, report.content_sha256().hex())})


def _environment(ask: Ask, read: GpuDay) -> Environment:
    silicon, factors, health = ask.silicon, read.factors, read.health
    return Environment(
        torch=factors.torch,
        runtime="cuda 13.0",
        driver=factors.driver,
        cublas=factors.cublas,
        vbios=factors.vbios,
        l2_bytes=silicon.l2_bytes,
        memory_bus_bits=silicon.memory_bus_bits,
        ecc_enabled=factors.ecc_enabled,
        persistence_mode=True,
        power_limit_w=_rounded(factors.power_limit_w),
        power_limit_default_w=silicon.power_limit_w,
        power_limit_max_w=silicon.power_limit_w,
        sm_clock_max_mhz=silicon.sm_clock_max_mhz,
        memory_clock_max_mhz=silicon.memory_clock_max_mhz,
        pcie_generation=health.pcie_generation_max,
        pcie_width=health.pcie_width_max,
        allow_tf32=False,
    )


def _evidence(read: GpuDay) -> Evidence:
    health = read.health
    phases = [_phase(_phase_name(compute), compute.reading, read) for compute in read.computes]
    return Evidence(
        phases=(*phases, _phase("stream read", read.memory, read)),
        other_processes=read.other_processes,
        signals_seen=("processes", "utilization"),
        contended=read.other_processes > 0,
        unstable=False,
        ecc_uncorrected=health.ecc_uncorrected,
        remapped_rows_correctable=0,
        remapped_rows_uncorrectable=health.remapped_rows_uncorrectable,
        remapped_rows_pending=health.remapped_rows_pending,
    )


def _phase_name(compute: Compute) -> str:
    """Name that agents give the phase."""
    fast = " fast accumulation" if compute.dtype in _WITH_FAST_ACCUMULATION else ""
    return f"{'reference' if compute.regime == 'burst' else 'sustained'} {compute.dtype}{fast}"


def _phase(name: str, reading: RoofReading, read: GpuDay) -> PhaseEvidence:
    throttle_ms = {reason: round(grown_ms, 1) for reason, grown_ms in (reading.throttle_ms or {}).items()}
    return PhaseEvidence(
        phase=name,
        samples=_REPS,
        sm_clock_mhz=_rounded(reading.sm_clock_mhz),
        memory_clock_mhz=_rounded(reading.memory_clock_mhz),
        power_w=_rounded(reading.power_w),
        temperature_c=_rounded(reading.temperature_c),
        throttle_reasons=tuple(sorted(reason for reason, grown_ms in throttle_ms.items() if grown_ms > 0)),
        throttle_ms=throttle_ms,
        pcie_generation=read.health.pcie_generation,
        pcie_width=read.health.pcie_width,
    )


def _gemm(ask: Ask, compute: Compute) -> GemmPoint:
    m, k, n = ask.silicon.gemm
    reading = compute.reading
    return GemmPoint(
        kind="gemm",
        dtype=compute.dtype,
        out_dtype=dtype_named(compute.dtype).output,
        fast_accumulation=True if compute.dtype in _WITH_FAST_ACCUMULATION else None,
        label="reference",
        M=m,
        K=k,
        N=n,
        ms=round(gemm_flops(m, k, n) / (reading.value * _TERA) * _S_IN_MS, 6),
        spread=0.002,
        reps=_REPS,
        regime=compute.regime,
        l2="cold",
        sm_clock_mhz=_rounded(reading.sm_clock_mhz),
        power_w=_rounded(reading.power_w),
    )


def _stream(reading: RoofReading) -> StreamPoint:
    return StreamPoint(
        kind="stream",
        kernel=READ_STREAM,
        dtype="float32",
        bytes=_BUFFER_BYTES,
        ms=round(_BUFFER_BYTES / (reading.value * _GIGA) * _S_IN_MS, 6),
        spread=0.001,
        reps=_REPS,
        regime="burst",
        l2="cold",
        sm_clock_mhz=_rounded(reading.sm_clock_mhz),
    )


def _roof(point: GemmPoint | StreamPoint, reading: RoofReading, place: int) -> Roof:
    gemm = point if isinstance(point, GemmPoint) else None
    value = point.derived_tflops if isinstance(point, GemmPoint) else point.derived_gbps
    trend = reading.trend or 0.0
    return Roof(
        kind="memory" if gemm is None else "compute",
        dtype=point.dtype,
        out_dtype=None if gemm is None else gemm.out_dtype,
        fast_accumulation=None if gemm is None else gemm.fast_accumulation,
        regime=point.regime,
        kernel=READ_STREAM if gemm is None else REFERENCE_GEMM,
        value=value,
        unit="GB/s" if gemm is None else "TFLOP/s",
        ci_low=value * (1 - _CI_PART),
        ci_high=value * (1 + _CI_PART),
        converged=reading.converged,
        first_block=value / (1 + trend),
        last_block=value,
        trend=trend,
        sm_clock_mhz=_rounded(reading.sm_clock_mhz),
        power_w=_rounded(reading.power_w),
        points=(place,),
    )


def _rounded(value: float | None) -> float | None:
    """Reading as sensors give it, to a tenth."""
    return None if value is None else round(value, 1)
