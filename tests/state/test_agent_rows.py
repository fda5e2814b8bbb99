"""The rows of an agent that gets another id."""

from __future__ import annotations

from hermes.domain.ids import AgentId, SessionId
from hermes.domain.models.spending import Spent
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import session


async def test_no_session_goes_when_two_have_one_title() -> None:
    old, new = AgentId("old"), AgentId("new")
    async with SqliteStore(None) as store:
        theirs, mine = store.scoped(old), store.scoped(new)
        await theirs.write(lambda tx: tx.sessions.add(session("s1", old, "Plans")))
        await mine.write(lambda tx: tx.sessions.add(session("s2", new, "Plans")))
        await theirs.write(lambda tx: tx.rows.give_to(new))
        kept = [await mine.read(lambda tx, s=s: tx.sessions.get(SessionId(s))) for s in ("s1", "s2")]
    assert [one and one.title for one in kept] == ["Plans s1", "Plans"]


async def test_a_spent_budget_stays_spent() -> None:
    old, new = AgentId("old"), AgentId("new")
    async with SqliteStore(None) as store:
        theirs = store.scoped(old)
        for key in ("agents.old\nold", "team\nold\nfake:ann", "people\nfake:old", "older"):
            await theirs.write(lambda tx, key=key: tx.budgets.spend_beside(key, "day", Spent(calls=3)))
        await theirs.write(lambda tx: tx.rows.give_to(new))
        for key in ("agents.new\nnew", "team\nnew\nfake:ann", "people\nfake:old", "older"):
            standing = await theirs.read(lambda tx, key=key: tx.budgets.standing(key, "day"))
            assert standing.spent.calls == 3, key
