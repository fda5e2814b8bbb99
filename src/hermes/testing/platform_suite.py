"""The conformance suite for platforms: public checks that every adapter has to pass.

An adapter is tried against a service under the test's control, the `Stage`. What it declares it must do, what
it does it must declare, and nothing is acknowledged before it is stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from hermes.domain.address import Address
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.message import Body, Inbound, Receipt
from hermes.domain.ports import Deletes, Edits, Fetches, History, Menu, Platform

_PATIENCE = 40.0


class Stage(Protocol):
    """The other side of the adapter, as a test moves it."""

    @property
    def chat(self) -> Address: ...

    def deliver(self, text: str) -> None:
        """A person writes."""

    def acknowledged(self) -> int:
        """How many deliveries the adapter has acknowledged."""

    def seen(self) -> list[str]:
        """What people see in the chat."""

    def fail_next(self, error: HermesError | None) -> None:
        """The service refuses or drops the next call; None for no more trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An adapter on a stage; `connect` makes a new adapter on the same stage, as a restart does."""

    connect: Callable[[], Platform]
    stage: Stage


MakeSetting = Callable[[], AbstractAsyncContextManager[Setting]]


async def check_declared_abilities_are_there(make: MakeSetting) -> None:
    async with make() as setting:
        platform = setting.connect()
        able = platform.capabilities
        _same("edits", able.edits, isinstance(platform, Edits))
        _same("deletes", able.deletes, isinstance(platform, Deletes))
        _same("history", able.history, isinstance(platform, History))
        _same("fetches", able.fetches, isinstance(platform, Fetches))
        _same("a menu", able.menu is not None, isinstance(platform, Menu))
        assert able.max_text >= 20, "no platform takes so little text"


async def check_receives_and_acknowledges_after_storing(make: MakeSetting) -> None:
    async with make() as setting:
        gate = asyncio.Event()
        got: list[Inbound] = []

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            await gate.wait()
            got.extend(items)

        async with _running(setting.connect(), accept, None):
            setting.stage.deliver("hello")
            await asyncio.sleep(0.05)
            assert setting.stage.acknowledged() == 0, "acknowledged before it was stored"
            gate.set()
            await _until(lambda: setting.stage.acknowledged() == 1, "never acknowledged")
        assert [item.text for item in got] == ["hello"]
        assert got[0].source.user, "a message without a stable user id"
        assert got[0].source.address.chat == setting.stage.chat.chat


async def check_goes_on_from_its_cursor(make: MakeSetting) -> None:
    async with make() as setting:
        cursor: str | None = None
        got: list[str] = []

        async def accept(items: Sequence[Inbound], at: str | None) -> None:
            nonlocal cursor
            got.extend(item.text for item in items)
            cursor = at if at is not None else cursor

        for round_ in range(5):
            setting.stage.deliver(f"sent while away {round_}")
            async with _running(setting.connect(), accept, cursor):
                await _until(lambda: len(got) > round_ * 2, "what came while it was away is missing")  # noqa: B023
                setting.stage.deliver(f"live {round_}")
                await _until(lambda: len(got) > round_ * 2 + 1, "a live message is missing")  # noqa: B023
        assert len(got) == len(set(got)) == 10, f"something came twice: {got}"


async def check_a_failed_accept_is_delivered_again(make: MakeSetting) -> None:
    async with make() as setting:

        async def refuse(items: Sequence[Inbound], at: str | None) -> None:
            raise Unreachable("nothing can be stored")

        setting.stage.deliver("keep me")
        with contextlib.suppress(Unreachable):
            await asyncio.wait_for(setting.connect().run(refuse, None), _PATIENCE)
        assert setting.stage.acknowledged() == 0, "acknowledged what was not stored"
        got: list[str] = []

        async def accept(items: Sequence[Inbound], at: str | None) -> None:
            got.extend(item.text for item in items)

        async with _running(setting.connect(), accept, None):
            await _until(lambda: got == ["keep me"], "it was not delivered again")


async def check_sends_edits_deletes(make: MakeSetting) -> None:
    async with make() as setting:
        platform, stage = setting.connect(), setting.stage
        receipt = await _send(platform, stage.chat, "first", "k1")
        assert stage.seen() == ["first"]
        if isinstance(platform, Edits):
            await platform.edit(receipt, Body(text="second"))
            await platform.edit(receipt, Body(text="second"))
            assert stage.seen() == ["second"]
        if isinstance(platform, History):
            found = await platform.find_sent(stage.chat, "k1")
            assert found is not None and found.ref == receipt.ref
            assert await platform.find_sent(stage.chat, "never sent") is None
        if isinstance(platform, Deletes):
            await platform.delete(receipt)
            assert stage.seen() == []


async def check_a_key_is_sent_once_where_promised(make: MakeSetting) -> None:
    async with make() as setting:
        platform, stage = setting.connect(), setting.stage
        if not platform.capabilities.dedupe_seconds:
            return
        first = await _send(platform, stage.chat, "only once", "same key")
        again = await _send(platform, stage.chat, "only once", "same key")
        assert first.ref == again.ref
        assert stage.seen() == ["only once"]


async def check_errors_are_translated(make: MakeSetting) -> None:
    async with make() as setting:
        platform, stage = setting.connect(), setting.stage
        for error in (
            Unreachable("too fast", after=3.0),
            Unreachable("no answer", maybe_done=True),
            Refused("blocked"),
        ):
            stage.fail_next(error)
            try:
                await _send(platform, stage.chat, "x", "k")
            except HermesError as raised:
                assert type(raised) is type(error), f"{error!r} became {raised!r}"
                if isinstance(raised, Unreachable) and isinstance(error, Unreachable):
                    assert raised.after == error.after and raised.maybe_done == error.maybe_done
            else:
                raise AssertionError(f"{error!r} was swallowed")
        stage.fail_next(None)
        await _send(platform, stage.chat, "still alive", "k2")
        assert stage.seen()[-1] == "still alive"


async def check_takes_its_longest_text(make: MakeSetting) -> None:
    async with make() as setting:
        platform, stage = setting.connect(), setting.stage
        await _send(platform, stage.chat, "x" * platform.capabilities.max_text, "long")
        assert len(stage.seen()[-1]) == platform.capabilities.max_text


CHECKS: tuple[Callable[[MakeSetting], object], ...] = (
    check_declared_abilities_are_there,
    check_receives_and_acknowledges_after_storing,
    check_goes_on_from_its_cursor,
    check_a_failed_accept_is_delivered_again,
    check_sends_edits_deletes,
    check_a_key_is_sent_once_where_promised,
    check_errors_are_translated,
    check_takes_its_longest_text,
)


def _same(name: str, declared: bool, implemented: bool) -> None:
    assert declared == implemented, f"{name} is declared {declared} and implemented {implemented}"


async def _send(platform: Platform, to: Address, text: str, key: str) -> Receipt:
    return await platform.send(to, Body(text=text), key=key, reply_to=None)


@contextlib.asynccontextmanager
async def _running(platform: Platform, accept: object, cursor: str | None) -> AsyncIterator[None]:
    task = asyncio.create_task(platform.run(accept, cursor))  # type: ignore[arg-type]
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _until(what: Callable[[], bool], otherwise: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            while not what():  # noqa: ASYNC110
                await asyncio.sleep(0.003)
    except TimeoutError:
        raise AssertionError(otherwise) from None
