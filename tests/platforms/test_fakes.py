"""The fake platforms pass the suite that every adapter has to pass, and a bad adapter fails it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hermes.domain.chats.address import Address, spell_platform
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept, Platform
from hermes.testing.platform import EDITS, KINDS, PLAIN, PlainFake, fake_platform, to_inbound
from hermes.testing.platform_suite import (
    CHECKS,
    DOUBTFUL,
    FAST_FAULTS,
    Check,
    Does,
    Fault,
    Shown,
    Testbed,
    conform,
)
from hermes.testing.world import Deed, Update, World

IN_PROCESS = "calls in one process have no connection that could die"
NO_FILES = "this world has names of files and no files"


class WorldBed(Testbed):
    """The fake world as a service."""

    kind = "edits"
    receives = frozenset(
        {Does.TEXT, Does.REPLY, Does.THREAD, Does.MENTION, Does.COMMAND, Does.BUTTON, Does.DELETE}
    )
    exempt = {
        "check_connections_may_die": IN_PROCESS,
        "check_a_long_outage": IN_PROCESS,
        "check_receives_files": NO_FILES,
        "check_sends_files_of_each_kind": NO_FILES,
        "check_malformed_payloads_are_left_out": "its updates are objects of ours",
    }
    chat = Address(platform="fake", chat="1")

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(full=full)
        self.world = World(keyed=self.kind == "keyed")
        self.world.trouble = self._trouble
        self._faults: dict[str | None, tuple[Fault, int, bool]] = {}
        self._last: Update | None = None
        self._done: Fault | None = None

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def connect(self) -> Platform:
        return fake_platform(self.kind, self.world, spell_platform("fake", self.account))

    def chats(self, count: int) -> list[Address]:
        return [Address(platform="fake", chat=str(number + 1)) for number in range(count)]

    async def do(self, does: Does, text: str, *, chat: Address | None = None, on: str = "") -> None:
        where: dict[str, Any] = {"chat": (chat or self.chat).chat, "user": "u1"}
        if does is Does.BUTTON:
            where["button"], text = text, ""
        if does is Does.MENTION:
            where |= {"mentions_us": True, "kind": "group"}
        if does is Does.THREAD:
            where |= {"thread": "7", "kind": "thread"}
        if does is Does.DELETE:
            where |= {"deletes": on, "user": ""}
        self._last = self.world.write(text, reply_to_us=does is Does.REPLY, **where)

    async def misdeliver(self, texts: Sequence[str]) -> None:
        for text in texts:
            await self.do(Does.TEXT, text)
            assert self._last is not None
            self.world.repeat(self._last)

    def acknowledged(self) -> int:
        return len(self.world.did(Deed.ACKED))

    def shown(self, chat: Address | None = None) -> list[Shown]:
        return [
            Shown(ref=one.ref, chat=one.chat, text=one.text, buttons=_labels(one.buttons), edits=one.edits)
            for one in self.world.messages.values()
            if not one.deleted and (chat is None or one.chat == chat.chat)
        ]

    def fail(self, fault: Fault, *, times: int = 1, done: bool = False, chat: Address | None = None) -> None:
        self._faults[None if chat is None else chat.chat] = (fault, times, done)

    def calm(self) -> None:
        self._faults.clear()

    def _trouble(self, what: str, chat: str) -> HermesError | None:
        for place in (chat, None):
            fault, times, done = self._faults.get(place, (Fault.GONE, 0, False))
            if times and what in (("sent",) if done else ("send", "edit")):
                self._faults[place] = (fault, times - 1, done)
                return self._error(fault)
        if what == "sent":
            done, self._done = self._done, None
            return None if done is None else self._error(done)
        thrown = self.chaos()
        if thrown is not None and thrown[1] and what == "send":
            self._done = thrown[0]
            return None
        return None if thrown is None else self._error(thrown[0])

    def _error(self, fault: Fault) -> HermesError:
        if fault in FAST_FAULTS:
            return Unreachable("too fast", after=self.delay)
        if fault in DOUBTFUL:
            return Unreachable("no answer", maybe_done=True)
        return NeedsLogin("log in again") if fault is Fault.REVOKED else Refused(fault.value)


def _labels(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(value.rpartition(":")[2] for value in values)


def bed(kind: str) -> type[WorldBed]:
    able = Manifest(name="fake", title="Fake", adapter="", capabilities=KINDS[kind])
    return type(f"{kind.title()}Bed", (WorldBed,), {"kind": kind, "manifest": able})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_fake_platform_conforms(kind: str, check: Check, full: bool) -> None:
    await conform(check, bed(kind), full=full)


class TooEager(PlainFake):
    """Acknowledges before it has stored."""

    async def run(self, accept: Accept, cursor: str | None) -> None:
        after = int(cursor or 0)
        while True:
            news = await self._service.poll(after)
            after = news[-1].seq
            await self._service.ack(after)
            await accept([to_inbound(update) for update in news], str(after))


class Forgetful(PlainFake):
    """Does not say how far it has come, and takes errors for its own."""

    async def send(self, *args: Any, **more: Any) -> Any:
        try:
            return await super().send(*args, **more)
        except HermesError as error:
            raise Refused(str(error)) from error


class Bad(WorldBed):
    manifest = Manifest(name="fake", title="Fake", adapter="", capabilities=PLAIN)

    def connect(self) -> Platform:
        return TooEager(self.world, PLAIN)


class Boasting(Bad):
    manifest = Manifest(name="fake", title="Fake", adapter="", capabilities=EDITS)

    def connect(self) -> Platform:
        return TooEager(self.world, EDITS)


class Muddled(Bad):
    def connect(self) -> Platform:
        return Forgetful(self.world, PLAIN)

    def samples(self) -> Sequence[Any]:
        return [{"message": {"text": "x", "id": 5}}]

    def convert(self, payload: Any) -> Sequence[Inbound]:
        update = Update(seq=1, delivery=str(payload["message"]["id"]), chat="1", user="u", text="x")
        return [to_inbound(update)]


Muddled.exempt = {}


@pytest.mark.parametrize(
    ("check", "made", "error", "words"),
    [
        ("check_stores_before_it_acknowledges", Bad, AssertionError, "before it was stored"),
        ("check_declared_abilities_are_there", Boasting, AssertionError, "edits is declared True"),
        ("check_keeps_to_its_account", Bad, AssertionError, "came from the account default"),
        ("check_errors_are_translated", Muddled, AssertionError, "became Refused"),
        ("check_malformed_payloads_are_left_out", Muddled, (KeyError, TypeError, AssertionError), ".*"),
    ],
)
async def test_a_bad_adapter_fails(
    check: str, made: type[Testbed], error: type[Exception], words: str
) -> None:
    wanted = next(one for one in CHECKS if one.__name__ == check)
    with pytest.raises(error, match=words):
        await conform(wanted, made)


async def test_an_exemption_names_a_check_and_a_reason() -> None:
    class Odd(Bad):
        exempt = {"check_nothing": "there is no such check"}

    with pytest.raises(AssertionError, match="no such checks"):
        await conform(CHECKS[0], Odd)
