"""The whole path: the adapter, a gateway with a real store, a scripted model. A message comes in, a draft
grows, the answer is there once, in order, whatever the service does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.address import Address
from hermes.domain.clock import Clock
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import DisplaySettings, StreamingSettings
from hermes.domain.turns.turn import BusyMode
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, QuickClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, last_words
from hermes.testing.platform_suite.testbed import (
    FAST_FAULTS,
    PATIENCE,
    Does,
    Fault,
    MakeTestbed,
    Testbed,
    until,
)

_CURSOR = "▉"
_ANSWER = re.compile(r"answer to (\d+)-(\d+)$", re.MULTILINE)
_PATIENCE = 60.0
_PATIENCE_FULL = 240.0
_MIXED = FAST_FAULTS | {Fault.BROKEN, Fault.RESET, Fault.HANG}


async def check_a_message_is_answered(make: MakeTestbed) -> None:
    hold = asyncio.Event()
    async with make() as bed, _gateway(bed, lambda request: replace(_said(request), halt=hold)):
        await _settled(bed)
        await bed.do(Does.TEXT, "7-1")
        if bed.manifest.capabilities.edits:
            await until(lambda: bool(bed.shown(bed.chat)), "no draft is seen")
            assert not _answers(bed, bed.chat), "the draft is not the answer yet"
            marked = _CURSOR in bed.shown(bed.chat)[0].text
            assert marked is bed.manifest.capabilities.draft_cursor, "a cursor is shown where it is wanted"
        if bed.manifest.capabilities.typing and bed.typing_chat() == bed.chat:
            await until(lambda: bed.typed() > 0, "nobody sees that it works on it")
        hold.set()
        await until(lambda: _answers(bed, bed.chat) == ["7-1"], lambda: f"people see {bed.shown(bed.chat)}")
        assert len(bed.shown(bed.chat)) == 1, f"one message, not {bed.shown(bed.chat)}"
        assert _CURSOR not in bed.shown(bed.chat)[0].text


async def check_drafts_keep_the_pace(make: MakeTestbed) -> None:
    """While the clock stands a draft is posted and not edited, however many words come."""
    async with make() as bed:
        interval = bed.manifest.capabilities.edit_interval
        if interval is None:
            return
        clock, halt, hold = FakeClock(), asyncio.Event(), _Reached()
        slow = StreamingSettings(enabled=True, edit_interval=max(interval, 0.5), buffer_threshold=1)
        script = lambda request: replace(_said(request, hold, pieces=30), halt=halt)  # noqa: E731
        async with _gateway(bed, script, clock, slow):
            await _settled(bed)
            await bed.do(Does.TEXT, "7-1")
            await until(lambda: len(bed.shown()) == 1, "no draft is seen")
            halt.set()
            await until(lambda: hold.reached, "not all is said")
            await settle()
            assert bed.shown()[0].edits == 0, "edited before it was time"
            # The time counts from when the lane knows that the draft is posted, which may be only now.
            end = asyncio.get_running_loop().time() + PATIENCE
            while not bed.shown()[0].edits:
                assert asyncio.get_running_loop().time() < end, "not edited when it was time"
                await clock.advance(max(interval, 0.5) + 0.01)
                await asyncio.sleep(0.01)
            for _ in range(5):
                await clock.advance(max(interval, 0.5))
                await asyncio.sleep(0.01)
            assert bed.shown()[0].edits == 1, "edited although there was nothing new"
            hold.set()
            await until(lambda: _answers(bed, bed.chat) == ["7-1"], lambda: f"people see {bed.shown()}")


class _Reached(asyncio.Event):
    """Tells that somebody came to wait for it."""

    reached = False

    async def wait(self) -> Literal[True]:
        self.reached = True
        return await super().wait()


async def check_one_chat_does_not_delay_another(make: MakeTestbed) -> None:
    async with make() as bed:
        if Fault.TOO_FAST not in bed.faults:
            return
        slow, quick = bed.chats(2)
        async with _gateway(bed, _said):
            await _settled(bed)
            bed.fail(Fault.TOO_FAST, times=1_000_000, chat=slow)
            await bed.do(Does.TEXT, "0-1", chat=slow)
            for number in range(1, 4):
                await bed.do(Does.TEXT, f"1-{number}", chat=quick)
                await until(lambda: f"1-{number}" in _answers(bed, quick), "the quick chat has to wait")  # noqa: B023
            assert _answers(bed, slow) == []
            bed.calm()
            await until(lambda: _answers(bed, slow) == ["0-1"], "the slow chat was forgotten")


async def check_many_replies_under_faults(make: MakeTestbed) -> None:
    """Every answer arrives, in order per chat, and no copy of one goes without the mark of a repeat."""
    async with make() as bed:
        count = 1000 if bed.full else 50
        chats = bed.chats(20 if bed.full else 5)
        rounds = count // len(chats)
        async with _gateway(bed, _said) as journey:
            await _settled(bed)
            calm, bed.chaos = bed.chaos, _dice(bed)
            for number in range(rounds):
                for place, chat in enumerate(chats):
                    await bed.do(Does.TEXT, f"{place}-{number}", chat=chat)
            wanted = {
                chat.chat: [f"{place}-{number}" for number in range(rounds)]
                for place, chat in enumerate(chats)
            }
            await _all_there(bed, chats, wanted)
            bed.chaos = calm
            # Without a cursor a draft that has all the words looks like the answer.
            await journey.until_idle()
        for chat in chats:
            _check_order(bed, chat, wanted[chat.chat])


async def _all_there(bed: Testbed, chats: list[Address], wanted: dict[str, list[str]]) -> None:
    end = asyncio.get_running_loop().time() + (_PATIENCE_FULL if bed.full else _PATIENCE)
    while True:
        missing: list[str] = []
        for chat in chats:
            there = set(_answers(bed, chat))
            missing += [one for one in wanted[chat.chat] if one not in there]
            await asyncio.sleep(0)
        if not missing:
            return
        assert asyncio.get_running_loop().time() < end, f"{len(missing)} never arrived: {missing[:20]}"
        await asyncio.sleep(0.5 if len(missing) > 50 else 0.05)


def _check_order(bed: Testbed, chat: Address, wanted: list[str]) -> None:
    finals = [one.text for one in bed.shown(chat) if _CURSOR not in one.text and _ANSWER.search(one.text)]
    plain = [_ANSWER.findall(text)[-1] for text in finals if REPEAT_MARK not in text]
    named = [f"{place}-{number}" for place, number in plain]
    assert len(named) == len(set(named)), f"unmarked duplicates in {chat}: {named}"
    first: list[str] = []
    for text in finals:
        place, number = _ANSWER.findall(text)[-1]
        if f"{place}-{number}" not in first:
            first.append(f"{place}-{number}")
    assert first == wanted, f"out of order in {chat}: {first}"


def _dice(bed: Testbed) -> Callable[[], tuple[Fault, bool] | None]:
    """One call in five goes wrong; half of the doubtful ones take effect all the same."""
    dice = random.Random(42)
    faults = sorted(bed.faults & _MIXED)

    def throw() -> tuple[Fault, bool] | None:
        if dice.random() > 0.2:
            return None
        fault = dice.choice(faults)
        return fault, fault not in FAST_FAULTS and dice.random() < 0.5

    return throw


def _said(request: ModelRequest, hold: asyncio.Event | None = None, pieces: int = 5) -> Say:
    words = "Well, let me think about that for a moment, and then a moment longer.\n\n"
    return Say(text=f"{words}answer to {last_words(request)}", pieces=pieces, hold=hold)


def _answers(bed: Testbed, chat: Address) -> list[str]:
    found = [
        _ANSWER.findall(one.text)
        for one in bed.shown(chat)
        if _CURSOR not in one.text and "answer" in one.text
    ]
    return [f"{place}-{number}" for ends in found for place, number in ends[-1:]]


async def _settled(bed: Testbed) -> None:
    """Where nothing is kept for who was never there, people write once the adapter listens."""
    await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _gateway(
    bed: Testbed,
    script: Callable[[ModelRequest], Say],
    clock: Clock | None = None,
    streaming: StreamingSettings | None = None,
) -> AsyncIterator[Journey]:
    name = bed.manifest.name
    settings = open_settings(
        platforms={name: PlatformSettings(allow_all_users=True)},
        display=DisplaySettings(busy_input_mode=BusyMode.QUEUE),
    )
    quick = replace(settings.streaming, enabled=True)
    settings = replace(settings, streaming=streaming or quick)
    with tempfile.TemporaryDirectory(prefix="hermes-suite-") as folder:
        async with Journey(
            folder=Path(folder),
            account=name,
            connect_platform=bed.connect,
            settings=settings,
            script=script,
            clock=clock or QuickClock(),
        ) as journey:
            yield journey
