"""The page that compares groups of one device: before and after a change, one group with another."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from fleetridge_server.answer.comparison_schemas import Comparison
from fleetridge_server.api.comparisons import FACTORS, ComparisonQuery, read_comparison
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.compare.roof_words import roof_words
from fleetridge_server.compare.span import SIMULATED
from fleetridge_server.pages.asking import query_of
from fleetridge_server.pages.forms import visitor_of
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.rendering import Frame, html
from fleetridge_server.pages.words import Choice, choices, state_word
from fleetridge_server.store.database import Database
from fleetridge_server.store.device_choices import DeviceChoices, device_choices
from fleetridge_server.text.words import differing_conditions
from fleetridge_server.verdict.reading_words import reading_words, value_words

router = APIRouter(include_in_schema=False)

_DEFAULT_BY = "driver"


@dataclass(frozen=True, slots=True)
class ComparePage:
    """
    What the page shows.

    Attributes:
        by: the factor in words; `is_paired` whether gpus met a change of it themselves.
        names: of the roofs of the answer, with the conditions by which they differ.
    """

    answer: Comparison
    by: str
    is_paired: bool
    names: tuple[str, ...]
    filters: tuple[tuple[str, str, tuple[Choice, ...]], ...]
    device_href: str

    def level(self, value: str) -> str:
        """A level with its unit."""
        return value_words(self.answer.by, value)


@router.get("/ui/devices/{name:path}/compare")
def get_comparison_page(request: Request, database: OpenDatabase, name: str) -> Response:
    """The page."""
    query = query_of(request, ComparisonQuery, by=_DEFAULT_BY)
    answer = read_comparison(database, name, query)
    links = Links(simulated=query.cluster == SIMULATED, as_of=query.as_of)
    there = _choices(database, answer, links)
    given = {"by": query.by, "cluster": query.cluster, "dtype": query.dtype, "regime": query.regime}
    sent = {name: value for name, value in given.items() if value is not None}
    shown = compare_page(answer, there, query, links)
    title = f"{answer.device.name} by {shown.by}"
    api = links.api("devices", answer.device.slug, "compare", **sent)
    return html("compare.html", Frame(title, links, answer.as_of, api, visitor_of(request)), shown)


def compare_page(answer: Comparison, there: DeviceChoices, query: ComparisonQuery, links: Links) -> ComparePage:
    """The page."""
    conditions = differing_conditions(answer.roofs)
    clusters = (SIMULATED,) if links.simulated else there.clusters
    return ComparePage(
        answer=answer,
        by=factor_words(answer.by),
        is_paired=any(roof.kind == "paired" for roof in answer.roofs),
        names=tuple(f"{roof_words(roof.roof)}{own}" for roof, own in zip(answer.roofs, conditions, strict=True)),
        filters=(
            ("by", "by", choices((*FACTORS, "cluster"), query.by, any_word=None, word=factor_words)),
            ("cluster", "cluster", choices(clusters, query.cluster, any_word=None if links.simulated else "any")),
            ("dtype", "dtype", choices(there.dtypes, query.dtype)),
        ),
        device_href=links.device(answer.device.slug),
    )


def factor_words(by: str) -> str:
    """A factor as people write it."""
    return f"label {by.removeprefix('label:')}" if by.startswith("label:") else state_word(reading_words(by))


def _choices(database: Database, answer: Comparison, links: Links) -> DeviceChoices:
    with database.reading() as session:
        return device_choices(session, answer.device.slug, simulated=links.simulated)
