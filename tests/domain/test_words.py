"""Addresses, keys, texts, and the reading of transcripts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import SettingsError, UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line, showable, storable
from hermes.domain.turns.event import Entry, Failed, ModelSaid, Summarised, Undone, UserSaid
from hermes.domain.turns.session import Isolation, SessionKey, session_key
from hermes.domain.turns.transcript import visible

IDS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def source(kind: SourceKind, **more: object) -> Source:
    thread = more.pop("thread", None)
    address = Address(platform="telegram", chat="99", thread=thread)  # type: ignore[arg-type]
    return Source(address=address, kind=kind, user="42", **more)  # type: ignore[arg-type]


@given(chat=IDS, thread=st.none() | IDS, account=IDS)
def test_an_address_is_read_back_as_it_was_printed(chat: str, thread: str | None, account: str) -> None:
    address = Address(platform="matrix", account=account, chat=chat, thread=thread)
    assert Address.parse(str(address)) == address


def test_addresses_are_printed_as_people_know_them() -> None:
    assert str(Address(platform="telegram", chat="-1001234567890", thread="7")) == "telegram:-1001234567890:7"
    assert str(Address(platform="telegram", account="work", chat="1")) == "telegram@work:1"
    assert str(Address(platform="matrix", chat="!a:b%c")) == "matrix:!a%3Ab%25c"
    with pytest.raises(UserError):
        Address.parse("nowhere")


@pytest.mark.parametrize(
    ("who", "isolation", "printed"),
    [
        (source(SourceKind.PRIVATE), Isolation(), "agent:main:telegram:private:99"),
        (source(SourceKind.GROUP), Isolation(), "agent:main:telegram:group:99:42"),
        (source(SourceKind.GROUP), Isolation(groups_per_user=False), "agent:main:telegram:group:99"),
        (source(SourceKind.CHANNEL), Isolation(), "agent:main:telegram:channel:99"),
        (source(SourceKind.THREAD, thread="7"), Isolation(), "agent:main:telegram:thread:99:7"),
        (
            source(SourceKind.THREAD, thread="7"),
            Isolation(threads_per_user=True),
            "agent:main:telegram:thread:99:7:42",
        ),
        (source(SourceKind.GROUP, user_alt="alt"), Isolation(), "agent:main:telegram:group:99:alt"),
        (source(SourceKind.API), Isolation(), "agent:main:telegram:api:99"),
    ],
)
def test_session_keys(who: Source, isolation: Isolation, printed: str) -> None:
    key = session_key(who, AgentId("main"), isolation)
    assert str(key) == printed
    assert SessionKey.parse(printed) == key


def test_an_imported_key_is_mapped() -> None:
    assert str(SessionKey.parse("agent:main:telegram:dm:12345")) == "agent:main:telegram:private:12345"
    for wrong in ("agent:main", "agent:main:telegram:nothing:1", "x:y:z:private:1"):
        with pytest.raises(UserError):
            SessionKey.parse(wrong)


@given(st.text())
def test_stored_text_can_always_be_encoded(text: str) -> None:
    clean = storable(text)
    clean.encode("utf-8")
    assert "\0" not in clean


def test_text_for_people() -> None:
    assert showable("a\x1b[31mb\u202ec") == "a[31mbc"
    assert one_line("a\n b\t c", 4) == "a b…"


def test_errors_say_where_and_what_to_do() -> None:
    error = SettingsError("“modle” is not known.", file="config.yaml", line=3, hint="Did you mean “model”?")
    assert str(error) == "config.yaml:3: “modle” is not known. Did you mean “model”?"


def test_a_secret_prints_as_stars() -> None:
    secret = Secret("hunter2-hunter2")
    assert str(secret) == repr(secret) == f"{secret}" == "***"
    assert secret.reveal() == "hunter2-hunter2"
    with pytest.raises(TypeError):
        import pickle

        pickle.dumps(secret)


def entries(*records: object) -> list[Entry]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Entry(seq=number, turn=TurnId("t"), at=now, record=record)  # type: ignore[arg-type]
        for number, record in enumerate(records, 1)
    ]


def texts(found: list[Entry]) -> list[str]:
    return [getattr(entry.record, "text", "") for entry in found]


def test_what_was_undone_or_summed_up_is_hidden() -> None:
    said = [UserSaid(text="1"), ModelSaid(text="2"), UserSaid(text="3"), ModelSaid(text="4")]
    assert texts(visible(entries(*said, Undone(since=3), UserSaid(text="5")))) == ["1", "2", "5"]
    summed = entries(*said, Summarised(upto=2, text="S"), UserSaid(text="6"))
    assert texts(visible(summed)) == ["S", "3", "4", "6"]
    undone = entries(*said, Summarised(upto=2, text="S"), UserSaid(text="6"), Undone(since=3))
    assert texts(visible(undone)) == ["S"]
    before = entries(*said, Summarised(upto=2, text="S"), Undone(since=1))
    assert texts(visible(before)) == []
    assert visible(entries(Failed(reason="x")))[0].record == Failed(reason="x")


def test_a_second_summary_takes_the_place_of_the_first() -> None:
    said = [UserSaid(text="1"), ModelSaid(text="2"), UserSaid(text="3"), ModelSaid(text="4")]
    first = [*said, Summarised(upto=2, text="S1")]
    assert texts(visible(entries(*first, Summarised(upto=4, text="S2"), UserSaid(text="7")))) == ["S2", "7"]
    # The first one's own number is above what the second one tells of.
    assert texts(visible(entries(*first, Summarised(upto=3, text="S2")))) == ["S2", "4"]


def test_undoing_into_a_summary_brings_back_what_it_summed_up() -> None:
    said = [UserSaid(text="1"), ModelSaid(text="2"), UserSaid(text="3"), ModelSaid(text="4")]
    into = entries(
        *said, Summarised(upto=4, text="S"), UserSaid(text="6"), Undone(since=3), UserSaid(text="8")
    )
    assert texts(visible(into)) == ["1", "2", "8"]
    twice = [*said, Summarised(upto=2, text="S1"), UserSaid(text="6"), Summarised(upto=6, text="S2")]
    assert texts(visible(entries(*twice, Undone(since=6)))) == ["S1", "3", "4"]
    assert texts(visible(entries(*twice, Undone(since=2)))) == ["1"]
