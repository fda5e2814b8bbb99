"""Slack's own streams: an answer grows in one, and whatever it does not take is written by an edit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Button
from hermes.domain.errors import HermesError, Unreachable
from hermes.domain.word import replace
from hermes.entry.platforms.slack.adapter import SlackAdapter
from hermes.testing.harness import Journey
from hermes.testing.model import Say
from hermes.testing.platform_suite import Fault, Inboxes, running, until
from tests.platforms.slack.bed import SlackBed
from tests.platforms.slack.samples import CHANNEL, DM
from tests.platforms.slack.test_journeys import SETTINGS, sees

LINES = "First line.\n\n**Second** line.\n"


class Streamed:
    """An adapter that streams, in a thread of a direct message."""

    def __init__(self, bed: SlackBed, platform: SlackAdapter, to: Address) -> None:
        self.bed, self.platform, self.to = bed, platform, to

    async def begin(self, text: str = "First", to: Address | None = None) -> None:
        body = Body(text=text, growing=True)
        self.receipt = await self.platform.send(to or self.to, body, key="k", reply_to=None)

    async def grow(self, text: str) -> None:
        await self.platform.edit(self.receipt, Body(text=text, growing=True))

    async def finish(self, text: str) -> None:
        await self.platform.edit(self.receipt, Body(text=text))
        message = self.bed.server.find(self.receipt.to.chat, self.receipt.ref)
        assert message is not None
        blocks = message.get("blocks")
        assert (blocks[0]["text"] if blocks else message["text"]) == text
        assert message.get("streaming_state") != "in_progress", "it would look unfinished for ever"
        shown = [one for one in self.bed.shown() if one.ref == self.receipt.ref]
        assert len(shown) == 1

    def calls(self) -> list[str]:
        names = [name.removeprefix("chat.") for name, _ in self.bed.server.calls]
        return [name for name in names if name.endswith("Stream") or name in ("postMessage", "update")]


@asynccontextmanager
async def streamed() -> AsyncIterator[Streamed]:
    async with SlackBed() as bed:
        bed.said["SLACK_STREAMING"] = "true"
        platform = bed.connect()
        root = bed.server.say(DM, "tell me")
        async with running(platform, Inboxes().accept, None):
            yield Streamed(bed, platform, replace(bed.chat, thread=root["ts"]))


async def test_an_answer_grows_in_a_stream_and_ends_with_it() -> None:
    async with streamed() as it:
        await it.begin()
        await it.grow("First line.\n\n**Sec")
        await it.grow("First line.\n\n**Second** li")
        await it.finish(f"{LINES}Done.")
        assert it.calls() == ["startStream", "appendStream", "stopStream"]


@pytest.mark.parametrize("text", ["Another beginning.", f"{LINES}More."])
@pytest.mark.parametrize("ended", [True, False])
async def test_what_a_stream_does_not_take_is_written_by_an_edit(text: str, ended: bool) -> None:
    """Slack ends a stream when it likes; and words may change that were streamed."""
    async with streamed() as it:
        await it.begin("First line.\n")
        if ended:
            message = it.bed.server.find(DM, it.receipt.ref)
            assert message is not None
            message["streaming_state"] = "completed"
        await it.grow(text)
        await it.finish(text)
        assert it.calls()[-1] == ("update" if ended or "Another" in text else "stopStream")


async def test_buttons_end_a_stream() -> None:
    async with streamed() as it:
        await it.begin()
        await it.platform.edit(it.receipt, Body(text="First?", buttons=(Button(label="Yes", value="v"),)))
        assert it.calls() == ["startStream", "stopStream", "update"]
        assert [one.buttons for one in it.bed.shown() if one.ref == it.receipt.ref] == [("Yes",)]


@pytest.mark.parametrize("done", [True, False])
async def test_words_of_an_unknown_fate_are_not_streamed_twice(done: bool) -> None:
    async with streamed() as it:
        await it.begin("one ")
        it.bed.server.fail(Fault.RESET, 1, done, DM)
        with pytest.raises(Unreachable):
            await it.grow("one two ")
        await it.grow("one two three ")
        await it.finish("one two three four")


async def test_a_stream_that_is_too_fast_goes_on_later() -> None:
    async with streamed() as it:
        await it.begin("one ")
        it.bed.server.fail(Fault.TOO_FAST, 1, False, DM)
        with pytest.raises(Unreachable) as slow:
            await it.grow("one two ")
        assert slow.value.after
        await it.finish("one two three")
        assert it.calls() == ["startStream", "appendStream", "stopStream"]


async def test_after_a_restart_the_stream_of_an_earlier_life_is_ended() -> None:
    async with streamed() as it:
        await it.begin()
        it.platform = it.bed.connect()
        try:
            await it.finish("The whole answer.")
        finally:
            await it.platform.api.close()
        assert it.calls() == ["startStream", "update", "stopStream", "update"]


async def test_where_no_stream_may_be_the_answer_grows_by_edits() -> None:
    """In a channel only one person would see it grow; outside of threads Slack takes none."""
    async with streamed() as it:
        root = it.bed.server.say(CHANNEL, "root")
        for to in (Address(platform="slack", chat=CHANNEL, thread=root["ts"]), it.bed.chat):
            await it.begin("one", to)
            await it.grow("one two")
            await it.finish("one two three")
        assert it.calls() == ["postMessage", "update", "update"] * 2


async def test_a_refusal_is_not_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with streamed() as it:
        monkeypatch.setitem(it.bed.server.rooms, DM, "mpim")
        for _ in range(2):
            await it.begin()
            await it.finish("First and last")
        assert it.calls() == ["startStream", *["postMessage", "update"] * 2]


async def test_a_start_of_an_unknown_fate_is_no_reason_for_a_second_message() -> None:
    async with streamed() as it:
        it.bed.server.fail(Fault.BROKEN, 1, True, DM)
        with pytest.raises(HermesError):
            await it.begin()
        assert it.calls() == ["startStream"]


async def test_a_whole_conversation_in_a_thread(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    async with SlackBed() as bed:
        bed.said["SLACK_STREAMING"] = "true"
        halt = asyncio.Event()
        journey = Journey(
            folder=tmp_path,
            account="slack",
            connect_platform=bed.connect,
            settings=SETTINGS,
            script=[Say(text=words, pieces=60, halt=halt)],
        )
        async with journey:
            await bed.listening()
            root = bed.server._mine(DM, {}, "an answer of earlier")
            bed.server.say(DM, "count", thread_ts=root["ts"])
            await until(lambda: any("word1" in one.text for one in bed.shown()), "nothing is streamed")
            halt.set()
            await sees(bed, "word59")
        assert [one.text for one in bed.shown() if one.thread == root["ts"]] == [words]
        names = [name for name, _ in bed.server.calls if name.startswith("chat.")]
        assert (names[0], names[-1]) == ("chat.startStream", "chat.stopStream"), names
