"""Which addresses a webhook may go to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from fleetridge_server.notify.addresses import Allowed, allowed_by, is_permitted

NOTHING = Allowed()
INSIDE = [
    "127.0.0.1",
    "127.8.9.10",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "0.0.0.0",  # noqa: S104 # an address to refuse
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:a00:1::",
    "::10.0.0.1",
    "::ffff:0:10.0.0.1",
    "fec0::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_on_the_public_internet_is_refused(address: str) -> None:
    assert not is_permitted(ip_address(address), "hook.example", NOTHING)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::6810:84e5", "::ffff:93.184.215.14"])
def test_what_is_on_the_public_internet_is_permitted(address: str) -> None:
    assert is_permitted(ip_address(address), "hook.example", NOTHING)


def test_an_allowed_name_may_be_inside_the_network() -> None:
    allowed = allowed_by("Hook.example")
    assert is_permitted(ip_address("10.1.2.3"), "hook.example", allowed)
    assert is_permitted(ip_address("127.0.0.1"), "HOOK.example", allowed)
    assert not is_permitted(ip_address("10.1.2.3"), "other.example", allowed)
    assert not is_permitted(ip_address("10.1.2.3"), "sub.hook.example", allowed)


def test_an_allowed_name_leads_to_no_metadata_service() -> None:
    """Whoever can change a name's address must not read a machine's credentials."""
    allowed = allowed_by("hook.example")
    for address in (
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "::ffff:0:169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
    ):
        assert not is_permitted(ip_address(address), "hook.example", allowed), address


def test_an_allowed_range_is_allowed_under_every_name() -> None:
    allowed = allowed_by("10.1.0.0/16, 169.254.7.7")
    assert is_permitted(ip_address("10.1.2.3"), "any.example", allowed)
    assert is_permitted(ip_address("::ffff:10.1.2.3"), "any.example", allowed)
    assert is_permitted(ip_address("169.254.7.7"), "any.example", allowed)
    assert not is_permitted(ip_address("10.2.2.3"), "any.example", allowed)


@pytest.mark.parametrize("text", ["http://hook.example", "hook.example:9093", "*.example", "10.1.2.3/16", "a b"])
def test_an_entry_that_is_no_host_is_refused_by_its_words(text: str) -> None:
    with pytest.raises(ValueError, match="no host"):
        allowed_by(text)


def test_an_empty_list_allows_nothing() -> None:
    assert allowed_by(" , ") == NOTHING
