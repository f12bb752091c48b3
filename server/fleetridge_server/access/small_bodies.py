"""Bodies of requests that are no reports: small, and soon there. Reports have limits of their own (`ingest.body`)."""

from __future__ import annotations

import anyio
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from fleetridge_server.ingest.body import BODY_TIMEOUT_S

# The largest is a mark with its reason: some kilobytes.
MAX_SMALL_BODY_BYTES = 64 * 1024

_PATH_OF_REPORTS = "/reports"


def bounded(scope: Scope, receive: Receive) -> Receive:
    """Receiver of a request's body, within the limits for what is no report."""
    if scope["path"] == _PATH_OF_REPORTS:
        return receive
    received, is_whole, deadline_s = 0, False, anyio.current_time() + BODY_TIMEOUT_S

    async def receive_within_limits() -> Message:
        nonlocal received, is_whole
        if is_whole:
            return await receive()  # the end of the connection, which may take its time
        with anyio.move_on_after(deadline_s - anyio.current_time()):
            message = await receive()
            received += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if received > MAX_SMALL_BODY_BYTES:
                raise HTTPException(413, f"a body may have {MAX_SMALL_BODY_BYTES} bytes here; send less")
            return message
        raise HTTPException(408, f"the body did not arrive within {BODY_TIMEOUT_S} s; send it again")

    return receive_within_limits
