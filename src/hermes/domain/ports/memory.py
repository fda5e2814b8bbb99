"""What a memory provider may do beside telling notes (`Memory`): each ability is a protocol of its own, and a
provider has those that it needs. Every call has a deadline; who raises or is late is left out, and told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from hermes.domain.ids import SessionId, TurnId
from hermes.domain.tools.tool import Tool


class MemoryScope(Struct, frozen=True, kw_only=True):
    """Whose memory is meant: a person as entries name them (`owner`, `telegram:123`), in a session."""

    session: SessionId
    person: str
    platform: str = ""


class TurnExchange(Struct, frozen=True, kw_only=True):
    """What a person said in a turn and what they were answered. It may be told again after a crash; the
    turn's id tells that."""

    turn: TurnId
    words: str
    answer: str
    at: datetime


class OpensSessions(Protocol):
    async def open(self, scope: MemoryScope) -> None:
        """Before anything else is asked for a session, once in each life of the gateway."""


class Recalls(Protocol):
    async def recall(self, words: str, scope: MemoryScope) -> str:
        """What is known that matters for a person's words; told with them, as data."""


class Learns(Protocol):
    async def learn(self, exchange: TurnExchange, scope: MemoryScope) -> None:
        """After a turn, in the background and in order. What raises is tried again."""


class EndsSessions(Protocol):
    async def session_end(self, scope: MemoryScope) -> None:
        """A conversation was left; it may be gone on with later."""


class HearsCompression(Protocol):
    async def before_compression(self, words: str, session: SessionId) -> str:
        """A conversation is about to be told shorter; what this returns goes into the summary."""


class BringsTools(Protocol):
    def tools(self) -> Sequence[Tool]:
        """Run by the same dispatcher as all others."""


class ForgetsPeople(Protocol):
    async def forget(self, person: str) -> None: ...


class Closes(Protocol):
    async def close(self) -> None: ...


class MemoryProvider(Protocol):
    """A provider as control sees it: safe to call, whatever the foreign code does."""

    @property
    def recalls(self) -> bool: ...

    @property
    def learns(self) -> bool: ...

    async def recall(self, words: str, scope: MemoryScope) -> str:
        """Ready to be told with the words; empty if there is nothing, or it failed."""

    async def learn(self, exchange: TurnExchange, scope: MemoryScope) -> bool:
        """False if it failed and may be tried again."""

    async def session_end(self, scope: MemoryScope) -> None: ...
