"""A gpu as charts speak of it."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge_server.verdict.state import State


@dataclass(frozen=True, slots=True)
class DrawnGpu:
    """
    Who a mark stands for.

    Attributes:
        label: short and unique within the chart, such as "n03 gpu 5".
        state: what its verdict says; None before the first evaluation.
        href: address of its page, a path that starts with "/"; None where the mark links nowhere.
        note: first reason, or other words for who looks closer; may be empty.
        highlighted: whether the chart is about this gpu, which is then drawn over its peers.
    """

    label: str
    state: State | None = None
    href: str | None = None
    note: str = ""
    highlighted: bool = False
