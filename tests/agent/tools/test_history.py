"""`session_search`: what it finds in a real store, how it tells it, and what it leaves out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.agent.tools.registry import TOOLS
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Approval, ToolContext
from hermes.domain.turns.event import Entry, ModelSaid, Record, UserSaid
from hermes.domain.turns.session import Session
from hermes.domain.word import replace
from hermes.state.store.tables.search import recall_from
from hermes.state.store.writer import SqliteStore
from hermes.testing.backends import fixed_scope, local_backend
from hermes.testing.tools import tool_services, tools_of

AT = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)
ME, PLACE = "fake:1", "fake:here"


def session(id: str, *, owner: str | None = ME, place: str = PLACE, title: str | None = None) -> Session:
    return Session(
        id=SessionId(id),
        agent=MAIN_AGENT,
        created_at=AT,
        updated_at=AT,
        owner=owner,
        place=place,
        title=title,
    )


class Talks:
    """An agent's conversations, and its tool; the search runs in session `now`, turn `now-2`."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        backend = local_backend(home=folder, environ=os.environ, workspace=folder)
        bench = tool_services(
            backend=backend,
            recall=recall_from(store, "UTC"),
            scope_in=fixed_scope(),
        )
        (self.tool,) = tools_of(bench, "session_search")

    async def tell(self, where: Session | str, *said: Record) -> None:
        """Each record in a turn of its own: `<session>-1`, `<session>-2` …"""
        kept = session(where) if isinstance(where, str) else where
        entries = [
            Entry(seq=seq, turn=TurnId(f"{kept.id}-{seq}"), at=AT, record=record)
            for seq, record in enumerate(said, start=1)
        ]

        def unit(tx: Tx) -> None:
            tx.sessions.add(kept)
            tx.journal.append(kept.id, entries)

        await self.store.scoped(kept.agent).write(unit)

    async def find(self, query: str, **more: object) -> str:
        if not await self.store.read(lambda tx: tx.sessions.find("now")):
            await self.tell("now")
        context = ToolContext(
            agent=MAIN_AGENT,
            session=SessionId("now"),
            turn=TurnId("now-2"),
            call_id=CallId("c"),
            key="k",
            output=lambda text: None,
        )
        return (await self.tool.run(context, {"query": query, **more})).text


@pytest.fixture
async def talks(tmp_path: Path) -> AsyncIterator[Talks]:
    async with SqliteStore(None) as store:
        yield Talks(store, tmp_path)


async def test_it_tells_where_when_and_who(talks: Talks) -> None:
    await talks.tell(
        session("old", title="Fruit\x1b[31m"),
        UserSaid(text="I like\nred apples"),
        ModelSaid(text="Noted."),
    )
    await talks.tell("other", UserSaid(text="pears"), ModelSaid(text="Pears, not apples"))
    assert (await talks.find("apples")).splitlines() in (
        [
            "old “Fruit[31m”",
            "  #1 2026-01-05 12:30 user: I like red apples",
            "other",
            "  #2 2026-01-05 12:30 agent: Pears, not apples",
        ],
        [
            "other",
            "  #2 2026-01-05 12:30 agent: Pears, not apples",
            "old “Fruit[31m”",
            "  #1 2026-01-05 12:30 user: I like red apples",
        ],
    )
    assert (await talks.find('"red apples"')).startswith("old ")


async def test_what_the_turn_itself_said_is_left_out_and_this_conversation_is_marked(talks: Talks) -> None:
    await talks.tell(
        "now", UserSaid(text="bananas for breakfast"), UserSaid(text="what about bananas and kiwis")
    )
    assert await talks.find("bananas") == (
        "now (this conversation)\n  #1 2026-01-05 12:30 user: bananas for breakfast"
    )
    assert await talks.find("kiwis") == "No earlier message matches “kiwis”."


async def test_what_the_turn_said_is_left_out_of_every_index(talks: Talks) -> None:
    await talks.tell("now", UserSaid(text="昨天图书馆很好"), UserSaid(text="图书馆 marmalade"))
    assert "昨天" in await talks.find("图书馆") and "marmalade" not in await talks.find("图书馆")
    assert await talks.find("armalad") == "No earlier message matches “armalad”."


async def test_another_agent_s_words_are_not_found(talks: Talks) -> None:
    theirs = replace(session("theirs"), agent=AgentId("other"))
    await talks.tell(theirs, UserSaid(text="secret plums"))
    assert await talks.find("plums") == "No earlier message matches “plums”."
    found = await talks.store.scoped(AgentId("other")).read(lambda tx: tx.search.find("plums"))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("asker", "seen"),
    [
        (ME, {"mine", "mine elsewhere", "shared here"}),
        ("fake:2", {"theirs", "shared here"}),
        (None, {"shared here"}),
        ("terminal:local", {"mine", "mine elsewhere", "theirs", "shared here", "shared elsewhere"}),
    ],
)
async def test_people_find_what_they_may_come_back_to(
    talks: Talks, asker: str | None, seen: set[str]
) -> None:
    for kept in (
        session("mine"),
        session("mine elsewhere", place="fake:there"),
        session("theirs", owner="fake:2"),
        session("shared here", owner=None),
        session("shared elsewhere", owner=None, place="fake:there"),
    ):
        await talks.tell(kept, UserSaid(text="plums"), UserSaid(text="图书馆"))
    await talks.tell(session("now", owner=asker))
    for query in ("plums", "lum", "图书馆"):
        lines = (await talks.find(query, limit=10)).splitlines()
        assert {line for line in lines if not line.startswith(" ")} == seen


async def test_one_that_was_found_is_read(talks: Talks) -> None:
    await talks.tell("old", *(UserSaid(text=f"line\n{number}" * 200) for number in range(60)))
    whole = (await talks.find("", session="old")).splitlines()
    assert (
        whole[0] == "old"
        and whole[1].startswith("  #1 2026-01-05 12:30 user: line 0")
        and len(whole[1]) > 1000
    )
    assert len(whole) == 22 and whole[-1] == "[before that: around 1; after it: around 20]"
    around = (await talks.find("", session="old", around=40)).splitlines()
    assert [line.split()[0] for line in around[1:-1]] == [f"#{number}" for number in range(30, 50)]
    end = (await talks.find("", session="old", around=10**30)).splitlines()
    assert end[-2].startswith("  #60 ")
    await talks.tell("short", UserSaid(text="apples"), ModelSaid(text=""), ModelSaid(text="Pears"))
    assert (await talks.find("", session="short")).splitlines() == [
        "short", "  #1 2026-01-05 12:30 user: apples", "  #3 2026-01-05 12:30 agent: Pears",
    ]  # fmt: skip
    latest = (await talks.find("", limit=2)).splitlines()
    assert [line for line in latest if not line.startswith(" ")] == ["short", "old"]


@pytest.mark.parametrize("asker", ["fake:2", None, "terminal:local"])
async def test_nobody_reads_what_they_may_not_find(talks: Talks, asker: str | None) -> None:
    await talks.tell(session("mine"), UserSaid(text="plums"))
    await talks.tell(replace(session("other agents"), agent=AgentId("other")), UserSaid(text="plums"))
    await talks.tell(session("now", owner=asker))
    for name in ("mine", "other agents", "nobody's", "\ud800"):
        if asker == "terminal:local" and name == "mine":
            assert "plums" in await talks.find("", session=name)
            continue
        with pytest.raises(UserError, match="There is no conversation"):
            await talks.find("", session=name)
    told = await talks.find("")
    assert told.startswith("mine") if asker == "terminal:local" else told == "There is none."


async def test_limit_counts_conversations(talks: Talks) -> None:
    for number in range(12):
        await talks.tell(f"s{number}", *(UserSaid(text=f"apples {n}") for n in range(5)))
    told = (await talks.find("apples")).splitlines()
    assert len(told) == 3 * (1 + 3) + 1 and told[-1].startswith("[9 more;")
    for limit, sessions in ((1, 1), (0, 1), (-5, 1), (99, 10)):
        lines = (await talks.find("apples", limit=limit)).splitlines()
        assert sum(line.startswith("s") for line in lines) == sessions


@pytest.mark.parametrize("query", [" ", "???", '"', "*", "🦊", "\ud800"])
async def test_a_query_without_a_word_is_told(talks: Talks, query: str) -> None:
    with pytest.raises(UserError, match="The query has no word in it"):
        await talks.find(query)


@pytest.mark.parametrize(
    "query", ["OR", "NOT apples", '"open', "apples NOT", "(a", "a:b", "x" * 5000, "a\0b"]
)
async def test_a_strange_query_finds_nothing_and_breaks_nothing(talks: Talks, query: str) -> None:
    await talks.tell("old", UserSaid(text="pears"))
    told = await talks.find(query)
    assert told.startswith("No earlier message matches “") and len(told) < 120 and "\n" not in told


async def test_nobody_is_asked(talks: Talks) -> None:
    assert talks.tool.approval is Approval.NEVER and talks.tool.asks is None
    assert list(TOOLS["session_search"].signature.kinds) == [
        "query", "limit", "session", "around",
    ]  # fmt: skip
