"""What each route asks for, and whether a caller may."""

from typing import Annotated

from fastapi import Depends, Request

from fleetridge_server.auth.scopes import Caller, Scope
from fleetridge_server.problems import ProblemError

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


async def require_scope(request: Request) -> None:
    """
    Let a request pass whose caller has the scope that its route needs.

    Raises:
        ProblemError: 403, which says what is missing.
    """
    route = request.method, request.scope["route"].path
    needed = SCOPE_OF_ROUTE.get(route, _OF_OTHER_ROUTES)
    if needed is not None and needed not in caller_of(request).scopes:
        raise _missing(needed, caller_of(request))


def caller_of(request: Request) -> Caller:
    """Who calls; the guard has found out."""
    caller: Caller = request.state.caller
    return caller


async def _caller(request: Request) -> Caller:
    return caller_of(request)


CurrentCaller = Annotated[Caller, Depends(_caller)]
"""Who calls, as a route's argument."""


def require_place(caller: Caller, cluster: str | None, node: str | None) -> None:
    """Make sure that a caller may decide about a place. Raises ProblemError: 403, which says for which it may."""
    if not caller.may_write_about(cluster, node):
        detail = f"this token may decide about {caller.place} only; name exactly that place, or use another token"
        raise ProblemError(403, "other_place", "Not for this place", detail)


def place_words(cluster: str, node: str | None) -> str:
    """A cluster or a node, as an error names it."""
    return f"cluster {cluster!r}" if node is None else f"node {node!r} of cluster {cluster!r}"


def _missing(needed: Scope, caller: Caller) -> ProblemError:
    has = ", ".join(sorted(caller.scopes)) or "none"
    detail = f"this needs a token with the scope {needed}; yours allows {has}"
    challenge = f'Bearer realm="fleetridge", error="insufficient_scope", scope="{needed}"'
    return ProblemError(403, "scope_missing", "Not allowed", detail, headers={"WWW-Authenticate": challenge})
