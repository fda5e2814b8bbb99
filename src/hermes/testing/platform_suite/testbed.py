"""The other side of an adapter, as a test moves it: the service, its people, its faults.

An adapter's tests subclass `Testbed` over a fake server or a real one. What a platform does not have it
leaves out of `receives` and `faults`; a check that cannot apply is named in `exempt` with the reason."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from hermes.domain.chats.adapter import AdapterContext, OpenFile, no_files
from hermes.domain.chats.address import DEFAULT_ACCOUNT, Address
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.chats.message import Inbound, MediaKind
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import HermesError
from hermes.domain.ports.platform import Accept, Platform
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings

PATIENCE = 40.0
_LONG = 30.0
"""Longer than a busy machine ever stands still."""


class Does(StrEnum):
    """What a person may do."""

    TEXT = "text"
    REPLY = "reply"
    THREAD = "thread"
    EDIT = "edit"
    DELETE = "delete"
    IMAGE = "image"
    VOICE = "voice"
    FILE = "file"
    MENTION = "mention"
    COMMAND = "command"
    BUTTON = "button"


class Fault(StrEnum):
    """How a call of the adapter's may go wrong."""

    TOO_FAST = "too fast for this chat, with the seconds to wait"
    TOO_FAST_ALL = "too fast overall, with the seconds to wait"
    REVOKED = "the credentials do not count any more"
    GONE = "the chat is gone, or we are shut out of it"
    TOO_LONG = "the message is too long"
    BROKEN = "the service has a fault of its own (500)"
    RESET = "the connection dies before the answer"
    HANG = "no answer ever comes"


DOUBTFUL = frozenset({Fault.BROKEN, Fault.RESET, Fault.HANG})
"""Nobody knows whether such a call took effect."""
FAST_FAULTS = frozenset({Fault.TOO_FAST, Fault.TOO_FAST_ALL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of ours as the service has it now; `text` is as it was sent, with the platform's markup."""

    ref: str
    chat: str
    text: str
    thread: str | None = None
    files: tuple[tuple[MediaKind, bytes], ...] = ()
    buttons: tuple[str, ...] = ()
    reply_to: str | None = None
    edits: int = 0


Chaos = Callable[[], tuple[Fault, bool] | None]


def _no_chaos() -> None:
    """All goes well."""


class Testbed(ABC):
    """One service with one bot account, one private chat (`chat`) and others beside it (`chats`)."""

    __test__: ClassVar[bool] = False
    """Not a class of tests, whatever its name begins with."""
    manifest: ClassVar[Manifest]
    receives: ClassVar[frozenset[Does]] = frozenset(Does)
    faults: ClassVar[frozenset[Fault]] = frozenset(Fault)
    exempt: ClassVar[Mapping[str, str]] = {}
    """Checks that cannot apply here, by name, and why."""
    delay: ClassVar[float] = 3.0
    """The seconds that a service which finds us too fast tells us to wait."""
    short: ClassVar[float] = 1.5
    """The seconds after which an adapter gives up on an answer while some may never come."""
    content: ClassVar[bytes] = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
    """What is in every file that people send."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        """Meet the counts in full; otherwise a small seeded sample."""
        self._chaos: Chaos = _no_chaos
        self._hangs = False
        self._dials: list[Callable[[float], None]] = []
        self.open_file: OpenFile = no_files
        """Where adapters made by `connect` get the files they send."""
        self.account = DEFAULT_ACCOUNT
        """What the operator calls the account that adapters are made for."""
        self.clock: Clock = SystemClock()
        """The clock of the machine they run on."""
        self.said: dict[str, str] = {}
        """What the operator says beside `variables`, or otherwise."""

    async def __aenter__(self) -> Testbed:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Start the service."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def connect(self) -> Platform:
        """A new adapter for the account, as a restart makes one. How long it waits for an answer is set by
        `patient`."""

    def patient(self, dial: Callable[[float], None]) -> None:
        """`dial` sets for how many seconds an adapter waits for an answer: a short time while some may never
        come, and otherwise a long one."""
        self._dials.append(dial)
        dial(self._patience)

    @property
    def chaos(self) -> Chaos:
        """Asked at every send and edit that `fail` says nothing of: how it goes wrong, and whether it takes
        effect all the same; None if it goes well."""
        return self._chaos

    @chaos.setter
    def chaos(self, chaos: Chaos) -> None:
        self._chaos = chaos
        self.hang(self._hangs)

    def hang(self, hangs: bool) -> None:
        """Told by `fail` and `calm`: from now on answers may never come, or all of them do."""
        self._hangs = hangs
        for dial in self._dials:
            dial(self._patience)

    @property
    def _patience(self) -> float:
        return self.short if self._hangs or self._chaos is not _no_chaos else _LONG

    def variables(self) -> Mapping[str, str]:
        """What an operator has to say so that a gateway reaches this service."""
        return {}

    def context(self) -> AdapterContext:
        said = {**self.variables(), **self.said}
        return AdapterContext(
            settings=PlatformSettings(),
            find=lambda name: Secret(said[name]) if name in said else None,
            open_file=self.open_file,
            account=self.account,
            clock=self.clock,
        )

    # --- people ---

    @property
    @abstractmethod
    def chat(self) -> Address:
        """A private chat with a person."""

    @abstractmethod
    def chats(self, count: int) -> list[Address]:
        """So many different private chats."""

    @abstractmethod
    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        """A person does something, in the private chat if none is named (a mention: in a group). `on` is
        the message that is answered to, edited or deleted (their last one), or whose button with the value
        `text` is pressed."""

    async def misdeliver(self, texts: Sequence[str]) -> None:
        """These messages come out of order, and again, as badly as this service ever does it."""
        raise NotImplementedError

    def acknowledged(self) -> int | None:
        """How many deliveries will not be made again; None where nothing is acknowledged."""
        return None

    # --- what became of what the adapter did ---

    @abstractmethod
    def shown(self, chat: Address | None = None) -> list[Shown]:
        """Messages of ours that people see, in the order they first appeared."""

    def answerable(self) -> str | None:
        """A message in the private chat that a draft answers, where drafts are shown only below one."""
        return None

    def typing_chat(self) -> Address:
        """Where we are seen typing; not every service shows that everywhere."""
        return self.chat

    def typed(self) -> int:
        """How often we were seen typing."""
        return 0

    def reactions(self) -> list[str]:
        return []

    # --- trouble ---

    @abstractmethod
    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        """The next sends and edits (in this chat) fail so; with `done` they take effect all the same, which
        is for doubtful faults only. Replaces what was to fail in the same place before."""

    @abstractmethod
    def calm(self) -> None:
        """No more trouble."""

    async def cut(self) -> None:
        """Every connection dies; new ones are taken."""
        raise NotImplementedError

    async def down(self) -> None:
        """Nobody can connect any more. People go on writing; what the service keeps for us it keeps."""
        raise NotImplementedError

    async def up(self) -> None:
        raise NotImplementedError

    # --- the converter ---

    def samples(self) -> Sequence[Any]:
        """Recorded payloads, one of each kind there is."""
        return []

    def convert(self, payload: Any) -> Sequence[Inbound]:
        """What the adapter's converter makes of a payload."""
        raise NotImplementedError


MakeTestbed = Callable[[], Testbed]


class Inboxes:
    """Stands for the gateway: stores what comes, once each, and remembers the cursor over restarts."""

    def __init__(self) -> None:
        self.items: list[Inbound] = []
        self.cursor: str | None = None
        self.batches = 0

    async def accept(self, items: Sequence[Inbound], cursor: str | None) -> None:
        known = {item.delivery for item in self.items}
        self.batches += 1
        for item in items:
            if item.delivery not in known:
                known.add(item.delivery)
                self.items.append(item)
        self.cursor = cursor if cursor is not None else self.cursor

    @property
    def texts(self) -> list[str]:
        return [item.text for item in self.items]


@contextlib.asynccontextmanager
async def running(
    platform: Platform, accept: Accept, cursor: str | None
) -> AsyncIterator[asyncio.Task[None]]:
    """The adapter as its host runs it, once; its end is in the task."""
    task = asyncio.create_task(platform.run(accept, cursor))
    await asyncio.sleep(0)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,), timeout=PATIENCE)
        assert task.done(), "the adapter does not let go"
        if not task.cancelled() and isinstance(task.exception(), Exception):
            broken = task.exception()
            assert isinstance(broken, HermesError), f"a foreign error came out of it: {broken!r}"


@contextlib.asynccontextmanager
async def hosted(bed: Testbed, inboxes: Inboxes) -> AsyncIterator[None]:
    """The adapter as its host keeps it: made anew whenever it ends, from the stored cursor, at once."""

    async def keep() -> None:
        while True:
            with contextlib.suppress(HermesError):
                await bed.connect().run(inboxes.accept, inboxes.cursor)
            await asyncio.sleep(0.002)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(
    what: Callable[[], bool], otherwise: str | Callable[[], str], patience: float = PATIENCE
) -> None:
    try:
        async with asyncio.timeout(patience):
            while not what():  # noqa: ASYNC110
                await asyncio.sleep(0.003)
    except TimeoutError:
        raise AssertionError(otherwise if isinstance(otherwise, str) else otherwise()) from None
