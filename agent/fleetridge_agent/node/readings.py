"""Readings that may be missing: each is taken and judged by itself, so that one bad one costs nothing but itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


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
    try:
        model.model_validate({name: value})
    except ValidationError:
        return False
    return True
