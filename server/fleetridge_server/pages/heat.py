"""The fleet as a map of gpus, from its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetridge.terminal_text import visible
from fleetridge_server.answer.fleet_nodes import trouble
from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.heatmap import HeatCell, HeatCluster, HeatMap, HeatNode, HeatRack
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.words import StateShown, gpu_label, loss_words, state_word
from fleetridge_server.store.fleet_nodes import FleetNode, SaidOfGpu

_TITLE = "Every gpu by its largest loss against its peers"


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A node of the map as a row of its table."""

    cluster: str
    rack: str
    node: str
    href: str
    gpus: int
    worst: StateShown | None
    loss: str


def heat_map(nodes: Sequence[FleetNode], links: Links) -> HeatMap:
    """The map: cluster, rack, node, gpu, each in order."""
    clusters: dict[str, dict[str | None, list[FleetNode]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        clusters[node.name.cluster][_rack(node)].append(node)
    return HeatMap(
        _TITLE,
        tuple(
            HeatCluster(
                visible(cluster),
                tuple(
                    HeatRack(
                        None if rack is None else visible(rack),
                        tuple(_node(node, links) for node in sorted(racks[rack], key=lambda node: node.name)),
                    )
                    for rack in sorted(racks, key=lambda rack: (rack is None, rack or ""))
                ),
            )
            for cluster, racks in sorted(clusters.items())
        ),
    )


def heat_rows(nodes: Iterable[FleetNode], links: Links) -> tuple[HeatRow, ...]:
    """The same as a table, a row for each node."""
    return tuple(_row(node, links) for node in sorted(nodes, key=lambda node: node.name))


def _rack(node: FleetNode) -> str | None:
    return None if node.row is None else node.row.labels.get("rack")


def _node(node: FleetNode, links: Links) -> HeatNode:
    return HeatNode(
        visible(node.name.name),
        tuple(_cell(gpu, node.name.name, links) for gpu in sorted(node.gpus, key=_order)),
        links.node(*node.name),
    )


def _cell(gpu: SaidOfGpu, node: str, links: Links) -> HeatCell:
    said = gpu.said
    # A gpu that is well is part of its node's link.
    has_page = gpu.is_known and said is not None and said.state != "ok"
    return HeatCell(
        DrawnGpu(
            label=gpu_label(node, gpu.index, gpu.gpu_id),
            state=None if said is None else said.state,
            href=links.gpu(gpu.gpu_id) if has_page else None,
            note="" if said is None or said.reason is None else state_word(said.reason),
        ),
        None if said is None or said.loss is None else -said.loss,
    )


def _order(gpu: SaidOfGpu) -> tuple[bool, int, str]:
    return gpu.index is None, gpu.index or 0, gpu.gpu_id


def _row(node: FleetNode, links: Links) -> HeatRow:
    said = [gpu.said for gpu in node.gpus if gpu.said is not None]
    losses = [own.loss for own in said if own.loss is not None]
    worst = min(said, key=lambda own: trouble(own.state, own.last_state, own.loss), default=None)
    return HeatRow(
        cluster=node.name.cluster,
        rack=_rack(node) or "",
        node=node.name.name,
        href=links.node(*node.name),
        gpus=len(node.gpus),
        worst=None if worst is None else StateShown(worst.state, worst.last_state),
        loss=loss_words(max(losses, default=None)),
    )
