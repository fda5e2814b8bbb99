"""The chats that are known by name, the home channels, and the outbox as an operator sees it: rows, and the
ports of the store that keep them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hermes.domain.address import Address, SourceKind
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.rows import OutboxRow, OutState
from hermes.domain.tool import ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownChannels:
    """The home channels, by account, and the chats that are known."""

    homes: Mapping[str, Address]
    channels: Sequence[Channel]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagingPort:
    """What a tool needs to send: a call's message is sent once, however often it is handed in."""

    send: Callable[[ToolContext, str, str], Awaitable[Sequence[Address]]]
    places: Callable[[ToolContext], Awaitable[KnownChannels]]
    spelled: Callable[[AgentId, TurnId, str], Awaitable[Sequence[Sequence[str]]]]
    """For each chat that a target means in a turn, its address first, the ways to write it that mean no
    other."""


class Directory(Protocol):
    """Chats and home channels belong to the gateway; `bound` tells of the sessions of one agent."""

    def note(self, channel: Channel) -> None:
        """Keep what was seen last of a chat; a name that is known stays if none is given."""

    def channels(self, limit: int = 5000, inside: Address | None = None) -> list[Channel]:
        """The latest first; of all chats, or only the threads of one."""

    def homes(self) -> dict[str, Address]:
        """The home channels that were chosen in a chat, by account."""

    def set_home(self, account: str, to: Address | None, at: datetime) -> None:
        """None takes back what was chosen."""

    def bound(self, to: Address) -> list[SessionId]:
        """The agent's sessions that people in this chat speak in."""


class OutboxMessages(Protocol):
    """Single messages of the outbox, for who sends once by a key and for who looks after it."""

    def get(self, key: str) -> OutboxRow | None: ...

    def begun(self, prefix: str) -> list[OutboxRow]:
        """The rows whose keys begin so, in order."""

    def find(self, states: Collection[OutState], limit: int = 100) -> list[OutboxRow]:
        """Messages in these states, oldest first; drafts are none."""

    def retry(self, key: str, at: datetime) -> bool:
        """Send a message again that is given up or waits, with all its time before it; False if there is no
        such message."""

    def drop(self, key: str, why: str) -> bool:
        """Give a message up for good; False if there is none that could still be sent."""


class DeliveryTables(Protocol):
    """The part of a transaction that knows where messages can go."""

    @property
    def directory(self) -> Directory: ...
    @property
    def post(self) -> OutboxMessages: ...
