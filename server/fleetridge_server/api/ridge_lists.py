"""
The gpus of a device, worst first: by the newest evaluation, or compared anew for the answer.

Figures and order of now are the evaluation's, and only the gpus that are shown are looked at. For everything else
(`_stored`) all values of the device are read and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from fleetridge_server.answer.figure_schemas import CohortFigures, FleetFigures
from fleetridge_server.answer.figures import filtered_figures, live_cohorts, live_figures, peers_of
from fleetridge_server.answer.schemas import FleetBandwidth, FleetRidge
from fleetridge_server.api.evaluations import evaluation_for
from fleetridge_server.api.figures import stored_figures
from fleetridge_server.api.paging import Position, not_of_this_list, page
from fleetridge_server.compare.cohort import Cohort
from fleetridge_server.compare.cohort_values import CohortValues, peers_of_values, worst_deviations
from fleetridge_server.compare.ranking import NOT_ACCUSED, Rank, Standing, ranks, severity
from fleetridge_server.compare.ridge import Filter, GpuRoofs, compare_with, listed
from fleetridge_server.compare.span import Span
from fleetridge_server.compare.stats import Distribution
from fleetridge_server.store.cohort_values import cohort_values, gpus_measured_with
from fleetridge_server.store.current import kept_values, values_of_gpus
from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Device
from fleetridge_server.store.places import Where, gpus_there, places_now, places_of_gpus
from fleetridge_server.store.ranked_gpus import RankedGpu, RankedList, count_ranked, ranked_gpus
from fleetridge_server.store.told import Head, Told, heads, heads_of
from fleetridge_server.verdict.state import ACCUSING, UNUSABLE

# So many gpus a chart draws one by one; of more, those that are accused, and quantiles of all.
MOST_DRAWN = 1000
_MOST_ACCUSED_DRAWN = 200

# Sorting so many takes some thousandths of a second.
_MOST_SORTED = 5000


@dataclass(frozen=True, slots=True)
class Asked:
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
class Drawn:
    """
    What charts are made from.

    Attributes:
        gpus: to draw, worst first; heads: what is said of them in a line.
        listed: how many gpus the filters take.
        is_complete: whether `gpus` are all of them.
        quantiles: of all peers in each listed roof, where they are not.
    """

    gpus: tuple[Standing, ...] = ()
    heads: Mapping[str, Head] = field(default_factory=dict)
    listed: int = 0
    is_complete: bool = True
    quantiles: tuple[CohortFigures, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuList:
    """
    One page of a list.

    Attributes:
        told: the evaluation that it rests on.
        ridges, bandwidths: of the whole device.
        next: token of the next page.
    """

    told: Told | None
    ridges: tuple[FleetRidge, ...]
    bandwidths: tuple[FleetBandwidth, ...]
    shown: tuple[Standing, ...]
    next: str | None
    drawn: Drawn


def gpu_list(session: Session, asked: Asked) -> GpuList:
    """
    A page of the gpus of a device, worst first.

    Raises:
        ProblemError: 422, the position is of another list.
    """
    told = evaluation_for(session, asked.device.id, asked.span, explicit=asked.is_past)
    figures = _stored(asked, told)
    if told is None or figures is None:
        return _live(session, asked, told)
    return _of_evaluation(session, asked, replace(told, is_current=True), figures)


def _stored(asked: Asked, told: Told | None) -> FleetFigures | None:
    """
    The stored figures, where the list is in the order of an evaluation.

    It is not for a past time, nor with a filter that chooses by roofs or by when they were measured: each of those has
    an order of its own. A list that began without an evaluation goes on without one.
    """
    began = asked.position is None or asked.position.evaluation is not None
    by_roof = asked.only.is_set or asked.span.since is not None
    if asked.position is not None and asked.position.evaluation is not None and (asked.is_past or told is None):
        raise not_of_this_list()
    return stored_figures(told, asked=asked.is_past) if began and not by_roof else None


def _of_evaluation(session: Session, asked: Asked, told: Told, figures: FleetFigures) -> GpuList:
    began = told.evaluation_id if asked.position is None else asked.position.evaluation
    ranked = RankedList(
        population=Population(told.device_id, told.simulated),
        evaluation_id=began or 0,
        is_newest=began == told.evaluation_id,
        as_of=asked.span.as_of,
        where=asked.where,
        states=asked.states,
        driver=asked.driver,
        is_rare=_is_rare(asked.states, told),
    )
    found = ranked_gpus(session, ranked, after=_reached(asked.position), limit=asked.limit + 1)
    shown, following = page(found, asked.limit, lambda gpu: _position(gpu.rank, asked, began))
    ridges, bandwidths = filtered_figures(figures, asked.only)
    return GpuList(
        told=told,
        ridges=ridges,
        bandwidths=bandwidths,
        shown=_standings_of(session, asked, figures, shown),
        next=following,
        drawn=_drawn(session, asked, ranked, figures) if asked.drawn else Drawn(),
    )


def _is_rare(states: frozenset[str] | None, told: Told) -> bool:
    """Whether few gpus are in some states, or in those that may have been in one of them before."""
    if states is None:
        return False
    looked_at = sum(count for state, count in told.body.counts.items() if state in states or state in UNUSABLE)
    return looked_at <= _MOST_SORTED


def _standings_of(
    session: Session, asked: Asked, figures: FleetFigures, gpus: Sequence[RankedGpu]
) -> tuple[Standing, ...]:
    """Some gpus, each where it is and beside its peers."""
    device_id, span = asked.device.id, asked.span
    later = [gpu.row for gpu in gpus if gpu.last_seen is not None and gpu.last_seen > span.as_of]
    rows = [gpu.row for gpu in gpus if gpu.row not in later]
    values, found = kept_values(session, device_id, rows), places_now(session, rows)
    if later:
        values += values_of_gpus(session, device_id, later, span)
        found += places_of_gpus(session, later, span)
    places = {place.gpu_id: place for place in found}
    roofs = compare_with(values, peers_of(figures))
    return tuple(
        Standing(places[gpu_id], roofs.get(gpu_id) or GpuRoofs(gpu_id, (), (), ()), gpu.rank)
        for gpu in gpus
        if (gpu_id := gpu.rank.gpu_id) in places
    )


def _drawn(session: Session, asked: Asked, ranked: RankedList, figures: FleetFigures) -> Drawn:
    gpus = ranked_gpus(session, ranked, after=None, limit=MOST_DRAWN + 1)
    is_complete = len(gpus) <= MOST_DRAWN
    if not is_complete:
        gpus = ranked_gpus(session, ranked, after=None, limit=_MOST_ACCUSED_DRAWN, accused_only=True)
    return Drawn(
        gpus=_standings_of(session, asked, figures, gpus),
        heads={gpu.head.gpu_id: gpu.head for gpu in gpus if gpu.head is not None},
        listed=len(gpus) if is_complete else count_ranked(session, ranked),
        is_complete=is_complete,
        quantiles=() if is_complete else tuple(own for own in figures.cohorts if asked.only.takes_roof(own.roof)),
    )


def _live(session: Session, asked: Asked, told: Told | None) -> GpuList:
    values = cohort_values(session, asked.device.id, asked.span, asked.only, betas=True)
    peers = peers_of_values(values)
    gpus = _ranks(session, asked, told, worst_deviations(values, peers, asked.only))
    left, reached = gpus, _reached(asked.position)
    if reached is not None:
        left = [gpu for gpu in gpus if gpu[0] > reached]
    shown, following = page(left, asked.limit, lambda gpu: _position(gpu[0], asked, None))
    ridges, bandwidths = live_figures(values, peers, asked.only, asked.device.name)
    drawn = Drawn()
    if asked.drawn:
        drawn = _live_drawn(session, asked, told, gpus, values)
    return GpuList(told, ridges, bandwidths, _live_standings(session, asked, shown, peers), following, drawn)


def _ranks(
    session: Session, asked: Asked, told: Told | None, deviations: Mapping[int, float]
) -> list[tuple[Rank, int]]:
    """Gpus to list with their rows, worst first."""
    gpus = gpus_there(session, asked.device.id, asked.span, asked.where)
    if asked.driver is not None:
        chosen = gpus_measured_with(session, asked.device.id, asked.span, asked.driver)
        gpus = {row: gpu_id for row, gpu_id in gpus.items() if row in chosen}
    # Of those that are accused; where verdicts are asked for, of those that have one of them.
    said = {} if told is None else heads(session, told, states=asked.states or ACCUSING)
    if asked.states is not None:
        gpus = {row: gpu_id for row, gpu_id in gpus.items() if gpu_id in said}
    severities = {gpu_id: severity(head.state, head.last_state) for gpu_id, head in said.items()}
    measured_only = asked.only.is_set or asked.span.since is not None
    return ranks(gpus, deviations, severities, measured_only=measured_only)


def _live_standings(
    session: Session, asked: Asked, gpus: Sequence[tuple[Rank, int]], peers: Mapping[Cohort, Distribution]
) -> tuple[Standing, ...]:
    """Some gpus, each where it is and beside its peers, in the roofs that are listed."""
    rows = [row for _, row in gpus]
    places = {place.gpu_id: place for place in places_of_gpus(session, rows, asked.span)}
    roofs = compare_with(values_of_gpus(session, asked.device.id, rows, asked.span), peers)
    return tuple(
        Standing(
            places[rank.gpu_id],
            listed(roofs.get(rank.gpu_id) or GpuRoofs(rank.gpu_id, (), (), ()), asked.only),
            rank,
        )
        for rank, _ in gpus
    )


def _live_drawn(
    session: Session, asked: Asked, told: Told | None, gpus: Sequence[tuple[Rank, int]], values: CohortValues
) -> Drawn:
    peers, is_complete = peers_of_values(values), len(gpus) <= MOST_DRAWN
    drawn = gpus if is_complete else [own for own in gpus[:_MOST_ACCUSED_DRAWN] if own[0].severity < NOT_ACCUSED]
    return Drawn(
        gpus=_live_standings(session, asked, drawn, peers),
        heads={} if told is None else heads_of(session, told, [rank.gpu_id for rank, _ in drawn]),
        listed=len(gpus),
        is_complete=is_complete,
        quantiles=() if is_complete else live_cohorts(values, peers, asked.only),
    )


def _reached(position: Position | None) -> Rank | None:
    if position is None:
        return None
    severity_then = NOT_ACCUSED if position.severity is None else position.severity
    return Rank(severity_then, position.deviation is None, position.deviation or 0.0, position.name)


def _position(rank: Rank, asked: Asked, evaluation_id: int | None) -> Position:
    return Position(
        of_list=asked.of_list,
        as_of=asked.span.as_of,
        asked=asked.is_past,
        name=rank.gpu_id,
        severity=rank.severity,
        deviation=None if rank.unmeasured else rank.deviation,
        evaluation=evaluation_id,
    )
