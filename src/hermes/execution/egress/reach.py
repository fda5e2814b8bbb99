"""Which hosts may be reached. A name is looked up once, all its addresses are checked, and whoever connects
uses these addresses and looks up nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from hermes.domain.errors import Refused, Unreachable
from hermes.domain.safety.hosts import is_listed, is_metadata, is_public, names_inside, read_host
from hermes.domain.text import one_line

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a name."""
_MAIL_AND_OTHERS = """1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110
    111 113 115 117 119 123 135 137 139 143 161 179 389 427 445 465 512 513 514 515 526 530 531 532 540 548
    554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6379 6566 6665
    6666 6667 6668 6669 6679 6697 10080 11211"""
_OTHER_PROTOCOLS = frozenset(map(int, _MAIL_AND_OTHERS.split()))
"""Ports that browsers do not speak HTTP to either: a request there may be read as mail or a command. Others
are open: the wall is the address, and many services have a port of their own."""


async def look_up(name: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Reach(Struct, frozen=True, kw_only=True):
    """`allow` lists the hosts that may be reached, none = all of the open network; `deny` those that may not.
    `private` hosts may be inside a network of ours, with `private_all` every host. Where clouds tell a
    machine its keys nobody comes. `is_open` says which IP addresses are of the open network."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    private_all: bool = False
    look_up: LookUp | None = None
    is_open: Callable[[str], bool] = is_public

    async def pin(
        self, host: str, port: int, *, granted: bool = False, any_port: bool = False
    ) -> tuple[str, ...]:
        """The addresses to connect to. `Refused` if one of them may not be reached, `Unreachable` if there is
        none. `granted` says that the operator named this host, so that it may be inside; `any_port`, that the
        operator named the port."""
        name = self.check(host, port, granted=granted, any_port=any_port)
        try:
            found = (
                (name,) if _is_ip(name) else tuple(dict.fromkeys(await (self.look_up or look_up)(name, port)))
            )
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise Unreachable(f"The host {one_line(host, 100)} is not known.", offline=True)
        for address in found:
            if not self._may_be_at(name, address.partition("%")[0], port, granted):
                raise self._inside(host)
        return found

    def check(self, host: str, port: int, *, granted: bool = False, any_port: bool = False) -> str:
        """The host in its one spelling, if its words say nothing against it."""
        try:
            name = read_host(host)
        except ValueError:
            raise Refused(f"“{one_line(host, 100)}” is not the name of a host.") from None
        if not 0 < port < 65536 or (port in _OTHER_PROTOCOLS and not any_port):
            raise Refused(f"Port {port} is not one for the web.")
        if is_listed(name, port, self.deny):
            raise Refused(f"The settings forbid {name}.")
        if self.allow and not is_listed(name, port, self.allow):
            raise Refused(f"{name} is not among the hosts that the settings allow.")
        if is_metadata(name):
            raise self._inside(host)
        free = granted or self.private_all or is_listed(name, port, self.private)
        if not free and names_inside(name) and not (_is_ip(name) and self.is_open(name)):
            raise self._inside(host)
        return name

    def _may_be_at(self, name: str, address: str, port: int, granted: bool) -> bool:
        if is_metadata(address):
            return False
        if granted or self.private_all or self.is_open(address):
            return True
        return is_listed(name, port, self.private) or is_listed(address, port, self.private)

    def _inside(self, host: str) -> Refused:
        return Refused(f"{one_line(host, 100)} leads into a network that is not the open one.")


def _is_ip(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
