"""Checks of hand-offs in a store: one at a time per session, and each step builds on the one before."""

from __future__ import annotations

from hermes.domain.chats.handoff import Handoff, HandoffState
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import NOW, OTHER_AGENT, OpenStore, add_talk, after, source


def handoff(ident: str, of: str = "s1", agent: AgentId = MAIN_AGENT) -> Handoff:
    return Handoff(
        id=ident,
        agent=agent,
        session=SessionId(of),
        account="fake",
        source=source(),
        created_at=NOW,
        due_at=NOW,
    )


async def check_a_session_is_handed_over_once_at_a_time(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        assert await store.write(lambda tx: tx.handoffs.add(handoff("h1")))
        assert not await store.write(lambda tx: tx.handoffs.add(handoff("h2")))
        over = replace(handoff("h1"), state=HandoffState.FAILED, error="no")
        assert await store.write(lambda tx: tx.handoffs.change(handoff("h1"), over))
        assert await store.write(lambda tx: tx.handoffs.add(replace(handoff("h2"), created_at=after(5))))
        again = replace(over, state=HandoffState.PENDING)
        assert not await store.write(lambda tx: tx.handoffs.change(over, again))
        latest = await store.read(lambda tx: tx.handoffs.latest(SessionId("s1"), 9))
        assert [one.id for one in latest] == ["h2", "h1"]
        assert [one.id for one in await store.read(lambda tx: tx.handoffs.open())] == ["h2"]


async def check_of_two_steps_from_one_place_the_second_is_void(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.handoffs.add(handoff("h1")))
        first = replace(handoff("h1"), state=HandoffState.RUNNING, attempts=1, due_at=after(60))
        assert await store.write(lambda tx: tx.handoffs.change(handoff("h1"), first))
        assert not await store.write(lambda tx: tx.handoffs.change(handoff("h1"), first))
        stale = replace(first, attempts=2)
        assert not await store.write(lambda tx: tx.handoffs.change(stale, stale))
        assert await store.read(lambda tx: tx.handoffs.get("h1")) == first


async def check_handoffs_are_one_agents_and_go_with_their_session(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        await store.write(lambda tx: tx.handoffs.add(handoff("h1")))
        other = store.scoped(OTHER_AGENT)
        assert await other.read(lambda tx: tx.handoffs.get("h1")) is None
        assert await other.read(lambda tx: (tx.handoffs.open(), tx.handoffs.latest(None, 9))) == ([], [])
        assert not await other.write(lambda tx: tx.handoffs.change(handoff("h1"), handoff("h1")))
        await store.write(lambda tx: tx.sessions.delete(SessionId("s1")))
        assert await store.read(lambda tx: tx.handoffs.get("h1")) is None


CHECKS = (
    check_a_session_is_handed_over_once_at_a_time,
    check_of_two_steps_from_one_place_the_second_is_void,
    check_handoffs_are_one_agents_and_go_with_their_session,
)
