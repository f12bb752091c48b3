"""The fleet as a map of cells."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetridge.quantities import signed_percent
from fleetridge_server.engine.gpu_state import State
from fleetridge_server.engine.wording import counted
from fleetridge_server.web.charts import svg
from fleetridge_server.web.charts.axes import fitted, squeezed
from fleetridge_server.web.charts.heatmap_layout import (
    Grid,
    HeatCell,
    HeatCluster,
    HeatMap,
    PlacedHead,
    PlacedNode,
    places_of,
)
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import MarkStyle, Spot, checked_href, is_noted, mark, mark_style

# Losses from which a cell is one shade darker. Noise between healthy gpus stays below the first two: 3 % is the least
# that a verdict calls a loss.
SHADES = (0.01, 0.03, 0.06, 0.10, 0.20)

# Nothing recent was measured undisturbed; what is known is old.
HATCHED: frozenset[State | None] = frozenset({"stale", "contended"})
# Nothing was measured at all.
HOLLOW: frozenset[State | None] = frozenset({"missing", "unmeasured"})

# A map with more accusations than this says one thing only, and needs no names for it.
_MOST_NAMED = 400
_SMALL_CELL = 10
# Smaller signs are specks.
_LEAST_MARK = 13


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """A gpu and the upper left corner of its cell."""

    cell: HeatCell
    x: int
    y: int


def shade(cell: HeatCell) -> str:
    """Class of a cell's colour, by its loss alone."""
    loss = 0.0 if cell.deviation is None else max(0.0, -cell.deviation)
    return f"fr-h{bisect_right(SHADES, loss)}"


def cells_of(placed: PlacedNode, grid: Grid) -> list[PlacedCell]:
    """Cells of a node in rows."""
    return [
        PlacedCell(cell, placed.x + number % grid.columns * grid.cell, placed.y + number // grid.columns * grid.cell)
        for number, cell in enumerate(placed.node.cells)
    ]


def named_cells(cells: Iterable[PlacedCell]) -> list[PlacedCell]:
    """Cells that are marks of their own, worst last, so that nothing covers them."""
    noted = [own for own in cells if is_noted(own.cell.gpu) or own.cell.gpu.state == "implausible"]
    return sorted(noted, key=lambda own: (_loss(own.cell), own.cell.gpu.label))[-_MOST_NAMED:]


def node_markup(placed: PlacedNode, grid: Grid, named: Collection[int]) -> str:
    """All plain cells of a node as one link that says what is in it; `named` ones are marks of their own."""
    node = placed.node
    inner = svg.element("title", {}, svg.escaped(_node_words(placed)))
    if grid.names:
        name = squeezed(node.name, grid.names - 6)
        inner += svg.words(name, placed.x - 6, placed.y + grid.cell * 0.5 + 4, "fr-tick", "end")
    inner += _paths([own for own in cells_of(placed, grid) if id(own.cell) not in named], grid.cell)
    if node.href is None:
        return svg.element("g", {}, inner)
    return svg.element("a", {"href": checked_href(node.href), "tabindex": "-1"}, inner)


def cell_mark(own: PlacedCell, size: int, layout: Layout) -> str:
    """A cell that stands out: framed, with the sign of its state, and over its neighbours where cells are small."""
    inner = max(size - 1, _LEAST_MARK)
    x, y = own.x + (size - 1) / 2, own.y + (size - 1) / 2
    look = mark_style(own.cell.gpu.state)
    sign = look.draw("fr-sign" if look.kind == "fr-accused" else "fr-sign-open", x, y + inner * 0.04, inner * 0.29)
    frame = svg.rectangle(f"{shade(own.cell)} fr-framed", x - inner / 2, y - inner / 2, inner, inner)
    return mark(own.cell.gpu, signed_percent(own.cell.deviation), frame + sign, Spot(x, y, layout.units))


def _paths(cells: Iterable[PlacedCell], size: int) -> str:
    """One path for each look, as long runs of the same few characters, which compress well."""
    looks: dict[str, list[PlacedCell]] = defaultdict(list)
    hatched: list[PlacedCell] = []
    for own in cells:
        state = own.cell.gpu.state
        looks["fr-hollow" if state in HOLLOW else "fr-h0" if state in HATCHED else shade(own.cell)].append(own)
        if state in HATCHED:
            hatched.append(own)
    drawn = "".join(svg.path(kind, [_run(looks[kind], size - 1)]) for kind in sorted(looks))
    return drawn + svg.path("fr-hatch", [hatch(own.x, own.y, size - 1) for own in hatched])


def _run(cells: list[PlacedCell], inner: int) -> str:
    """Squares, each drawn from the corner of the one before it."""
    parts = [f"M{cells[0].x} {cells[0].y}h{inner}v{inner}h-{inner}z"]
    for before, own in pairwise(cells):
        parts.append(f"m{own.x - before.x} {own.y - before.y}h{inner}v{inner}h-{inner}z")
    return "".join(parts)


def hatch(x: float, y: float, inner: float) -> str:
    """Commands of diagonal lines across a cell."""
    half = inner / 2
    middle = (
        ""
        if inner < _SMALL_CELL
        else f"M{x:g} {y + half:g}l{half:g} {-half:g}M{x + half:g} {y + inner:g}l{half:g} {-half:g}"
    )
    return f"M{x:g} {y + inner:g}l{inner:g} {-inner:g}{middle}"


def _loss(cell: HeatCell) -> float:
    return 0.0 if cell.deviation is None else -cell.deviation


def _node_words(placed: PlacedNode) -> str:
    """A node in a line: how many gpus, the lowest of them, and in what state those are that are not well."""
    cells = placed.node.cells
    known = [cell.deviation for cell in cells if cell.deviation is not None]
    counts: dict[str, int] = defaultdict(int)
    for cell in cells:
        if cell.gpu.state not in (None, "ok"):
            counts[str(cell.gpu.state).replace("_", " ")] += 1
    parts = [f"{counted(len(cells), 'gpu')}"]
    parts += [f"lowest {signed_percent(min(known))}"] if known else []
    parts += [f"{count} {state}" for state, count in sorted(counts.items())]
    return f"{placed.node.name}: {', '.join(parts)}"


_MOST_SPOKEN = 8


def heatmap_svg(chart: HeatMap, layout: Layout = Layout.WIDE) -> str:
    """
    One cell for each gpu; a healthy fleet is nearly blank.

    A node's plain cells are one link to its page; a gpu that stands out is a framed mark with the sign of its state.
    """
    if not chart.cells:
        return svg.empty(chart.title, "No gpu has reported yet.", layout)
    places = places_of(chart, svg.top_of(chart.title, layout), layout)
    cells = [own for placed in places.nodes for own in cells_of(placed, places.grid)]
    noted = named_cells(cells)
    named = frozenset(id(own.cell) for own in noted)
    key, bottom = svg.legend(_keys(chart.cells, noted), places.end, layout)
    parts = (
        *(_cluster_head(head, cluster) for head, cluster in zip(places.clusters, chart.clusters, strict=True)),
        *(svg.words(fitted(head.name, head.width), head.x, head.y, "fr-tick") for head in places.racks if head.name),
        *(node_markup(placed, places.grid, named) for placed in places.nodes),
        *(cell_mark(own, places.grid.cell, layout) for own in noted),
        key,
    )
    return svg.framed(chart.title, _description(chart), layout, bottom, parts)


def _cluster_head(head: PlacedHead, cluster: HeatCluster) -> str:
    count = len(cluster.cells)
    return svg.words(fitted(f"{cluster.name}, {counted(count, 'gpu')}", head.width), head.x, head.y, "fr-strong")


def _keys(cells: Sequence[HeatCell], noted: Sequence[PlacedCell]) -> list[svg.LegendKey]:
    keys = [svg.LegendKey(_swatch(f"fr-h{number}"), text) for number, text in enumerate(_shade_words())]
    looks = {look.word: look for look in (mark_style(own.cell.gpu.state) for own in noted)}
    keys += [svg.LegendKey(_framed_sample(look), word) for word, look in sorted(looks.items())]
    states = {cell.gpu.state for cell in cells}
    if states & HATCHED:
        keys.append(svg.LegendKey(_hatched_sample, " or ".join(sorted(str(state) for state in states & HATCHED))))
    if states & HOLLOW:
        keys.append(svg.LegendKey(_swatch("fr-hollow"), " or ".join(sorted(str(state) for state in states & HOLLOW))))
    return keys


def _shade_words() -> list[str]:
    percents = [f"{100 * loss:g}" for loss in SHADES]
    between = [f"{low}–{high} %" for low, high in pairwise(percents)]
    return [f"less than {percents[0]} % below the median", *between, f"{percents[-1]} % or more"]


def _swatch(kind: str) -> svg.Sample:
    return lambda x, y: svg.path(kind, [f"M{c(x - 6)} {c(y - 6)}h12v12h-12z"])


def _hatched_sample(x: float, y: float) -> str:
    return _swatch("fr-h0")(x, y) + svg.path("fr-hatch", [hatch(x - 6, y - 6, 12)])


def _framed_sample(look: MarkStyle) -> svg.Sample:
    kind = "fr-sign" if look.kind == "fr-accused" else "fr-sign-open"
    return lambda x, y: _swatch("fr-framed fr-blank")(x, y) + look.draw(kind, x, y, 4)


def _description(chart: HeatMap) -> str:
    states = Counter(str(cell.gpu.state or "not judged").replace("_", " ") for cell in chart.cells)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    known = [cell for cell in chart.cells if cell.deviation is not None and cell.gpu.state != "ok"]
    worst = sorted(known, key=lambda cell: (cell.deviation or 0.0, cell.gpu.label))[:_MOST_SPOKEN]
    named = ", ".join(f"{cell.gpu.label} {signed_percent(cell.deviation)}" for cell in worst)
    return f"{len(chart.cells)} gpus: {counted}. {f'Lowest: {named}.' if named else ''}".strip()
