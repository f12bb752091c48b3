"""Where clusters, racks and nodes lie on the map."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge_server.web.charts.axes import LINE, width_of
from fleetridge_server.web.charts.svg import Layout
from fleetridge_server.web.charts.symbols import DrawnGpu


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A gpu with its worst deviation from the median (negative where slower); None where nothing was compared."""

    gpu: DrawnGpu
    deviation: float | None


@dataclass(frozen=True, slots=True)
class HeatNode:
    """A node and its gpus in their order; `href` as in `DrawnGpu`."""

    name: str
    cells: tuple[HeatCell, ...]
    href: str | None = None


@dataclass(frozen=True, slots=True)
class HeatRack:
    """Nodes of a rack; None where the nodes name none."""

    name: str | None
    nodes: tuple[HeatNode, ...]


@dataclass(frozen=True, slots=True)
class HeatCluster:
    """Racks of a cluster."""

    name: str
    racks: tuple[HeatRack, ...]

    @property
    def cells(self) -> list[HeatCell]:
        """Every gpu of the cluster."""
        return [cell for rack in self.racks for node in rack.nodes for cell in node.cells]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """All that is mapped."""

    title: str
    clusters: tuple[HeatCluster, ...]

    @property
    def cells(self) -> list[HeatCell]:
        """Every gpu of the map."""
        return [cell for cluster in self.clusters for cell in cluster.cells]


# Gpus in a row; a node with more, of slices say, takes several rows.
_MOST_COLUMNS = 16
# Rows of a block; a rack with more, or a cluster without racks, is cut into several.
_MOST_ROWS = 16

# Up to so many gpus cells are so large, for each layout.
_SIZES = {Layout.WIDE: ((96, 22), (512, 16), (2500, 11)), Layout.NARROW: ((96, 20), (512, 15), (2500, 9))}
_SMALLEST = {Layout.WIDE: 8, Layout.NARROW: 7}
# Rows lower than this are too low for the name of their node.
_NAMED_FROM = 15

_SIDE = 8
_BETWEEN = 14
_LONGEST_NAME = 96.0
_CLUSTER_HEAD = 24.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Size of a map's cells, how many stand in a row, and the room for names of nodes (0 without)."""

    cell: int
    columns: int
    names: int

    def rows_of(self, node: HeatNode) -> int:
        """Rows that a node takes."""
        return max(1, -(-len(node.cells) // self.columns))

    @property
    def width(self) -> int:
        """Width of a block."""
        return self.names + self.columns * self.cell


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node and the upper left corner of its first cell."""

    node: HeatNode
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class PlacedHead:
    """A name of a cluster or rack, and its baseline; `width` is the room that it has."""

    name: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Places:
    """Everything in its place, and where the map ends."""

    grid: Grid
    clusters: tuple[PlacedHead, ...]
    racks: tuple[PlacedHead, ...]
    nodes: tuple[PlacedNode, ...]
    end: float


def grid_of(chart: HeatMap, layout: Layout) -> Grid:
    """Cells as large as the number of gpus allows."""
    gpus = len(chart.cells)
    cell = next((size for most, size in _SIZES[layout] if gpus <= most), _SMALLEST[layout])
    nodes = [node for cluster in chart.clusters for rack in cluster.racks for node in rack.nodes]
    columns = min(max((len(node.cells) for node in nodes), default=1) or 1, _MOST_COLUMNS)
    # A narrow chart holds a whole row whatever the nodes are like.
    columns = min(columns, (layout.units - 2 * _SIDE - int(_LONGEST_NAME)) // cell)
    longest = max((width_of(node.name) for node in nodes), default=0.0)
    return Grid(cell, columns, int(min(longest, _LONGEST_NAME)) + 8 if cell >= _NAMED_FROM else 0)


def places_of(chart: HeatMap, top: float, layout: Layout) -> Places:
    """Clusters below one another, their racks side by side."""
    grid = grid_of(chart, layout)
    heads: list[PlacedHead] = []
    racks: list[PlacedHead] = []
    nodes: list[PlacedNode] = []
    y = top
    for cluster in chart.clusters:
        heads.append(PlacedHead(cluster.name, _SIDE, y + LINE * 0.8, layout.units - 2 * _SIDE))
        own_racks, own_nodes, y = _cluster(cluster, grid, y + _CLUSTER_HEAD, layout)
        racks += own_racks
        nodes += own_nodes
    return Places(grid, tuple(heads), tuple(racks), tuple(nodes), y)


def _cluster(
    cluster: HeatCluster, grid: Grid, top: float, layout: Layout
) -> tuple[list[PlacedHead], list[PlacedNode], float]:
    heads: list[PlacedHead] = []
    placed: list[PlacedNode] = []
    x, y, lowest = _SIDE, top, top
    for name, nodes in (block for rack in cluster.racks for block in _blocks(rack, grid)):
        if x > _SIDE and x + grid.width > layout.units - _SIDE:
            x, y = _SIDE, lowest + _BETWEEN
        heads.append(PlacedHead(name, x + grid.names, y + LINE * 0.7, grid.width - grid.names + _BETWEEN - 2))
        row = round(y + LINE)
        for node in nodes:
            placed.append(PlacedNode(node, x + grid.names, row))
            row += grid.rows_of(node) * grid.cell
        lowest = max(lowest, float(row))
        x += grid.width + _BETWEEN
    return heads, placed, lowest + _BETWEEN


def _blocks(rack: HeatRack, grid: Grid) -> list[tuple[str, Sequence[HeatNode]]]:
    """A rack in pieces of at most so many rows, with what to write above each."""
    pieces: list[list[HeatNode]] = [[]]
    rows = 0
    for node in rack.nodes:
        if pieces[-1] and rows + grid.rows_of(node) > _MOST_ROWS:
            pieces.append([])
            rows = 0
        pieces[-1].append(node)
        rows += grid.rows_of(node)
    pieces = [piece for piece in pieces if piece]
    if rack.name is not None:
        return [(rack.name if number == 0 else "", piece) for number, piece in enumerate(pieces)]
    return [("" if grid.names else f"{piece[0].name} …", piece) for piece in pieces]
