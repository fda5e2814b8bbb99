"""Checks of what a store knows of places: chats by name, home channels, and single messages of the outbox."""

from __future__ import annotations

from hermes.domain.chats.address import SourceKind
from hermes.domain.chats.channels import Channel
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.session import session_key
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    address,
    after,
    out,
    session,
    source,
)


async def check_a_chat_is_kept_with_its_last_name(open_store: OpenStore) -> None:
    async with open_store() as store:
        seen = Channel(address=address("7"), name="Ops", kind=SourceKind.GROUP, guild="Acme", seen_at=NOW)
        await store.write(lambda tx: tx.directory.note(seen))
        await store.write(lambda tx: tx.directory.note(replace(seen, name="", guild="", seen_at=after(9000))))
        await store.write(lambda tx: tx.directory.note(Channel(address=address("8", thread="1"))))
        [first, second] = await store.read(lambda tx: tx.directory.channels())
        assert first == replace(seen, seen_at=after(9000))
        assert (second.address, second.name, second.kind) == (address("8", thread="1"), "", None)
        await store.write(lambda tx: tx.directory.note(replace(seen, name="Operations", seen_at=after(9001))))
        [first] = await store.read(lambda tx: tx.directory.channels(1))
        assert first.name == "Operations"
        assert await store.read(lambda tx: tx.directory.seen(address("7"))) == after(9001)
        await store.write(lambda tx: tx.directory.note(replace(first, seen_at=after(9002))))
        assert await store.read(lambda tx: tx.directory.seen(address("7"))) == after(9001)
        await store.write(lambda tx: tx.directory.note(replace(first, seen_at=after(9003)), exact=True))
        assert await store.read(lambda tx: tx.directory.seen(address("7"))) == after(9003)
        assert await store.read(lambda tx: tx.directory.seen(address("8", thread="1"))) is None
        assert await store.read(lambda tx: tx.directory.seen(address("9"))) is None


async def check_the_threads_of_a_chat_are_found(open_store: OpenStore) -> None:
    async with open_store() as store:
        threads = [address("7", thread="a:b"), address("7", thread="é")]
        others = [address("7"), address("77", thread="1"), address("7%3A", thread="2")]
        others.append(replace(threads[0], account="work"))

        def note(tx: Tx) -> None:
            for place in threads + others:
                tx.directory.note(Channel(address=place, name="x"))

        await store.write(note)
        found = await store.read(lambda tx: tx.directory.channels(inside=address("7", thread="gone")))
        assert {one.address for one in found} == set(threads)
        [only] = await store.read(lambda tx: tx.directory.channels(1, inside=address("7")))
        assert only.address in threads


async def check_a_home_is_chosen_and_taken_back(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.directory.set_home("fake", address("1"), NOW))
        await store.write(lambda tx: tx.directory.set_home("fake", address("2", thread="5"), NOW))
        await store.write(lambda tx: tx.directory.set_home("fake@work", address("3"), NOW))
        other = store.scoped(OTHER_AGENT)
        assert await other.read(lambda tx: tx.directory.homes()) == {
            "fake": address("2", thread="5"),
            "fake@work": address("3"),
        }
        await store.write(lambda tx: tx.directory.set_home("fake", None, NOW))
        assert list(await store.read(lambda tx: tx.directory.homes())) == ["fake@work"]


async def check_the_sessions_of_a_chat_are_those_of_one_agent(open_store: OpenStore) -> None:
    async with open_store() as store:

        def talk(tx: Tx) -> None:
            add_talk(tx)
            tx.bindings.bind(session_key(source(), session().agent), SessionId("s1"), source(), NOW)

        await store.write(talk)
        assert await store.read(lambda tx: tx.directory.bound(address())) == ["s1"]
        assert await store.read(lambda tx: tx.directory.bound(address("43"))) == []
        assert await store.scoped(OTHER_AGENT).read(lambda tx: tx.directory.bound(address())) == []


async def check_single_messages_are_found_by_key_and_by_state(open_store: OpenStore) -> None:
    async with open_store() as store:
        rows = [out("k1:0"), out("k1:1"), out("k10:0"), out("k2", draft=True)]

        def add(tx: Tx) -> None:
            for row in rows:
                tx.outbox.add(row)
            tx.outbox.save(replace(rows[2], state=OutState.DEAD, error="gone"))

        await store.write(add)
        found = await store.read(lambda tx: tx.outbox.begun("k1:"))
        assert [row.key for row in found] == ["k1:0", "k1:1"]
        assert await store.read(lambda tx: tx.outbox.get("k1")) is None
        dead = await store.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert [(row.key, row.error) for row in dead] == [("k10:0", "gone")]
        waiting = await store.read(lambda tx: tx.outbox.find((OutState.DUE, OutState.UNKNOWN), 1))
        assert [row.key for row in waiting] == ["k1:0"]


async def check_a_dead_message_is_tried_again_or_dropped(open_store: OpenStore) -> None:
    async with open_store() as store:
        row = out("k1")

        def die(tx: Tx) -> None:
            tx.outbox.add(row)
            tx.outbox.save(replace(row, state=OutState.DEAD, attempts=3, error="gone"))

        await store.write(die)
        assert await store.write(lambda tx: tx.outbox.retry("k1", after(60)))
        again = await store.read(lambda tx: tx.outbox.get("k1"))
        assert again is not None
        assert (again.state, again.created_at, again.error) == (OutState.UNKNOWN, after(60), "")
        assert await store.write(lambda tx: tx.outbox.drop("k1", "not needed"))
        assert await store.read(lambda tx: tx.outbox.head(row.to)) is None
        assert not await store.write(lambda tx: tx.outbox.retry("k1", after(60)))
        assert not await store.write(lambda tx: tx.outbox.drop("k9", "never was"))


CHECKS = (
    check_a_chat_is_kept_with_its_last_name,
    check_the_threads_of_a_chat_are_found,
    check_a_home_is_chosen_and_taken_back,
    check_the_sessions_of_a_chat_are_those_of_one_agent,
    check_single_messages_are_found_by_key_and_by_state,
    check_a_dead_message_is_tried_again_or_dropped,
)
