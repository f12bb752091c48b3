"""The gpus of a device, worst first, as one evaluation says; filters choose which are listed and change no number."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan, nan
from uuid import UUID

from sqlalchemy.orm import Session

from fleetridge_server.db.tables import Device
from fleetridge_server.engine.cohort import Span
from fleetridge_server.engine.evidence import FactorName
from fleetridge_server.engine.ridge import Filter, GpuRoofs, listed, measured_since
from fleetridge_server.evaluation.figures import filtered_figures
from fleetridge_server.evaluation.judgement import evaluation_for
from fleetridge_server.fleet.locations import GpuLocation, Where, gpu_rows_there, locations_of_gpus
from fleetridge_server.fleet.reports import ReportReadings, newest_unjudged, readings_of
from fleetridge_server.http.parameters import Position, page
from fleetridge_server.responses.verdict import (
    Drawn,
    ListedGpu,
    cohort_distributions,
    cohorts_under,
    drawn_roofs,
    judged_cohorts,
    newest_reports,
    roofs_of,
)
from fleetridge_server.verdicts.fleet_order import (
    NOT_ACCUSED,
    FleetOrder,
    Losses,
    by_loss,
    microseconds,
    ranked,
    worst_losses,
)
from fleetridge_server.verdicts.roof_shapes import FleetBandwidth, FleetRidge
from fleetridge_server.verdicts.stored import (
    DatedVerdict,
    EvaluationRef,
    columns_of,
    order_of,
    stored_evaluation,
    summaries_of,
    verdicts_of,
)

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
class GpuList:
    """
    One page of a list, with the evaluation that it rests on and the figures of the whole device.

    Attributes:
        as_of: of its numbers: of a page that goes on under a newer evaluation not before that one.
    """

    ref: EvaluationRef | None
    as_of: datetime
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


@dataclass(frozen=True, slots=True)
class _Ranking:
    """All gpus of an evaluation (None: made for this answer) that the filters take, worst first, and their losses."""

    evaluation_id: int | None
    order: FleetOrder
    places: Sequence[int]
    losses: Losses

    def entries(self, first: int, most: int) -> list[_Entry]:
        """Some of them."""
        return [self._entry(offset) for offset in range(first, min(first + most, len(self.places)))]

    def accused(self, most: int) -> list[_Entry]:
        """Those that are accused, which come first."""
        return [entry for entry in self.entries(0, most) if entry.severity < NOT_ACCUSED]

    def after(self, position: Position) -> int:
        """Offset of the first gpu after one that was given; where its order is gone, after where it would stand."""
        if position.severity is None or position.severity >= _NOT_EVALUATED:
            return len(self.places)
        rank, place = (position.severity, *by_loss(position.loss)), position.place
        if position.evaluation != self.evaluation_id:
            place = self._place_of(position.name, rank)
        return bisect_right(range(len(self.places)), (rank, -1 if place is None else place), key=self._rank)

    def _place_of(self, name: str, rank: tuple[int, bool, float]) -> int | None:
        """
        Place of a gpu that still has this rank in another order.

        Of gpus that are equally bad those after it come next; where it is not among them any more all do, sooner again
        than never.
        """
        place = self.order.places.get(int(name)) if name.isdecimal() else None
        if place is None:
            return None
        loss = self.losses[place]
        own = self.order.severities[place], *by_loss(None if isnan(loss) else loss)
        return place if own == rank else None

    def _entry(self, offset: int) -> _Entry:
        place = self.places[offset]
        loss = self.losses[place]
        return _Entry(self.order.rows[place], place, self.order.severities[place], None if isnan(loss) else loss)

    def _rank(self, offset: int) -> tuple[tuple[int, bool, float], int]:
        entry = self._entry(offset)
        return (entry.severity, *by_loss(entry.loss)), entry.place


def gpu_list(session: Session, asked: ListRequest) -> GpuList:
    """A page of the gpus of a device, worst first. Raises ProblemError: 422, the position is of another list."""
    ref = evaluation_for(session, asked.device.id, asked.span, explicit=asked.is_past)
    began = None if ref is None else _began(session, asked, ref)
    ranking = None if began is None else _ranking(session, asked, ref, began)
    left: list[_Entry] = []
    if ranking is not None:
        first = 0 if asked.position is None else ranking.after(asked.position)
        left = ranking.entries(first, asked.limit + 1)
    if len(left) <= asked.limit and _takes_unknown(asked):
        left += _unknown(session, asked, ref, ranking)
    evaluation_id = None if ranking is None else ranking.evaluation_id
    shown, following = page(left, asked.limit, lambda entry: _position(entry, asked, evaluation_id))
    as_of = asked.span.as_of if ref is None else max(asked.span.as_of, ref.as_of)
    figures = None if ref is None else ref.body.figures
    ridges, bandwidths = ((), ()) if figures is None else filtered_figures(figures, asked.only)
    return GpuList(
        ref=ref,
        as_of=as_of,
        ridges=ridges,
        bandwidths=bandwidths,
        shown=_shown(session, asked, ref, [entry.row for entry in shown], as_of),
        next=following,
        drawn=Drawn() if ref is None or ranking is None or not asked.drawn else _drawn(session, asked, ref, ranking),
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


def _ranking(session: Session, asked: ListRequest, ref: EvaluationRef | None, began: EvaluationRef) -> _Ranking:
    order = order_of(session, began)
    places = _places(session, asked, ref, order)
    losses = _losses(session, began, asked.only) if asked.only.is_set else None
    if losses is not None:
        return _Ranking(began.evaluation_id, order, ranked(order, losses, places), losses)
    return _Ranking(began.evaluation_id, order, range(len(order)) if places is None else places, order.losses)


def _places(session: Session, asked: ListRequest, ref: EvaluationRef | None, order: FleetOrder) -> list[int] | None:
    """Places in the order that the filters on gpus take, ascending; None for all."""
    chosen: list[set[int]] = []
    if asked.states is not None:
        chosen.append(set(order.in_states(asked.states)))
    if asked.driver is not None:
        chosen.append(order.with_level(_DRIVER, asked.driver))
    if asked.where.is_set:
        there = _there(session, asked, ref)
        chosen.append({order.places[row] for row in there if row in order.places})
    if asked.span.since is not None:
        since = microseconds(asked.span.since)
        chosen.append({place for place, at in enumerate(order.measured_at) if at >= since})
    return sorted(set.intersection(*chosen)) if chosen else None


def _there(session: Session, asked: ListRequest, ref: EvaluationRef | None) -> dict[int, str]:
    by_verdict = not asked.is_past if ref is None else ref.is_current
    return gpu_rows_there(
        session, asked.device.id, asked.span, asked.where, is_past=asked.is_past, by_verdict=by_verdict
    )


def _losses(session: Session, ref: EvaluationRef, only: Filter) -> Losses | None:
    """
    Largest loss of each gpu over the roofs that a filter takes.

    None where the evaluation is so old that only the order over all roofs is kept.
    """
    columns = columns_of(session, ref, cohorts_under(ref.body, only))
    if columns is None:
        return None
    return worst_losses(ref.body, columns, only) if columns else [nan] * len(order_of(session, ref))


def _takes_unknown(asked: ListRequest) -> bool:
    """Whether gpus of which the evaluation knows nothing are listed: no filter asks for what they do not have."""
    return asked.states is None and asked.driver is None and asked.span.since is None and not asked.only.is_set


def _unknown(session: Session, asked: ListRequest, ref: EvaluationRef | None, ranking: _Ranking | None) -> list[_Entry]:
    """Gpus that the evaluation does not know, by id: new ones, and those that are retired."""
    there = _there(session, asked, ref)
    known = {} if ranking is None else ranking.order.places
    position = asked.position
    reached = position.name if position is not None and position.severity == _NOT_EVALUATED else ""
    found = sorted((gpu_id, row) for row, gpu_id in there.items() if row not in known and gpu_id > reached)
    return [_Entry(row, 0, _NOT_EVALUATED, None, gpu_id) for gpu_id, row in found]


def _position(entry: _Entry, asked: ListRequest, evaluation_id: int | None) -> Position:
    return Position(
        of_list=asked.of_list,
        as_of=asked.span.as_of,
        asked=asked.is_past,
        name=entry.gpu_id or str(entry.row),
        severity=entry.severity,
        loss=entry.loss,
        place=entry.place,
        evaluation=evaluation_id,
    )


def _shown(
    session: Session, asked: ListRequest, ref: EvaluationRef | None, rows: Sequence[int], as_of: datetime
) -> tuple[ListedGpu, ...]:
    """Some gpus with all that is said of them, in their order."""
    locations = locations_of_gpus(session, rows, asked.span, is_past=asked.is_past)
    gpu_ids = [locations[row].gpu_id for row in rows if row in locations]
    said = {} if ref is None else verdicts_of(session, ref, gpu_ids)
    only_states = ref is not None and not ref.has_verdicts
    summaries = summaries_of(session, ref, gpu_ids=gpu_ids) if ref is not None and only_states else {}
    reports = readings_of(session, {report for own in said.values() for report in newest_reports(own.verdict)})
    waiting = [] if asked.is_past and ref is not None and ref.unstored is not None else [*locations.values()]
    unjudged = newest_unjudged(session, waiting, None if ref is None else ref.judged_until, as_of)
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


def _drawn(session: Session, asked: ListRequest, ref: EvaluationRef, ranking: _Ranking) -> Drawn:
    """Gpus for the charts: all, or of many those that are accused, with quantiles for the others."""
    count = len(ranking.places)
    is_complete = count <= MOST_DRAWN
    chosen = ranking.entries(0, MOST_DRAWN) if is_complete else ranking.accused(_MOST_ACCUSED_DRAWN)
    locations = locations_of_gpus(session, [entry.row for entry in chosen], asked.span, is_past=asked.is_past)
    gpus = _drawn_gpus(session, asked, ref, [locations[entry.row] for entry in chosen if entry.row in locations])
    figures = ref.body.figures
    cohorts = () if is_complete or figures is None else figures.cohorts
    return Drawn(
        gpus=gpus,
        summaries=summaries_of(session, ref, gpu_ids=[gpu.location.gpu_id for gpu in gpus]),
        # New ones are listed, too, and those in quarantine are not, whatever the evaluation knows.
        listed=len(_there(session, asked, ref)) if _takes_unknown(asked) else count,
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
