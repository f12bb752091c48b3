"""
Scopes, what a token allows, what each route asks for, and who calls.

`admin` includes all others and `operate` includes `read`. `ingest` stands alone: a node that posts reports need not see
the fleet, and whoever looks at it need not be able to post.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from fleetridge_server.problems import ProblemError

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
        return "any cluster" if self.cluster is None else place_words(self.cluster, self.node)


ANYBODY = Caller(None, frozenset(SCOPES))
"""Who calls a server that asks for no token."""

# Asked without a token by whoever starts, restarts and routes; they show nothing of the fleet.
OPEN_PATHS = frozenset({"/livez", "/readyz"})

# What a browser needs before its user has shown a token: how pages look, and the form that asks for it.
_SIGN_IN = "/ui/sign-in"
_LOOKS = "/ui/static/"

SCOPE_OF_ROUTE: dict[tuple[str, str], Scope | None] = {
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
    ("GET", "/openapi.json"): "read",
    ("GET", "/docs"): "read",
    ("GET", "/metrics"): "read",
    ("POST", "/reports"): "ingest",
    ("GET", "/reports/{report_id}"): "read",
    ("GET", "/fleet"): "read",
    ("GET", "/devices"): "read",
    ("GET", "/devices/{name:path}/ridge"): "read",
    ("GET", "/devices/{name:path}/ridge.csv"): "read",
    ("GET", "/devices/{name:path}/compare"): "read",
    ("GET", "/devices/{name:path}/workloads"): "read",
    ("GET", "/gpus/{gpu_id:path}"): "read",
    ("GET", "/gpus/{gpu_id:path}/history"): "read",
    ("GET", "/nodes"): "read",
    ("GET", "/nodes/{name:path}"): "read",
    ("GET", "/alerts"): "read",
    ("GET", "/marks"): "read",
    ("POST", "/marks"): "operate",
    ("DELETE", "/marks/{mark_id}"): "operate",
    ("GET", "/"): "read",
    ("GET", "/ui/static/{name}"): None,
    ("GET", "/ui/sign-in"): None,
    ("POST", "/ui/sign-in"): None,
    ("POST", "/ui/sign-out"): "read",
    ("POST", "/ui/marks"): "operate",
    ("POST", "/ui/marks/{mark_id}/end"): "operate",
    ("GET", "/ui/fleet/heatmap.svg"): "read",
    ("GET", "/ui/devices/{name:path}"): "read",
    ("GET", "/ui/devices/{name:path}/roofline.svg"): "read",
    ("GET", "/ui/devices/{name:path}/strips.svg"): "read",
    ("GET", "/ui/devices/{name:path}/distribution.svg"): "read",
    ("GET", "/ui/devices/{name:path}/compare"): "read",
    ("GET", "/ui/devices/{name:path}/compare.svg"): "read",
    ("GET", "/ui/nodes"): "read",
    ("GET", "/ui/nodes/{name:path}"): "read",
    ("GET", "/ui/alerts"): "read",
    ("GET", "/ui/gpus/{gpu_id:path}"): "read",
    ("GET", "/ui/gpus/{gpu_id:path}/roofline.svg"): "read",
    ("GET", "/ui/gpus/{gpu_id:path}/history.svg"): "read",
    ("GET", "/ui/gpus/{gpu_id:path}/evidence.zip"): "read",
}
"""Scope that each route needs, None for everybody."""

# Whoever adds a route and forgets the table gets this.
_OF_OTHER_ROUTES: Scope = "admin"


def is_open(path: str) -> bool:
    """Whether anybody may ask for a path."""
    return path in OPEN_PATHS or path == _SIGN_IN or path.startswith(_LOOKS)


def scope_of(method: str, route: str) -> Scope | None:
    """The scope that a route needs, by its template; None where everybody may ask."""
    return SCOPE_OF_ROUTE.get((method, route), _OF_OTHER_ROUTES)


def scope_missing(needed: Scope, caller: Caller) -> ProblemError:
    """Answer 403 to who is known and may not; it says what is missing."""
    has = ", ".join(sorted(caller.scopes)) or "none"
    detail = f"this needs a token with the scope {needed}; yours allows {has}"
    challenge = f'Bearer realm="fleetridge", error="insufficient_scope", scope="{needed}"'
    return ProblemError(403, "scope_missing", "Not allowed", detail, headers={"WWW-Authenticate": challenge})


def unauthorized(code: str, detail: str, *, invalid: bool = False) -> ProblemError:
    """Answer 401 (RFC 6750, 3); `invalid` is whether a token was shown, and is not good."""
    challenge = 'Bearer realm="fleetridge"' + (', error="invalid_token"' if invalid else "")
    return ProblemError(401, code, "This needs a token", detail, headers={"WWW-Authenticate": challenge})


def require_place(caller: Caller, cluster: str | None, node: str | None) -> None:
    """Make sure that a caller may decide about a place. Raises ProblemError: 403, which says for which it may."""
    if not caller.may_write_about(cluster, node):
        detail = f"this token may decide about {caller.place} only; name exactly that place, or use another token"
        raise ProblemError(403, "other_place", "Not for this place", detail)


def place_words(cluster: str, node: str | None) -> str:
    """A cluster or a node, as an error names it."""
    return f"cluster {cluster!r}" if node is None else f"node {node!r} of cluster {cluster!r}"
