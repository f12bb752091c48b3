from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.routing import BaseRoute

from fleetridge_server.app import create_app
from fleetridge_server.auth.permissions import SCOPE_OF_ROUTE, is_open
from fleetridge_server.settings import Settings


def routes_of(router: Any) -> Iterator[tuple[str, str]]:
    """Method and path of every route of the application, those of its rooms included."""
    for route in router.routes:
        room = getattr(route, "original_router", None)
        if room is not None:
            yield from routes_of(room)
        else:
            assert isinstance(route, BaseRoute)
            methods = getattr(route, "methods", None)
            assert methods, f"{route} is no route with methods: it has no scope, and the guard lets every token pass"
            yield from ((method, getattr(route, "path", "")) for method in methods if method != "HEAD")


ROUTES = set(routes_of(create_app(Settings()).router))


def test_every_route_has_a_scope_and_every_scope_a_route() -> None:
    """A new route is not open by oversight."""
    assert set(SCOPE_OF_ROUTE) == ROUTES


def test_nothing_but_health_and_what_signing_in_takes_is_open() -> None:
    """A route that is open in the table is so at the door, and no other."""
    opened = {route for route, scope in SCOPE_OF_ROUTE.items() if scope is None}
    health = {("GET", "/livez"), ("GET", "/readyz")}
    signing_in = {("GET", "/ui/sign-in"), ("POST", "/ui/sign-in"), ("GET", "/ui/static/{name}")}

    assert opened == health | signing_in
    assert {route for route in SCOPE_OF_ROUTE if is_open(route[1])} == opened


def test_what_changes_the_fleet_s_state_needs_more_than_reading() -> None:
    """Whoever signs in or out changes nothing but the own session."""
    of_session = {"/ui/sign-in", "/ui/sign-out"}
    changing = {
        route: scope for route, scope in SCOPE_OF_ROUTE.items() if route[0] != "GET" and route[1] not in of_session
    }

    assert set(changing.values()) == {"ingest", "operate"}
