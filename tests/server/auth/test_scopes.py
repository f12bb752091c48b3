from __future__ import annotations

import pytest

from fleetridge_server.auth.scopes import SCOPES, Caller, Scope, allowed


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
