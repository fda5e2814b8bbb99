"""Checks of what models took: it is counted once, for who spent it, and outlives its session."""

from __future__ import annotations

from datetime import timedelta

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import CallId, SessionId, TurnId
from hermes.domain.models.model_facts import ModelRole
from hermes.domain.models.usage import AuxiliaryCall, Usage, UsageGroup, UsageSum, total_of
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.event import ModelSaid, Record, ToolFinished
from hermes.domain.turns.turn import Guidance, TurnInput
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import NOW, OTHER_AGENT, OpenStore, add_talk, entry, session, turn

S1 = SessionId("s1")
USED = Usage(prompt=100, completion=20, cached=60, reasoning=5, cache_written=10, cost=0.5)
DAY = NOW.date()


def _spoke(tx: Tx) -> None:
    add_talk(tx)
    asked = replace(USED, cost=None, model="seer", role="vision")
    records: list[Record] = [
        ModelSaid(text="a", model="m", usage=USED),
        ToolFinished(call=CallId("c1"), text="seen", usage=asked),
        ModelSaid(text="written down for somebody else"),
        ModelSaid(text="b", model="m", usage=USED),
    ]
    tx.journal.append(S1, [entry(n, "t1", record) for n, record in enumerate(records, 1)])
    title = AuxiliaryCall(
        session=S1, role=ModelRole.TITLE, model="small", usage=USED, at=NOW, turn=TurnId("t1")
    )
    tx.usage.note(title)


async def _sums(store: Store, *by: str) -> dict[tuple[str, ...], UsageSum]:
    while await store.write(lambda tx: tx.usage.count()):
        pass
    day = timedelta(days=1)
    groups = await store.read(lambda tx: tx.usage.sums(by, DAY - day, DAY + day))
    return {group.key: group.used for group in groups}


async def check_usage_is_counted_once(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(_spoke)
        by_role = await _sums(store, "model", "role")
        assert await _sums(store, "model", "role") == by_role
        assert {key: used.calls for key, used in by_role.items()} == {
            ("m", "main"): 2,
            ("seer", "vision"): 1,
            ("small", "title"): 1,
        }
        main = by_role["m", "main"]
        assert (main.prompt, main.cached, main.cache_written, main.cost) == (200, 120, 20, 1.0)
        assert by_role["seer", "vision"].unpriced == 1 and not main.unpriced
        of_session = await store.read(lambda tx: tx.usage.of_session(S1))
        assert {group.key: group.used for group in of_session} == by_role
        assert await _sums(store.scoped(OTHER_AGENT), "model") == {}


async def check_a_deleted_session_was_counted(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(_spoke)
        await store.write(lambda tx: tx.sessions.delete(S1))
        assert await store.read(lambda tx: tx.usage.of_session(S1)) == []
        groups = [UsageGroup(key=key, used=used) for key, used in (await _sums(store, "model")).items()]
        assert total_of(groups).calls == 4
        await store.write(lambda tx: tx.sessions.add(session("s1")))
        await store.write(lambda tx: tx.sessions.delete(S1))
        assert total_of(groups).calls == sum(used.calls for used in (await _sums(store)).values())


async def check_a_copy_spends_nothing(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(_spoke)

        def copy(tx: Tx) -> None:
            tx.sessions.add(session("copy"))
            tx.journal.copy(S1, SessionId("copy"), 9, ())

        await store.write(copy)
        assert await store.read(lambda tx: tx.usage.of_session(SessionId("copy"))) == []
        assert sum(used.calls for used in (await _sums(store)).values()) == 4


async def check_usage_is_counted_for_who_spent_it(open_store: OpenStore) -> None:
    async with open_store() as store:
        ada = Source(address=Address(platform="telegram", chat="1"), kind=SourceKind.PRIVATE, user="ada")
        api = Address(platform="api_server", account="ci", chat="x")
        key = Source(address=api, kind=SourceKind.API, user="made up")
        job = Source(address=Address(platform="cron", chat="daily"), kind=SourceKind.JOB)

        def speak(tx: Tx) -> None:
            tx.sessions.add(session("s1"))
            for n, source in enumerate((ada, key, job), 1):
                origin = ada if source is job else None
                given = TurnInput(text="hi", guidance=Guidance(origin=origin))
                tx.turns.add(replace(turn(f"t{n}"), source=source, input=given))
                tx.journal.append(S1, [entry(n, f"t{n}", ModelSaid(model="m", usage=USED))])

        await store.write(speak)
        spent = await _sums(store, "person", "job")
        assert set(spent) == {("telegram:ada", ""), ("api_server@ci", ""), ("telegram:ada", "daily")}
        only = await store.read(lambda tx: tx.usage.sums(("job",), DAY, DAY, "telegram:ada"))
        assert [group.key for group in only] == [("",), ("daily",)]


CHECKS = (
    check_usage_is_counted_once,
    check_a_deleted_session_was_counted,
    check_a_copy_spends_nothing,
    check_usage_is_counted_for_who_spent_it,
)
