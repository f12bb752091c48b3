"""How a roof and what sets gpus apart in it are named in answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoofName:
    """A roof by its key."""

    kind: str
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    level: str
    kernel: str | None


@dataclass(frozen=True, slots=True)
class LevelName:
    """Value of one factor that sets gpus of a cohort apart, such as a driver."""

    factor: str
    name: str
