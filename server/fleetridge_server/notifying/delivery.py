"""
One message to the receiver: a POST to an address that was checked, bounded in time, whose answer is only a status.

No redirect is followed, no proxy asked, no cookie kept and no body read: what a receiver says beyond its status is
nothing that we act on, however long it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import anyio
import httpx

import fleetridge
from fleetridge_server.notifying.addresses import Address, NotAllowedError, permitted_addresses
from fleetridge_server.notifying.target import Target, signature

# A receiver that queues what it takes answers in milliseconds. The whole, look-up included, ends after the deadline
# however slowly bytes drip in, well before another server may take the message over.
DEADLINE_S = 15.0
_TIMEOUTS = {"connect": 5.0, "read": 10.0, "write": 10.0, "pool": 5.0}

# Of addresses that a name has, so many are tried where one does not answer.
_ADDRESSES_TRIED = 3

# The receiver says that this very message is wrong, and would say so again. All else may pass or be put right: another
# key, a receiver that moved, a proxy in between.
_FINAL = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Delivered:
    """
    What became of a try.

    Attributes:
        problem: why it failed, without anything secret; None where the receiver took it.
        is_final: whether trying again is no use.
        retry_after_s: pause that the receiver asks for.
    """

    problem: str | None = None
    is_final: bool = False
    retry_after_s: float = 0.0


def deliver(target: Target, message_id: str, body: str) -> Delivered:
    """Send a message; never raises for what a network or a receiver does."""
    return anyio.run(_within_deadline, target, message_id, body.encode())


async def _within_deadline(target: Target, message_id: str, body: bytes) -> Delivered:
    try:
        with anyio.fail_after(DEADLINE_S):
            addresses = await permitted_addresses(target.host, target.port, target.allowed)
            return await _sent(target, addresses[:_ADDRESSES_TRIED], message_id, body)
    except TimeoutError:
        return Delivered(f"{target.host} did not answer within {DEADLINE_S:.0f} s")
    except NotAllowedError as error:
        return Delivered(str(error))
    except (httpx.HTTPError, OSError) as error:
        return Delivered(f"{target.host} cannot be reached ({type(error).__name__}); see whether it runs")


async def _sent(target: Target, addresses: Iterable[Address], message_id: str, body: bytes) -> Delivered:
    # The transport alone: a client would log the whole address, keep cookies and think about redirects.
    async with httpx.AsyncHTTPTransport(verify=httpx.create_ssl_context(), trust_env=False) as transport:
        *others, last = addresses
        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await _sent_to(transport, target, address, message_id, body)
        return await _sent_to(transport, target, last, message_id, body)


async def _sent_to(
    transport: httpx.AsyncHTTPTransport, target: Target, address: Address, message_id: str, body: bytes
) -> Delivered:
    timestamp = int(time.time())
    request = httpx.Request(
        "POST",
        target.url.copy_with(host=str(address)),  # the address that was checked, whatever the name resolves to next
        headers={
            "Host": target.url.netloc.decode("ascii"),
            "User-Agent": f"fleetridge-server/{fleetridge.__version__}",
            "Content-Type": "application/json",
            "Connection": "close",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(target.key, message_id, timestamp, body),
        },
        content=body,
        extensions={"timeout": _TIMEOUTS, "sni_hostname": target.host},
    )
    response = await transport.handle_async_request(request)
    try:
        return _judged(target, response)
    finally:
        await response.aclose()


def _judged(target: Target, response: httpx.Response) -> Delivered:
    status = response.status_code
    if response.is_success:
        return Delivered()
    wanted = response.headers.get("retry-after", "")
    what = f"{target.host} answers with status {status}"
    if response.is_redirect:
        what += ", to somewhere else; name that address itself in FLEETRIDGE_SERVER_WEBHOOK_URL"
    return Delivered(what, status in _FINAL, float(wanted) if wanted.isascii() and wanted.isdecimal() else 0.0)
