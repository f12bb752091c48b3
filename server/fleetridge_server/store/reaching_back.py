"""
How far back a gpu's history has to be read when reports arrive.

What the gpus count for is kept, and each kept value says when the oldest report behind it was measured. The newest
reports in a roof are found among those, and the new ones, as long as the new ones were measured under the conditions
that count; then nothing older can come into the value, and a month of history need not be read with every report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from fleetridge_server.store.history import CONDITION_COLUMNS, ROOF_COLUMNS
from fleetridge_server.store.models import GpuRoof
from fleetridge_server.store.upserts import Row

_GPU_ROWS = "gpu_rows"


class _Place(NamedTuple):
    """What one kept value is of."""

    gpu_row: int
    device_id: int
    method: str | None
    roof: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NewRoofs:
    """
    A new report with a time, and its roofs.

    Attributes:
        report: row of `reports`.
        roofs: its rows of `roofs`.
    """

    report: Row
    roofs: Sequence[Row]


def reach_of(session: Session, new: Sequence[NewRoofs]) -> datetime | None:
    """
    Ordering time of the oldest report that can count for the gpus of some new ones; None where any may.

    The caller has locked the gpus, and has not brought their kept values up to date yet.
    """
    gpu_rows = sorted({own.report["gpu_id"] for own in new})
    kept = {_place(row): row for row in session.connection().execute(_kept(), {_GPU_ROWS: gpu_rows}).mappings()}
    for own in new:
        conditions = _conditions(own.report)
        for place in _places(own):
            if place in kept and _conditions(kept[place]) != conditions:
                return None
    times: Iterable[datetime] = (
        *(row["oldest_at"] for row in kept.values()),
        *(own.report["ordered_at"] for own in new),
    )
    return min(times, default=None)


@cache
def _kept() -> Select[Any]:
    columns = ("gpu_id", "device_id", "oldest_at", *ROOF_COLUMNS, *CONDITION_COLUMNS)
    table = GpuRoof.__table__
    of_gpus = table.c.gpu_id.in_(bindparam(_GPU_ROWS, expanding=True))
    return select(*(table.c[name] for name in columns)).where(of_gpus)


def _places(new: NewRoofs) -> Iterable[_Place]:
    report = new.report
    for roof in new.roofs:
        yield _place({**roof, "gpu_id": report["gpu_id"], "device_id": report["device_id"], "method": report["method"]})


def _place(row: Any) -> _Place:  # noqa: ANN401 # a row with the columns of a kept value
    return _Place(row["gpu_id"], row["device_id"], row["method"], tuple(row[name] for name in ROOF_COLUMNS))


def _conditions(row: Any) -> tuple[Any, ...]:  # noqa: ANN401 # a row with the conditions
    return tuple(row[name] for name in CONDITION_COLUMNS)
