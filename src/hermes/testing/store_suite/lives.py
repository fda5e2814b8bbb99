"""Checks of what is asked across agents and lives: the start after an end, work that is due, forgetting."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from hermes.domain.chats.message import Receipt
from hermes.domain.chats.rows import Boot, DueSession, OutboxRow, OutState
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.turn import TurnState
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    address,
    after,
    entry,
    inbound,
    job,
    job_run,
    out,
    session,
    turn,
)

S1 = SessionId("s1")


async def _boot(store: Store) -> Boot:
    return await store.write(lambda tx: tx.recovery.boot(NOW))


async def _start(store: Store, ident: str, epoch: int, *, records: int = 0) -> None:
    def start(tx: Tx) -> None:
        found = tx.turns.get(TurnId(ident))
        assert found is not None
        started = replace(found, state=TurnState.RUNNING, attempt=found.attempt + 1, progress=0)
        tx.turns.save(started, attempt=found.attempt, epoch=epoch)
        if records:
            tx.turns.advance(found.id, attempt=started.attempt, records=records, state=TurnState.RUNNING)

    await store.write(start)


async def _crashes(store: Store, *idents: str) -> list[int]:
    def count(tx: Tx) -> list[int]:
        found = [tx.turns.get(TurnId(ident)) for ident in idents]
        return [one.crashes for one in found if one is not None]

    return await store.read(count)


async def check_a_cut_off_life_is_noticed(open_store: OpenStore) -> None:
    async with open_store() as store:
        first = await _boot(store)
        assert not first.unclean
    async with open_store() as store:
        second = await _boot(store)
        assert second.unclean
        assert second.epoch > first.epoch
        await store.write(lambda tx: tx.recovery.close(second.epoch, NOW))
    async with open_store() as store:
        third = await _boot(store)
        assert not third.unclean
        assert third.epoch > second.epoch


async def check_a_crash_counts_against_a_turn_that_was_alone(open_store: OpenStore) -> None:
    async with open_store() as store:
        first = await _boot(store)

        def fill(tx: Tx) -> None:
            tx.sessions.add(session())
            for ident in ("stuck", "moving", "never", "waiting"):
                tx.turns.add(turn(ident))

        await store.write(fill)
        await _start(store, "stuck", first.epoch)
        await _start(store, "moving", first.epoch, records=1)
        await _start(store, "waiting", first.epoch)
        waits = TurnState.WAITING
        await store.write(lambda tx: tx.turns.advance(TurnId("waiting"), attempt=1, records=0, state=waits))
    async with open_store() as store:
        second = await _boot(store)
        assert second.unclean
        assert await _crashes(store, "stuck", "moving", "never", "waiting") == [3, 0, 0, 0]
        # It ran in the first life only: the end of the second is not its fault.
    async with open_store() as store:
        third = await _boot(store)
        assert third.unclean
        assert await _crashes(store, "stuck") == [3]
        await _start(store, "stuck", third.epoch)
        await store.write(lambda tx: tx.recovery.close(third.epoch, NOW))
    async with open_store() as store:
        fourth = await _boot(store)
        assert not fourth.unclean
        assert await _crashes(store, "stuck") == [3]
        await _start(store, "stuck", fourth.epoch)
    async with open_store() as store:
        fifth = await _boot(store)
        assert await _crashes(store, "stuck") == [4]
        await _start(store, "stuck", fifth.epoch, records=1)
        assert await _crashes(store, "stuck") == [0]


async def check_turns_that_crash_together_are_suspects_and_none_is_blamed(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            tx.sessions.add(session())
            for ident in ("one", "two"):
                tx.turns.add(turn(ident))

        await store.write(fill)

    async def live(*idents: str) -> list[int]:
        """Start these turns, end the life with a crash, and tell what the next makes of both."""
        async with open_store() as store:
            boot = await _boot(store)
            for ident in idents:
                await _start(store, ident, boot.epoch)
        async with open_store() as store:
            boot = await _boot(store)
            await store.write(lambda tx: tx.recovery.close(boot.epoch, NOW))
            return await _crashes(store, "one", "two")

    assert await live("one", "two") == [1, 1]
    assert await live("one", "two") == [2, 2]
    assert await live("one", "two") == [2, 2]
    assert await live("two") == [2, 3]
    assert await live("one", "two") == [2, 3]
    assert await live("two") == [2, 4]
    assert await live("two") == [2, 5]


async def check_turns_of_gone_clients_are_marked(open_store: OpenStore) -> None:
    async with open_store() as store:
        await _boot(store)

        def fill(tx: Tx) -> None:
            tx.sessions.add(session())
            tx.turns.add(turn("kept"))
            for ident in ("accepted", "waiting", "done"):
                tx.turns.add(turn(ident, ephemeral=True))
            ended = replace(turn("done", ephemeral=True), state=TurnState.DONE)
            tx.turns.save(ended, attempt=0)
            tx.turns.save(replace(turn("waiting", ephemeral=True), state=TurnState.WAITING), attempt=0)

        await store.write(fill)
    async with open_store() as store:
        await _boot(store)

        def states(tx: Tx) -> list[tuple[str, str | None]]:
            found = [tx.turns.get(TurnId(ident)) for ident in ("kept", "accepted", "waiting", "done")]
            return [(one.state.value, one.stop) for one in found if one is not None]

        assert await store.read(states) == [
            ("accepted", None), ("accepted", "client gone"), ("running", "client gone"), ("done", None),
        ]  # fmt: skip


def _due(last: int, tx: Tx) -> list[DueSession]:
    return tx.recovery.due(last, 3)


def _head(chat: str, tx: Tx) -> OutboxRow | None:
    return tx.outbox.head(address(chat))


async def check_due_work_is_found_in_pages_across_agents(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx, agent: AgentId) -> None:
            for number in range(5):
                ident = f"{agent}-{number}"
                tx.sessions.add(session(ident, agent))
                tx.turns.add(turn(f"t-{ident}", ident, agent))

        await store.write(lambda tx: fill(tx, MAIN_AGENT))
        await store.scoped(OTHER_AGENT).write(lambda tx: fill(tx, OTHER_AGENT))
        ended = replace(turn("t-main-0", "main-0"), state=TurnState.DONE)
        await store.write(lambda tx: tx.turns.save(ended, attempt=0))
        waiting = replace(turn("t-main-1", "main-1"), state=TurnState.WAITING)
        await store.write(lambda tx: tx.turns.save(waiting, attempt=0))
        seen: list[tuple[str, str]] = []
        last = 0
        while page := await store.read(partial(_due, last)):
            assert len(page) <= 3
            seen += [(row.agent, row.session) for row in page]
            last = page[-1].n
        assert seen == [
            *(("main", f"main-{number}") for number in range(2, 5)),
            *(("other", f"other-{number}") for number in range(5)),
        ]


async def check_forgetting_goes_by_age_and_spares_what_is_open(open_store: OpenStore) -> None:
    async with open_store() as store:
        old, new = NOW - timedelta(days=40), NOW
        count = 620

        def fill(tx: Tx, at: datetime, mark: str) -> None:
            tx.inbox.add("fake", [inbound(f"{mark}{number}") for number in range(count)], "7", at)
            for row in tx.inbox.pending(0, 10_000):
                if row.inbound.delivery.startswith(mark) and row.inbound.delivery != f"{mark}0":
                    tx.inbox.finish(row.n, "turn")
            for state in OutState:
                tx.outbox.add(replace(out(f"{mark}-{state}", state.value), state=state, created_at=at))

        await store.write(lambda tx: fill(tx, old, "old"))
        await store.write(lambda tx: fill(tx, new, "new"))
        await store.write(add_talk)
        await store.write(lambda tx: tx.journal.append(S1, [entry(1)]))
        before = NOW - timedelta(days=30)
        while await store.write(lambda tx: tx.recovery.prune(before, NOW)):
            pass
        left = await store.read(lambda tx: tx.inbox.pending(0, 10))
        assert [row.inbound.delivery for row in left] == ["old0", "new0"]
        known = [inbound(f"new{number}") for number in range(count)]
        assert await store.write(lambda tx: tx.inbox.add("fake", known, None, NOW)) == 0
        gone = [inbound(f"old{number}") for number in range(count)]
        assert await store.write(lambda tx: tx.inbox.add("fake", gone, None, NOW)) == count - 1
        for state in OutState:
            head = await store.read(partial(_head, state.value))
            assert (head is not None and head.key == f"old-{state}") is state.open
        assert await store.read(lambda tx: tx.inbox.cursor("fake")) == "7"
        assert len(await store.read(lambda tx: tx.journal.read(S1))) == 1


async def check_everything_is_there_after_a_restart(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            add_talk(tx)
            tx.inbox.add("fake", [inbound("d1")], "7", NOW)
            tx.journal.append(S1, [entry(1)])
            receipt = Receipt(to=address(), ref="m1")
            tx.outbox.add(replace(out("k1"), state=OutState.ATTEMPTING, receipt=receipt, next_at=after(3)))
            tx.jobs.save(job("j1"))
            tx.job_runs.claim(job_run("j1"))
            tx.leases.take("account", "a", NOW, 60)

        await store.write(fill)
    async with open_store() as store:
        assert await store.read(lambda tx: tx.inbox.cursor("fake")) == "7"
        assert len(await store.read(lambda tx: tx.inbox.pending(0, 9))) == 1
        assert await store.read(lambda tx: tx.journal.read(S1)) == [entry(1)]
        head = await store.read(lambda tx: tx.outbox.head(address()))
        assert head is not None
        assert (head.state, head.next_at) == (OutState.ATTEMPTING, after(3))
        assert not await store.write(lambda tx: tx.job_runs.claim(job_run("j1")))
        assert await store.write(lambda tx: tx.leases.take("account", "b", after(5), 60)) is None


async def check_begun_turns_come_before_all_others_page_by_page(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            for number in range(6):
                tx.sessions.add(session(f"s{number}"))
                tx.turns.add(turn(f"t{number}", f"s{number}"))
            for number in (1, 3, 5):
                begun = replace(turn(f"t{number}", f"s{number}"), state=TurnState.RUNNING)
                tx.turns.save(begun, attempt=0)

        await store.write(fill)
        seen: list[str] = []
        last = 0
        while page := await store.read(partial(_due, last)):
            seen.append(page[0].session)  # there was a place for one, and the next page begins behind it
            last = page[0].n
        assert seen == ["s1", "s3", "s5", "s0", "s2", "s4"]


CHECKS = (
    check_begun_turns_come_before_all_others_page_by_page,
    check_due_work_is_found_in_pages_across_agents,
    check_forgetting_goes_by_age_and_spares_what_is_open,
)
LASTING_CHECKS = (
    check_a_cut_off_life_is_noticed,
    check_a_crash_counts_against_a_turn_that_was_alone,
    check_turns_that_crash_together_are_suspects_and_none_is_blamed,
    check_turns_of_gone_clients_are_marked,
    check_everything_is_there_after_a_restart,
)
