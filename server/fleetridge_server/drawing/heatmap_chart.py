"""What a map of the fleet shows."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.drawing.gpu import DrawnGpu


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
