"""The fake platforms pass the suite that every adapter has to pass, and a bad adapter fails it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import HermesError
from hermes.domain.ports import Accept
from hermes.testing.platform import EDITS, KINDS, PLAIN, PlainFake, fake_platform, to_inbound
from hermes.testing.platform_suite import (
    CHECKS,
    Setting,
    check_declared_abilities_are_there,
    check_receives_and_acknowledges_after_storing,
)
from hermes.testing.world import Deed, World


class WorldStage:
    def __init__(self, world: World) -> None:
        self.world = world
        self.chat = Address(platform="fake", chat="1")
        self._error: HermesError | None = None
        world.trouble = self._trouble

    def deliver(self, text: str) -> None:
        self.world.write(text, chat="1", user="u1")

    def acknowledged(self) -> int:
        return len(self.world.did(Deed.ACKED))

    def seen(self) -> list[str]:
        return self.world.seen("1")

    def fail_next(self, error: HermesError | None) -> None:
        self._error = error

    def _trouble(self, what: str, chat: str) -> HermesError | None:
        error, self._error = (self._error, None) if what == "send" else (None, self._error)
        return error


def setting(kind: str) -> Callable[[], object]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Setting]:
        world = World(keyed=kind == "keyed")
        yield Setting(connect=lambda: fake_platform(kind, world), stage=WorldStage(world))

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_fake_platform_conforms(kind: str, check: Callable[..., object]) -> None:
    await check(setting(kind))  # type: ignore[misc]


class TooEager(PlainFake):
    """Acknowledges before it has stored."""

    async def run(self, accept: Accept, cursor: str | None) -> None:
        after = int(cursor or 0)
        while True:
            news: Sequence[object] = await self._service.poll(after)
            after = news[-1].seq  # type: ignore[attr-defined]
            await self._service.ack(after)
            await accept([to_inbound(update) for update in news], str(after))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "capabilities", "words"),
    [
        (check_receives_and_acknowledges_after_storing, PLAIN, "before it was stored"),
        (check_declared_abilities_are_there, EDITS, "edits is declared True"),
    ],
)
async def test_a_bad_adapter_fails(
    check: Callable[..., object], capabilities: Capabilities, words: str
) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[Setting]:
        world = World()
        yield Setting(connect=lambda: TooEager(world, capabilities), stage=WorldStage(world))

    with pytest.raises(AssertionError, match=words):
        await check(make)  # type: ignore[misc]
