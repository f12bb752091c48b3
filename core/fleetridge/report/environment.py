"""What a measurement happened in, and what the device said of itself meanwhile."""

from __future__ import annotations

from typing import Annotated

from fleetridge.report.field_types import (
    AtMost,
    CountReading,
    Reading,
    Slug,
    SmallCountReading,
    SwitchReading,
    Text,
    TextReading,
    WireModel,
)

# Phases are one per roof and shape at most; a report with more is not one of a sweep.
_MAX_PHASES = 1024
_MAX_WORDS = 64


class Environment(WireModel):
    """
    Software, settings and limits that explain a rate; none of them decides who may be compared.

    Attributes:
        runtime: of the accelerator that torch was built for, such as `cuda 13.0` or `hip 6.2`.
        allow_tf32: position of the switch for float32 products; None where unknown, which is a key of its own.
        pcie_generation, pcie_width: the most that device and slot can do; what the link did under load is evidence.
    """

    torch: TextReading = None
    runtime: TextReading = None
    driver: TextReading = None
    cublas: TextReading = None
    vbios: TextReading = None
    python: TextReading = None
    system: TextReading = None
    container_image: TextReading = None
    cpu_model: TextReading = None
    cpu_count: SmallCountReading = None
    l2_bytes: CountReading = None
    memory_bus_bits: SmallCountReading = None
    ecc_enabled: SwitchReading = None
    persistence_mode: SwitchReading = None
    virtualization: TextReading = None
    power_limit_w: Reading = None
    power_limit_default_w: Reading = None
    power_limit_max_w: Reading = None
    sm_clock_max_mhz: Reading = None
    memory_clock_max_mhz: Reading = None
    application_sm_clock_mhz: Reading = None
    pcie_generation: SmallCountReading = None
    pcie_width: SmallCountReading = None
    allow_tf32: SwitchReading = None
    bf16_reduced_precision: SwitchReading = None
    fp16_reduced_precision: SwitchReading = None


class PhaseEvidence(WireModel):
    """
    Readings taken inside one timed phase.

    Attributes:
        phase: such as `burst bfloat16` or `stream read`.
        samples: how many readings each figure rests on.
        sm_clock_mhz, memory_clock_mhz, power_w: medians over the phase.
        temperature_c, memory_temperature_c: highest of the phase.
        throttle_reasons: every reason seen at least once, by name.
        throttle_ms: growth of the driver's accumulated throttle counters over the phase, by name.
        pcie_generation, pcie_width: of the link while it carried load.
    """

    phase: Text
    samples: SmallCountReading = None
    sm_clock_mhz: Reading = None
    sm_clock_min_mhz: Reading = None
    sm_clock_max_mhz: Reading = None
    memory_clock_mhz: Reading = None
    power_w: Reading = None
    power_max_w: Reading = None
    temperature_c: Reading = None
    memory_temperature_c: Reading = None
    throttle_reasons: Annotated[tuple[Slug, ...], AtMost(_MAX_WORDS)] | None = None
    throttle_ms: Annotated[dict[Slug, Reading], AtMost(_MAX_WORDS)] | None = None
    pcie_generation: SmallCountReading = None
    pcie_width: SmallCountReading = None


class Evidence(WireModel):
    """
    What supports or excuses the rates of a report.

    Attributes:
        phases: readings inside each timed phase.
        other_processes, other_processes_bytes: foreign users of the gpu, counted, never named.
        signals_seen: which signals of foreign use could be read at all, such as `processes` or `utilization`.
        contended: whether somebody else used the gpu meanwhile; None where nobody could tell.
        unstable: whether the canary at the end disagreed with the measurement before it.
        remapped_rows_pending: whether memory repairs wait for a reset; remapped_rows_failure: whether one failed.
    """

    phases: Annotated[tuple[PhaseEvidence, ...], AtMost(_MAX_PHASES)] = ()
    other_processes: SmallCountReading = None
    other_processes_bytes: CountReading = None
    signals_seen: Annotated[tuple[Slug, ...], AtMost(_MAX_WORDS)] | None = None
    contended: SwitchReading = None
    unstable: SwitchReading = None
    ecc_uncorrected: CountReading = None
    remapped_rows_correctable: SmallCountReading = None
    remapped_rows_uncorrectable: SmallCountReading = None
    remapped_rows_pending: SwitchReading = None
    remapped_rows_failure: SwitchReading = None
