"""
The webhook: its settings, the signature of a message, one delivery, and the task that sends.

Every message lies in the database before it is sent, so that a server that dies loses none, and one of several servers
sends each; the oldest is sent until it is taken. A delivery is a POST to an address that was checked, bounded in time.
No redirect is followed, no proxy asked, no cookie kept and no body read: the status is all of an answer that counts.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import anyio
import httpx

import fleetridge
from fleetridge_server.background import Task
from fleetridge_server.db.database import Database
from fleetridge_server.notify import outbox
from fleetridge_server.notify.addresses import Address, Allowed, NotAllowedError, allowed_by, permitted_addresses
from fleetridge_server.notify.payload import message
from fleetridge_server.settings import Settings

# Of a key that nobody guesses: as many bits as the shorter of the usual ciphers have.
_SHORTEST_KEY_BYTES = 16
_LONGEST_FILE_BYTES = 4096

# Keys in the form of the Standard Webhooks specification, whose signatures these are.
_ENCODED = "whsec_"


class WebhookError(ValueError):
    """The webhook's settings cannot be used; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Target:
    """
    A receiver, the key shared with it, and addresses that are not public and may be called.

    The path of its url may be a secret of its own, so that only the host is ever logged.
    """

    url: httpx.URL = field(repr=False)
    key: bytes = field(repr=False)
    allowed: Allowed

    @property
    def host(self) -> str:
        """Name or address of the receiver, as it is looked up and logged."""
        return self.url.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """Port, also where the address leaves it out."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)


def target_of(settings: Settings) -> Target | None:
    """
    Receiver that the settings name; None where they name none.

    Raises:
        WebhookError: an address that cannot be used, no key, or a wrong allow-list.
    """
    if settings.webhook_url is None:
        return None
    try:
        allowed = allowed_by(settings.webhook_allow)
    except ValueError as error:
        raise WebhookError(f"FLEETRIDGE_SERVER_WEBHOOK_ALLOW: {error}") from error
    url = _checked_url(settings.webhook_url, allowed)
    if settings.webhook_secret_file is None:
        raise WebhookError(
            "FLEETRIDGE_SERVER_WEBHOOK_SECRET_FILE: not set; name a file with the key that the receiver checks "
            "signatures with, such as one made by `openssl rand -hex 32`"
        )
    return Target(url, _key_in(settings.webhook_secret_file), allowed)


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """
    Signature of a message: HMAC-SHA256 over id, time and body.

    As the Standard Webhooks specification has it, so that receivers can check it with a library.
    """
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


def _checked_url(text: str, allowed: Allowed) -> httpx.URL:
    name = "FLEETRIDGE_SERVER_WEBHOOK_URL"
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as error:
        raise WebhookError(f"{name}: no address; give one such as https://alerts.example/hook") from error
    if url.scheme not in {"http", "https"} or not url.host or url.fragment:
        raise WebhookError(f"{name}: give an https address, such as https://alerts.example/hook")
    if url.userinfo:
        raise WebhookError(f"{name}: an address must not hold a password; the receiver knows us by the signature")
    if url.scheme == "http" and not allowed.names(url.host):
        raise WebhookError(
            f"{name}: plain http can be read on its way; use https, or add {url.host} to "
            "FLEETRIDGE_SERVER_WEBHOOK_ALLOW where the network is trusted"
        )
    return url


def _key_in(path: Path) -> bytes:
    name = "FLEETRIDGE_SERVER_WEBHOOK_SECRET_FILE"
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_FILE_BYTES + 1)
        text = content.decode().strip()
        key = (
            base64.b64decode(text.removeprefix(_ENCODED), validate=True) if text.startswith(_ENCODED) else text.encode()
        )
    except OSError as error:
        raise WebhookError(f"{name}: cannot read {path}: {error.strerror}; name a file with the key") from error
    except (UnicodeDecodeError, binascii.Error) as error:
        raise WebhookError(f"{name}: {path} holds no key; write text, or {_ENCODED} and base64") from error
    if not _SHORTEST_KEY_BYTES <= len(key) <= _LONGEST_FILE_BYTES or len(content) > _LONGEST_FILE_BYTES:
        raise WebhookError(f"{name}: {path} holds no key of {_SHORTEST_KEY_BYTES} bytes or more; make a longer one")
    return key


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


log = logging.getLogger(__name__)

# An evaluation takes longer than this to come about; asking the database costs nothing that shows.
_LOOK_EVERY_S = 5.0
_AFTER_TROUBLE_S = 30.0

Send = Callable[[Target, str, str], Delivered]


def notification_task(database: Database, target: Target, *, public_url: str) -> Task:
    """Sending to a receiver as a task of the server; a message that is broken off while it is sent is sent again."""
    log.info("alerts are sent to %s", target.host)
    notifier = Notifier(database, target, public_url=public_url)
    return Task("notifier", "alerts wait", notifier.send_all, first_after_s=0.0, after_trouble_s=_AFTER_TROUBLE_S)


class Notifier:
    """
    Sends alerts to one receiver.

    Args:
        database: has this server's schema.
        target: the receiver.
        public_url: at which people reach this server.
        send: sends one message; stands in for the network in tests.
    """

    def __init__(self, database: Database, target: Target, *, public_url: str, send: Send = deliver) -> None:
        self._database = database
        self._target = target
        self._public_url = public_url
        self._send = send

    def send_all(self, end: threading.Event) -> float:
        """
        Send all that is due; seconds until there may be more.

        Raises:
            sqlalchemy.exc.DBAPIError: the database does not answer just now.
        """
        while not end.is_set() and self.turn():
            pass
        return _LOOK_EVERY_S

    def turn(self) -> bool:
        """Make a message of alerts that are in none yet, and send the oldest message; whether to go on at once."""
        now = datetime.now(timezone.utc)
        with self._database.reading() as session:
            is_new, is_due = outbox.has_unsent(session), outbox.has_due(session, now)
        if is_new:
            self._make_message(now)
        return (is_new or is_due) and self._send_oldest()

    def _make_message(self, now: datetime) -> None:
        with self._database.writing() as session:
            alerts = outbox.unsent(session)
            if alerts:
                outbox.add_message(session, alerts, message(alerts, public_url=self._public_url), now)

    def _send_oldest(self) -> bool:
        with self._database.writing() as session:
            claimed = outbox.claim_oldest(session, datetime.now(timezone.utc))
        if claimed is None:
            return False
        result = self._send(self._target, str(claimed.message_id), claimed.body)
        now = datetime.now(timezone.utc)
        with self._database.writing() as session:
            if result.problem is None:
                outbox.note_sent(session, claimed, now)
                return True
            has_given_up = outbox.note_failure(
                session,
                claimed,
                now,
                problem=result.problem,
                is_final=result.is_final,
                retry_after_s=result.retry_after_s,
            )
        what = "given up" if has_given_up else "kept to be tried again"
        log.warning("a message of alerts is %s after %d tries: %s", what, claimed.tries, result.problem)
        return has_given_up
