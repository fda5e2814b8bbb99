"""`/trace` shows what was said in this chat, and what one said oneself; the rest is the operator's to see."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hermes.domain.ids import DeliveryId
from hermes.domain.ports.store import Tx
from hermes.domain.word import replace
from hermes.testing.harness import Journey

START = datetime(2026, 1, 5, tzinfo=UTC)
NOTHING = "There is no such message or turn."


def is_root(source: object) -> bool:
    return getattr(source, "person", None) == "root"


async def trace(chat: Journey, wanted: str, user: str, place: str, kind: str = "private") -> str:
    before = len(chat.world.seen(place))
    chat.world.write(f"/trace {wanted}", chat=place, user=user, kind=kind)
    await chat.until(lambda: len(chat.world.seen(place)) > before)
    await chat.until_idle()
    return chat.world.seen(place)[-1]


async def test_it_shows_nothing_of_other_chats(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain", is_admin=is_root) as chat:
        secret = chat.world.write("my secret", chat="a", user="ann")
        shared = chat.world.write("hello all", chat="room", user="ann", kind="channel", mentions_us=True)
        await chat.until_seen("You said: my secret", chat="a")
        await chat.until_seen("You said: hello all", chat="room")
        await chat.until_idle()
        rows = await chat.database.read(lambda tx: tx.inbox.find(secret.delivery))
        turn = str(rows[0].turn)
        for wanted in (secret.delivery, turn):
            assert await trace(chat, wanted, "bob", "b") == NOTHING
            assert await trace(chat, wanted, "bob", "room", "channel") == NOTHING
            for user, place in (("ann", "a"), ("ann", "elsewhere"), ("root", "r")):
                assert turn in await trace(chat, wanted, user, place)
        assert "turn_" in await trace(chat, shared.delivery, "bob", "room", "channel")
        assert await trace(chat, shared.delivery, "bob", "b") == NOTHING


async def test_ones_own_is_found_among_many_of_the_same_id(tmp_path: Path) -> None:
    """Platforms count messages anew in every chat."""
    async with Journey(folder=tmp_path, kind="plain") as chat:
        mine = chat.world.write("hello", chat="a", user="ann")
        await chat.until_seen("You said: hello", chat="a")
        await chat.until_idle()
        found = (await chat.database.read(lambda tx: tx.inbox.find(mine.delivery)))[0].inbound

        def crowd(tx: Tx) -> None:
            for number in range(60):
                address = replace(found.source.address, chat=f"other{number}")
                source = replace(found.source, address=address, user=f"u{number}")
                other = replace(found, source=source, delivery=DeliveryId(f"x{number}"))
                tx.inbox.add("fake", [other], None, START)
                tx.inbox.finish(tx.inbox.find(f"x{number}")[0].n, "ignored: a test")

        await chat.database.write(crowd)
        assert f"fake {mine.delivery}: turn" in await trace(chat, found.ref or "", "ann", "a")
