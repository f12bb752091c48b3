"""What a request shows of who calls: one token, in its Authorization header and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetridge_server.access.token_text import TOKEN_PATTERN, is_token
from fleetridge_server.problems import ProblemError

Headers = Sequence[tuple[bytes, bytes]]

_TOKEN_ANYWHERE = re.compile(TOKEN_PATTERN.encode("ascii"))

_CREATE = "an administrator makes one with `fleetridge-server token create`"


def shown_token(headers: Headers) -> str | None:
    """
    The token of a request, well-formed; None where it shows nothing.

    Raises:
        ProblemError: 400 for more than one; 401 for another scheme, or for what is no token.
    """
    shown = [value for name, value in headers if name == b"authorization"]
    if not shown:
        return None
    if len(shown) > 1:
        detail = "send one Authorization header; who is meant by several is anybody's guess"
        raise ProblemError(400, "several_authorizations", "More than one Authorization header", detail)
    scheme, _, rest = shown[0].partition(b" ")
    if scheme.lower() != b"bearer":
        detail = f"send `Authorization: Bearer TOKEN`, no other scheme is known; {_CREATE}"
        raise refused("unknown_scheme", detail)
    text = rest.strip(b" ").decode("latin-1")
    if not is_token(text):
        detail = "this is no token: it is cut off, has something added, or a character is wrong; copy it once more"
        raise refused("token_mistyped", detail, invalid=True)
    return text


def refuse_token_in_address(query_string: bytes) -> None:
    """
    Refuse a token in an address, which proxies, browsers and logs keep.

    Raises:
        ProblemError: 400, there is one.
    """
    if _TOKEN_ANYWHERE.search(query_string) is not None:
        detail = "an address is logged on its way, so that this token is known to others now: revoke it, and send the "
        detail += "next one in the Authorization header"
        raise ProblemError(400, "token_in_address", "A token in the address", detail)


def refused(code: str, detail: str, *, invalid: bool = False) -> ProblemError:
    """
    Answer 401 (RFC 6750, 3).

    Args:
        code: for programs.
        detail: what is wrong, and the remedy.
        invalid: whether a token was shown, and is not good.
    """
    challenge = 'Bearer realm="fleetridge"' + (', error="invalid_token"' if invalid else "")
    return ProblemError(401, code, "This needs a token", detail, headers={"WWW-Authenticate": challenge})


def no_token() -> ProblemError:
    """Answer 401 to a request that shows nothing."""
    return refused("token_missing", f"send `Authorization: Bearer TOKEN`; {_CREATE}")
