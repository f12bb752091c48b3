"""The token that an agent shows to its server; it comes from a file, never from an option or a variable."""

from __future__ import annotations

from pathlib import Path

from fleetridge.token_file import MOST_TOKEN_BYTES, token_of
from fleetridge_agent.errors import UsageError


def read_token(path: Path) -> str:
    """
    Token in a file, without space around it.

    Raises:
        UsageError: the file cannot be read or holds no token. What it holds is never repeated.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--token-file: cannot read {path}: {error.strerror}; give a file with the token") from error
    token = token_of(content)
    if token is None:
        raise UsageError(f"--token-file: {path} holds no token; write the token alone into it, on one line")
    return token
