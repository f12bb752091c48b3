"""The fleet as a map: cluster, rack, node and gpu, coloured by deviation only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from fleetridge.quantities import signed_percent
from fleetridge_server.drawing.frame import empty, framed, top_of
from fleetridge_server.drawing.heatmap_cells import (
    HATCHED,
    HOLLOW,
    SHADES,
    PlacedCell,
    cell_mark,
    cells_of,
    hatch,
    named_cells,
    node_markup,
)
from fleetridge_server.drawing.heatmap_chart import HeatCell, HeatCluster, HeatMap, HeatNode, HeatRack
from fleetridge_server.drawing.heatmap_places import PlacedHead, places_of
from fleetridge_server.drawing.layout import Layout
from fleetridge_server.drawing.legend import Key, Sample, legend
from fleetridge_server.drawing.placing import fitted
from fleetridge_server.drawing.shapes import Look, look_of
from fleetridge_server.drawing.svg import coordinate as c
from fleetridge_server.drawing.svg import path, words

__all__ = ["HeatCell", "HeatCluster", "HeatMap", "HeatNode", "HeatRack", "heatmap_svg"]

_MOST_SPOKEN = 8


def heatmap_svg(chart: HeatMap, layout: Layout = Layout.WIDE) -> str:
    """
    One cell for each gpu; a healthy fleet is nearly blank.

    A node's plain cells are one link to its page; a gpu that stands out is a framed mark with the sign of its state.
    """
    if not chart.cells:
        return empty(chart.title, "No gpu has reported yet.", layout)
    places = places_of(chart, top_of(chart.title, layout), layout)
    cells = [own for placed in places.nodes for own in cells_of(placed, places.grid)]
    noted = named_cells(cells)
    named = frozenset(id(own.cell) for own in noted)
    key, bottom = legend(_keys(chart.cells, noted), places.end, layout)
    parts = (
        *(_cluster_head(head, cluster) for head, cluster in zip(places.clusters, chart.clusters, strict=True)),
        *(words(fitted(head.name, head.width), head.x, head.y, "fr-tick") for head in places.racks if head.name),
        *(node_markup(placed, places.grid, named) for placed in places.nodes),
        *(cell_mark(own, places.grid.cell, layout) for own in noted),
        key,
    )
    return framed(chart.title, _description(chart), layout, bottom, parts)


def _cluster_head(head: PlacedHead, cluster: HeatCluster) -> str:
    count = len(cluster.cells)
    return words(
        fitted(f"{cluster.name}, {count} gpu{'' if count == 1 else 's'}", head.width), head.x, head.y, "fr-strong"
    )


def _keys(cells: Sequence[HeatCell], noted: Sequence[PlacedCell]) -> list[Key]:
    keys = [Key(_swatch(f"fr-h{number}"), text) for number, text in enumerate(_shade_words())]
    looks = {look.word: look for look in (look_of(own.cell.gpu.state) for own in noted)}
    keys += [Key(_framed_sample(look), word) for word, look in sorted(looks.items())]
    states = {cell.gpu.state for cell in cells}
    if states & HATCHED:
        keys.append(Key(_hatched_sample, " or ".join(sorted(str(state) for state in states & HATCHED))))
    if states & HOLLOW:
        keys.append(Key(_swatch("fr-hollow"), " or ".join(sorted(str(state) for state in states & HOLLOW))))
    return keys


def _shade_words() -> list[str]:
    percents = [f"{100 * loss:g}" for loss in SHADES]
    between = [f"{low}–{high} %" for low, high in pairwise(percents)]
    return [f"less than {percents[0]} % below the median", *between, f"{percents[-1]} % or more"]


def _swatch(kind: str) -> Sample:
    return lambda x, y: path(kind, [f"M{c(x - 6)} {c(y - 6)}h12v12h-12z"])


def _hatched_sample(x: float, y: float) -> str:
    return _swatch("fr-h0")(x, y) + path("fr-hatch", [hatch(x - 6, y - 6, 12)])


def _framed_sample(look: Look) -> Sample:
    kind = "fr-sign" if look.kind == "fr-accused" else "fr-sign-open"
    return lambda x, y: _swatch("fr-framed fr-blank")(x, y) + look.draw(kind, x, y, 4)


def _description(chart: HeatMap) -> str:
    states = Counter(str(cell.gpu.state or "not judged").replace("_", " ") for cell in chart.cells)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    known = [cell for cell in chart.cells if cell.deviation is not None and cell.gpu.state != "ok"]
    worst = sorted(known, key=lambda cell: (cell.deviation or 0.0, cell.gpu.label))[:_MOST_SPOKEN]
    named = ", ".join(f"{cell.gpu.label} {signed_percent(cell.deviation)}" for cell in worst)
    return f"{len(chart.cells)} gpus: {counted}. {f'Lowest: {named}.' if named else ''}".strip()
