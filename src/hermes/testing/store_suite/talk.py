"""Checks of sessions, of the chats bound to them, and of finding again what was said."""

from __future__ import annotations

from functools import partial
from typing import Any

from hermes.domain.chats.address import Source, SourceKind
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.event import Entry, ModelSaid, ToolFinished, UserSaid
from hermes.domain.turns.session import BRANCHED, Session, SessionFilter, SessionKey, session_key
from hermes.domain.word import replace
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    after,
    entry,
    question,
    session,
    source,
)

S1 = SessionId("s1")


async def check_a_session_is_kept_whole(open_store: OpenStore) -> None:
    async with open_store() as store:
        whole = Session(
            id=S1, agent=MAIN_AGENT, created_at=NOW, updated_at=after(1), owner="fake:ann", place="fake:42",
            title="Größe", parent=SessionId("s0"), model="m", busy_mode="steer", system_prompt="You are.",
            ended="moved",
        )  # fmt: skip
        await store.write(lambda tx: tx.sessions.add(whole))
        assert await store.read(lambda tx: tx.sessions.get(S1)) == whole
        changed = replace(whole, title=None, model="n", system_prompt=None, updated_at=after(5))
        await store.write(lambda tx: tx.sessions.save(changed))
        assert await store.read(lambda tx: tx.sessions.get(S1)) == changed
        await raises(HermesError, store.write(lambda tx: tx.sessions.add(session("s1"))))


async def check_sessions_are_found(open_store: OpenStore) -> None:
    async with open_store() as store:
        titles = {"20260101_aa": "Garden", "20260101_ab": None, "20260102_aa": "20260101_ab", "x": "x_%"}

        def fill(tx: Tx) -> None:
            for number, (ident, title) in enumerate(titles.items()):
                tx.sessions.add(replace(session(ident, title=title), updated_at=after(number)))

        async def find(text: str, limit: int = 20) -> list[str]:
            return [one.id for one in await store.read(lambda tx: tx.sessions.find(text, limit))]

        await store.write(fill)
        assert await find("20260101_aa") == ["20260101_aa"]
        assert await find("garden") == ["20260101_aa"]
        assert await find("20260102") == ["20260102_aa"]
        assert await find("20260101") == ["20260101_ab", "20260101_aa"]
        assert sorted(await find("20260101_ab")) == ["20260101_ab", "20260102_aa"]
        assert await find("") == list(reversed(titles))
        assert await find("", 2) == ["x", "20260102_aa"]
        for nothing in ("20260103", "%", "_", "\0", "\ud800", "' OR 1=1 --"):
            assert await find(nothing) == []


async def check_a_title_names_one_session(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(lambda tx: tx.sessions.add(session("s1", title="Garden")))
        await store.write(lambda tx: tx.sessions.add(session("s2")))
        await raises(UserError, store.write(lambda tx: tx.sessions.save(session("s2", title="Garden"))))
        await raises(UserError, store.write(lambda tx: tx.sessions.add(session("s3", title="Garden"))))
        await store.write(lambda tx: tx.sessions.save(session("s1", title="Garden")))
        other = store.scoped(OTHER_AGENT)
        await other.write(lambda tx: tx.sessions.add(session("o1", OTHER_AGENT, title="Garden")))


async def check_a_deleted_session_leaves_nothing(open_store: OpenStore) -> None:
    async with open_store() as store:
        key = SessionKey(
            agent=MAIN_AGENT, platform="fake", account="default", kind=SourceKind.PRIVATE, chat="42"
        )

        def fill(tx: Tx) -> None:
            add_talk(tx)
            add_talk(tx, "s2", "t2")
            tx.journal.append(S1, [entry(1, record=UserSaid(text="the marzipan elephant"))])
            tx.journal.append(SessionId("s2"), [entry(1, of="t2", record=UserSaid(text="a marzipan pig"))])
            tx.questions.add(question("q1"))
            tx.bindings.bind(key, S1, source(), NOW)

        await store.write(fill)
        assert len(await store.read(lambda tx: tx.search.find("marzipan"))) == 2
        late = entry(2, record=UserSaid(text="marzipan, not yet indexed"))
        await store.write(lambda tx: tx.journal.append(S1, [late]))
        await store.write(lambda tx: tx.sessions.delete(S1))
        assert await store.read(lambda tx: tx.sessions.get(S1)) is None
        assert await store.read(lambda tx: tx.journal.read(S1)) == []
        assert await store.read(lambda tx: tx.turns.get(TurnId("t1"))) is None
        assert await store.read(lambda tx: tx.questions.open_of(S1)) == []
        assert await store.read(lambda tx: tx.bindings.get(key)) is None
        assert [hit.session for hit in await store.read(lambda tx: tx.search.find("marzipan"))] == ["s2"]
        assert await store.read(lambda tx: tx.search.find("elephant")) == []
        assert await store.read(lambda tx: tx.search.find("lephan")) == []
        await store.write(lambda tx: tx.sessions.delete(S1))


async def check_a_key_is_a_tuple(open_store: OpenStore) -> None:
    """No two different places share a session, however their parts are spelled. Empty stands for none."""
    async with open_store() as store:
        plain = SessionKey(
            agent=MAIN_AGENT, platform="fake", account="default", kind=SourceKind.GROUP, chat="1"
        )
        keys = [
            plain,
            replace(plain, thread="2"),
            replace(plain, user="2"),
            replace(plain, thread="2", user="2"),
            replace(plain, chat="1:2"),
            replace(plain, account="work"),
            replace(plain, kind=SourceKind.CHANNEL),
            replace(plain, platform="other"),
        ]

        def bind(tx: Tx) -> None:
            for number, key in enumerate(keys):
                tx.bindings.bind(key, SessionId(f"s{number}"), source(), after(number))

        await store.write(bind)
        bound = await store.read(lambda tx: [tx.bindings.get(key) for key in keys])
        assert bound == [f"s{number}" for number in range(len(keys))]
        empty = replace(plain, thread="", user="")
        assert await store.read(lambda tx: tx.bindings.get(empty)) == "s0"
        await store.write(lambda tx: tx.bindings.bind(keys[1], SessionId("s0"), source("new"), after(99)))
        of = await store.read(lambda tx: tx.bindings.of(SessionId("s0")))
        assert of == [(keys[1], source("new")), (keys[0], source())]
        assert await store.read(lambda tx: tx.bindings.of(SessionId("s1"))) == []


SAID = (
    "The quick brown fox jumps over the lazy dog",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "我们明天在图书馆见面吧",
    "東京タワーに行きたい",
    "the fox and the vixen share a den; error_code_4711 was seen",
    "a dog's life: it's well-known",
)


async def _say(store: Store) -> None:
    def fill(tx: Tx) -> None:
        add_talk(tx)
        entries = [
            entry(number, record=UserSaid(text=text) if number % 2 else ModelSaid(text=text))
            for number, text in enumerate(SAID, 1)
        ]
        tx.journal.append(S1, [*entries, _secret(len(SAID) + 1)])

    await store.write(fill)


def _secret(seq: int) -> Entry:
    return entry(seq, record=ToolFinished(call=CallId("c"), text="output of a tool, not said"))


async def check_what_was_said_is_found(open_store: OpenStore) -> None:
    async with open_store() as store:
        await _say(store)

        async def found(query: str, limit: int = 20) -> list[int]:
            return sorted(hit.seq for hit in await store.read(lambda tx: tx.search.find(query, limit)))

        assert await found("fox") == [1, 5]
        assert await found("FOX dog") == [1]
        assert await found('"lazy dog"') == [1]
        assert await found('"dog lazy"') == []
        assert await found("vix*") == [5]
        assert await found("vixen OR boxkampfer") == [2, 5]
        assert await found("fox NOT vixen") == [1]
        assert await found("fox AND NOT vixen") == [1]
        assert await found("图书馆") == [3]
        assert await found("明天") == [3]
        assert await found("タワー") == [4]
        assert await found("oxkämp") == [2]
        assert await found("4711") == [5]
        assert await found("well-known") == [6]
        assert await found("output of a tool") == []
        assert len(await found("the", 1)) == 1
        hits = await store.read(lambda tx: tx.search.find("boxkämpfer"))
        assert [(hit.session, hit.who) for hit in hits] == [("s1", "agent")]
        assert "Boxkämpfer" in hits[0].excerpt


def _tell(seq: int, text: str, tx: Tx) -> None:
    tx.journal.append(S1, [entry(seq, record=UserSaid(text=text))])


async def check_a_search_sees_what_was_just_stored(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        for seq in range(1, 6):
            await store.write(partial(_tell, seq, f"pangolin number {seq}"))
            assert len(await store.read(lambda tx: tx.search.find("pangolin"))) == seq
            assert len(await store.write(lambda tx: tx.search.find("pangolin"))) == seq


def _find(query: str, tx: Tx) -> list[SearchHit]:
    return tx.search.find(query)


async def check_no_query_breaks_the_search(open_store: OpenStore) -> None:
    hostile = [
        "", " ", '"', '""', '"unclosed', "*", "**", "a*b", "fox*", "(", ")", "(fox", "fox)", "NOT", "NOT fox",
        "OR OR", "AND", "fox AND", "fox NOT", "NEAR(fox dog)", "text:fox", "{text}:fox", "^fox", "fox + dog",
        "-fox", "fox:", "'; DROP TABLE journal; --", "\0", "fo\0x", "\ud800", "\ud800fox", "%", "_", "\\",
        "fox\n\tdog", "🦊", "\u202e", "fox " * 3000, "a NOT " * 400 + "b", '"' * 4000, "(" * 4000,
        "图" * 3000, '"fox" "" "!!!"', "!!!",
    ]  # fmt: skip
    async with open_store() as store:
        await _say(store)
        for query in hostile:
            await store.read(partial(_find, query))
        assert len(await store.read(lambda tx: tx.search.find("fox"))) == 2


async def check_some_of_the_sessions(open_store: OpenStore) -> None:
    """Only those of an owner, of a platform, and those that stand for themselves."""
    async with open_store() as store:
        made = [
            replace(session("a"), updated_at=after(1), owner="api@phone:x", place="api@phone:1"),
            replace(session("b"), updated_at=after(2), owner="api:x", place="api:1"),
            replace(session("c"), updated_at=after(3), owner="api:y", place="apis:1", parent=SessionId("b")),
            replace(
                session("d"), updated_at=after(4), owner="apis:y", place="other:1", parent=SessionId("gone")
            ),
        ]
        for one in made:
            await store.write(lambda tx, one=one: tx.sessions.add(one))  # type: ignore[misc]

        async def found(text: str = "", **among: Any) -> str:
            some = await store.read(lambda tx: tx.sessions.find(text, 9, SessionFilter(**among)))
            return "".join(one.id for one in some)

        assert await found() == "dcba"
        assert await found(owner="api") == "cb"
        assert await found(owner="api@phone") == "a"
        assert await found(platform="api") == "ba"
        assert await found(children=False) == "dba"
        assert await found("c", owner="api@phone") == ""
        await store.write(lambda tx: tx.sessions.save(replace(made[1], ended=BRANCHED)))
        assert await found(children=False) == "dcba"
        assert await found("c", owner="api", children=False) == "c"
        await store.write(lambda tx: tx.sessions.save(replace(made[0], archived=True)))
        await store.write(lambda tx: tx.sessions.add(replace(session("e"), updated_at=after(5), tag="api")))
        assert await found(archived=False) == "edcb"
        assert await found(archived=True) == "a"
        assert await found(platform="api") == "eba"


async def check_unused_sessions_are_paged(open_store: OpenStore) -> None:
    async with open_store() as store:
        chats = {
            "s3": ["c3"],
            "s1": ["c1", "c1b"],
            "s2": ["c2"],
            "used": ["c4"],
            "over": ["c5"],
            "unbound": [],
        }
        moments = {"s3": 0, "used": 9}

        def fill(tx: Tx) -> None:
            for ident, bound in chats.items():
                ended = "idle" if ident == "over" else None
                tx.sessions.add(replace(session(ident), updated_at=after(moments.get(ident, 1)), ended=ended))
                for chat in bound:
                    key = session_key(source(chat), MAIN_AGENT)
                    tx.bindings.bind(key, SessionId(ident), source(chat), NOW)

        await store.write(fill)
        seen: list[tuple[str, str]] = []
        last: Session | None = None
        while page := await store.read(partial(_unused, last)):
            assert len({one.id for one, _, _ in page}) == 1
            seen += [(one.id, key.chat) for one, key, _ in page]
            assert all(at.address.chat == key.chat for _, key, at in page)
            last = page[-1][0]
        assert sorted(seen) == [("s1", "c1"), ("s1", "c1b"), ("s2", "c2"), ("s3", "c3")]
        assert list(dict.fromkeys(ident for ident, _ in seen)) == ["s3", "s1", "s2"]


def _unused(last: Session | None, tx: Tx) -> list[tuple[Session, SessionKey, Source]]:
    return tx.bindings.unused(after(5), 1, last)


CHECKS = (
    check_unused_sessions_are_paged,
    check_some_of_the_sessions,
    check_a_session_is_kept_whole,
    check_sessions_are_found,
    check_a_title_names_one_session,
    check_a_deleted_session_leaves_nothing,
    check_a_key_is_a_tuple,
    check_what_was_said_is_found,
    check_a_search_sees_what_was_just_stored,
    check_no_query_breaks_the_search,
)
