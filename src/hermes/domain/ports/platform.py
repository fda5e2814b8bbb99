"""What an adapter offers the gateway: `Platform` is required, the other protocols are abilities some have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from hermes.domain.chats.adapter import Finding
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities, MenuEntry
from hermes.domain.chats.message import Body, Inbound, Receipt
from hermes.domain.ports.world import Sink

Accept = Callable[[Sequence[Inbound], str | None], Awaitable[None]]


class Platform(Protocol):
    """One account on one platform. Further abilities are the small protocols below."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, accept: Accept, cursor: str | None) -> None: ...

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt: ...


@runtime_checkable
class OutsideWindow(Protocol):
    async def send_outside(self, to: Address, body: Body, *, key: str) -> Receipt | None:
        """Send to somebody who has not written within `reply_window`, in the way that the platform has for
        that (a template). None if there is none: it waits until they write."""


@runtime_checkable
class Edits(Protocol):
    async def edit(self, receipt: Receipt, body: Body) -> None: ...


@runtime_checkable
class Previews(Protocol):
    async def preview(self, to: Address, number: int, body: Body) -> None:
        """Show words that are still being written, as something that is no message and goes by itself; those
        with the same number are one that grows."""


@runtime_checkable
class Deletes(Protocol):
    async def delete(self, receipt: Receipt) -> None: ...


@runtime_checkable
class History(Protocol):
    async def find_sent(self, to: Address, key: str) -> Receipt | None: ...


@runtime_checkable
class Fetches(Protocol):
    async def fetch(self, ref: str, sink: Sink) -> str | None:
        """Put the file that an attachment's `ref` stands for into the sink, piece by piece, from the
        platform's own hosts alone; its name, if only they tell it. A `Refused` says why it is not to be had,
        in words that the person and the model are shown (“the link has expired”): no address and no token in
        them."""


@runtime_checkable
class Typing(Protocol):
    async def typing(self, to: Address) -> None: ...


@runtime_checkable
class Reactions(Protocol):
    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        """Put a reaction on a message, if one is named; `instead` is one of ours that goes. What is there
        already, or gone already, is fine."""


@runtime_checkable
class Threads(Protocol):
    async def open_thread(self, parent: Address, name: str) -> Address: ...


@runtime_checkable
class Menu(Protocol):
    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        """Put these commands into the platform's own menu, in place of those that were there."""


@runtime_checkable
class Checks(Protocol):
    async def check(self) -> Sequence[Finding]:
        """Ask the live service whether the credentials work and what they lack. Changes nothing there, and
        leaves nothing open. May raise what the adapter's other calls raise."""


@runtime_checkable
class Notices(Protocol):
    def notice(self) -> str:
        """What an operator should know of an adapter that is connected; empty if all is well."""
