from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.auth.tokens import TOKEN_PATTERN, is_token, new_token, sha256_of
from fleetridge_server.telemetry.logs import PREFIX_OF_TOKENS


def test_a_token_is_known_by_its_spelling() -> None:
    token = new_token()

    assert is_token(token)
    assert re.fullmatch(TOKEN_PATTERN, token)
    assert token.startswith(PREFIX_OF_TOKENS)
    assert token.isascii()
    assert len(sha256_of(token)) == 32


def test_no_two_tokens_are_alike() -> None:
    assert len({new_token() for _ in range(1000)}) == 1000


@given(st.integers(0, 52), st.characters(min_codepoint=33, max_codepoint=126))
def test_a_single_wrong_character_is_seen(place: int, character: str) -> None:
    token = new_token()
    mistyped = token[:place] + character + token[place + 1 :]

    assert is_token(mistyped) == (mistyped == token)


@given(st.integers(0, 51))
def test_two_characters_in_the_wrong_order_are_seen(place: int) -> None:
    token = new_token()
    swapped = token[:place] + token[place + 1] + token[place] + token[place + 2 :]

    assert is_token(swapped) == (swapped == token)


def test_case_space_and_length_matter() -> None:
    token = new_token()
    changed = [
        token.upper(),
        token.lower(),
        f"{token} ",
        f" {token}",
        token[:-1],
        f"{token}0",
        f"{token}\n",
        f"{token}\0",
    ]

    assert not any(is_token(text) for text in changed)


@given(st.text())
def test_any_other_text_is_no_token(text: str) -> None:
    assert not is_token(text)


def test_a_scanner_finds_a_token_within_a_text() -> None:
    token = new_token()
    assert re.findall(TOKEN_PATTERN, f'{{"Authorization":"Bearer {token}"}} x_{token}.') == [token, token]
