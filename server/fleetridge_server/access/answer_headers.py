"""What every answer carries, whoever makes it: the request's id, and what browsers must not do with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetridge_server.access.request_id import HEADER, current_request_id, enter_request

# Only where an answer does not say otherwise: a page has scripts of its own, a picture may be kept.
_DEFAULTS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def common_headers() -> Iterator[tuple[bytes, bytes]]:
    """Headers of an answer to the request in hand."""
    yield from _DEFAULTS
    request_id = current_request_id()
    if request_id is not None:
        yield HEADER, request_id.encode("ascii")


@final
class AnswerHeaders:
    """
    Middleware that adds them.

    Args:
        app: what answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        enter_request(scope["headers"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                added = [(name, value) for name, value in common_headers() if name not in names]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)
