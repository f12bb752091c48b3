"""The page that compares groups of one device: before and after a change, one group with another."""

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from fleetridge_server.api.comparisons import FACTORS, ComparisonQuery, read_comparison
from fleetridge_server.db.database import Database
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.wording import roof_words, value_words
from fleetridge_server.fleet.find import DeviceChoices, device_choices
from fleetridge_server.http.parameters import OpenDatabase
from fleetridge_server.responses.comparison import Comparison, RoofComparison
from fleetridge_server.text.words import differing_conditions
from fleetridge_server.web.charts.comparison import (
    ComparedGroup,
    ComparedRoof,
    ComparisonChart,
    PairedChange,
    comparison_svg,
)
from fleetridge_server.web.charts.svg import inline_chart
from fleetridge_server.web.forms import kept, query_of, visitor_of, written
from fleetridge_server.web.rendering import Frame, Links, html, picture
from fleetridge_server.web.words import Filters, choices, factor_words

router = APIRouter(include_in_schema=False)

_DEFAULT_BY = "driver"
_VOWELS = frozenset("aeiou")


@dataclass(frozen=True, slots=True)
class ComparePage:
    """What the page shows; `is_paired`: gpus met a change of the factor themselves. The chart may be empty."""

    answer: Comparison
    by: str
    is_paired: bool
    names: tuple[str, ...]
    filters: Filters
    keeps: tuple[tuple[str, str], ...]
    chart: str
    chart_href: str

    def level(self, value: str) -> str:
        """A level with its unit."""
        return value_words(self.answer.by, value)


@router.get("/ui/devices/{name:path}/compare.svg")
def get_comparison_chart(request: Request, database: OpenDatabase, name: str) -> Response:
    """The chart alone."""
    answer = read_comparison(database, name, query_of(request, ComparisonQuery, by=_DEFAULT_BY))
    return picture(comparison_svg(comparison_chart(answer)))


@router.get("/ui/devices/{name:path}/compare")
def get_comparison_page(request: Request, database: OpenDatabase, name: str) -> Response:
    """Two groups of gpus of one device side by side, roof by roof."""
    query = query_of(request, ComparisonQuery, by=_DEFAULT_BY)
    answer = read_comparison(database, name, query)
    links = Links(simulated=query.cluster == SIMULATED, as_of=query.as_of)
    there = _choices(database, answer, links)
    shown = compare_page(answer, there, query, links)
    title = f"{answer.device.name} by {shown.by}"
    api = links.api("devices", answer.device.slug, "compare", **_given(query))
    return html("compare.html", Frame(title, links, answer.as_of, api, visitor_of(request)), shown)


def compare_page(answer: Comparison, there: DeviceChoices, query: ComparisonQuery, links: Links) -> ComparePage:
    """The page of a comparison that was read, as a template shows it."""
    clusters = (SIMULATED,) if links.simulated else there.clusters
    return ComparePage(
        answer=answer,
        by=factor_words(answer.by),
        is_paired=any(roof.kind == "paired" for roof in answer.roofs),
        names=_names(answer),
        filters={
            "by": choices((*FACTORS, "cluster"), query.by, any_word=None, word=factor_words),
            "cluster": choices(clusters, query.cluster, any_word=None if links.simulated else "any"),
            "dtype": choices(there.dtypes, query.dtype),
        },
        keeps=kept(query, "by", "cluster", "dtype"),
        chart=inline_chart(comparison_svg, comparison_chart(answer)) if answer.roofs else "",
        chart_href=links.device(answer.device.slug, "compare.svg", **_given(query)),
    )


def comparison_chart(answer: Comparison) -> ComparisonChart:
    """All roofs of an answer on one axis."""
    by = factor_words(answer.by)
    return ComparisonChart(
        title=f"{answer.device.name}: what {'an' if by[:1] in _VOWELS else 'a'} {by} does",
        roofs=tuple(_compared(roof, name, answer.by) for roof, name in zip(answer.roofs, _names(answer), strict=True)),
    )


def _compared(roof: RoofComparison, name: str, by: str) -> ComparedRoof:
    reference = next(group for group in roof.groups if group.level == roof.reference)
    return ComparedRoof(
        label=name,
        unit=roof.unit,
        reference=reference.values.median,
        paired=tuple(
            PairedChange(
                label=f"{value_words(by, own.before)} → {value_words(by, own.after)}",
                gpus=own.n,
                effect=own.effect,
                low=own.low,
                high=own.high,
            )
            for own in roof.paired
        ),
        groups=tuple(
            ComparedGroup(value_words(by, own.level), own.values, own.effect, own.low, own.high) for own in roof.groups
        ),
    )


def _names(answer: Comparison) -> tuple[str, ...]:
    """Roofs in words, with the conditions by which they differ."""
    conditions = differing_conditions(answer.roofs)
    return tuple(f"{roof_words(roof.roof)}{own}" for roof, own in zip(answer.roofs, conditions, strict=True))


def _given(query: ComparisonQuery) -> dict[str, str | int]:
    return {"by": query.by, **written(query)}


def _choices(database: Database, answer: Comparison, links: Links) -> DeviceChoices:
    with database.reading() as session:
        return device_choices(session, answer.device.slug, simulated=links.simulated)
