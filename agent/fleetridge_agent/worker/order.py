"""What a worker is told: the order on its standard input, and an environment in which it sees one gpu."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from fleetridge_agent.measure.report_builder import Assignment
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.node.visible_devices import VARIABLE

# By address, as NVML and `nvidia-smi` number them; CUDA by itself puts the fastest first.
_BY_ADDRESS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

# Keeps modules of the folder that the agent was started in out of the worker, from Python 3.11 on.
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}

# ROCm's own name of the variable goes before CUDA's, which it knows too.
_VARIABLE_OF_ROCM = "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Order:
    """
    What one worker is to do.

    Attributes:
        parent: process that gives the order; the worker does not outlive it.
        is_contended: whether somebody uses the gpu and it is to be measured nevertheless.
        is_together: whether to wait for the word before measuring.
    """

    target: Target
    assignment: Assignment
    parent: int
    is_contended: bool = False
    is_together: bool = False


_ORDER = TypeAdapter(Order)


def order_json(order: Order) -> bytes:
    """An order as one line of JSON, without the line's end."""
    return _ORDER.dump_json(order)


def order_of(line: bytes) -> Order:
    """
    An order as it was given.

    Raises:
        ValueError: it is none.
    """
    return _ORDER.validate_json(line)


def one_gpu_environ(target: Target, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment in which a process sees one gpu and no other; that of a CPU sees what it did before."""
    if target.gpu is None:
        return {**environ, **_SAFE_PATH}
    if target.gpu.uuid is not None:
        return {**environ, **_SAFE_PATH, **_BY_ADDRESS, VARIABLE: target.gpu.uuid}
    variable = VARIABLE if VARIABLE in environ and _VARIABLE_OF_ROCM not in environ else _VARIABLE_OF_ROCM
    return {**environ, **_SAFE_PATH, variable: _place(target.gpu.number, environ.get(variable))}


def _place(number: int, setting: str | None) -> str:
    """Word by which the driver knows the gpu of this number among those that a variable leaves."""
    return str(number) if setting is None else setting.split(",")[number].strip()
