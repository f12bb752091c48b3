"""The gpus of a device, worst first, as one evaluation says; filters choose which are listed and change no number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from uuid import UUID

from sqlalchemy.orm import Session

from fleetridge_server.answer.figure_schemas import CohortFigures
from fleetridge_server.answer.figures import filtered_figures
from fleetridge_server.answer.schemas import FleetBandwidth, FleetRidge
from fleetridge_server.api.evaluations import evaluation_for
from fleetridge_server.api.paging import Position, page
from fleetridge_server.compare.location import GpuLocation
from fleetridge_server.compare.ridge import Filter, GpuRoofs, best_betas, listed, measured_since
from fleetridge_server.compare.span import Span
from fleetridge_server.evaluation.gpu_roofs import (
    cohort_distributions,
    cohort_values,
    drawn_roofs,
    judged_cohorts,
    losses_in,
    newest_reports,
    roofs_of,
)
from fleetridge_server.evaluation.order import NOT_ACCUSED, FleetOrder, microseconds
from fleetridge_server.evaluation.read import (
    DatedVerdict,
    EvaluationRef,
    VerdictSummary,
    columns_of,
    order_of,
    stored_evaluation,
    summaries_of,
    verdicts_of,
)
from fleetridge_server.evaluation.references import cohort_of
from fleetridge_server.store.locations import Where, gpu_rows_there, locations_of_gpus
from fleetridge_server.store.models import Device
from fleetridge_server.store.run_readings import ReportReadings, readings_of
from fleetridge_server.store.summaries import NamedReport, newest_unjudged
from fleetridge_server.verdict.evidence import FactorName

# So many gpus a chart draws one by one; of more, those that are accused, and quantiles of all.
MOST_DRAWN = 1000
_MOST_ACCUSED_DRAWN = 200

# Of gpus that the evaluation does not know; whoever reads on finds them at the end.
_NOT_EVALUATED = NOT_ACCUSED + 1

_DRIVER: FactorName = "driver"


@dataclass(frozen=True, slots=True)
class ListRequest:
    """
    What a list was asked for.

    Attributes:
        is_past: whether its time was asked for.
        only: roofs to list.
        driver: only gpus whose newest rates were measured with it.
        position: the last gpu that was given.
        of_list: its id (`paging.list_id`).
        drawn: whether charts will be drawn.
    """

    device: Device
    span: Span
    is_past: bool
    where: Where
    only: Filter
    states: frozenset[str] | None
    driver: str | None
    limit: int
    position: Position | None
    of_list: str
    drawn: bool


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """
    A gpu of a list.

    Attributes:
        roofs: what it reaches, those that are listed.
        said: its verdict; None where the evaluation knows nothing of it, or not its numbers any more.
        summary: the same in a line, where that is all that is kept.
        unjudged: its newest report that the evaluation does not know yet.
    """

    location: GpuLocation
    roofs: GpuRoofs
    said: DatedVerdict | None = None
    summary: VerdictSummary | None = None
    unjudged: NamedReport | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """
    What charts are made from.

    Attributes:
        gpus: to draw, worst first; summaries: what is said of them in a line.
        listed: how many gpus the filters take.
        is_complete: whether `gpus` are all of them.
        quantiles: of all peers in each listed roof, where they are not.
    """

    gpus: tuple[ListedGpu, ...] = ()
    summaries: Mapping[str, VerdictSummary] = field(default_factory=dict)
    listed: int = 0
    is_complete: bool = True
    quantiles: tuple[CohortFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuList:
    """
    One page of a list.

    Attributes:
        ref: the evaluation that it rests on.
        ridges, bandwidths: of the whole device.
        next: token of the next page.
    """

    ref: EvaluationRef | None
    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]
    shown: tuple[ListedGpu, ...]
    next: str | None
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class _Entry:
    """A gpu to list: its row, its place in the order, and by what it stands there; its id where it has no place."""

    row: int
    place: int
    severity: int
    loss: float | None
    gpu_id: str = ""


def gpu_list(session: Session, asked: ListRequest) -> GpuList:
    """
    A page of the gpus of a device, worst first.

    Raises:
        ProblemError: 422, the position is of another list.
    """
    ref = evaluation_for(session, asked.device.id, asked.span, explicit=asked.is_past)
    began = None if ref is None else _began(session, asked, ref)
    entries = [] if began is None else _entries(session, asked, began)
    left = [] if began is None else _left(entries, asked, began)
    if len(left) <= asked.limit and _takes_unknown(asked):
        left = [*left, *_unknown(session, asked, began)]
    shown, following = page(left, asked.limit, lambda entry: _position(entry, asked, began))
    figures = None if ref is None else ref.body.figures
    ridges, bandwidths = ((), ()) if figures is None else filtered_figures(figures, asked.only)
    return GpuList(
        ref=ref,
        ridges=ridges,
        bandwidths=bandwidths,
        shown=_shown(session, asked, ref, [entry.row for entry in shown]),
        next=following,
        drawn=_drawn(session, asked, ref, entries) if asked.drawn and ref is not None else Drawn(),
    )


def _began(session: Session, asked: ListRequest, ref: EvaluationRef) -> EvaluationRef | None:
    """
    The evaluation under which a list began, as long as that is kept; the list goes on in its order.

    None where it began before the first one.
    """
    position = asked.position
    if position is None or ref.unstored is not None or position.evaluation == ref.evaluation_id:
        return ref
    if position.evaluation is None:
        return None if position.severity == _NOT_EVALUATED else ref
    return stored_evaluation(session, position.evaluation, ref) or ref


def _entries(session: Session, asked: ListRequest, began: EvaluationRef) -> list[_Entry]:
    """All gpus of the evaluation that the filters take, worst first."""
    order = order_of(session, began)
    places = _places(session, asked, order)
    losses = _losses(session, began, asked.only, places) if asked.only.is_set else None
    if losses is None:
        found = [(place, order.losses[place]) for place in (range(len(order)) if places is None else places)]
    else:
        found = sorted(losses.items(), key=lambda own: (order.severity(own[0]), -own[1], own[0]))
    return [
        _Entry(order.rows[place], place, order.severity(place), None if isnan(loss) else loss) for place, loss in found
    ]


def _places(session: Session, asked: ListRequest, order: FleetOrder) -> list[int] | None:
    """Places in the order that the filters on gpus take, ascending; None for all."""
    chosen: list[set[int]] = []
    if asked.states is not None:
        chosen.append(set(order.in_states(asked.states)))
    if asked.driver is not None:
        chosen.append(order.with_level(_DRIVER, asked.driver))
    if asked.where.is_set:
        there = gpu_rows_there(session, asked.device.id, asked.span, asked.where, is_past=asked.is_past)
        chosen.append({order.places[row] for row in there if row in order.places})
    if asked.span.since is not None:
        since = microseconds(asked.span.since)
        chosen.append({place for place, at in enumerate(order.measured_at) if at >= since})
    return sorted(set.intersection(*chosen)) if chosen else None


def _losses(
    session: Session, ref: EvaluationRef, only: Filter, places: Sequence[int] | None
) -> dict[int, float] | None:
    """
    Largest loss of each gpu over the roofs that a filter takes, and the bandwidths that go with them.

    None where the evaluation is so old that only the order over all roofs is kept.
    """
    cohorts = {number: cohort_of(ref.body.cohorts[number]) for number in judged_cohorts(ref.body)}
    taken = {number for number, cohort in cohorts.items() if only.takes_roof(cohort.roof)}
    betas = {number for number, cohort in cohorts.items() if cohort.roof.kind == "memory"}
    columns = columns_of(session, ref, taken | betas)
    if columns is None:
        return None
    losses = {number: losses_in(number, column, ref.body, places) for number, column in columns.items()}
    values = cohort_values(ref.body, {number: columns[number] for number in betas}, counted_only=False)
    beta_losses = {cohorts[number]: losses[number] for number in betas}
    worst: dict[int, float] = {}
    for number in taken:
        best = best_betas(cohorts[number], values) if cohorts[number].roof.kind == "compute" else None
        for place, loss in losses[number].items():
            beta = None if best is None else best(place)
            own = loss if beta is None else max(loss, beta_losses[beta[0]][place])
            worst[place] = max(own, worst.get(place, own))
    return worst


def _left(entries: list[_Entry], asked: ListRequest, began: EvaluationRef) -> list[_Entry]:
    """What comes after the last gpu that was given, where that stood in this order or, where it is gone, would stand."""
    position = asked.position
    if position is None:
        return entries
    if position.severity is None or position.severity >= _NOT_EVALUATED:
        return []
    rank = position.severity, *_by_loss(position.loss)
    place = position.place
    if position.evaluation != began.evaluation_id:
        # Of gpus that are equally bad those after it; where it is not among them any more all, sooner again than never.
        place = next((own.place for own in entries if str(own.row) == position.name and _rank(own) == rank), None)
    reached = *rank, -1 if place is None else place
    return [entry for entry in entries if (*_rank(entry), entry.place) > reached]


def _rank(entry: _Entry) -> tuple[int, bool, float]:
    return entry.severity, *_by_loss(entry.loss)


def _by_loss(loss: float | None) -> tuple[bool, float]:
    return (True, 0.0) if loss is None else (False, -loss)


def _takes_unknown(asked: ListRequest) -> bool:
    """Whether gpus of which the evaluation knows nothing are listed: no filter asks for what they do not have."""
    return asked.states is None and asked.driver is None and asked.span.since is None and not asked.only.is_set


def _unknown(session: Session, asked: ListRequest, began: EvaluationRef | None) -> list[_Entry]:
    """Gpus that the evaluation does not know, by id: new ones, and those that are retired."""
    there = gpu_rows_there(session, asked.device.id, asked.span, asked.where, is_past=asked.is_past)
    known = {} if began is None else order_of(session, began).places
    position = asked.position
    reached = position.name if position is not None and position.severity == _NOT_EVALUATED else ""
    found = sorted((gpu_id, row) for row, gpu_id in there.items() if row not in known and gpu_id > reached)
    return [_Entry(row, 0, _NOT_EVALUATED, None, gpu_id=gpu_id) for gpu_id, row in found]


def _position(entry: _Entry, asked: ListRequest, began: EvaluationRef | None) -> Position:
    return Position(
        of_list=asked.of_list,
        as_of=asked.span.as_of,
        asked=asked.is_past,
        name=entry.gpu_id or str(entry.row),
        severity=entry.severity,
        loss=entry.loss,
        place=entry.place,
        evaluation=None if began is None else began.evaluation_id,
    )


def _shown(
    session: Session, asked: ListRequest, ref: EvaluationRef | None, rows: Sequence[int]
) -> tuple[ListedGpu, ...]:
    """Some gpus with all that is said of them, in their order."""
    locations = locations_of_gpus(session, rows, asked.span, is_past=asked.is_past)
    gpu_ids = [locations[row].gpu_id for row in rows if row in locations]
    said = {} if ref is None else verdicts_of(session, ref, gpu_ids)
    only_states = ref is not None and not ref.has_verdicts
    summaries = summaries_of(session, ref, gpu_ids=gpu_ids) if ref is not None and only_states else {}
    reports = readings_of(session, {report for own in said.values() for report in newest_reports(own.verdict)})
    waiting = [] if asked.is_past and ref is not None and ref.unstored is not None else [*locations.values()]
    unjudged = newest_unjudged(session, waiting, None if ref is None else ref.judged_until, asked.span.as_of)
    return tuple(
        ListedGpu(
            location=locations[row],
            roofs=_roofs(asked, ref, said.get(gpu_id), reports, gpu_id),
            said=said.get(gpu_id),
            summary=summaries.get(gpu_id),
            unjudged=unjudged.get(row),
        )
        for row in rows
        if row in locations
        for gpu_id in (locations[row].gpu_id,)
    )


def _roofs(
    asked: ListRequest,
    ref: EvaluationRef | None,
    said: DatedVerdict | None,
    reports: Mapping[UUID, ReportReadings],
    gpu_id: str,
) -> GpuRoofs:
    """What a gpu reaches in the roofs that are listed."""
    if ref is None or said is None:
        return GpuRoofs(gpu_id, (), (), ())
    roofs = listed(roofs_of(said.verdict, ref.body, reports), asked.only)
    return roofs if asked.span.since is None else measured_since(roofs, asked.span.since)


def _drawn(session: Session, asked: ListRequest, ref: EvaluationRef, entries: Sequence[_Entry]) -> Drawn:
    """Gpus for the charts: all, or of many those that are accused, with quantiles for the others."""
    is_complete = len(entries) <= MOST_DRAWN
    accused = [entry for entry in entries[:_MOST_ACCUSED_DRAWN] if entry.severity < NOT_ACCUSED]
    chosen = entries if is_complete else accused
    locations = locations_of_gpus(session, [entry.row for entry in chosen], asked.span, is_past=asked.is_past)
    gpus = _drawn_gpus(session, asked, ref, [locations[entry.row] for entry in chosen if entry.row in locations])
    figures = ref.body.figures
    cohorts = () if is_complete or figures is None else figures.cohorts
    return Drawn(
        gpus=gpus,
        summaries=summaries_of(session, ref, gpu_ids=[gpu.location.gpu_id for gpu in gpus]),
        listed=len(entries),
        is_complete=is_complete,
        quantiles=tuple(own for own in cohorts if asked.only.takes_roof(own.roof)),
    )


def _drawn_gpus(
    session: Session, asked: ListRequest, ref: EvaluationRef, locations: Sequence[GpuLocation]
) -> tuple[ListedGpu, ...]:
    order = order_of(session, ref)
    columns = columns_of(session, ref, judged_cohorts(ref.body)) or {}
    peers = cohort_distributions(ref.body)
    return tuple(
        ListedGpu(own, listed(drawn_roofs(own.gpu_id, order.places[own.row], columns, ref.body, peers), asked.only))
        for own in locations
        if own.row in order.places
    )
