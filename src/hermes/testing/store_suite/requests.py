"""Checks of requests that clients come back to, and of sessions that are forgotten after a while."""

from __future__ import annotations

from datetime import timedelta

from hermes.domain.errors import HermesError
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.turn import Request, TurnState
from hermes.domain.word import replace
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    after,
    entry,
    session,
    turn,
)

S1 = SessionId("s1")


def request(ident: str, key: str | None = None, conversation: str | None = None) -> Request:
    return Request(
        id=ident,
        owner="laptop",
        turn=TurnId("t1"),
        session=S1,
        created_at=NOW,
        key=key,
        fingerprint=f"print of {ident}",
        conversation=conversation,
        facts='{"a":1}',
        agent=MAIN_AGENT,
    )


async def check_a_request_is_found_again(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        first, second = request("r1", "k1", "talk"), replace(request("r2", "k2", "talk"), created_at=after(1))
        await store.write(lambda tx: tx.requests.add(first))
        await store.write(lambda tx: tx.requests.add(second))
        assert await store.read(lambda tx: tx.requests.get("r1")) == first
        assert await store.read(lambda tx: tx.requests.find("laptop", key="k2")) == [second]
        assert await store.read(lambda tx: tx.requests.latest("laptop", "talk")) == second
        assert await store.read(lambda tx: tx.requests.find("phone", key="k2")) == []
        assert await store.read(lambda tx: tx.requests.latest("phone", "talk")) is None
        assert await store.read(lambda tx: tx.requests.latest(None, "talk")) == second
        assert await store.read(lambda tx: tx.requests.latest(None, "tal")) is None
        await store.write(lambda tx: tx.requests.remove("r2"))
        assert await store.read(lambda tx: tx.requests.get("r2")) is None
        assert await store.read(lambda tx: tx.requests.latest("laptop", "talk")) == first


async def check_the_latest_requests_of_an_owner(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        made = [replace(request(f"run_{n}"), created_at=after(n)) for n in range(5)]
        others = [
            replace(request("run_x"), owner="phone", created_at=after(9)),
            replace(request("resp_x"), created_at=after(9)),
        ]
        for one in (*made, *others):
            await store.write(lambda tx, one=one: tx.requests.add(one))  # type: ignore[misc]
        newest = made[::-1]
        assert await store.read(lambda tx: tx.requests.find("laptop", prefix="run_", limit=2)) == newest[:2]
        assert await store.read(lambda tx: tx.requests.find("laptop", prefix="run_", limit=9)) == newest
        assert await store.read(lambda tx: tx.requests.find("laptop", limit=9)) == [others[1], *newest]
        other = store.scoped(OTHER_AGENT)
        assert await other.read(lambda tx: tx.requests.find("laptop", limit=9)) == []


async def check_a_key_counts_once_for_its_owner(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        await store.write(lambda tx: tx.requests.add(request("r1", "k1")))
        await raises(HermesError, store.write(lambda tx: tx.requests.add(request("r2", "k1"))))
        await store.write(lambda tx: tx.requests.add(replace(request("r3", "k1"), owner="phone")))
        await store.write(lambda tx: tx.requests.add(request("r4")))
        await store.write(lambda tx: tx.requests.add(request("r5")))
        assert await store.read(lambda tx: tx.requests.get("r2")) is None


async def check_a_request_belongs_to_its_agent_and_its_turn(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        other = store.scoped(OTHER_AGENT)
        await raises(HermesError, other.write(lambda tx: tx.requests.add(request("r1"))))
        lost = replace(request("r1"), turn=TurnId("t9"))
        await raises(HermesError, store.write(lambda tx: tx.requests.add(lost)))
        await store.write(lambda tx: tx.requests.add(request("r1", "k1", "talk")))
        assert await other.read(lambda tx: tx.requests.get("r1")) is None
        assert await other.read(lambda tx: tx.requests.find("laptop", key="k1")) == []
        await other.write(lambda tx: tx.requests.remove("r1"))
        assert await store.read(lambda tx: tx.requests.get("r1")) is not None
        await store.write(lambda tx: tx.sessions.delete(S1))
        assert await store.read(lambda tx: tx.requests.get("r1")) is None


async def check_what_is_to_be_forgotten_is(open_store: OpenStore) -> None:
    """A session whose time is over goes with all that hangs on it, unless somebody still works in it."""
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            for ident, expires_at in (("s1", after(-1)), ("s2", after(-1)), ("s3", after(60)), ("s4", None)):
                tx.sessions.add(replace(session(ident, MAIN_AGENT), expires_at=expires_at))
                tx.turns.add(turn(f"t-{ident}", ident))
                if ident != "s2":
                    done = replace(turn(f"t-{ident}", ident), state=TurnState.DONE)
                    tx.turns.save(done, attempt=0)
                tx.journal.append(SessionId(ident), [entry(1, f"t-{ident}")])
            tx.requests.add(replace(request("r3"), turn=TurnId("t-s3"), session=SessionId("s3")))

        await store.write(fill)
        while await store.write(lambda tx: tx.recovery.prune(NOW - timedelta(days=30), NOW)):
            pass
        left = await store.read(lambda tx: tx.sessions.find(""))
        assert sorted(one.id for one in left) == ["s2", "s3", "s4"]
        assert await store.read(lambda tx: tx.journal.read(S1)) == []
        assert await store.read(lambda tx: tx.turns.get(TurnId("t-s1"))) is None
        assert await store.read(lambda tx: tx.requests.get("r3")) is not None
        while await store.write(lambda tx: tx.recovery.prune(after(1), NOW)):
            pass
        assert await store.read(lambda tx: tx.requests.get("r3")) is None


async def check_what_waits_hangs_on_no_client(open_store: OpenStore) -> None:
    async with open_store() as store:

        def wait(tx: Tx) -> None:
            tx.sessions.add(session())
            tx.turns.add(turn("t1", ephemeral=True))
            running = replace(turn("t1", ephemeral=True), state=TurnState.RUNNING, attempt=1)
            tx.turns.save(running, attempt=0)
            tx.turns.advance(TurnId("t1"), attempt=1, records=1, state=TurnState.RUNNING)

        async def hangs() -> bool:
            found = await store.read(lambda tx: tx.turns.get(TurnId("t1")))
            assert found is not None
            return found.ephemeral

        await store.write(wait)
        assert await hangs()
        await store.write(
            lambda tx: tx.turns.advance(TurnId("t1"), attempt=1, records=1, state=TurnState.WAITING)
        )
        assert not await hangs()


CHECKS = (
    check_a_request_is_found_again,
    check_the_latest_requests_of_an_owner,
    check_a_key_counts_once_for_its_owner,
    check_a_request_belongs_to_its_agent_and_its_turn,
    check_what_is_to_be_forgotten_is,
    check_what_waits_hangs_on_no_client,
)
