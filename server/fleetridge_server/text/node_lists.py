"""Many nodes as text."""

from __future__ import annotations

from fleetridge.quantities import MISSING, signed_percent
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.node_schemas import NodeList, NodeRow
from fleetridge_server.text.verdicts import counts, state_word
from fleetridge_server.text.words import ago, at, blocks, counted, lines, more_follows

_NODES = (
    Column("node"),
    Column("cluster", align="left"),
    Column("gpus"),
    Column("verdicts", align="left"),
    Column("worst", align="left"),
    Column("#"),
    Column("loss"),
    Column("seen"),
)


def node_list(answer: NodeList) -> str:
    """Nodes with their worst gpu."""
    if not answer.nodes:
        return "no nodes"
    return blocks(
        text_table(
            _NODES,
            [_node(node, answer) for node in answer.nodes],
            title=f"nodes as of {at(answer.as_of)}; seen: age of the newest report",
        ),
        lines(sentence for node in answer.nodes for sentence in _gone(node)),
        more_follows(answer.next, "nodes"),
    )


def _node(node: NodeRow, answer: NodeList) -> list[str]:
    worst = node.worst
    said = "never reported" if node.never_reported else counts(node.verdicts) or MISSING
    return [
        node.name,
        node.cluster,
        str(node.gpus),
        said,
        MISSING if worst is None else state_word(worst.state, worst.last_state),
        MISSING if worst is None or worst.index is None else str(worst.index),
        MISSING if worst is None or worst.loss is None else signed_percent(-worst.loss),
        ago(node.last_seen, answer.as_of),
    ]


def _gone(node: NodeRow) -> list[str]:
    gone = [f"{node.name}: missing {', '.join(node.missing)}"] if node.missing else []
    if node.unnamed:
        gone.append(f"{node.name}: {counted(node.unnamed, 'gpu')} fewer than the inventory expects")
    return gone
