"""What a terminal and the gateway of its home say to each other: how somebody comes in, what a conversation
can do, and what is heard when the gateway is away. The terminal's side is in `remote.py`, the gateway's in
`served_door.py`; this file is light, for a terminal loads no gateway."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from enum import StrEnum
from secrets import token_hex
from typing import Protocol, TypeGuard

from msgspec import Struct

from hermes.domain.chats.address import LOCAL_DOOR
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId, QuestionId, SessionId, TurnId
from hermes.domain.turns.event import Asked, FeedItem, Record, Verdict
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import AnswerResult, Turn
from hermes.stream.fold.questions import for_people

PLATFORM = LOCAL_DOOR
LOCAL = "local"


class GatewayGone(Unreachable):
    """The gateway is not there (any more); `maybe_done` says that it may have heard the request."""


class Presence(StrEnum):
    """Whether the gateway of a conversation is there, is waited for, or is waited for no longer, in the words
    by which people hear of it."""

    HERE = "It is back."
    AWAY = "The gateway is gone; waiting for it …"
    LOST = (
        "The gateway did not come back. "
        "Start it (hermes gateway run, or only hermes); what was said goes on then."
    )


class Door(Protocol):
    """A conversation with an agent. Words have a key: said again with it, they are the same words.
    `images` are data URLs."""

    async def say(self, text: str, key: str, images: tuple[str, ...] = ()) -> Turn: ...

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[FeedItem]: ...

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> AnswerResult: ...

    async def stop(self, turn: TurnId) -> bool: ...

    async def command(self, text: str) -> CallerReply: ...


class WantedPassword(Struct, frozen=True, kw_only=True):
    """A command waits for a password; `id` is what it is given for."""

    id: str
    text: str


class PasswordLine(Protocol):
    """By which commands ask whoever watches their turn. Nothing of it is kept anywhere."""

    def wanted(self, turn: TurnId) -> AsyncGenerator[WantedPassword]: ...

    async def give(self, request: str, word: str) -> bool: ...


def new_words_key() -> str:
    return token_hex(12)


class TerminalState(Struct, frozen=True, kw_only=True):
    """What a terminal says of itself with every request, for the gateway keeps nothing of it in between: the
    agent that it speaks with (none: the one that routes and the default give it), the session that it is in,
    the model, the `folder` and the `tag` of one that it begins, whether that is to ignore SOUL.md and the
    project's files, whether its turns have `checkpoints` whatever the settings say, the only toolsets that
    they may use (none named: all), how many `steps` each may take (0: as many as any), the skills that it
    begins with, and `images` for the next words, as data URLs."""

    agent: AgentId | None = None
    session: SessionId | None = None
    model: str | None = None
    folder: str | None = None
    ignore_rules: bool = False
    checkpoints: bool = False
    tag: str | None = None
    toolsets: tuple[str, ...] = ()
    steps: int = 0
    skills: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


class SessionChoice(Struct, frozen=True, kw_only=True):
    """How somebody wants to come in: into a new conversation (with what is unfinished in this folder first,
    if `attach`), into the latest, or into the one they name."""

    named: str | None = None
    latest: bool = False
    attach: bool = True
    terminal: TerminalState = TerminalState()


class Exchange(Struct, frozen=True, kw_only=True):
    """What a person said in a session, and what they were answered."""

    question: str
    answer: str = ""


class UnfinishedSession(Struct, frozen=True, kw_only=True):
    """A session that is at work, or asks something, while nobody looks; `text` is what it was told last."""

    session: SessionId
    text: str
    folder: str | None = None


class ResumedSession(Struct, frozen=True, kw_only=True):
    """What there is for somebody who comes in: an earlier session with its last exchanges, its unfinished
    turns and which of their questions are settled, or nothing; what else is unfinished; and their agent, with
    its model, the names of its commands, and what it `has` to show: tools, servers of tools, skills."""

    agent: AgentId = MAIN_AGENT
    model: str = ""
    session: Session | None = None
    recent: tuple[Exchange, ...] = ()
    turns: tuple[Turn, ...] = ()
    settled: frozenset[QuestionId] = frozenset()
    elsewhere: tuple[UnfinishedSession, ...] = ()
    commands: tuple[str, ...] = ()
    has: tuple[tuple[str, str], ...] = ()


class ChatOption(Struct, frozen=True, kw_only=True):
    """Something to choose: what is written, and what it is. `usage` are the arguments of a command."""

    name: str
    about: str = ""
    usage: str = ""


class ChatMenu(Struct, frozen=True, kw_only=True):
    """What may be completed and picked in a chat, and who answers in it: the agent, the model with its window
    (0: not known), the sandbox of its commands (empty while it is looked for), and whether nothing is asked
    first (`yolo`)."""

    commands: tuple[ChatOption, ...] = ()
    models: tuple[str, ...] = ()
    skills: tuple[ChatOption, ...] = ()
    sessions: tuple[ChatOption, ...] = ()
    model: str = ""
    window: int = 0
    sandbox: str = ""
    agent: str = ""
    yolo: bool = False


class Visit(ResumedSession, frozen=True, kw_only=True):
    """Somebody is in, through this door. `back` waits for a gateway that is `GatewayGone`; `look_back` gives
    the session that they are in with its last exchanges."""

    door: Door
    back: Callable[[], Awaitable[None]]
    look_back: Callable[[SessionId], Awaitable[ResumedSession]]
    passwords: PasswordLine | None = None
    progress: Callable[[], AsyncGenerator[str]] | None = None
    """How it stands with the command that is being run."""
    menu: Callable[[], Awaitable[ChatMenu]] | None = None
    delete: Callable[[str], Awaitable[None]] | None = None
    """Deletes a session."""

    def asks(self, record: Record) -> TypeGuard[Asked]:
        """Whether somebody here is to answer this."""
        return isinstance(record, Asked) and for_people(record) and record.question not in self.settled
