"""What a file with a token holds."""

from __future__ import annotations

import pytest

from fleetridge.token_file import MOST_TOKEN_BYTES, token_of


@pytest.mark.parametrize("content", [b"frt_abc", b" frt_abc\n", b"frt_abc\r\n"])
def test_space_around_a_token_is_no_part_of_it(content: bytes) -> None:
    assert token_of(content) == "frt_abc"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"two\nlines", b"frt_\xff", b"frt_\x00", b"a" * (MOST_TOKEN_BYTES + 1)]
)
def test_what_is_not_one_token_is_none(content: bytes) -> None:
    assert token_of(content) is None
