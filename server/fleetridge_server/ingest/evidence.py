"""
What a report says of its gpu beside the rates: which readings belong to which roof, and which roof cannot be right.

An agent names its phases after what it times: `reference bfloat16`, `sustained bfloat16`, `stream read`, `link h2d`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from fleetridge.peaks import published_beta, published_pi
from fleetridge.report import Gpu, Report, Roof
from fleetridge.report.environment import PhaseEvidence
from fleetridge_server.verdict import plausibility
from fleetridge_server.verdict.evidence import Health
from fleetridge_server.verdict.plausibility import Silicon

# First words of the phase in which a judged compute roof is timed, by regime; `burst` is what early agents wrote.
_COMPUTE_PHASES = {"burst": ("reference", "burst"), "sustained": ("sustained",)}

# Of some dozens of devices in some ten dtypes; names are the senders', so that there may be others.
_PEAKS_REMEMBERED = 1024

_FAST = " fast accumulation"

# The one partition of AMD's that is the whole card, as a datasheet describes it.
_WHOLE_CARD = "SPX"


def health_fields(report: Report) -> dict[str, Any] | None:
    """Fields of `Health` that were read, None where none was."""
    phases, evidence, environment = report.evidence.phases, report.evidence, report.environment
    health = Health(
        remapped_rows_pending=evidence.remapped_rows_pending,
        remapped_rows_uncorrectable=evidence.remapped_rows_uncorrectable,
        ecc_uncorrected=evidence.ecc_uncorrected,
        # A link slows down while nothing crosses it, so the most that was seen is what it does under load.
        pcie_generation=_most(phase.pcie_generation for phase in phases),
        pcie_width=_most(phase.pcie_width for phase in phases),
        pcie_generation_max=environment.pcie_generation,
        pcie_width_max=environment.pcie_width,
    )
    read = {name: getattr(health, name) for name in Health.__dataclass_fields__}
    return {name: value for name, value in read.items() if value is not None} or None


def phase_of(roof: Roof, report: Report) -> PhaseEvidence | None:
    """Readings of the phase in which a roof was timed; those of the only phase where it has another name."""
    phases = report.evidence.phases
    if len(phases) == 1:
        return phases[0]
    names = set(_phase_names(roof))
    return next((phase for phase in phases if phase.phase in names), None)


def is_implausible(roof: Roof, compared_dtype: str, report: Report, device_name: str) -> bool:
    """
    Whether a roof lies above what the silicon can do.

    Args:
        roof: of the report.
        compared_dtype: by which it is compared, as "float32" alone does not say how it multiplies.
        report: that says what the gpu is made of.
        device_name: canonical.
    """
    gpu, environment = report.gpu, report.environment
    silicon = Silicon(
        sm_count=None if gpu is None else gpu.sm_count,
        architecture=None if gpu is None else gpu.architecture,
        sm_clock_max_mhz=environment.sm_clock_max_mhz,
        memory_clock_max_mhz=environment.memory_clock_max_mhz,
        memory_bus_bits=environment.memory_bus_bits,
    )
    published = _published(roof.kind, compared_dtype, device_name) if gpu is None or _is_whole(gpu) else None
    return plausibility.is_implausible(roof.value, roof.key._replace(dtype=compared_dtype), silicon, published)


def _most(readings: Iterable[int | None]) -> int | None:
    return max((reading for reading in readings if reading is not None), default=None)


def _phase_names(roof: Roof) -> Iterable[str]:
    if roof.kind == "memory":
        return [f"{'stream' if roof.level == 'device' else 'link'} {roof.kernel}"]
    product = f"{roof.dtype}{_FAST}" if roof.fast_accumulation else roof.dtype
    return [f"{word} {product}" for word in _COMPUTE_PHASES.get(roof.regime, ())]


@lru_cache(_PEAKS_REMEMBERED)
def _published(kind: str, compared_dtype: str, device_name: str) -> float | None:
    peak = published_pi(device_name, compared_dtype) if kind == "compute" else published_beta(device_name)
    return None if peak is None else peak.value


def _is_whole(gpu: Gpu) -> bool:
    return gpu.mig_profile is None and (gpu.partition is None or gpu.partition.startswith(_WHOLE_CARD))
