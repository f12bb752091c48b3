"""Everything that a sweep of one gpu prints, in order; at its head, what it was measured on and with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fleetridge.quantities import binary_size, quantity, significant
from fleetridge.report import Environment, Gpu, Report, Sweep
from fleetridge.terminal_text import visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH, key_values
from fleetridge_agent.output.roof_selection import Achieved, GivenPeaks, achieved, memory_roofs, variants_in
from fleetridge_agent.output.roofline import (
    ModelTraits,
    memory_block,
    roofline_block,
    roofline_drawing,
    shape_table,
    t_star_sentence,
    workload_table,
)
from fleetridge_agent.output.tables import reference_table, square_table, stream_table, weight_shape_table

TITLE = "Environment (paste it with any result)"

_TIME_FORMAT = "%Y-%m-%d %H:%M:%SZ"

_NEEDS_BOTH = "The ridge point needs both compute and memory; measure them with --mode all."


def environment_block(report: Report, *, width: int) -> str:
    """Block of names and values; what the driver does not tell is left out."""
    pairs = [*_what(report), *_with(report.environment), *_how(report)]
    return key_values([(name, value) for name, value in pairs if value], title=TITLE, width=width)


def _what(report: Report) -> Iterator[tuple[str, str]]:
    gpu = report.gpu or Gpu()
    yield "device", gpu.device or ""
    yield "", _listed(_counted(gpu.sm_count, _unit_name(gpu)), _size(gpu.memory_bytes), gpu.architecture)
    yield "partition", _listed(gpu.mig_profile, gpu.partition)
    yield "identity", _listed(gpu.uuid, gpu.pci_bus_id, None if gpu.index is None else f"index {gpu.index}")
    yield "node", f"{report.node.name or 'unnamed'} in cluster {report.node.cluster}"


def _with(environment: Environment) -> Iterator[tuple[str, str]]:
    yield "driver", _listed(environment.driver, _named("VBIOS", environment.vbios))
    yield (
        "software",
        _listed(
            _named("torch", environment.torch),
            environment.runtime,
            _named("cuBLAS", environment.cublas),
            _named("Python", environment.python),
        ),
    )
    yield "container", environment.container_image or ""
    yield "system", environment.system or ""
    yield "host CPU", _listed(environment.cpu_model, _counted(environment.cpu_count, "logical CPUs"))
    yield "power limit", _power(environment)
    yield (
        "highest clocks",
        _listed(
            _named("SM", _quantity(environment.sm_clock_max_mhz, "MHz")),
            _named("memory", _quantity(environment.memory_clock_max_mhz, "MHz")),
        ),
    )
    yield "L2", _size(environment.l2_bytes) or ""
    yield "ECC", _switch(environment.ecc_enabled)
    yield (
        "PCIe",
        _listed(
            None if environment.pcie_generation is None else f"generation {environment.pcie_generation}",
            None if environment.pcie_width is None else f"x{environment.pcie_width}",
        ),
    )
    yield "virtualization", environment.virtualization or ""
    yield "TF32 for float32", _switch(environment.allow_tf32)


def _how(report: Report) -> Iterator[tuple[str, str]]:
    if report.measured_from is not None and report.measured_to is not None:
        elapsed_s = (report.measured_to - report.measured_from).total_seconds()
        yield "measured", f"{report.measured_from.strftime(_TIME_FORMAT)}, in {significant(elapsed_s)} s"
    yield (
        "agent",
        _listed(
            f"fleetridge-agent {report.agent.version}",
            None if report.agent.protocol_version is None else f"protocol {report.agent.protocol_version}",
            _named("method", report.agent.method),
        ),
    )
    if report.sweep is not None:
        yield "sweep", _listed(_named("profile", report.sweep.profile), _named("fill", report.sweep.fill))
        yield "weights", _weights(report.sweep)
    yield "options", " ".join(report.agent.arguments)


def _weights(sweep: Sweep) -> str:
    if sweep.model is None:
        return ""
    split = sweep.tensor_parallel or 1
    return sweep.model if split == 1 else f"{sweep.model}, split over {split} gpus"


def _unit_name(gpu: Gpu) -> str:
    """Name of what `sm_count` counts on this architecture."""
    architecture = gpu.architecture or ""
    if architecture.startswith("sm_"):
        return "SMs"
    return "compute units" if architecture.startswith("gfx") else "cores"


def _power(environment: Environment) -> str:
    limit = _quantity(environment.power_limit_w, "W")
    if limit is None:
        return ""
    default = _quantity(environment.power_limit_default_w, "W")
    return limit if default is None else f"{limit} (default {default})"


def _listed(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _named(name: str, value: str | None) -> str | None:
    return None if value is None else f"{name} {value}"


def _counted(count: int | None, unit: str) -> str | None:
    return None if count is None else f"{count} {unit}"


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else binary_size(size_bytes)


def _quantity(value: float | None, unit: str) -> str | None:
    return None if value is None else quantity(value, unit)


def _switch(position: bool | None) -> str:
    return "" if position is None else "on" if position else "off"


@dataclass(frozen=True, slots=True)
class View:
    """
    How a report is shown.

    Attributes:
        given: peaks that the user gave instead of the published ones.
        width: columns of the terminal.
        ascii_only: whether the chart may use ASCII alone.
    """

    traits: ModelTraits = field(default_factory=ModelTraits)
    given: GivenPeaks = field(default_factory=GivenPeaks)
    width: int = DEFAULT_WIDTH
    ascii_only: bool = False


def sweep_page(report: Report, view: View) -> str:
    """Page of one report as text, without a newline at the end."""
    return "\n\n".join(part for part in _parts(report, view) if part)


def _parts(report: Report, view: View) -> Iterator[str]:
    width = view.width
    found = [achieved(report, variant) for variant in variants_in(report)]
    yield environment_block(report, width=width)
    for sentence in _cautions(report):
        yield "\n".join(wrapped(visible(sentence), width))
    for roofs in found:
        yield square_table(report, roofs, width=width)
        yield weight_shape_table(report, roofs, width=width)
        yield reference_table(report, roofs, width=width)
    yield stream_table(report, width=width)
    for roofs in found:
        yield from _roofline(report, roofs, view)
    memory = memory_roofs(report)
    if memory is not None and not found:
        yield memory_block(report, memory, view.given, width=width)
    if report.points and not (memory and found):
        yield "\n".join(wrapped(_NEEDS_BOTH, width))


def _roofline(report: Report, roofs: Achieved, view: View) -> Iterator[str]:
    yield roofline_block(report, roofs, view.given, width=view.width)
    yield roofline_drawing(report, roofs, view.traits, width=view.width, ascii_only=view.ascii_only)
    yield workload_table(roofs, view.traits, width=view.width)
    yield t_star_sentence(roofs, view.traits, width=view.width)
    yield shape_table(report, roofs, width=view.width)


def _cautions(report: Report) -> Iterator[str]:
    """What a reader must know before believing the numbers."""
    if report.outcome != "measured":
        kept = "; what follows was measured before that" if report.points else ""
        yield f"Outcome: {report.outcome} ({report.reason}): {report.detail or 'nothing more is known'}{kept}."
    elif report.detail:
        yield f"Note: {report.detail}."
    if report.evidence.contended:
        yield "Somebody else used this gpu meanwhile: these rates are not what it can do alone."
    if report.evidence.unstable:
        yield "The device measured otherwise at the end than before: do not rely on these rates, measure again."
    if report.agent.method == "custom":
        yield "Method custom: an option changed how pi or beta is measured, so compare these with no other report."
