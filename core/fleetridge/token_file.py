"""What a file with a token holds: agents and the simulator read such files, each with errors of its own."""

from __future__ import annotations

# A token is some dozens of characters; what is longer is another file. Readers read one byte more, to see that.
MOST_TOKEN_BYTES = 4096


def token_of(content: bytes) -> str | None:
    """The token in a file's content, without space around it; None where it is anything else than one token."""
    token = content.strip().decode("ascii", errors="replace")
    is_one = token.isascii() and token.isprintable() and " " not in token
    return token if token and is_one and len(content) <= MOST_TOKEN_BYTES else None
