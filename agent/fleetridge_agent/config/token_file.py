"""The token that an agent shows to its server; it comes from a file, never from an option or a variable."""

from __future__ import annotations

from pathlib import Path

from fleetridge_agent.errors import UsageError

# A token is some dozens of characters; what is longer is another file.
_MAX_BYTES = 4096


def read_token(path: Path) -> str:
    """
    Token in a file, without space around it.

    Raises:
        UsageError: the file cannot be read or holds no token. What it holds is never repeated.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--token-file: cannot read {path}: {error.strerror}; give a file with the token") from error
    token = content.strip().decode("ascii", errors="replace")
    if not token or len(content) > _MAX_BYTES or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"--token-file: {path} holds no token; write the token alone into it, on one line")
    return token
