"""What a result was measured on and with, as a block to paste with it."""

from __future__ import annotations

from collections.abc import Iterator

from fleetridge.quantities import binary_size, quantity, significant
from fleetridge.report import Environment, Gpu, Report, Sweep
from fleetridge.text_table import key_values

TITLE = "Environment (paste it with any result)"

_TIME_FORMAT = "%Y-%m-%d %H:%M:%SZ"


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
