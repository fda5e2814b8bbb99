"""Answers on their way: drafts, long answers, trouble with the platform, and what is said of a repeat."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hermes.control.outbound import draft
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, say
from hermes.testing.platform import EditingFake
from hermes.testing.world import Deed, World


class Trouble:
    """Errors for the next calls of one sort, in order."""

    def __init__(self, what: str, *errors: HermesError, chat: str | None = None) -> None:
        self._what = what
        self._chat = chat
        self._errors = list(errors)

    @property
    def done(self) -> bool:
        """Whether all of it came about."""
        return not self._errors

    def __call__(self, what: str, chat: str) -> HermesError | None:
        if what != self._what or not self._errors or (self._chat is not None and chat != self._chat):
            return None
        return self._errors.pop(0)


async def pass_time(chat: Journey, seconds: float) -> None:
    assert isinstance(chat.clock, FakeClock)
    for _ in range(int(seconds)):
        await chat.clock.advance(1.0)


async def test_a_draft_grows_and_becomes_the_answer(tmp_path: Path) -> None:
    hold = asyncio.Event()
    script = [Say(text="word " * 30, pieces=30, hold=hold)]
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("talk")
        await chat.until_seen("▉")
        hold.set()
        await chat.until_idle()
        assert chat.world.seen() == [("word " * 30).strip()]
        assert len(chat.world.did(Deed.SENT)) == 1
        assert len(chat.world.did(Deed.EDITED)) >= 1


async def test_a_long_answer_comes_whole_in_parts_that_fit(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "lorem ipsum " * 40 for number in range(40))
    async with Journey(folder=tmp_path, script=[say(text)], kind="plain") as chat:
        chat.world.write("tell me all")
        await chat.until_seen("Paragraph 39")
        await chat.until_idle()
        seen = chat.world.seen()
        assert len(seen) > 3 and all(len(part) <= 4096 for part in seen)
        assert [f"Paragraph {n}:" in "\n".join(seen) for n in range(40)] == [True] * 40
        first = [message for message in chat.world.messages.values() if message.reply_to is not None]
        assert len(first) == 1


async def test_a_rate_limit_delays_one_chat_and_keeps_its_order(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World(trouble=Trouble("send", Unreachable("too fast", after=30.0), chat="slow"))
    async with Journey(folder=tmp_path, world=world, kind="plain", clock=clock) as chat:
        chat.world.write("one", chat="slow", user="a")
        await chat.until_taken()
        chat.world.write("two", chat="slow", user="a")
        chat.world.write("three", chat="fast", user="b")
        await chat.until_seen("You said: three", chat="fast")
        assert chat.world.seen("slow") == []
        await pass_time(chat, 35)
        await chat.until_seen("You said: two", chat="slow")
        assert chat.world.seen("slow") == ["You said: one", "You said: two"]


@pytest.mark.parametrize(("kind", "marked"), [("plain", True), ("keyed", False), ("edits", False)])
async def test_a_send_that_nobody_saw_the_end_of_is_repeated_openly(
    tmp_path: Path, kind: str, marked: bool
) -> None:
    clock = FakeClock()
    lost = Trouble("sent", Unreachable("no answer", maybe_done=True))
    world = World(keyed=kind == "keyed", trouble=lost)
    settings = open_settings(streaming=open_settings().streaming.__class__(enabled=False))
    async with Journey(folder=tmp_path, world=world, kind=kind, clock=clock, settings=settings) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await pass_time(chat, 5)
        await chat.until_idle()
        seen = chat.world.seen()
        assert len(seen) == (2 if marked else 1)
        assert any(REPEAT_MARK in text for text in seen) is marked


async def test_being_told_to_wait_does_not_take_a_doubt_away(tmp_path: Path) -> None:
    """The first attempt may have arrived; the second did nothing; so the third is still a possible repeat."""
    clock = FakeClock()
    ahead = [
        ("sent", Unreachable("no answer", maybe_done=True)),
        ("send", Unreachable("too fast", after=3.0)),
    ]

    def trouble(what: str, chat: str) -> HermesError | None:
        return ahead.pop(0)[1] if ahead and ahead[0][0] == what else None

    async with Journey(folder=tmp_path, world=World(trouble=trouble), kind="plain", clock=clock) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await pass_time(chat, 10)
        await chat.until_idle()
        assert chat.world.seen() == ["You said: hello", f"{REPEAT_MARK}\n\nYou said: hello"]


async def test_a_refused_message_is_dead_and_the_home_channel_is_told(tmp_path: Path) -> None:
    world = World(trouble=Trouble("send", Refused("the bot was blocked"), chat="gone"))
    settings = open_settings(platforms={"fake": PlatformSettings(allow_all_users=True, home_channel="home")})
    async with Journey(folder=tmp_path, world=world, kind="plain", settings=settings) as chat:
        chat.world.write("hello", chat="gone", user="a")
        await chat.until_seen("could not be delivered (the bot was blocked)", chat="home")
        chat.world.write("again", chat="gone", user="a")
        await chat.until_seen("You said: again", chat="gone")


async def test_a_day_without_success_is_the_end(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World(trouble=lambda what, chat: Unreachable("down") if what == "send" else None)
    async with Journey(folder=tmp_path, world=world, kind="plain", clock=clock) as chat:
        chat.world.write("hello")
        await chat.until_taken()
        await pass_time(chat, 5)
        assert not await chat.idle()
        clock.jump(25 * 3600)
        await pass_time(chat, 20)
        await chat.until_idle()
        assert chat.world.seen() == []


async def test_a_revoked_login_keeps_the_answer_for_later(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World(trouble=Trouble("send", NeedsLogin("token revoked"), NeedsLogin("token revoked")))
    async with Journey(folder=tmp_path, world=world, kind="plain", clock=clock) as chat:
        chat.world.write("hello")
        await chat.until_taken()
        await pass_time(chat, 150)
        await chat.until_seen("You said: hello")
        assert len(chat.world.seen()) == 1


async def test_a_login_that_is_revoked_under_a_draft_costs_the_draft_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hold = asyncio.Event()
    world = World(trouble=Trouble("send", NeedsLogin("token revoked")))
    script = [Say(text="word " * 50, pieces=50, hold=hold)]
    async with Journey(folder=tmp_path, world=world, script=script) as chat:
        chat.world.write("talk")
        await chat.until(lambda: "token revoked" in caplog.text)
        hold.set()
        await chat.until_seen(("word " * 50).strip())
        await chat.until_idle()
        assert len(chat.world.seen()) == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_answer_waits_while_the_platform_is_away(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with Journey(folder=tmp_path, script=[Say(text="late", hold=hold)], kind="plain") as chat:
        chat.world.write("hello")
        await chat.until_taken()
        await chat.disconnect()
        hold.set()
        await asyncio.sleep(0.1)
        assert chat.world.seen() == []
        chat.connect()
        await chat.until_seen("late")


async def test_a_flooded_draft_still_ends_in_the_whole_answer(tmp_path: Path) -> None:
    flood = [Unreachable("too fast", after=1.0)] * 3
    hold = asyncio.Event()
    world = World(trouble=Trouble("edit", *flood))
    script = [Say(text="word " * 50, pieces=50, hold=hold)]
    async with Journey(folder=tmp_path, world=world, script=script) as chat:
        chat.world.write("talk")
        await chat.until_seen("▉")
        hold.set()
        await chat.until_seen(("word " * 50).strip())
        await chat.until_idle()
        assert chat.world.seen() == [("word " * 50).strip()]


async def test_words_that_were_read_stay_when_the_model_breaks(tmp_path: Path) -> None:
    world = World()

    async def shown() -> None:
        while not world.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    text = "<think>hm</think>A long story MEDIA:/tmp/x.png that ends"
    broken = Say(text=text, breaks_after=len(text), error=Refused("the model is gone"), beat=shown)
    async with Journey(folder=tmp_path, world=world, script=[broken, say("fine")]) as chat:
        world.write("talk")
        await chat.until_seen("⚠️")
        await chat.until_idle()
        [seen] = world.seen()
        assert seen.startswith("A long story that ends\n\n⚠️ ") and "gone" in seen
        world.write("go on")
        await chat.until_seen("fine")
        assert world.seen()[0] == seen


async def test_a_model_that_breaks_before_its_first_word_leaves_the_reason_alone(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=[Say(error=Refused("the model is gone"))]) as chat:
        chat.world.write("talk")
        await chat.until_seen("⚠️")
        assert all(text.startswith("⚠️") for text in chat.world.seen())


class Hanging(EditingFake):
    """Never comes back from one sort of call, once."""

    def __init__(self, world: World, what: str) -> None:
        super().__init__(world)
        self._what = what

    async def _hang(self, what: str) -> None:
        if self._what == what:
            self._what = ""
            await asyncio.Event().wait()

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        await self._hang("send")
        return await super().send(to, body, key=key, reply_to=reply_to)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        await self._hang("edit")
        await super().edit(receipt, body)


@pytest.mark.parametrize("what", ["send", "edit"])
async def test_a_draft_that_hangs_does_not_hold_up_the_answer(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "SEND_SECONDS", 0.05)
    world, hold = World(), asyncio.Event()
    platform = Hanging(world, what)

    async def shown() -> None:
        while platform._what and not world.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    script = [Say(text="one two three four", pieces=4, hold=hold, beat=shown), say("again")]
    async with Journey(
        folder=tmp_path, world=world, script=script, connect_platform=lambda: platform
    ) as chat:
        world.write("talk")
        await chat.until(lambda: not platform._what)
        hold.set()
        await chat.until(lambda: "one two three four" in world.seen())
        world.write("more")
        await chat.until_seen("again")


class Careless(EditingFake):
    """Sends, and gives back something that is no receipt."""

    def __init__(self, world: World, given: object) -> None:
        super().__init__(world)
        self._given = given

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        await super().send(to, body, key=key, reply_to=reply_to)
        return self._given  # type: ignore[return-value]


@pytest.mark.parametrize("given", [None, "42", Receipt(to="fake:1", ref=7)])  # type: ignore[arg-type]
async def test_an_adapter_that_gives_no_receipt_sends_once(
    tmp_path: Path, given: object, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with Journey(
        folder=tmp_path, world=world, script=[say("once"), say("twice")],
        connect_platform=lambda: Careless(world, given),
    ) as chat:  # fmt: skip
        world.write("talk")
        await chat.until_seen("once")
        world.write("more")
        await chat.until_seen("twice")
        await chat.until_idle()
        assert [text for text in world.seen() if text in ("once", "twice")] == ["once", "twice"]
    assert "`send` of an adapter must give a Receipt" in caplog.text


async def test_pieces_of_one_message_become_one_turn(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        chat.world.write("a" * 4096)
        chat.world.write("b" * 10)
        await chat.until_taken()
        await clock.advance(2.0)
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.until_idle()
        assert len(chat.model.requests) == 1
        said = chat.model.requests[0].entries[-1].record
        assert getattr(said, "text", "") == "a" * 4096 + "b" * 10


async def test_an_album_becomes_one_turn_and_separate_messages_never_do(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        chat.world.write("first picture", group="g1")
        chat.world.write("second picture", group="g1")
        await chat.until_taken()
        await clock.advance(2.0)
        await chat.until_seen("first picture\nsecond picture")
        await chat.until_idle()
        assert len(chat.model.requests) == 1


async def test_a_stop_does_not_wait_for_what_cannot_be_sent_now(tmp_path: Path) -> None:
    world = World(trouble=lambda what, chat: Unreachable("down", after=300.0) if what == "send" else None)
    chat = Journey(folder=tmp_path, world=world, kind="plain")
    await chat.__aenter__()
    chat.world.write("hello")
    await chat.until_taken()
    stopping = asyncio.create_task(chat.gateway.stop(grace=290.0))
    await asyncio.wait_for(stopping, 60)
    await chat.__aexit__()
    world.trouble = None
