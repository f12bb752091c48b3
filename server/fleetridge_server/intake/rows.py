"""
Rows of one report: of `reports`, `documents` and `roofs`.

Each roof gets the readings of the phase in which it was timed (an agent names its phases after what it times:
`reference bfloat16`, `sustained bfloat16`, `stream read`, `link h2d`), and whether it can be right at all.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fleetridge.peaks import lacks_dtype
from fleetridge.quantities import significant
from fleetridge.report import Report, Roof
from fleetridge.report.environment import PhaseEvidence
from fleetridge.report.roofs import settled_dtype
from fleetridge_server.db.rows import Row
from fleetridge_server.engine.evidence import GpuHealth
from fleetridge_server.engine.plausibility import Bound, Silicon, highest_plausible, is_whole_card, published_peak
from fleetridge_server.engine.wording import roof_words
from fleetridge_server.intake.examine import Accepted
from fleetridge_server.intake.hardware import RACK_LABEL, device_certainty

# First words of the phase in which a judged compute roof is timed, by regime; `burst` is what early agents wrote.
_COMPUTE_PHASES = {"burst": ("reference", "burst"), "sustained": ("sustained",)}

_FAST = " fast accumulation"


def health_fields(
    report: Report, device_name: str = "", roofs: Iterable[tuple[Roof, str]] = ()
) -> dict[str, Any] | None:
    """
    Fields of `GpuHealth` that were read, None where none was.

    Args:
        report: all of it.
        device_name: canonical name of its device.
        roofs: of the report, each with the dtype as which it is compared.
    """
    phases, evidence, environment = report.evidence.phases, report.evidence, report.environment
    health = GpuHealth(
        remapped_rows_pending=evidence.remapped_rows_pending,
        remapped_rows_uncorrectable=evidence.remapped_rows_uncorrectable,
        ecc_uncorrected=evidence.ecc_uncorrected,
        # A link slows down while nothing crosses it, so the most that was seen is what it does under load.
        pcie_generation=_most(phase.pcie_generation for phase in phases),
        pcie_width=_most(phase.pcie_width for phase in phases),
        pcie_generation_max=environment.pcie_generation,
        pcie_width_max=environment.pcie_width,
        power_limit_default_w=environment.power_limit_default_w,
        unstable=evidence.unstable or None,
        remapped_rows_failure=evidence.remapped_rows_failure,
        application_sm_clock_mhz=environment.application_sm_clock_mhz,
        throttle_reasons=_uncounted(phases),
        implausible=[words for roof, dtype in roofs if (words := above_words(roof, dtype, report, device_name))]
        or None,
    )
    read = {name: getattr(health, name) for name in GpuHealth.__dataclass_fields__}
    return {name: value for name, value in read.items() if value is not None} or None


def phase_of(roof: Roof, report: Report) -> PhaseEvidence | None:
    """Readings of the phase in which a roof was timed; those of the only phase where it has another name."""
    phases = report.evidence.phases
    if len(phases) == 1:
        return phases[0]
    names = set(_phase_names(roof))
    return next((phase for phase in phases if phase.phase in names), None)


def above_words(roof: Roof, compared_dtype: str, report: Report, device_name: str) -> str:
    """That a roof lies above what the silicon can do, with value and limit; empty where it does not."""
    bound = _bound(roof, compared_dtype, report, device_name)
    if bound is None or roof.value <= bound.value:
        return ""
    name = roof_words(roof.key._replace(dtype=compared_dtype))
    most = f"{significant(bound.value)} {roof.unit}"
    return f"{name} {significant(roof.value)} {roof.unit} is above {most}, {bound.reason}"


def is_implausible(roof: Roof, compared_dtype: str, report: Report, device_name: str) -> bool:
    """Whether a roof lies above what the silicon can do; "float32" alone does not say as which dtype it is compared."""
    bound = _bound(roof, compared_dtype, report, device_name)
    return bound is not None and roof.value > bound.value


def _uncounted(phases: Iterable[PhaseEvidence]) -> list[str] | None:
    """Throttle bits that were seen in a phase whose counters do not say how long."""
    seen = [(phase.throttle_reasons, phase.throttle_ms or {}) for phase in phases if phase.throttle_reasons is not None]
    return sorted({name for reasons, counters in seen for name in reasons if name not in counters}) or None


def _bound(roof: Roof, compared_dtype: str, report: Report, device_name: str) -> Bound | None:
    gpu, environment = report.gpu, report.environment
    silicon = Silicon(
        sm_count=None if gpu is None else gpu.sm_count,
        architecture=None if gpu is None else gpu.architecture,
        sm_clock_max_mhz=environment.sm_clock_max_mhz,
        memory_clock_max_mhz=environment.memory_clock_max_mhz,
        memory_bus_bits=environment.memory_bus_bits,
    )
    is_whole = gpu is None or is_whole_card(gpu.mig_profile, gpu.partition)
    published = published_peak(roof.kind, compared_dtype, device_name) if is_whole else None
    return highest_plausible(roof.key._replace(dtype=compared_dtype), silicon, published)


def _most(readings: Iterable[int | None]) -> int | None:
    return max((reading for reading in readings if reading is not None), default=None)


def _phase_names(roof: Roof) -> Iterable[str]:
    if roof.kind == "memory":
        return [f"{'stream' if roof.level == 'device' else 'link'} {roof.kernel}"]
    product = f"{roof.dtype}{_FAST}" if roof.fast_accumulation else roof.dtype
    return [f"{word} {product}" for word in _COMPUTE_PHASES.get(roof.regime, ())]


_OF_REPORT = ("outcome", "reason", "detail", "measured_from", "measured_to")
_OF_GPU = ("memory_bytes", "sm_count", "mig_profile", "partition")
_OF_ENVIRONMENT = ("torch", "driver", "cublas", "vbios", "ecc_enabled", "power_limit_w")
_OF_PHASE = ("memory_clock_mhz", "temperature_c")
_OF_ROOF = (
    "kind", "out_dtype", "fast_accumulation", "regime", "level", "kernel", "value", "unit", "converged",
    "trend", "sm_clock_mhz", "power_w",
)  # fmt: skip


def report_row(item: Accepted) -> Row:
    """Row of `reports`, without the columns that say where its node, gpu and device are, and whose it is."""
    report, gpu = item.report, item.report.gpu
    temperatures = [phase.temperature_c for phase in report.evidence.phases if phase.temperature_c is not None]
    return {
        "id": report.report_id,
        "content_sha256": item.sha256,
        "received_at": item.received_at,
        "sent_at": item.sent_at,
        "ordered_at": item.ordering.ordered_at,
        "clock_ahead": item.ordering.clock_ahead,
        "run_id": report.run.run_id,
        "run_kind": report.run.kind,
        "cluster": report.node.cluster,
        "device_certainty": None if gpu is None else device_certainty(gpu),
        "agent_version": report.agent.version,
        "protocol_version": report.agent.protocol_version,
        "method": report.agent.method,
        "fill": None if report.sweep is None else report.sweep.fill,
        "temperature_c": max(temperatures, default=None),
        "contended": report.evidence.contended,
        "rack": report.node.labels.get(RACK_LABEL),
        "health": health_fields(
            report, item.device_name or "", [(roof, _compared_dtype(roof, item)) for roof in report.roofs]
        ),
        **_fields(report, _OF_REPORT),
        **_fields(gpu, _OF_GPU),
        **_fields(report.environment, _OF_ENVIRONMENT),
    }


def _fields(part: object | None, names: Iterable[str]) -> Row:
    """Fields of a part of a report under their own names; nulls where the report does not have the part."""
    return {name: None if part is None else getattr(part, name) for name in names}


def document_row(item: Accepted) -> Row:
    """Row of `documents`."""
    return {"report_id": item.report.report_id, "received_at": item.received_at, "body": item.body}


def roof_rows(item: Accepted) -> Iterable[Row]:
    """Rows of `roofs`; none of a report that is about a node."""
    if item.gpu_id is None:
        return
    for position, roof in enumerate(item.report.roofs):
        phase, dtype = phase_of(roof, item.report), _compared_dtype(roof, item)
        yield {
            "report_id": item.report.report_id,
            "position": position,
            "dtype": dtype,
            "throttle_ms": None if phase is None else _counted(phase.throttle_ms),
            "implausible": is_implausible(roof, dtype, item.report, item.device_name or ""),
            **_fields(phase, _OF_PHASE),
            **_fields(roof, _OF_ROOF),
        }


def _counted(throttle_ms: Mapping[str, float | None] | None) -> dict[str, float] | None:
    """Counters that could be read."""
    return None if throttle_ms is None else {name: ms for name, ms in throttle_ms.items() if ms is not None}


def _compared_dtype(roof: Roof, item: Accepted) -> str:
    if roof.kind != "compute":
        return roof.dtype  # reading memory does not multiply
    without_tf32 = lacks_dtype(item.device_name or "", "tf32")
    return settled_dtype(
        roof.dtype, allow_tf32=item.report.environment.allow_tf32, chip_has_tf32=False if without_tf32 else None
    )
