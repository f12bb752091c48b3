"""
What the gpus of a device count for in judged roofs, without what their reports say besides.

Whole rows of a large fleet take most of a minute to read; these are numbers, which the database sorts into cohorts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, case, false, func, null, or_, select, true
from sqlalchemy.orm import Session

from fleetridge_server.compare.cohort import JUDGED_KERNELS, Cohort, GpuValue, cohort_order, current_values, is_judged
from fleetridge_server.compare.ridge import Filter
from fleetridge_server.compare.span import Span
from fleetridge_server.store.current import from_history, kept
from fleetridge_server.store.history import CONDITION_COLUMNS, ROOF_COLUMNS, cohort_reader
from fleetridge_server.store.levels import levels_of_reports
from fleetridge_server.store.lookup import is_storable
from fleetridge_server.store.models import GpuRoof, Report
from fleetridge_server.verdict.evidence import FactorName
from fleetridge_server.verdict.levels import level_name

_OF_COHORT = (*ROOF_COLUMNS, *CONDITION_COLUMNS)


def cohort_values(
    session: Session, device_id: int, span: Span, only: Filter, *, betas: bool
) -> dict[Cohort, dict[int, float]]:
    """
    Values of the gpus that are of a device at that time, by cohort and by the rows of the gpus.

    Args:
        session: to read in.
        device_id: of the device.
        span: time and population.
        only: roofs to read.
        betas: whether to read all judged bandwidths besides.
    """
    found: dict[Cohort, dict[int, float]] = defaultdict(dict)
    cohorts = _cohorts(session, device_id, span, _is_taken(only, betas=betas))
    query = _values(device_id, span, cohorts, _is_taken(only, betas=betas))
    for gpu, number, value in session.connection().execute(query):
        found[cohorts[number]][gpu] = value
    for gpu, own in _past_values(session, device_id, span, only, betas=betas):
        found[own.cohort][gpu] = own.value
    return {cohort: found[cohort] for cohort in sorted(found, key=cohort_order)}


def leveled_values(
    session: Session, device_id: int, span: Span, only: Filter, factor: FactorName | None
) -> Iterator[tuple[Cohort, int, float, str]]:
    """Each of those values with its cohort and gpu, and what its newest report says of a factor, as people write it."""
    cohorts = _cohorts(session, device_id, span, _is_taken(only, betas=False))
    query = _values(device_id, span, cohorts, _is_taken(only, betas=False))
    names: dict[Any, str] = {None: level_name(None)}
    if factor is not None:
        query = query.join(Report, Report.id == GpuRoof.report_id).add_columns(getattr(Report, factor))
    for gpu, number, value, *reading in session.connection().execute(query):
        own = reading[0] if reading else None
        if own not in names:
            names[own] = level_name(own)
        yield cohorts[number], gpu, value, names[own]
    past = list(_past_values(session, device_id, span, only, betas=False))
    reports = [own.newest.report_id for _, own in past]
    levels = {} if factor is None else levels_of_reports(session, reports, factor)
    for gpu, own in past:
        yield own.cohort, gpu, own.value, levels.get(own.newest.report_id, names[None])


def gpus_measured_with(session: Session, device_id: int, span: Span, driver: str) -> set[int]:
    """Gpus of a device, by their rows, whose newest judged value was measured with a driver."""
    if not is_storable(driver):
        return set()
    place = func.row_number().over(partition_by=GpuRoof.gpu_id, order_by=(GpuRoof.ordered_at.desc(), GpuRoof.position))
    columns = (GpuRoof.gpu_id, GpuRoof.report_id, place.label("place"))
    newest = kept([device_id], span, is_judged_row()).with_only_columns(*columns).subquery()
    query = (
        select(newest.c.gpu_id)
        .join(Report, Report.id == newest.c.report_id)
        .where(newest.c.place == 1, func.coalesce(Report.driver, level_name(None)) == driver)
    )
    found = set(session.scalars(query))
    past: dict[int, GpuValue] = {}
    for gpu, own in _past_values(session, device_id, span, Filter(), betas=True):
        if gpu not in past or own.newest.ordered_at > past[gpu].newest.ordered_at:
            past[gpu] = own
    reports: dict[int, UUID] = {gpu: own.newest.report_id for gpu, own in past.items()}
    drivers = levels_of_reports(session, reports.values(), "driver")
    return found | {gpu for gpu, report_id in reports.items() if drivers[report_id] == driver}


def is_judged_row() -> ColumnElement[bool]:
    """Whether a kept roof is judged (`compare.cohort.is_judged`)."""
    kinds = [
        and_(GpuRoof.kind == kind, or_(GpuRoof.kernel.is_(None), GpuRoof.kernel == kernel))
        for kind, (kernel, _) in JUDGED_KERNELS.items()
    ]
    return and_(GpuRoof.level == "device", or_(*kinds))


def _is_taken(only: Filter, *, betas: bool) -> ColumnElement[bool]:
    wanted = [(GpuRoof.dtype, only.dtype), (GpuRoof.regime, only.regime)]
    # A text that no database takes is nobody's.
    is_one = [column == text if is_storable(text) else false() for column, text in wanted if text is not None]
    taken = and_(true(), *is_one)
    return and_(is_judged_row(), or_(taken, GpuRoof.kind == "memory") if betas else taken)


def _cohorts(session: Session, device_id: int, span: Span, taken: ColumnElement[bool]) -> list[Cohort]:
    """Cohorts that there are, each once; their places are the numbers that the values are read with."""
    columns = [getattr(GpuRoof, name) for name in _OF_COHORT]
    cohort_of = cohort_reader()
    rows = session.execute(kept([device_id], span, taken).with_only_columns(*columns).distinct())
    return [cohort_of(row) for row in rows]


def _values(device_id: int, span: Span, cohorts: list[Cohort], taken: ColumnElement[bool]) -> Any:  # noqa: ANN401 # a query
    whens = [(_is_in(cohort), number) for number, cohort in enumerate(cohorts)]
    number = case(*whens) if whens else null()
    return kept([device_id], span, taken).with_only_columns(GpuRoof.gpu_id, number, GpuRoof.value)


def _is_in(cohort: Cohort) -> ColumnElement[bool]:
    key = cohort.roof._asdict() | {name: getattr(cohort.conditions, name) for name in CONDITION_COLUMNS}
    columns = {name: getattr(GpuRoof, name) for name in _OF_COHORT}
    return and_(*(columns[name].is_(None) if own is None else columns[name] == own for name, own in key.items()))


def _past_values(
    session: Session, device_id: int, span: Span, only: Filter, *, betas: bool
) -> Iterator[tuple[int, GpuValue]]:
    """Judged values of the gpus whose kept values are not those of that time."""
    for owner, own in from_history(session, [device_id], span).items():
        for value in current_values(own):
            roof = value.cohort.roof
            if is_judged(roof) and (only.takes(value) or (betas and roof.kind == "memory")):
                yield owner.gpu_row, value
