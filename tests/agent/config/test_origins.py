"""Settings to be shown."""

from __future__ import annotations

import pytest

from fleetridge_agent.config.origins import foreign_variables, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://f.example", "https://f.example"),
        ("https://me:hunter2@f.example/x", "https://***@f.example/x"),
        ("https://me@f.example", "https://***@f.example"),
        ("http://me:p%40ss@word@proxy:3128", "http://***@proxy:3128"),
        ("rack=r1,owner=me@f.example", "rack=r1,owner=me@f.example"),
    ],
)
def test_users_and_passwords_of_addresses_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_proxy_without_a_scheme_is_masked_too() -> None:
    (found,) = foreign_variables({"HTTP_PROXY": "me:hunter2@proxy:3128"})

    assert (found.name, found.value) == ("HTTP_PROXY", "http://***@proxy:3128")


def test_the_lower_case_spelling_wins_as_it_does_in_httpx() -> None:
    (found,) = foreign_variables({"HTTPS_PROXY": "http://a", "https_proxy": "http://b"})

    assert (found.value, found.origin) == ("http://b", "https_proxy")


def test_what_is_not_set_is_not_shown() -> None:
    assert foreign_variables({"HTTPS_PROXY": "", "PATH": "/bin"}) == ()
