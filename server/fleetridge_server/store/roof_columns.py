"""Columns by which roofs and conditions stand in tables, in the order of the engine's own fields."""

from __future__ import annotations

from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import Conditions

ROOF_COLUMNS = RoofKey._fields
CONDITION_COLUMNS = tuple(Conditions.__dataclass_fields__)
