"""The webhook's settings."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest

from fleetridge_server.app import create_app
from fleetridge_server.notify.webhook import WebhookError, signature, target_of
from fleetridge_server.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0123456789abcdef0123456789abcdef"
URL = "https://hook.example/path-secret"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    return path


def test_without_an_address_nobody_is_told() -> None:
    assert target_of(Settings()) is None


def test_an_address_and_a_key_make_a_receiver(key_file: Path) -> None:
    target = target_of(Settings(webhook_url=URL, webhook_secret_file=key_file))
    assert target is not None
    assert (target.host, target.port, target.key) == ("hook.example", 443, KEY.encode())


def test_neither_the_path_nor_the_key_is_printed(key_file: Path) -> None:
    """Settings and receivers end up in logs."""
    settings = Settings(webhook_url=URL, webhook_secret_file=key_file)
    printed = f"{settings!r} {target_of(settings)!r}"
    assert "path-secret" not in printed
    assert KEY not in printed


def test_a_key_may_be_in_the_form_of_standard_webhooks(key_file: Path) -> None:
    key_file.write_text(f"whsec_{base64.b64encode(KEY.encode()).decode()}")
    target = target_of(Settings(webhook_url=URL, webhook_secret_file=key_file))
    assert target is not None
    assert target.key == KEY.encode()


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "https"),
        ("hook.example", "https"),
        ("ftp://hook.example", "https"),
        ("http://hook.example", "WEBHOOK_ALLOW"),
        ("https://user:secret@hook.example", "password"),
        ("https://[::1", "https"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(key_file: Path, url: str, remedy: str) -> None:
    with pytest.raises(WebhookError, match=remedy) as raised:
        target_of(Settings(webhook_url=url, webhook_secret_file=key_file))
    assert "secret@" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"short", b"whsec_!!!", b"\xff" * 32, b"x" * 5000])
def test_what_is_no_key_is_refused_and_not_repeated(key_file: Path, content: bytes) -> None:
    key_file.write_bytes(content)
    with pytest.raises(WebhookError, match="SECRET_FILE") as raised:
        target_of(Settings(webhook_url=URL, webhook_secret_file=key_file))
    assert "short" not in str(raised.value)


@pytest.mark.parametrize("path", [None, "/no/such/file"])
def test_a_webhook_is_signed_or_not_sent(path: Path | None) -> None:
    with pytest.raises(WebhookError, match="SECRET_FILE"):
        target_of(Settings(webhook_url=URL, webhook_secret_file=path))


def test_a_wrong_allow_list_is_refused(key_file: Path) -> None:
    with pytest.raises(WebhookError, match="WEBHOOK_ALLOW"):
        target_of(Settings(webhook_url=URL, webhook_secret_file=key_file, webhook_allow="http://x"))


def test_a_server_with_wrong_settings_does_not_start() -> None:
    with pytest.raises(WebhookError):
        create_app(Settings(webhook_url=URL))


def test_a_signature_is_what_any_library_of_standard_webhooks_computes() -> None:
    """HMAC-SHA256 in base64 over id, time and body, with dots between."""
    expected = base64.b64encode(hmac.new(b"key", b'id.1700000000.{"a":1}', hashlib.sha256).digest()).decode()
    assert signature(b"key", "id", 1700000000, b'{"a":1}') == f"v1,{expected}"
