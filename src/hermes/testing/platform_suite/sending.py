"""What goes out: what is declared is done, texts up to the limit in its unit, files, edits, and errors that
are named by what their catcher should do."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator

from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities, Grade
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import (
    Deletes,
    Edits,
    Fetches,
    History,
    Menu,
    OutsideWindow,
    Platform,
    Previews,
    Reactions,
    Threads,
    Typing,
)
from hermes.stream.text.split import split
from hermes.testing.platform_suite.testbed import (
    DOUBTFUL,
    FAST_FAULTS,
    PATIENCE,
    Fault,
    Inboxes,
    MakeTestbed,
    Testbed,
    running,
)

_MIMES = {
    MediaKind.IMAGE: "image/png",
    MediaKind.VOICE: "audio/ogg",
    MediaKind.AUDIO: "audio/mpeg",
    MediaKind.VIDEO: "video/mp4",
    MediaKind.STICKER: "image/webp",
}
_DOCUMENT = """# A title & more

Some **fat**, *slanted*, ~~struck~~ and `code < here` words, and [a link](https://example.invalid/?a=1&b=2).

- one
- two _2*2_

> a quote

```python
if a < b and c > d:
    print("<b>no tag</b>")
```

| a | b |
|---|---|
| 1 | 2 |
"""


async def check_declared_abilities_are_there(make: MakeTestbed) -> None:
    async with make() as bed:
        platform = bed.connect()
        able = platform.capabilities
        assert able == bed.manifest.capabilities, "the manifest says otherwise"
        _same("edits", able.edits, isinstance(platform, Edits))
        _same("previews", able.preview_seconds > 0, isinstance(platform, Previews))
        _same("a reply window", able.reply_window > 0, isinstance(platform, OutsideWindow))
        _same("deletes", able.deletes, isinstance(platform, Deletes))
        _same("history", able.history, isinstance(platform, History))
        _same("fetches", able.fetches, isinstance(platform, Fetches))
        _same("typing", able.typing, isinstance(platform, Typing))
        _same("reactions", able.reactions, isinstance(platform, Reactions))
        _same("a menu", able.menu is not None, isinstance(platform, Menu))
        if isinstance(platform, Threads):
            assert able.threads is not Grade.NONE, "it opens threads and has none"
        assert able.max_text >= 20, "no platform takes so little text"


async def check_sends_edits_deletes(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        receipt = await _editable(bed, platform, "first", "k1")
        assert [one.text for one in bed.shown()] == ["first"]
        assert receipt.to == bed.chat and receipt.ref == bed.shown()[0].ref
        if isinstance(platform, Edits):
            grows = platform.capabilities.edits_drafts_only
            await platform.edit(receipt, Body(text="second", growing=grows))
            await platform.edit(receipt, Body(text="second"))
            assert [one.text for one in bed.shown()] == ["second"], "an edit is seen, and may be repeated"
        if isinstance(platform, History):
            assert (await _found(platform, bed.chat, "k1")).ref == receipt.ref
            assert await platform.find_sent(bed.chat, "never sent") is None
        if isinstance(platform, Deletes):
            await platform.delete(receipt)
            assert bed.shown() == []
            with contextlib.suppress(Refused):
                await platform.delete(receipt)
        if isinstance(platform, Edits) and isinstance(platform, Deletes):
            try:
                await platform.edit(receipt, Body(text="third"))
            except Refused:
                pass
            else:
                raise AssertionError("an edit of what is gone must be refused: the final would be lost")


async def check_replies_to_a_message(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        first = await _send(platform, bed.chat, "first", "k1")
        await platform.send(bed.chat, Body(text="second"), key="k2", reply_to=first.ref)
        await platform.send(bed.chat, Body(text="third"), key="k3", reply_to="987654321")
        assert [one.text for one in bed.shown()] == ["first", "second", "third"], "a reply to nothing is sent"


async def check_takes_its_longest_text(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        able = platform.capabilities
        for letter in ("x", "ж", "😀"):
            # One unit may be more than one of the limit's: a smiley is two of UTF-16 and four bytes.
            text = letter * (able.max_text // able.unit.measure(letter))
            receipt = await _send(platform, bed.chat, text, f"long {letter}")
            shown = next(one for one in bed.shown() if one.ref == receipt.ref)
            assert shown.text == text, f"{len(text)} × {letter} came out as {len(shown.text)}"


async def check_takes_what_the_splitter_cuts(make: MakeTestbed) -> None:
    """A text of many kinds, over the limit, in the platform's flavour: each part is taken as it is."""
    able = make().manifest.capabilities
    times = 3
    text = "\n\n".join([_DOCUMENT, "😀 " * (min(able.max_text, 4096) // 3)] * times)
    parts = split(text, limit=able.max_text, unit=able.unit, flavour=able.flavour)
    assert len(parts) > 1 or able.max_text > len(text)
    async with _up(make) as (bed, platform):
        for number, part in enumerate(parts):
            assert able.unit.measure(part.printed) <= able.max_text
            await _send(platform, bed.chat, part.printed, f"part {number}")
        words = "".join(one.text for one in bed.shown())
        assert len(bed.shown()) == len(parts)
        assert words.count("fat") == words.count("slanted") == times, "words were lost"


async def check_sends_files_of_each_kind(make: MakeTestbed) -> None:
    async with make() as bed:
        data = {kind: _MIMES.get(kind, "text/plain").encode() + bed.content for kind in MediaKind}
        files: dict[str, bytes] = {}

        async def open_file(file: Attachment) -> bytes:
            if file.sha256 not in files:
                raise UserError("It is gone.")
            return files[file.sha256]

        bed.open_file = open_file
        platform = bed.connect()
        able = platform.capabilities
        async with running(platform, Inboxes().accept, None):
            for kind in able.media:
                digest = hashlib.sha256(data[kind]).hexdigest()
                files[digest] = data[kind]
                file = _file(kind, able, digest, len(data[kind]))
                receipt = await platform.send(
                    bed.chat, Body(attachments=(file,)), key=f"file {kind}", reply_to=None
                )
                shown = [one for one in bed.shown() if one.ref == receipt.ref]
                assert shown, f"a file of the kind {kind} was not sent"
                assert shown[0].files == ((kind, data[kind]),), f"{kind} came as {shown[0].files}"
            if able.media:
                kind = next(iter(able.media))
                gone = _file(kind, able, "0" * 64, 5)
                try:
                    await platform.send(bed.chat, Body(attachments=(gone,)), key="gone", reply_to=None)
                except Refused:
                    pass
                else:
                    raise AssertionError("a file that is gone must be refused")


async def check_sends_files_together(make: MakeTestbed) -> None:
    """Where a platform has captions, words go with a file; where it has albums, several files go in one call,
    words and all."""
    async with make() as bed:

        async def open_file(file: Attachment) -> bytes:
            return (file.mime or "").encode() + bed.content + file.ref.encode()

        bed.open_file = open_file
        platform = bed.connect()
        able = platform.capabilities
        async with running(platform, Inboxes().accept, None):
            assert all(album.kinds <= able.media.keys() and album.most > 1 for album in able.albums)
            together = [[*sorted(album.kinds), *sorted(album.kinds)][: album.most] for album in able.albums]
            captioned = [[kind] for kind, limit in able.media.items() if limit.caption]
            for place, kinds in enumerate(captioned + together):
                files = tuple(_file(kind, able, f"{n:064x}", 100) for n, kind in enumerate(kinds))
                before = len(bed.shown())
                body = Body(text="look", attachments=files)
                receipt = await platform.send(bed.chat, body, key=f"album {place}", reply_to=None)
                shown = bed.shown()[before:]
                assert receipt.ref in [one.ref for one in shown]
                expected = [(file.kind, await open_file(file)) for file in files]
                assert [file for one in shown for file in one.files] == expected
                assert [one.text for one in shown if one.text] == ["look"]
                if isinstance(platform, History):
                    await _found(platform, bed.chat, f"album {place}")


async def check_shows_buttons(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        if platform.capabilities.buttons is Grade.NONE:
            return
        question = "q_" + "0123456789abcdef" * 2
        words = ("once", "session", "always", "deny")
        buttons = tuple(Button(label=word, value=f"{question}:{word}") for word in words)
        receipt = await platform.send(
            bed.chat, Body(text="May I?", buttons=buttons), key="ask", reply_to=None
        )
        assert bed.shown()[0].buttons == words
        if isinstance(platform, Edits):
            await platform.edit(receipt, Body(text="Approved."))
            assert bed.shown()[0].buttons == (), "an edit without buttons takes them away"


async def check_types_and_reacts(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        if isinstance(platform, Typing):
            await platform.typing(bed.typing_chat())
            assert bed.typed() == 1
        if isinstance(platform, Reactions):
            receipt = await _send(platform, bed.chat, "x", "k")
            await platform.react(receipt, "👀")
            assert bed.reactions() == ["👀"]
            await platform.react(receipt, "👍", instead="👀")
            assert bed.reactions() == ["👍"], "another takes its place"
            await platform.react(receipt, "", instead="👍")
            await platform.react(receipt, "", instead="👍")
            assert bed.reactions() == [], "and goes, though it is gone already"


async def check_a_key_is_sent_once_where_promised(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        if not platform.capabilities.dedupe_seconds:
            return
        first = await _send(platform, bed.chat, "only once", "same key")
        again = await _send(platform, bed.chat, "only once", "same key")
        assert first.ref == again.ref
        assert [one.text for one in bed.shown()] == ["only once"]


async def check_errors_are_translated(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        for fault in sorted(bed.faults):
            bed.fail(fault)
            error = await _error(platform, bed)
            assert str(error), f"{fault}: an error without a sentence"
            assert "\n" not in str(error), f"{fault}: one sentence, please: {error}"
            _is_what_it_should_be(fault, error, bed)
            bed.calm()
        await _send(platform, bed.chat, "still alive", "k2")
        assert bed.shown()[-1].text == "still alive"


async def check_errors_of_edits_are_translated(make: MakeTestbed) -> None:
    async with _up(make) as (bed, platform):
        if not isinstance(platform, Edits):
            return
        receipt = await _editable(bed, platform, "first", "k")
        grows = platform.capabilities.edits_drafts_only
        for fault in sorted(bed.faults & {Fault.TOO_FAST, Fault.BROKEN, Fault.RESET}):
            bed.fail(fault)
            try:
                await platform.edit(receipt, Body(text=f"with {fault.name}", growing=grows))
            except Unreachable as error:
                assert fault not in FAST_FAULTS or error.after == bed.delay
            else:
                raise AssertionError(f"{fault} of an edit was swallowed")
            bed.calm()
        await platform.edit(receipt, Body(text="last"))
        assert bed.shown()[-1].text == "last"


def _is_what_it_should_be(fault: Fault, error: HermesError, bed: Testbed) -> None:
    if fault in FAST_FAULTS:
        assert isinstance(error, Unreachable), f"{fault} became {error!r}"
        assert error.after == bed.delay, f"told to wait {bed.delay} s, not {error.after}"
        assert not error.maybe_done, f"{fault}: nothing was done"
    elif fault in DOUBTFUL:
        assert isinstance(error, Unreachable), f"{fault} became {error!r}"
        assert error.maybe_done, f"{fault}: it may have been done"
    elif fault is Fault.REVOKED:
        assert isinstance(error, NeedsLogin), f"{fault} became {error!r}"
    else:
        assert isinstance(error, Refused), f"{fault} became {error!r}"


async def _error(platform: Platform, bed: Testbed) -> HermesError:
    try:
        await _send(platform, bed.chat, "x", "k")
    except HermesError as error:
        return error
    raise AssertionError("the fault was swallowed")


def _file(kind: MediaKind, able: Capabilities, digest: str, size: int) -> Attachment:
    mimes = able.media[kind].mimes
    mime = mimes[0] if mimes else _MIMES.get(kind, "text/plain")
    name = f"thing.{mime.partition('/')[2]}"
    return Attachment(kind=kind, ref=f"sha256:{digest}", name=name, mime=mime, size=size, sha256=digest)


def _same(name: str, declared: bool, implemented: bool) -> None:
    assert declared == implemented, f"{name} is declared {declared} and implemented {implemented}"


async def _found(platform: History, to: Address, key: str) -> Receipt:
    """What was sent with this key; where it is found by a copy, that may take its time to come back."""
    end = time.monotonic() + PATIENCE
    while (found := await platform.find_sent(to, key)) is None:
        assert time.monotonic() < end, "it was sent and is not found"
    return found


async def _editable(bed: Testbed, platform: Platform, text: str, key: str) -> Receipt:
    """A message that can be edited, where any can."""
    body = Body(text=text, growing=platform.capabilities.edits_drafts_only)
    return await platform.send(bed.chat, body, key=key, reply_to=bed.answerable())


async def _send(platform: Platform, to: Address, text: str, key: str) -> Receipt:
    return await platform.send(to, Body(text=text), key=key, reply_to=None)


@contextlib.asynccontextmanager
async def _up(make: MakeTestbed) -> AsyncIterator[tuple[Testbed, Platform]]:
    """An adapter that runs, as it does whenever something is sent."""
    async with make() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            yield bed, platform
