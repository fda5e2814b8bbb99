"""Which hosts belong to the open network, and which to this machine or its neighbours."""

from __future__ import annotations

import socket
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

_HOLDING_IPV4 = (
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
_NOT_OPEN = (  # what the `ipaddress` of some Pythons takes for global
    IPv4Network("192.0.0.0/24"),  # protocol assignments, RFC 6890
    IPv4Network("192.88.99.0/24"),  # the old 6to4 relays, RFC 7526
    IPv6Network("64:ff9b:1::/48"),  # NAT64 inside a network, RFC 8215
    IPv6Network("fec0::/10"),  # site-local, RFC 3879
    IPv6Network("3fff::/20"),  # documentation, RFC 9637
    IPv6Network("5f00::/16"),  # segment routing, RFC 9602
)
_OWN_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa")


def is_public(text: str) -> bool:
    """Whether an IP address is one of the open network: not this machine, not its neighbours, not a name
    for one of those inside another address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    inner = _inside(address) if isinstance(address, IPv6Address) else None
    if inner is not None and not is_public(str(inner)):
        return False
    if any(address in network for network in _NOT_OPEN):
        return False
    return address.is_global and not address.is_multicast


def plain_host(host: str) -> str:
    """A host as whoever connects to it reads it: full-width and circled digits are digits, and the other
    full stops that IDNA knows are dots."""
    for stop in "\u3002\uff0e\uff61":
        host = host.replace(stop, ".")
    return unicodedata.normalize("NFKC", host).rstrip(".").lower()


def leads_inside(url: str) -> bool:
    """Whether an address on the web names a host that is none of the open network, as far as its words tell:
    no name is looked up. One that cannot be read does."""
    try:
        host = plain_host(urlsplit(url).hostname or "")
    except ValueError:
        return True
    if ":" in host:
        return not is_public(host)
    try:
        # Also what programs take for one: 127.1, 0x7f000001, 2130706433.
        return not is_public(socket.inet_ntoa(socket.inet_aton(host)))
    except (OSError, UnicodeError):
        return "." not in host or any(host.endswith(f".{name}") for name in _OWN_NAMES)


def _inside(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in _HOLDING_IPV4):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
