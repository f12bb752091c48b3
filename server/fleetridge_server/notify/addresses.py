"""
Where a webhook may go: nowhere inside the network, unless somebody allowed it.

A server that posts to an address from its settings can be made to post to what only it can reach: the cloud's metadata
service, a database on loopback. So the address that a name resolves to is checked, and that very address is called.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import anyio

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Addresses of IPv6 that stand for one of IPv4, its low 32 bits, somewhere on the way: translated by a well-known prefix
# (RFC 6052), by a network's own (RFC 8215) or by the host (RFC 2765), and compatible with IPv4 (RFC 4291).
_FOR_IPV4 = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")))
_LOW_32_BITS = 2**32 - 1

# Where clouds lend credentials to whoever asks, beside the link (by the manuals of AWS, Google Cloud, Alibaba).
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200")))

# All that is handed out to the public internet, but for examples in documents (RFC 9637).
_PUBLIC_IPV6 = ip_network("2000::/3")
_EXAMPLES = ip_network("3fff::/20")


class NotAllowedError(RuntimeError):
    """A name has no address that may be called; the message says what to allow."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """
    What may be called although it is not on the public internet.

    Hosts may be anywhere but on the link, where metadata services live; networks are ranges, whatever they are.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def names(self, host: str) -> bool:
        """Whether a host is allowed by its name, or as an address."""
        if host.casefold() in self.hosts:
            return True
        try:
            return self.holds(ip_address(host))
        except ValueError:
            return False

    def holds(self, address: Address) -> bool:
        """Whether an address is in an allowed range."""
        return any(address in network for network in self.networks)


def allowed_by(text: str) -> Allowed:
    """
    Allow-list from its spelling: names, addresses and ranges between commas.

    Raises:
        ValueError: an entry with a port, a path or a scheme.
    """
    entries = [part.strip() for part in text.split(",") if part.strip()]
    networks = {entry: network for entry in entries if (network := _network_or_none(entry)) is not None}
    hosts = [entry for entry in entries if entry not in networks]
    for host in hosts:
        if any(character in host for character in ":/@*? "):
            raise ValueError(
                f"{host!r} is no host; write names, addresses or ranges, such as alerts.internal,10.1.0.0/16"
            )
    return Allowed(frozenset(host.casefold() for host in hosts), tuple(networks.values()))


def _network_or_none(entry: str) -> Network | None:
    try:
        return ip_network(entry)
    except ValueError:
        return None


async def permitted_addresses(host: str, port: int, allowed: Allowed) -> list[Address]:
    """
    Addresses of a host that may be called, the preferred one first.

    Raises:
        NotAllowedError: it has none.
        OSError: it cannot be resolved.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(ip_address(str(place[0]).partition("%")[0]) for *_, place in found))
    permitted = [address for address in addresses if is_permitted(address, host, allowed)]
    if not permitted:
        raise NotAllowedError(
            f"{host} is {_listed(addresses)}, which is not on the public internet; if that is meant, add it to "
            "FLEETRIDGE_SERVER_WEBHOOK_ALLOW"
        )
    return permitted


def is_permitted(address: Address, host: str, allowed: Allowed) -> bool:
    """Whether an address that a host resolved to may be called."""
    real = _behind(address)
    if allowed.holds(address) or allowed.holds(real):
        return True
    if real.is_link_local or real.is_multicast or real.is_unspecified or real in _METADATA:
        return False
    return _is_public(real) or host.casefold() in allowed.hosts


def _is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, also by rules that are newer than the standard library's."""
    if isinstance(address, IPv4Address):
        return address.is_global
    return address.is_global and address in _PUBLIC_IPV6 and address not in _EXAMPLES


def _behind(address: Address) -> Address:
    """Address of IPv4 that one of IPv6 leads to, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if int(address) > 1 and any(address in network for network in _FOR_IPV4):
        return IPv4Address(int(address) & _LOW_32_BITS)
    return address.ipv4_mapped or address.sixtofour or address


def _listed(addresses: Sequence[Address]) -> str:
    return ", ".join(map(str, addresses)) or "nowhere"
