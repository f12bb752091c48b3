from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import BaseRoute

from fleetridge_server.app import create_app
from fleetridge_server.auth.permissions import SCOPE_OF_ROUTE, SCOPES, Caller, Scope, allowed, is_open
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
            assert methods, f"{route} is no route with methods: it has no scope, and every token passes"
            yield from ((method, getattr(route, "path", "")) for method in methods if method != "HEAD")


ROUTES = set(routes_of(create_app(Settings()).router))


def test_every_route_has_a_scope_and_every_scope_a_route() -> None:
    """A new route is not open by oversight."""
    assert set(SCOPE_OF_ROUTE) == ROUTES


def test_nothing_but_health_and_what_signing_in_takes_is_open() -> None:
    """A route that is open in the table is open to authentication, and no other."""
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


@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        ([], set()),
        (["ingest"], {"ingest"}),
        (["read"], {"read"}),
        (["operate"], {"operate", "read"}),
        (["ingest", "read"], {"ingest", "read"}),
        (["admin"], set(SCOPES)),
    ],
)
def test_scopes_include_others(granted: list[Scope], expected: set[Scope]) -> None:
    assert allowed(granted) == expected


@pytest.mark.parametrize(
    ("bound", "place", "may"),
    [
        ((None, None), ("east", "n1"), True),
        ((None, None), (None, None), True),
        (("east", None), ("east", "n1"), True),
        (("east", None), ("east", None), True),
        (("east", None), ("west", "n1"), False),
        (("east", None), (None, None), False),
        (("east", "n1"), ("east", "n1"), True),
        (("east", "n1"), ("east", "n2"), False),
        (("east", "n1"), ("east", None), False),
        (("east", "n1"), ("west", "n1"), False),
    ],
)
def test_a_caller_writes_about_its_own_place(
    bound: tuple[str | None, str | None], place: tuple[str | None, str | None], may: bool
) -> None:
    assert Caller(1, frozenset(), *bound).may_write_about(*place) is may
