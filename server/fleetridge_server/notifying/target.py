"""Where the webhook goes and how it is signed, from the settings."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from fleetridge_server.notifying.addresses import Allowed, allowed_by
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
    A receiver.

    Attributes:
        url: its path may be a secret of its own, so that only the host is ever logged.
        key: shared with the receiver.
        allowed: addresses that are not public and may be called.
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
