"""HEAD: as GET, without the body (RFC 9110, 9.3.2), for every address that takes GET."""

from __future__ import annotations

from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@final
class HeadAsGet:
    """
    Middleware that lets the routes of GET answer HEAD.

    Args:
        app: what answers GET.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
