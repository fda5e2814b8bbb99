"""Threads that begin with a mention: the conversation is there from the first word, whatever is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Body
from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform_suite import Inboxes, running, until
from tests.platforms.matrix.bed import MatrixBed


@pytest.mark.parametrize(("said", "threaded"), [("true", True), ("false", False), ("", False)])
async def test_who_mentions_it_is_answered_in_a_thread(said: str, threaded: bool) -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_AUTO_THREAD"] = said
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed._listening()
            ref = await bed.ann.say(bed.group, "Hermes: one")
            await bed.ann.say(bed.group, "two")
            await bed.ann.say(bed.chat.chat, "Hermes: three")
            root = await bed.ann.say(bed.group, "a root")
            relation = {"rel_type": "m.thread", "event_id": root}
            await bed.ann.say(bed.group, "Hermes: four", **{"m.relates_to": relation})
            new = {"msgtype": "m.text", "body": "Hermes: one more"}
            relation = {"rel_type": "m.replace", "event_id": ref}
            await bed.ann.say(bed.group, "* x", **{"m.new_content": new, "m.relates_to": relation})
            await until(lambda: len(inboxes.items) == 6, lambda: f"got {inboxes.texts}")
        found = {one.text: (one.source.kind, one.source.address.thread) for one in inboxes.items}
        begun = (SourceKind.THREAD, ref) if threaded else (SourceKind.GROUP, None)
        assert found == {
            "one": begun,
            "two": (SourceKind.GROUP, None),
            "three": (SourceKind.PRIVATE, None),
            "a root": (SourceKind.GROUP, None),
            "four": (SourceKind.THREAD, root),
            "one more": begun,
        }


async def test_a_thread_hears_what_was_said_around_it(tmp_path: Path) -> None:
    async with MatrixBed() as bed:
        bed.said["MATRIX_AUTO_THREAD"] = "true"
        settings = open_settings(platforms={"matrix": PlatformSettings(allow_all_users=True)})
        async with Journey(
            folder=tmp_path, account="matrix", connect_platform=bed.connect, settings=settings
        ) as chat:
            await bed._listening()
            await bed.bob.say(bed.group, "the teapot is blue")
            ref = await bed.ann.say(bed.group, "Hermes: what does Bob say?")
            await until(lambda: any("Bob say" in one.text for one in bed.shown()), "no answer")
            await chat.until_idle()
            assert "teapot is blue" in chat.heard()
            relation = {"rel_type": "m.thread", "event_id": ref}
            await bed.bob.say(bed.group, "that it is blue", **{"m.relates_to": relation})
            await until(lambda: any("it is blue" in one.text for one in bed.shown()), "we take part in it")
            await chat.until_idle()
        place = Address(platform="matrix", chat=bed.group)
        assert {one.thread for one in bed.shown(place)} == {ref}, "all of it is said in the thread"


async def test_who_is_answered_is_told_so() -> None:
    """In rooms where people hear of mentions alone they would wait for an answer that is there."""
    async with MatrixBed() as bed:
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed._listening()
            ref = await bed.bob.say(bed.group, "Hermes: hello")
            await until(lambda: inboxes.texts == ["hello"], "it did not come")
            to = Address(platform="matrix", chat=bed.group)
            for key, answered in (("k1", ref), ("k2", "$unknown"), ("k3", None)):
                await platform.send(to, Body(text="@ann:localhost knows"), key=key, reply_to=answered)
        mentions = [one.content["m.mentions"] for one in bed.front.sent]
        assert mentions == [{"user_ids": [bed.bob.id]}, {}, {}]
