"""
Scopes: what a token allows.

`admin` includes all others and `operate` includes `read`. `ingest` stands alone: a node that posts reports need not see
the fleet, and whoever looks at it need not be able to post.
"""

from __future__ import annotations

from collections.abc import Iterable
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
