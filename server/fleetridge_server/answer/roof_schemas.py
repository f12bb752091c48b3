"""How a roof and what sets gpus apart in it are named in answers."""

from __future__ import annotations

from fleetridge_server.record import json_record


@json_record
class RoofName:
    """A roof by its key."""

    kind: str
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str
    level: str
    kernel: str | None


@json_record
class LevelName:
    """Value of one factor that sets gpus of a cohort apart, such as a driver."""

    factor: str
    name: str
