"""The chats that are known by name, the home channels, and the outbox as an operator sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolContext

_LONGEST_NAME = 60


class Channel(Struct, frozen=True, kw_only=True):
    """A chat that somebody wrote from, or that a file names. `guild` is the server or workspace it is in."""

    address: Address
    name: str = ""
    kind: SourceKind | None = None
    guild: str = ""
    seen_at: datetime | None = None

    @property
    def label(self) -> str:
        """The chat as people know it, with where it is."""
        return f"{self.name} ({self.address})" if self.name else str(self.address)


class KnownChannels(Struct, frozen=True, kw_only=True):
    """The home channels, by account, and the chats that are known."""

    homes: Mapping[str, Address]
    channels: Sequence[Channel]


class MessagingPort(Struct, frozen=True, kw_only=True):
    """What a tool needs to send: a call's message is sent once, however often it is handed in."""

    send: Callable[[ToolContext, str, str], Awaitable[Sequence[Address]]]
    places: Callable[[ToolContext], Awaitable[KnownChannels]]
    spelled: Callable[[AgentId, TurnId, str], Awaitable[Sequence[Sequence[str]]]]
    """For each chat that a target means in a turn, its address first, the ways to write it that mean no
    other."""


def seen_channel(source: Source, at: datetime) -> Channel:
    """The chat that somebody just wrote from. A private chat is called like the person in it; a thread of it
    keeps the name that it was opened by."""
    person = source.kind is SourceKind.PRIVATE and source.address.thread is None
    name = source.chat_name or (source.user_name if person else None)
    return Channel(
        address=source.address,
        name=one_line(name or "", _LONGEST_NAME),
        kind=source.kind,
        guild=source.guild or "",
        seen_at=at,
    )
