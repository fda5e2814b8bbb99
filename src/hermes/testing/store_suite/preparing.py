"""Checks of what turns are prepared with: talk that was overheard, and words of ours."""

from __future__ import annotations

from functools import partial

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.chats.rows import OutState, OverheardMessage
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    address,
    after,
    out,
)

S1, S2 = SessionId("s1"), SessionId("s2")


def _said(number: int) -> OverheardMessage:
    return OverheardMessage(author="ann", text=f"word {number}", at=after(number))


def _hear(place: Address, number: int, tx: Tx) -> None:
    tx.talk.keep(place, _said(number), 3)


def _words(heard: list[OverheardMessage]) -> list[int]:
    return [int(said.text.split()[1]) for said in heard]


async def check_talk_is_told_once_to_each_session(open_store: OpenStore) -> None:
    async with open_store() as store:
        place = address("g")

        async def hear(*numbers: int) -> None:
            for number in numbers:
                await store.write(partial(_hear, place, number))

        async def take(session: SessionId, tx_since: float | None = None) -> list[int]:
            since = None if tx_since is None else after(tx_since)
            return _words(await store.write(lambda tx: tx.talk.take(session, place, since)))

        assert await take(S1) == []
        await hear(1, 2)
        assert await take(S1) == [1, 2] and await take(S1) == []
        await hear(3, 4)
        assert await take(S1) == [3, 4], "what was told before is not told again"
        assert await take(S2, 3) == [3, 4], "a session that begins then hears only of what came after"
        await hear(5)
        assert await take(S2, 99) == [5], "once it was told something, it is told all that follows"
        assert await take(SessionId("s3")) == [3, 4, 5], "only the latest are kept"


async def check_talk_stays_in_its_place(open_store: OpenStore) -> None:
    async with open_store() as store:
        places = [address("g"), address("g", thread="7"), address("h"), address("g", platform="other")]
        for number, place in enumerate(places):
            await store.write(partial(_hear, place, number))
        other = store.scoped(OTHER_AGENT)
        for number, place in enumerate(places):
            assert await other.write(lambda tx, to=place: tx.talk.take(S1, to)) == []  # type: ignore[misc]
            heard = await store.write(lambda tx, to=place: tx.talk.take(S1, to))  # type: ignore[misc]
            assert _words(heard) == [number]


async def check_talk_that_is_gone_is_not_told(open_store: OpenStore) -> None:
    async with open_store() as store:

        def hear(tx: Tx) -> None:
            for number in (1, 2, 3):
                tx.talk.keep(address("g"), replace(_said(number), ref=f"m{number}"), 50)
            tx.talk.keep(address("h"), replace(_said(4), ref="m2"), 50)

        await store.write(hear)
        await store.scoped(OTHER_AGENT).write(lambda tx: tx.talk.forget(address("g"), "m1"))
        for _ in range(2):
            await store.write(lambda tx: tx.talk.forget(address("g"), "m2"))
        assert _words(await store.write(lambda tx: tx.talk.take(S1, address("g")))) == [1, 3]
        assert _words(await store.write(lambda tx: tx.talk.take(S1, address("h")))) == [4]
        await store.write(lambda tx: tx.talk.forget(address("g"), "m3"))
        await store.write(partial(_hear, address("g"), 5))
        assert _words(await store.write(lambda tx: tx.talk.take(S1, address("g")))) == [5]


async def check_talk_is_forgotten_by_age_and_with_its_session(open_store: OpenStore) -> None:
    async with open_store() as store:

        def begin(tx: Tx) -> None:
            add_talk(tx)
            for number in (1, 2):
                tx.talk.keep(address("g"), _said(number), 50)
            tx.talk.take(S1, address("g"))

        await store.write(begin)
        await store.write(lambda tx: tx.sessions.delete(S1))
        await store.write(lambda tx: tx.recovery.prune(after(2), NOW))
        assert _words(await store.write(lambda tx: tx.talk.take(S1, address("g")))) == [2]


async def check_words_of_ours_are_found_by_their_receipt(open_store: OpenStore) -> None:
    async with open_store() as store:

        def send(tx: Tx) -> None:
            for key, draft in (("k1", False), ("k2", True)):
                row = replace(out(key, "g", draft=draft), body=Body(text="" if draft else "hello"))
                tx.outbox.add(row)
                receipt = Receipt(to=address("g"), ref="card:r1")
                tx.outbox.save(replace(row, state=OutState.SENT, receipt=receipt))

        await store.write(send)
        assert await store.read(lambda tx: tx.talk.sent(address("g"), "card:r1")) == "hello"
        assert await store.read(lambda tx: tx.talk.sent(address("g"), "r1")) == "hello"
        assert await store.read(lambda tx: tx.talk.sent(address("g"), "card")) is None
        assert await store.read(lambda tx: tx.talk.sent(address("h"), "r1")) is None


CHECKS = (
    check_talk_is_told_once_to_each_session,
    check_talk_stays_in_its_place,
    check_talk_that_is_gone_is_not_told,
    check_talk_is_forgotten_by_age_and_with_its_session,
    check_words_of_ours_are_found_by_their_receipt,
)
