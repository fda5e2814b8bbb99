"""Which hosts belong to the open network, and which to this machine or its neighbours; the one spelling of a
host, and whether a list names it. No name is looked up here."""

from __future__ import annotations

import re
import socket
import unicodedata
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

_HOLDING_IPV4 = (
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_NOT_OPEN = (  # what the `ipaddress` of some Pythons takes for global
    IPv4Network("192.0.0.0/24"),  # protocol assignments, RFC 6890
    IPv4Network("192.88.99.0/24"),  # the old 6to4 relays, RFC 7526
    IPv6Network("fec0::/10"),  # site-local, RFC 3879
    IPv6Network("3fff::/20"),  # documentation, RFC 9637
    IPv6Network("5f00::/16"),  # segment routing, RFC 9602
)
_METADATA = (  # where clouds tell a machine its own keys
    IPv4Network("169.254.0.0/16"),
    IPv4Network("100.100.100.200/32"),  # Alibaba
    IPv4Network("168.63.129.16/32"),  # Azure, an address of the open network
    IPv4Network("192.0.0.192/32"),  # Oracle
    IPv6Network("fd00:ec2::/32"),  # Amazon
    IPv6Network("fd20:ce::254/128"),  # Google
    IPv6Network("fd00:42::42/128"),  # Scaleway
    IPv6Network("fe80::/10"),
    IPv6Network("64:ff9b:1::/48"),  # NAT64 inside a network, RFC 8215: it may lead to any of these
)
_METADATA_NAMES = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data")
_OWN_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_LONGEST_NAME = 253


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
    if is_metadata(text) or any(address in network for network in _NOT_OPEN):
        return False
    return address.is_global and not address.is_multicast


def is_metadata(text: str) -> bool:
    """Whether an IP address or a name is one at which a machine in a cloud is told its keys. No grant opens
    these. What is neither an address nor a name is one."""
    try:
        host = read_host(text)
        address = ip_address(host)
    except ValueError:
        try:
            return _is_below(read_host(text), _METADATA_NAMES)
        except ValueError:
            return True
    inner = _inside(address) if isinstance(address, IPv6Address) else None
    return any(each in network for each in (address, inner or address) for network in _METADATA)


def plain_host(host: str) -> str:
    """A host as whoever connects to it reads it: full-width and circled digits are digits, and the other
    full stops that IDNA knows are dots."""
    for stop in "\u3002\uff0e\uff61":
        host = host.replace(stop, ".")
    return unicodedata.normalize("NFKC", host).rstrip(".").lower()


def read_host(text: str) -> str:
    """A host in its one spelling: a name in ASCII, or the IP address that programs take it for, also from
    127.1, 0x7f000001, 2130706433 and 0177.0.0.1. A `ValueError` if it is neither."""
    host = plain_host(text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text)
    if len(host) > _LONGEST_NAME or "%" in host:
        raise ValueError("no host, or one with a zone")
    if ":" in host:
        return str(IPv6Address(host))
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # As in browsers: a name that ends in a number is an address or nothing.
        if not host.isascii() or any(map(str.isspace, host)):
            raise ValueError("no address")
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            raise ValueError("no address") from None
    name = host if host.isascii() else host.encode("idna").decode()
    if not _NAME.fullmatch(name):
        raise ValueError("no name of a host")
    return name


def leads_inside(url: str) -> bool:
    """Whether an address on the web names a host that is none of the open network, as far as its words tell:
    no name is looked up. One that cannot be read does."""
    try:
        host = read_host(urlsplit(url).hostname or "")
    except ValueError:
        return True
    return names_inside(host)


def names_inside(host: str) -> bool:
    """The same of a host in its one spelling."""
    try:
        ip_address(host)
    except ValueError:
        return "." not in host or _is_below(host, _OWN_NAMES) or is_metadata(host)
    return not is_public(host)


def is_listed(host: str, port: int, listed: Iterable[str], ports: Iterable[int] = ()) -> bool:
    """Whether a list names a host (`example.org`, `10.0.0.1`), all below one (`*.example.org`), a network
    (`10.0.0.0/8`), every host (`*`), or one of them with a port (`example.org:8080`). Without a port it means
    `ports`; none = every port. `host` is in its one spelling; an entry that cannot be read names nothing."""
    usual = tuple(ports)
    for entry in listed:
        name, wanted = _split_port(entry.strip().lower())
        if (port == wanted if wanted else not usual or port in usual) and _is_named(host, name):
            return True
    return False


def _split_port(entry: str) -> tuple[str, int]:
    """0 = it says none, -1 = it says something that is none."""
    name, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]") or (":" in name and not name.endswith("]")):
        return entry, 0
    return name, int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 65536 else -1


def _is_named(host: str, entry: str) -> bool:
    if entry == "*":
        return True
    try:
        if "/" in entry:
            return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
        if entry.startswith("*."):
            return host.endswith(f".{read_host(entry[2:])}")
        return host == read_host(entry)
    except ValueError:
        return False


def _is_below(host: str, names: Iterable[str]) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in names)


def _inside(address: IPv6Address) -> IPv4Address | None:
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in network for network in _HOLDING_IPV4) or int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return low
    return address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
