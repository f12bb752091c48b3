"""
The text of a token: how it is made, told from any other text, and turned into what is stored.

    flr_ + 43 characters of 256 random bits + 6 characters of checksum

The characters are digits and letters, so that a double click takes the whole and a URL needs no escapes. The prefix and
the checksum let secret scanners find a token that leaked, and tell a mistyped token from an unknown one without asking
the database.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib

PREFIX = "flr_"

_RANDOM_BITS = 256
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BASE = len(_DIGITS)

# The fewest that hold 256 bits and CRC-32's 32.
_SECRET_CHARACTERS = 43
_CHECK_CHARACTERS = 6

# What a scanner for secrets looks for; \b would miss a token that stands right behind an underscore.
TOKEN_PATTERN = rf"{PREFIX}[0-9A-Za-z]{{{_SECRET_CHARACTERS + _CHECK_CHARACTERS}}}(?![0-9A-Za-z])"

_TOKEN = re.compile(TOKEN_PATTERN)


def new_token() -> str:
    """A token that nobody had before."""
    body = PREFIX + _in_digits(secrets.randbits(_RANDOM_BITS), _SECRET_CHARACTERS)
    return body + _checksum(body)


def is_token(text: str) -> bool:
    """Whether a text is spelled as a token is, to the last character."""
    return _TOKEN.fullmatch(text) is not None and _checksum(text[:-_CHECK_CHARACTERS]) == text[-_CHECK_CHARACTERS:]


def sha256_of(token: str) -> bytes:
    """What is stored of a token; a slow hash would add nothing where 256 random bits are to be guessed."""
    return hashlib.sha256(token.encode("ascii")).digest()


def _checksum(body: str) -> str:
    return _in_digits(zlib.crc32(body.encode("ascii")), _CHECK_CHARACTERS)


def _in_digits(number: int, characters: int) -> str:
    digits = []
    for _ in range(characters):
        number, digit = divmod(number, _BASE)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
