"""Drafts that nothing may be left of: their send broke, the gateway died, the answer is silence, or cannot be
sent. What has a receipt never stays with its cursor; what has none is found, or the answer says that it may
be a repeat. No answer goes out twice because of what was left to tidy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import ToolFinished
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.platform import EditingFake
from hermes.testing.world import Deed, World
from tests.journeys.between import Between
from tests.journeys.cut import MOST_WRITES, one_life, stops
from tests.journeys.test_delivery import Trouble

ANSWER = "one two three four five six seven eight"
CURSOR = "▉"


async def rows(chat: Journey) -> list[OutboxRow]:
    def look(tx: Tx) -> list[OutboxRow]:
        found = tx.outbox._db.all("SELECT key FROM outbox ORDER BY n")  # type: ignore[attr-defined]
        return [row for (key,) in found if (row := tx.outbox.get(key)) is not None]

    return await chat.database.read(look)


def waits_for(what: Callable[[], bool]) -> Callable[[], asyncio.Future[None]]:
    async def beat() -> None:
        while not what():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    return beat  # type: ignore[return-value]


async def told(folder: Path, kind: str, trouble: Trouble, *, pieces: int) -> Journey:
    """A story in which the draft meets trouble before the answer is whole."""
    world = World(trouble=trouble)
    posted = waits_for(lambda: bool(world.messages) or trouble.done)
    said = Say(text=ANSWER, pieces=pieces, beat=posted)  # type: ignore[arg-type]
    async with Journey(folder=folder, world=world, script=[said], kind=kind) as chat:
        chat.world.write("talk")
        await chat.until(lambda: any(ANSWER in text and CURSOR not in text for text in world.seen()))
        await chat.until_idle()
    return chat


LOST = Unreachable("no answer", maybe_done=True)


@pytest.mark.parametrize(
    ("kind", "pieces", "error", "seen"),
    [
        # It can be found, and is removed.
        ("edits", 1, LOST, [ANSWER]),
        ("edits", 4, LOST, [ANSWER]),
        # It cannot, and may have shown everything, or a beginning.
        ("forgetful", 1, LOST, [f"{ANSWER} {CURSOR}", f"{REPEAT_MARK}\n\n{ANSWER}"]),
        ("forgetful", 4, LOST, [f"one two th {CURSOR}", ANSWER]),
    ],
)
async def test_a_draft_whose_send_is_in_doubt(
    tmp_path: Path, kind: str, pieces: int, error: HermesError, seen: list[str]
) -> None:
    chat = await told(tmp_path, kind, Trouble("sent", error), pieces=pieces)
    assert chat.world.seen() == seen


@pytest.mark.parametrize("error", [Unreachable("not there", after=0.0), Refused("no")])
async def test_a_draft_that_was_surely_not_sent_marks_nothing(tmp_path: Path, error: HermesError) -> None:
    chat = await told(tmp_path, "forgetful", Trouble("send", error), pieces=1)
    assert chat.world.seen() == [ANSWER]


async def test_the_answer_waits_for_a_history_that_cannot_be_read_now(tmp_path: Path) -> None:
    errors = [("sent", LOST), ("find", Unreachable("too fast", after=0.05))]
    chat = await told(tmp_path, "edits", Troubles(*errors), pieces=1)
    assert chat.world.seen() == [ANSWER]
    assert [one.text for one in chat.world.did(Deed.SENT)] == [f"{ANSWER} {CURSOR}", ANSWER]


async def test_without_leave_to_read_the_history_the_answer_is_marked(tmp_path: Path) -> None:
    chat = await told(tmp_path, "edits", Troubles(("sent", LOST), ("find", Refused("no scope"))), pieces=1)
    assert chat.world.seen() == [f"{ANSWER} {CURSOR}", f"{REPEAT_MARK}\n\n{ANSWER}"]


class Troubles(Trouble):
    """One error for each sort of call."""

    def __init__(self, *errors: tuple[str, HermesError]) -> None:
        self._left = list(errors)

    @property
    def done(self) -> bool:
        return len(self._left) < 2

    def __call__(self, what: str, chat: str) -> HermesError | None:
        for wanted, error in self._left:
            if wanted == what:
                self._left.remove((wanted, error))
                return error
        return None


# --- what is left to tidy costs nobody a second copy ---


@pytest.mark.parametrize(
    "error", [Unreachable("too fast", after=0.01), Refused("too old"), RuntimeError("?")]
)
async def test_an_answer_is_sent_once_though_tidying_breaks(tmp_path: Path, error: Exception) -> None:
    def trouble(what: str, chat: str) -> HermesError | None:
        if what == "edit" and len(world.did(Deed.SENT)) == 1:
            return Refused("this message cannot be changed")
        if what == "delete":
            raise error
        return None

    world = World(trouble=trouble)
    posted = waits_for(lambda: bool(world.messages))
    said = Say(text=ANSWER, pieces=1, beat=posted)  # type: ignore[arg-type]
    async with Journey(folder=tmp_path, world=world, script=[said]) as chat:
        world.write("talk")
        await chat.until_seen(ANSWER)
        await chat.until_idle()
        assert [one.text for one in world.did(Deed.SENT)] == [f"{ANSWER} {CURSOR}", ANSWER]
        assert [row.state for row in await rows(chat) if not row.draft] == [OutState.SENT]


async def test_a_draft_that_cannot_be_edited_is_removed(tmp_path: Path) -> None:
    chat = await told(
        tmp_path, "forgetful", Trouble("edit", Refused("too old"), Refused("too old")), pieces=1
    )
    assert chat.world.seen() == [ANSWER]


async def test_a_draft_says_that_its_answer_could_not_be_sent(tmp_path: Path) -> None:
    class Strict(EditingFake):
        async def edit(self, receipt: Receipt, body: Body) -> None:
            if CURSOR not in body.text and "⚠️" not in body.text:
                raise Refused("it is against the rules")
            await super().edit(receipt, body)

    world = World(trouble=lambda what, chat: Refused("it is against the rules") if world.messages and what == "send" else None)  # fmt: skip  # noqa: E501
    posted = waits_for(lambda: bool(world.messages))
    said = Say(text=ANSWER, pieces=2, beat=posted)  # type: ignore[arg-type]
    async with Journey(
        folder=tmp_path, world=world, script=[said], connect_platform=lambda: Strict(world)
    ) as chat:
        world.write("talk")
        await chat.until_seen("⚠️ The answer could not be sent: it is against the rules")
        await chat.until_idle()
        assert len(world.seen()) == 1


# --- rows of a chat whose account goes away, or whose lane is cancelled ---


async def test_the_second_part_is_not_marked_though_the_account_went_away_before_it(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "lorem ipsum " * 40 for number in range(12))

    def trouble(what: str, chat: str) -> None:
        if what == "sent" and len(world.did(Deed.SENT)) == 1:
            journey.gateway.detach("fake")

    world = World(trouble=trouble)
    journey = Journey(folder=tmp_path, world=world, script=[say(text)], kind="plain")
    async with journey as chat:
        world.write("tell")
        await chat.until(lambda: len(world.seen()) == 1)
        await chat.until(lambda: not [t for t in asyncio.all_tasks() if t.get_name().startswith("lane")])
        assert [row.state for row in await rows(chat)] == [OutState.SENT, OutState.DUE]
        chat.gateway.attach("fake", chat.platform)
        await chat.until_seen("Paragraph 11")
        await chat.until_idle()
        assert len(world.seen()) == 2 and not any(REPEAT_MARK in text for text in world.seen())


async def _cancel() -> None:
    """As a stop does; one that nobody asked for would be a fault of the lane."""
    lane = asyncio.current_task()
    assert lane is not None
    lane.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lane_that_is_cancelled_between_two_rows_keeps_what_it_knows(
    tmp_path: Path, when: str
) -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "lorem ipsum " * 40 for number in range(12))
    between = Between()
    getattr(between, when)("Lane._next", _cancel, range(1, 2))
    journey = Journey(folder=tmp_path, script=[say(text)], kind="plain", wrap_store=between.wrap)
    async with journey as chat:
        chat.world.write("tell")
        await chat.until(lambda: len(chat.world.seen()) == 1)
        await chat.until(lambda: not [t for t in asyncio.all_tasks() if t.get_name().startswith("lane")])
        found = await rows(chat)
        assert [row.state for row in found] == [OutState.SENT, OutState.DUE] and found[0].receipt is not None
        chat.gateway.delivery.ring(found[0].to)
        await chat.until_seen("Paragraph 11")
        assert not any(REPEAT_MARK in text for text in chat.world.seen())


async def test_what_was_sent_is_not_in_doubt_because_it_could_not_be_stored_at_once(tmp_path: Path) -> None:
    between = Between().before("lane.Lane.", Unreachable("the disk is full"), range(1, 3))
    async with Journey(folder=tmp_path, kind="plain", wrap_store=between.wrap) as chat:
        chat.world.write("one")
        await chat.until_seen("You said: one")
        chat.world.write("two")
        await chat.until_seen("You said: two")
        await chat.until_idle()
        assert between.acted() and chat.world.seen() == ["You said: one", "You said: two"]
        assert len(chat.world.did(Deed.SENT)) == 2


async def test_what_is_given_up_last_is_reported_though_the_lane_leaves(tmp_path: Path) -> None:
    between = Between().before("Lane._next", _cancel, range(1, 2))
    world = World(trouble=lambda what, chat: Refused("no") if what == "send" and chat == "1" else None)
    async with Journey(folder=tmp_path, world=world, kind="plain", wrap_store=between.wrap) as chat:
        chat.world.write("one")
        await chat.until(lambda: chat.gateway.counters.undeliverable == 1)
        assert [row.state for row in await rows(chat)] == [OutState.DEAD]


# --- crashes ---


def _script(request: ModelRequest) -> Say:
    words = last_words(request)
    place = max(n for n, entry in enumerate(request.entries) if getattr(entry.record, "text", None) == words)
    done = [entry for entry in request.entries[place:] if isinstance(entry.record, ToolFinished)]
    if "silent" in words:
        return Say(text="NO_REPLY") if done else call("read", '{"token": "t"}')
    if "tool" in words:
        return Say(text=ANSWER, pieces=8) if done else call("read", '{"token": "t"}')
    if "long" in words:
        return Say(text="\n\n".join(f"Paragraph {n}: " + "lorem ipsum " * 40 for n in range(12)), pieces=9)
    return Say(text=ANSWER, pieces=8)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("words", ["plain", "with a tool", "silent", "long"])
@pytest.mark.parametrize("kind", ["edits", "forgetful"])
async def test_no_crash_leaves_a_cursor_or_an_unmarked_copy(
    tmp_path: Path, kind: str, words: str, after: bool, full: bool
) -> None:
    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write(words)
        await chat.until_taken()
        await chat.until_idle()

    for number in stops(full, MOST_WRITES, f"{kind}{words}{after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        chat = Journey(folder=folder, script=_script, kind=kind, settings=open_settings())
        if not await one_life(chat, live, stop_at=number, after=after):
            return
        chat = replace(chat, wrap_store=lambda store: store)
        assert not await one_life(chat, live)
        again = Journey(folder=folder, world=chat.world, script=_script, kind=kind)
        async with again:
            states = {row.key: row.state for row in await rows(again)}
        left = [
            message
            for message in chat.world.messages.values()
            if not message.deleted and message.text.endswith(CURSOR)
        ]
        assert all(states[one.key] is OutState.ATTEMPTING for one in left), (number, chat.world.seen())
        assert kind == "forgetful" or not left, (number, chat.world.seen())
        seen = chat.world.seen()
        for text in (ANSWER, "Paragraph 11"):
            copies = [one for one in seen if text in one]
            assert len(copies) <= 1 or any(REPEAT_MARK in one for one in copies), (number, seen)
            assert copies or text not in _script_text(words), (number, seen)


def _script_text(words: str) -> str:
    return {"silent": "", "long": "Paragraph 11"}.get(words, ANSWER)
