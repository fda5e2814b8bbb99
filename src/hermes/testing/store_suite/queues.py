"""Checks of the two queues: what came in, and what is to go out."""

from __future__ import annotations

from functools import partial

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.chats.rows import InboxRow, OutboxRow, OutState
from hermes.domain.errors import HermesError, Lost, Refused
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.word import replace
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import NOW, OpenStore, address, after, inbound, out


async def check_a_delivery_is_taken_once_per_account(open_store: OpenStore) -> None:
    async with open_store() as store:
        items = [inbound("d1"), inbound("d2"), inbound("d1", text="again")]
        assert await store.write(lambda tx: tx.inbox.add("fake", items, None, NOW), first=True) == 2
        assert await store.write(lambda tx: tx.inbox.add("fake", items, None, NOW), first=True) == 0
        assert await store.write(lambda tx: tx.inbox.add("fake@work", items[:1], None, NOW), first=True) == 1
        rows = await store.read(lambda tx: tx.inbox.pending(0, 10))
        assert [(row.account, row.inbound.delivery) for row in rows] == [
            ("fake", "d1"), ("fake", "d2"), ("fake@work", "d1"),
        ]  # fmt: skip
        assert rows[0].inbound == items[0]
        assert rows[0].accepted_at == NOW


async def check_a_finished_delivery_is_still_known(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], None, NOW))
        [row] = await store.read(lambda tx: tx.inbox.pending(0, 10))
        await store.write(lambda tx: tx.inbox.finish(row.n, "turn", TurnId("t1")))
        assert await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], None, after(60))) == 0
        assert await store.read(lambda tx: tx.inbox.pending(0, 10)) == []


async def check_the_cursor_is_stored_with_its_rows(open_store: OpenStore) -> None:
    async with open_store() as store:
        assert await store.read(lambda tx: tx.inbox.cursor("fake")) is None
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], "7", NOW))
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], "8", NOW))
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d2")], None, NOW))
        assert await store.read(lambda tx: tx.inbox.cursor("fake")) == "8"
        assert await store.read(lambda tx: tx.inbox.cursor("fake@work")) is None

        def fail(tx: Tx) -> None:
            tx.inbox.add("fake", [inbound("d3")], "9", NOW)
            raise Refused("no")

        await raises(Refused, store.write(fail))
        assert await store.read(lambda tx: tx.inbox.cursor("fake")) == "8"
        assert await store.read(lambda tx: len(tx.inbox.pending(0, 10))) == 2


async def check_pending_rows_come_in_order_and_in_pages(open_store: OpenStore) -> None:
    async with open_store() as store:
        items = [inbound(f"d{number}") for number in range(25)]
        await store.write(lambda tx: tx.inbox.add("fake", items, None, NOW))
        seen: list[str] = []

        async def pending(last: int) -> list[InboxRow]:
            return await store.read(lambda tx: tx.inbox.pending(last, 10))

        last = 0
        while page := await pending(last):
            assert len(page) <= 10
            seen += [row.inbound.delivery for row in page]
            last = page[-1].n
        assert seen == [item.delivery for item in items]
        await store.write(lambda tx: tx.inbox.finish(last, "turn"))
        left = await store.read(lambda tx: tx.inbox.pending(0, 100))
        assert [row.inbound.delivery for row in left] == seen[:-1]


async def check_a_row_is_finished_once(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1")], None, NOW))
        [row] = await store.read(lambda tx: tx.inbox.pending(0, 10))
        await store.write(lambda tx: tx.inbox.finish(row.n, "turn", TurnId("t1")))
        await raises(Lost, store.write(lambda tx: tx.inbox.finish(row.n, "ignored", None)))

        async def find(text: str) -> list[InboxRow]:
            return await store.read(lambda tx: tx.inbox.find(text))

        for text in ("d1", "ref-d1", "t1"):
            [found] = await find(text)
            assert (found.outcome, found.turn) == ("turn", "t1")
        assert await store.read(lambda tx: tx.inbox.find("nothing \ud800\0")) == []


async def check_a_lane_keeps_its_order(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            for key, chat in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")):
                tx.outbox.add(out(key, chat))

        async def save(row: OutboxRow) -> None:
            await store.write(lambda tx: tx.outbox.save(row))

        await store.write(fill)
        for key in ("a1", "a2"):
            head = await store.read(lambda tx: tx.outbox.head(address("a")))
            assert head is not None
            assert (head.key, head.state, head.body) == (key, OutState.DUE, Body(text=f"body of {key}"))
            receipt = Receipt(to=address("a"), ref=f"m-{key}")
            for state in (OutState.ATTEMPTING, OutState.UNKNOWN):
                await save(replace(head, state=state))
                still = await store.read(lambda tx: tx.outbox.head(address("a")))
                assert still is not None
                assert still.key == key
                assert still.state is state
            sent = replace(head, state=OutState.SENT, attempts=1, receipt=receipt)
            await save(sent)
        assert await store.read(lambda tx: tx.outbox.head(address("a"))) is None
        other = await store.read(lambda tx: tx.outbox.head(address("b")))
        assert other is not None
        assert other.key == "b1"


async def check_lanes_that_wait_are_listed_by_account(open_store: OpenStore) -> None:
    async with open_store() as store:
        work = Address(platform="fake", account="work", chat="a:b%c", thread="7")

        def fill(tx: Tx) -> None:
            for number in range(6):
                tx.outbox.add(out(f"k{number}", f"chat{number}"))
            tx.outbox.add(replace(out("w1"), to=work))
            tx.outbox.add(replace(out("dead", "x"), state=OutState.DEAD))

        await store.write(fill)
        first = await store.read(lambda tx: tx.outbox.waiting("fake", 0, 4))
        rest = await store.read(lambda tx: tx.outbox.waiting("fake", first[-1][0], 4))
        assert [to.chat for _, to in first + rest] == [f"chat{number}" for number in range(6)]
        [(_, lane)] = await store.read(lambda tx: tx.outbox.waiting("fake@work", 0, 4))
        assert lane == work
        head = await store.read(lambda tx: tx.outbox.head(work))
        assert head is not None
        assert head.to == work


async def check_drafts_are_never_sent_by_a_lane(open_store: OpenStore) -> None:
    async with open_store() as store:
        draft = replace(out("draft", of="t1", draft=True), state=OutState.ATTEMPTING)
        await store.write(lambda tx: tx.outbox.add(draft))
        assert await store.read(lambda tx: tx.outbox.head(address())) is None
        assert await store.read(lambda tx: tx.outbox.waiting("fake", 0, 4)) == []
        await store.write(lambda tx: tx.outbox.add(out("final", of="t1")))
        shown = replace(draft, state=OutState.SHOWN, receipt=Receipt(to=address(), ref="m1"))
        await store.write(lambda tx: tx.outbox.save(shown))
        rows = await store.read(lambda tx: tx.outbox.of_turn(TurnId("t1")))
        assert [(row.key, row.draft) for row in rows] == [("draft", True), ("final", False)]
        assert rows[0].receipt == shown.receipt
        assert await store.read(lambda tx: tx.outbox.of_turn(TurnId("t2"))) == []


async def check_a_key_is_used_once_and_a_place_can_be_written_to(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.outbox.add(out("k1")))
        await raises(HermesError, store.write(lambda tx: tx.outbox.add(out("k1", "elsewhere"))))
        nowhere = replace(out("k2"), to=Address(platform="fake", chat=""))
        await raises(Refused, store.write(lambda tx: tx.outbox.add(nowhere)))
        assert [to.chat for _, to in await store.read(lambda tx: tx.outbox.waiting("fake", 0, 9))] == ["42"]


async def check_what_is_open_is_counted_and_nothing_else(open_store: OpenStore) -> None:
    async with open_store() as store:
        assert (await store.read(lambda tx: tx.recovery.open_work())).inbox == 0
        await store.write(lambda tx: tx.inbox.add("fake", [inbound("d1"), inbound("d2")], None, NOW))
        [first, _] = await store.read(lambda tx: tx.inbox.pending(0, 10))
        await store.write(lambda tx: tx.inbox.finish(first.n, "ignored"))
        rows = [out("k1"), out("k2"), out("k3")]
        for row in rows:
            await store.write(partial(_put, row))
        head = await store.read(lambda tx: tx.outbox.head(rows[0].to))
        assert head is not None
        sent = replace(head, state=OutState.SENT)
        await store.write(lambda tx: tx.outbox.save(sent))
        counted = await store.read(lambda tx: tx.recovery.open_work())
        assert (counted.inbox, dict(counted.outbox), dict(counted.turns)) == (1, {"due": 2}, {})
        assert counted.questions == 0


def _put(row: OutboxRow, tx: Tx) -> None:
    tx.outbox.add(row)


CHECKS = (
    check_a_delivery_is_taken_once_per_account,
    check_a_finished_delivery_is_still_known,
    check_the_cursor_is_stored_with_its_rows,
    check_pending_rows_come_in_order_and_in_pages,
    check_a_row_is_finished_once,
    check_a_lane_keeps_its_order,
    check_lanes_that_wait_are_listed_by_account,
    check_drafts_are_never_sent_by_a_lane,
    check_a_key_is_used_once_and_a_place_can_be_written_to,
    check_what_is_open_is_counted_and_nothing_else,
)
