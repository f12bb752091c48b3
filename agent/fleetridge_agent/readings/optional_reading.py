"""
Readings that may be missing: each is taken and judged by itself, so that one bad one costs nothing but itself.

Names and PCI addresses are brought to one spelling, as CUDA and NVML write them differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")

_SLICE = re.compile(r"(?P<device>.+?)\s+MIG\s+(?P<profile>\S+)")

_ADDRESS = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE)


def reading(read: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 # whatever a driver gives
    """
    What a driver's function gives, None where it gives none.

    Text that is no UTF-8 is kept with replacement characters: a name with one broken byte still tells a model apart.
    """
    try:
        value = read(*arguments)
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
    except Exception:  # noqa: BLE001 # bindings raise whatever they like, and no reading is worth a sweep
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def number(value: object, *, scale: float = 1.0) -> float | None:
    """A finite number times a factor, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value * scale


def count(value: object) -> int | None:
    """A whole number of at least 0, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def switch(value: object) -> bool | None:
    """A switch that a driver gives as 0 or 1, None for anything else."""
    return bool(value) if value in (0, 1) else None


def text(value: object) -> str | None:
    """Text, None for anything else."""
    return value if isinstance(value, str) else None


def model_of(model: type[Model], values: Mapping[str, object]) -> Model:
    """A part of a report from those values that the contract takes; the others are left out, as if not read."""
    return model.model_validate({name: value for name, value in values.items() if _is_taken(model, name, value)})


def _is_taken(model: type[BaseModel], name: str, value: object) -> bool:
    from pydantic import ValidationError  # noqa: PLC0415 # there already wherever there is a model

    try:
        model.model_validate({name: value})
    except ValidationError:
        return False
    return True


def without_profile(name: str | None) -> tuple[str | None, str | None]:
    """Device and MIG profile of a name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb" is a 1g.5gb slice of the former."""
    found = _SLICE.fullmatch(name.strip()) if name else None
    return (name, None) if found is None else (found["device"], found["profile"])


def canonical_bus_id(address: str | None) -> str | None:
    """
    One spelling of a PCI address: "00000000:3B:00.0" and "0000:3b:00.0" both become "0000:3b:00.0".

    Returns:
        None where the text is no PCI address.
    """
    found = _ADDRESS.fullmatch((address or "").strip())
    if found is None:
        return None
    domain, bus, slot, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
