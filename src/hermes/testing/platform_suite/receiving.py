"""What comes in: each kind of thing people do, stored before it is acknowledged; nothing lost or twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.message import Body, Button, Inbound, InboundKind, MediaKind, deletion_of
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.platform import Fetches, History
from hermes.domain.word import replace
from hermes.testing.platform_suite.testbed import Does, Inboxes, MakeTestbed, Testbed, hosted, running, until

_BUTTONS = (Button(label="Yes", value="q:yes"),)
_FILES = {Does.IMAGE: MediaKind.IMAGE, Does.VOICE: MediaKind.VOICE, Does.FILE: MediaKind.FILE}


async def check_receives_text(make: MakeTestbed) -> None:
    async with make() as bed:
        item = await _received(bed, Does.TEXT, "hello <b>&amp; *you* 😀")
        assert item.what is InboundKind.MESSAGE
        assert item.text == "hello <b>&amp; *you* 😀", "a person's words came out changed"
        assert item.source.user, "a message without a stable user id"
        assert item.source.kind is SourceKind.PRIVATE
        assert item.source.address == bed.chat
        assert item.ref, "a message that cannot be replied to"
        assert item.at.tzinfo is not None


async def check_says_that_it_is_connected(make: MakeTestbed) -> None:
    """With its first sign of life, as soon as it is let in, also if nothing ever happens there. By that the
    host tells who is connected from who still tries."""
    async with make() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "something")
            await until(lambda: bool(inboxes.items), "it never came")
        inboxes.batches = 0
        async with hosted(bed, inboxes):
            if bed.manifest.capabilities.silence_seconds:
                await until(lambda: inboxes.batches > 0, "it never says that it is connected")
            await bed.do(Does.TEXT, "something else")
            await until(lambda: "something else" in inboxes.texts, "it never came")


async def check_receives_replies_threads_edits(make: MakeTestbed) -> None:
    async with make() as bed:
        if Does.REPLY in bed.receives:
            platform = bed.connect()
            async with running(platform, Inboxes().accept, None):
                ours = await platform.send(bed.chat, Body(text="ours"), key="k", reply_to=None)
            item = await _received(bed, Does.REPLY, "as I said", on=ours.ref)
            assert item.reply_to is not None, "it was an answer to a message"
            assert item.reply_to.mine, "it was an answer to a message of ours"
        if Does.THREAD in bed.receives:
            item = await _received(bed, Does.THREAD, "in the thread")
            assert item.source.address.thread, "it was written in a thread"
        if Does.EDIT in bed.receives:
            before = await _received(bed, Does.TEXT, "frist")
            item = await _received(bed, Does.EDIT, "first", on=before.ref or "")
            assert item.what is InboundKind.EDIT
            assert item.ref == before.ref, "an edit names the message that was edited"
            assert item.delivery != before.delivery, "an edit is a happening of its own"


async def check_receives_deletions(make: MakeTestbed) -> None:
    """In every place where people write; the same deletion is the same happening however often it is told."""
    async with make() as bed:
        if Does.DELETE not in bed.receives:
            return
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await asyncio.sleep(0.05)
            for does in sorted({Does.TEXT, Does.THREAD, Does.MENTION} & bed.receives):
                known = len(inboxes.items)
                await bed.do(does, "my secret")
                await until(lambda: len(inboxes.items) > known, f"“{does}” never came")  # noqa: B023
                before = inboxes.items[-1]
                await bed.do(Does.DELETE, "", on=before.ref or "")
                await until(lambda: len(inboxes.items) > known + 1, f"“{does}” is not deleted")  # noqa: B023
                item = inboxes.items[-1]
                assert item.what is InboundKind.DELETED
                assert item.ref == before.ref, "a deletion names the message that is gone"
                delivery = deletion_of(before.source.address.chat, before.ref or "")
                assert item.delivery == delivery, "a deletion is not found by its message"
                there, here = item.source.address, before.source.address
                assert (there.credential, there.chat) == (here.credential, here.chat), "it was not there"
                assert "secret" not in item.text, "what is gone is told once more"


async def check_receives_files(make: MakeTestbed) -> None:
    async with make() as bed:
        for does, kind in _FILES.items():
            if does not in bed.receives:
                continue
            item = await _received(bed, does, "look")
            assert len(item.attachments) == 1, f"{does}: where is the file?"
            file = item.attachments[0]
            assert file.kind is kind, f"{does} came as {file.kind}"
            assert file.ref and file.sha256 is None and file.problem is None, "a reference, not yet fetched"
            assert await _fetched(bed, file.ref) == bed.content
        if bed.receives & _FILES.keys():
            try:
                await _fetched(bed, "no-such-file")
            except Refused:
                pass
            else:
                raise AssertionError("a file that is gone must be refused")


async def check_receives_mentions_commands_buttons(make: MakeTestbed) -> None:
    async with make() as bed:
        if Does.MENTION in bed.receives:
            item = await _received(bed, Does.MENTION, "what do you think?")
            assert item.mentions_me, "we were mentioned"
            assert item.source.kind is not SourceKind.PRIVATE
            assert "what do you think?" in item.text
        if Does.COMMAND in bed.receives:
            item = await _received(bed, Does.COMMAND, "/status now")
            assert item.text == "/status now", f"a command came as {item.text!r}"
        if Does.BUTTON in bed.receives:
            platform = bed.connect()
            async with running(platform, Inboxes().accept, None):
                body = Body(text="May I?", buttons=(Button(label="Yes", value="q_1:yes"),))
                asked = await platform.send(bed.chat, body, key="ask", reply_to=None)
            item = await _received(bed, Does.BUTTON, "q_1:yes", on=asked.ref)
            assert (item.what, item.button) == (InboundKind.BUTTON, "q_1:yes")
            assert item.source.user, "who pressed it?"
            assert item.source.address == bed.chat


async def check_keeps_to_its_account(make: MakeTestbed) -> None:
    """One of several accounts: whatever comes says which, and what is sent there stays there."""
    async with make() as bed:
        bed.account = "work"
        inboxes, platform = Inboxes(), bed.connect()
        chat = replace(bed.chat, account="work")
        async with running(platform, inboxes.accept, None):
            await asyncio.sleep(0.05)
            ours = await platform.send(chat, Body(text="ours", buttons=_BUTTONS), key="k", reply_to=None)
            assert ours.to.account == "work", "a receipt of another account"
            for does in sorted(bed.receives):
                before, on = len(inboxes.items), ours.ref if does in (Does.REPLY, Does.BUTTON) else ""
                if does in (Does.EDIT, Does.DELETE):
                    await bed.do(Does.TEXT, "frist")
                    await until(lambda: len(inboxes.items) > before, "a text never came")  # noqa: B023
                    before, on = len(inboxes.items), inboxes.items[-1].ref or ""
                await bed.do(does, "/help me" if does is Does.COMMAND else _BUTTONS[0].value, on=on)
                await until(lambda: len(inboxes.items) > before, f"“{does}” never came")  # noqa: B023
            if isinstance(platform, History):
                found = await platform.find_sent(chat, "k")
                assert found is None or found.to.account == "work", "found on another account"
        wrong = [item for item in inboxes.items if item.source.address.account != "work"]
        assert not wrong, f"{wrong[0].what} came from the account {wrong[0].source.address.account}"
        assert bed.shown(bed.chat), "it was not sent"


async def check_stores_before_it_acknowledges(make: MakeTestbed) -> None:
    async with make() as bed:
        gate = asyncio.Event()
        inboxes = Inboxes()
        asked: list[Inbound] = []

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            asked.extend(items)
            if items:
                await gate.wait()
            await inboxes.accept(items, cursor)

        async with running(bed.connect(), accept, None):
            await bed.do(Does.TEXT, "hello")
            await until(lambda: bool(asked), "it never came")
            await asyncio.sleep(0.1)
            assert not bed.acknowledged(), "acknowledged before it was stored"
            gate.set()
            await until(lambda: inboxes.texts == ["hello"], "it never came")
            if bed.acknowledged() is not None:
                await until(lambda: bed.acknowledged() == 1, "never acknowledged")
        assert inboxes.cursor is not None or bed.acknowledged() is not None, "neither a cursor nor a receipt"


async def check_a_failed_accept_is_delivered_again(make: MakeTestbed) -> None:
    async with make() as bed:
        refused: list[Inbound] = []

        async def refuse(items: Sequence[Inbound], cursor: str | None) -> None:
            refused.extend(items)
            if items or cursor is not None:
                raise Unreachable("nothing can be stored")

        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "before")
            await until(lambda: inboxes.texts == ["before"], "it never came")
        async with running(bed.connect(), refuse, inboxes.cursor) as task:
            await bed.do(Does.TEXT, "keep me")
            await until(lambda: bool(refused) or task.done(), "it is not given what was written")
            await asyncio.wait((task,), timeout=0.3)
        assert (bed.acknowledged() or 0) <= len(inboxes.items), "acknowledged what was not stored"
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["before", "keep me"], "it was not delivered again")


async def check_goes_on_from_its_cursor(make: MakeTestbed) -> None:
    """What is written while nobody listens comes at the next start, and nothing comes twice."""
    async with make() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        wanted = ["first"]

        async def all_there() -> None:
            await until(lambda: inboxes.texts == wanted, lambda: f"wanted {wanted}, got {inboxes.texts}")

        for round_ in range(5):
            wanted.append(f"away {round_}")
            await bed.do(Does.TEXT, wanted[-1])
            async with hosted(bed, inboxes):
                await all_there()
                wanted.append(f"live {round_}")
                await bed.do(Does.TEXT, wanted[-1])
                await all_there()


async def check_connections_may_die(make: MakeTestbed) -> None:
    """A hundred disconnections, with people writing before and after each."""
    async with make() as bed:
        inboxes = Inboxes()
        wanted: list[str] = []

        async def all_there() -> None:
            await until(
                lambda: len(inboxes.texts) >= len(wanted),
                lambda: f"lost: {sorted(set(wanted) - set(inboxes.texts))}",
            )

        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            wanted.append("first")
            await all_there()
            for round_ in range(100 if bed.full else 12):
                wanted.extend((f"{round_} before", f"{round_} after"))
                await bed.do(Does.TEXT, wanted[-2])
                await bed.cut()
                await bed.do(Does.TEXT, wanted[-1])
                await all_there()
        assert sorted(inboxes.texts) == sorted(wanted)


async def check_a_long_outage(make: MakeTestbed) -> None:
    async with make() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
            await bed.down()
            for number in range(30):
                await bed.do(Does.TEXT, f"in the dark {number}")
            await asyncio.sleep(0.1)
            platform = bed.connect()
            async with running(platform, inboxes.accept, inboxes.cursor):
                with contextlib.suppress(HermesError):
                    # Whatever it says now is one of our own errors.
                    await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await bed.up()
            wanted = ["first", *(f"in the dark {number}" for number in range(30))]
            await until(lambda: len(inboxes.items) >= 31, lambda: f"got only {inboxes.texts}")
        assert sorted(inboxes.texts) == sorted(wanted)


async def check_bad_deliveries(make: MakeTestbed) -> None:
    """Out of order and again: all of it comes, and what is the same has the same delivery id."""
    async with make() as bed:
        inboxes = Inboxes()
        texts = [f"number {number}" for number in range(20)]
        async with hosted(bed, inboxes):
            await bed.misdeliver(texts)
            await until(lambda: len(inboxes.items) >= len(texts), lambda: f"got only {inboxes.texts}")
            await asyncio.sleep(0.05)
        assert sorted(inboxes.texts) == sorted(texts), "something came twice or not at all"


async def _fetched(bed: Testbed, ref: str) -> bytes:
    pieces: list[bytes] = []
    platform = bed.connect()
    assert isinstance(platform, Fetches), "it receives files and cannot get them"

    async def sink(piece: bytes) -> None:
        pieces.append(piece)

    async with running(platform, Inboxes().accept, None):
        await platform.fetch(ref, sink)
    return b"".join(pieces)


_inboxes: WeakKeyDictionary[Testbed, Inboxes] = WeakKeyDictionary()


async def _received(bed: Testbed, does: Does, text: str, *, on: str = "") -> Inbound:
    # What an earlier adapter took and had no time to acknowledge comes again.
    inboxes = _inboxes.setdefault(bed, Inboxes())
    async with running(bed.connect(), inboxes.accept, None) as task:
        # A platform without a cursor begins with now: what was before it is history.
        await asyncio.sleep(0.05)
        before = len(inboxes.items)
        await bed.do(does, text, on=on)
        await until(
            lambda: len(inboxes.items) > before or task.done(),
            f"“{does}” never came",
        )
        assert len(inboxes.items) > before, f"the adapter ended: {task.exception()!r}"
    return inboxes.items[-1]
