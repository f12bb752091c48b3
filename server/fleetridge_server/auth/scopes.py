"""
Scopes, what a token allows, and callers.

`admin` includes all others and `operate` includes `read`. `ingest` stands alone: a node that posts reports need not see
the fleet, and whoever looks at it need not be able to post.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Scope = Literal["ingest", "read", "operate", "admin"]

SCOPES: tuple[Scope, ...] = get_args(Scope)

_INCLUDED: dict[Scope, frozenset[Scope]] = {
    "ingest": frozenset({"ingest"}),
    "read": frozenset({"read"}),
    "operate": frozenset({"operate", "read"}),
    "admin": frozenset(SCOPES),
}


def allowed(granted: Iterable[Scope]) -> frozenset[Scope]:
    """All that some scopes allow together."""
    return frozenset().union(*(_INCLUDED[scope] for scope in granted))


@dataclass(frozen=True, slots=True)
class Caller:
    """
    Who calls: the row and the name of the token (None where the server asks for none) and all scopes that it allows.

    It may write about its cluster and node only; None is any.
    """

    token_id: int | None
    scopes: frozenset[Scope]
    cluster: str | None = None
    node: str | None = None
    name: str | None = None

    def may_write_about(self, cluster: str | None, node: str | None) -> bool:
        """Whether it may store something about a node, a whole cluster (no node) or the whole fleet (neither)."""
        return self.cluster in (None, cluster) and self.node in (None, node)

    @property
    def place(self) -> str:
        """The only place that it may write about, in words."""
        return _in_words(self.cluster, self.node)


ANYBODY = Caller(None, frozenset(SCOPES))
"""Who calls a server that asks for no token."""


def _in_words(cluster: str | None, node: str | None) -> str:
    if cluster is None:
        return "any cluster"
    return f"cluster {cluster!r}" if node is None else f"node {node!r} of cluster {cluster!r}"
