"""The page of one device: what its gpus reach, and which of them are slower than their peers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from fleetridge_server.api.comparisons import FACTORS
from fleetridge_server.api.devices import RidgeQuery, read_ridge
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.gpu_state import STATES
from fleetridge_server.fleet.find import DeviceChoices, device_choices
from fleetridge_server.http.parameters import OpenDatabase, states_of
from fleetridge_server.problems import ProblemError
from fleetridge_server.responses.device import DeviceRidge, GpuRow
from fleetridge_server.responses.fleet import TROUBLED
from fleetridge_server.responses.verdict import VerdictShown
from fleetridge_server.text.words import differing_conditions
from fleetridge_server.web.charts.distribution import distribution_svg
from fleetridge_server.web.charts.roofline import roofline_svg
from fleetridge_server.web.charts.strip import strip_svg
from fleetridge_server.web.charts.svg import inline_chart
from fleetridge_server.web.device_charts import (
    DeviceCharts,
    device_charts,
    distribution_chart,
    roofline_chart,
    strip_chart,
)
from fleetridge_server.web.forms import kept, query_of, visitor_of, written
from fleetridge_server.web.rendering import Frame, Links, html, picture
from fleetridge_server.web.words import (
    Filters,
    StateShown,
    Tile,
    choices,
    factor_words,
    few_peers_words,
    gpu_label,
    loss_words,
    state_word,
    tiles,
)

router = APIRouter(include_in_schema=False)

_MOST_WORST = 5

_DeviceChart = TypeVar("_DeviceChart")


@dataclass(frozen=True, slots=True)
class GpuLine:
    """A gpu of the list; `loss` as its verdict says, else its deviation from all peers."""

    row: GpuRow
    label: str
    href: str
    shown: StateShown | None
    loss: str
    says: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart on a page, and as a file."""

    svg: str
    href: str


@dataclass(frozen=True, slots=True)
class DevicePage:
    """
    What the page shows.

    Attributes:
        worst: the first gpus of the list that need a look, and how many more there are on this page of it.
        conditions: by which groups of the same roof differ, for each ridge of the answer.
        dtype: that single charts are about.
        listed: gpus that the filters take, on all pages of the list.
        is_filtered: whether that is not all of them.
        few_peers: note where there are too few gpus to compare them with each other.
        never_seen_href: nodes on which gpus of the verdict that is asked for are expected, where none ever reported.
    """

    answer: DeviceRidge
    tiles: tuple[Tile, ...]
    worst: tuple[GpuLine, ...]
    more_to_look_at: int
    lines: tuple[GpuLine, ...]
    conditions: tuple[str, ...]
    dtype: str | None
    listed: int
    is_filtered: bool
    few_peers: str
    never_seen_href: str | None
    filters: Filters
    keeps: tuple[tuple[str, str], ...]
    roofline: Picture | None
    strips: Picture | None
    distribution: Picture | None
    compares: tuple[tuple[str, str], ...]
    next_href: str | None
    first_href: str | None


@router.get("/ui/devices/{name:path}/roofline.svg")
def get_roofline(request: Request, database: OpenDatabase, name: str) -> Response:
    """The roofline alone."""
    _, subject = _asked(request, database, name)
    return picture(roofline_svg(roofline_chart(subject)))


@router.get("/ui/devices/{name:path}/strips.svg")
def get_strips(request: Request, database: OpenDatabase, name: str) -> Response:
    """The strips alone."""
    _, subject = _asked(request, database, name)
    return picture(strip_svg(strip_chart(subject)))


@router.get("/ui/devices/{name:path}/distribution.svg")
def get_distribution(request: Request, database: OpenDatabase, name: str) -> Response:
    """The distribution alone."""
    _, subject = _asked(request, database, name)
    chart = distribution_chart(subject)
    if chart is None:
        raise ProblemError(
            404, "nothing_measured", "There is nothing to draw", "no gpu of this device was measured yet"
        )
    return picture(distribution_svg(chart))


@router.get("/ui/devices/{name:path}")
def get_device_page(request: Request, database: OpenDatabase, name: str) -> Response:
    """A device: the fleet on its roofline, strips by roof, gpus worst first."""
    query, subject = _asked(request, database, name)
    answer = subject.answer
    with database.reading() as session:
        there = device_choices(session, answer.device.slug, simulated=subject.links.simulated)
    shown = device_page(subject, there, query)
    api = subject.links.api("devices", answer.device.slug, "ridge", **written(query))
    frame = Frame(answer.device.name, subject.links, answer.as_of, api, visitor_of(request))
    return html("device.html", frame, shown)


def device_page(subject: DeviceCharts, there: DeviceChoices, query: RidgeQuery) -> DevicePage:
    """The page: what was found, what filters can choose from, and what was asked for."""
    answer, links, slug = subject.answer, subject.links, subject.answer.device.slug
    given = written(query)
    lines = tuple(_line(row, links) for row in answer.gpus)
    troubled = tuple(line for line in lines if line.shown is not None and line.shown.state in TROUBLED)
    others = {name: value for name, value in given.items() if name != "verdict"}
    chart_query = {name: value for name, value in given.items() if name not in ("limit", "after")}
    histogram = distribution_chart(subject)
    return DevicePage(
        answer=answer,
        tiles=tiles(answer.verdicts, lambda state: links.device(slug, verdict=state, **others), query.verdict),
        worst=troubled[:_MOST_WORST],
        more_to_look_at=len(troubled[_MOST_WORST:]),
        lines=lines,
        conditions=tuple(differing_conditions(answer.ridges)),
        dtype=subject.dtype,
        listed=subject.listed,
        is_filtered=bool(chart_query.keys() - {"cluster", "as_of"}) or query.cluster not in (None, SIMULATED),
        few_peers=few_peers_words(max((ridge.peers for ridge in answer.ridges), default=0)),
        never_seen_href=_never_seen(subject, query),
        filters=_filters(there, query, simulated=links.simulated),
        keeps=kept(query, "dtype", "cluster", "driver", "verdict"),
        roofline=_picture(roofline_svg, roofline_chart(subject), links.device(slug, "roofline.svg", **chart_query))
        if answer.ridges
        else None,
        strips=_picture(strip_svg, strip_chart(subject), links.device(slug, "strips.svg", **chart_query))
        if answer.ridges or answer.bandwidths
        else None,
        distribution=None
        if histogram is None
        else _picture(distribution_svg, histogram, links.device(slug, "distribution.svg", **chart_query)),
        compares=tuple((factor_words(by), links.device(slug, "compare", by=by)) for by in (*FACTORS, "cluster")),
        next_href=None if answer.next is None else links.device(slug, **{**given, "after": answer.next}),
        first_href=links.device(slug, **{**given, "after": None}) if query.after is not None else None,
    )


def _asked(request: Request, database: Database, name: str) -> tuple[RidgeQuery, DeviceCharts]:
    query = query_of(request, RidgeQuery)
    links = Links(simulated=query.cluster == SIMULATED, as_of=query.as_of)
    return query, device_charts(read_ridge(database, name, query, drawn=True), links)


def _never_seen(subject: DeviceCharts, query: RidgeQuery) -> str | None:
    """Where gpus are expected that are counted and, as they never reported, in no list."""
    asked = states_of(query.verdict) or frozenset()
    counted = any(gpus for state, gpus in subject.answer.verdicts.items() if state in asked)
    return subject.links.nodes(verdict=query.verdict) if counted and not subject.listed else None


def _picture(draw: Callable[..., str], chart: _DeviceChart, href: str) -> Picture:
    return Picture(inline_chart(draw, chart), href)


def _line(row: GpuRow, links: Links) -> GpuLine:
    verdict, worst = row.verdict, row.worst
    first = verdict.reasons[0] if verdict is not None and verdict.reasons else None
    loss = None if verdict is None else verdict.loss
    if loss is None and worst is not None:
        loss = -worst.deviation
    unmeasured = "" if row.outcome in (None, "measured") else f"{row.outcome}: {state_word(row.reason or 'no reason')}"
    return GpuLine(
        row=row,
        label=gpu_label(row.node, row.index, row.gpu_id),
        href=links.gpu(row.gpu_id),
        shown=None if verdict is None else StateShown(verdict.state, verdict.last_state),
        loss=loss_words(loss),
        says=first.text if first is not None else unmeasured or _said(verdict),
        next_step="" if verdict is None else verdict.next_step or "",
    )


def _said(verdict: VerdictShown | None) -> str:
    """A verdict in words, where they say more than its state does."""
    return "" if verdict is None or (verdict.state == "ok" and not verdict.flags) else verdict.text


def _filters(there: DeviceChoices, query: RidgeQuery, *, simulated: bool) -> Filters:
    clusters: Iterable[str] = (SIMULATED,) if simulated else there.clusters
    return {
        "dtype": choices(there.dtypes, query.dtype),
        "cluster": choices(clusters, query.cluster, any_word=None if simulated else "any"),
        "driver": choices(there.drivers, query.driver),
        "verdict": choices(STATES, query.verdict, word=state_word),
    }
