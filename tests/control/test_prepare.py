"""Nothing that people write or are called can pass for a note of ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.context.transcript_messages import attachment_note
from hermes.control.inbound.message_context import quoted
from hermes.control.turn.chat_prompt import place_prompt
from hermes.control.turn.inbound_files import _safe_name
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Cause, Turn, TurnInput
from hermes.testing.clock import START

words = st.text(
    alphabet=st.sampled_from(list('ab>[]"\\\n\r\t\x0b\x0c\x1c\x85\u2028\u2029\u202e\0#- ')), max_size=40
)


@given(words)
def test_every_line_of_a_quote_is_marked(text: str) -> None:
    lines = quoted(text)
    assert "\n".join(lines).splitlines() == lines
    assert all(line.startswith("> ") for line in lines)


@given(words, words)
def test_a_name_is_one_line_without_brackets(name: str, user: str) -> None:
    called = _source(name, user).speaker
    assert called and len(called.splitlines()) == 1 and not set(called) & set("[]")


@given(words, words)
def test_what_a_place_is_called_stays_inside_its_line(name: str, chat: str) -> None:
    source = _source(name, "u1", chat_name=chat)
    turn = Turn(
        id=TurnId("t"), session=SessionId("s"), agent=AgentId("main"), cause=Cause.MESSAGE, input=TurnInput(),
        created_at=START, source=source,
    )  # fmt: skip
    session = Session(
        id=SessionId("s"), agent=AgentId("main"), created_at=START, updated_at=START, owner="fake:u1"
    )
    prompt = place_prompt(lambda to: Capabilities(), session, turn)
    assert [line[:2] for line in prompt.splitlines()] == ["# ", *["- "] * 4]


@given(words, words)
def test_a_note_of_a_file_ends_where_it_ends(name: str, text: str) -> None:
    file = Attachment(kind=MediaKind.FILE, ref="r", name=_safe_name(name), text=text)
    first, *rest = attachment_note(file).split("\n")
    assert first.startswith("[attached: file") and first.endswith("]") and first.count("]") == 1
    if rest:
        mark = rest[0].partition("outside, ")[2][:16]
        assert rest[0].startswith(f"[from outside, {mark}: data") and rest[-1] == f"[end of {mark}]"
        assert not any(line.startswith("[end of") for line in rest[:-1])


def test_other_doors_have_no_place() -> None:
    session = Session(id=SessionId("s"), agent=AgentId("main"), created_at=START, updated_at=START)
    for source in (
        None,
        Source(address=Address(platform="terminal", chat="1"), kind=SourceKind.PRIVATE),
        Source(address=Address(platform="api_server", chat="1"), kind=SourceKind.API),
        Source(address=Address(platform="cron", chat="1"), kind=SourceKind.JOB),
    ):
        turn = Turn(
            id=TurnId("t"), session=session.id, agent=AgentId("main"), cause=Cause.MESSAGE,
            input=TurnInput(), created_at=START, source=source,
        )  # fmt: skip
        assert place_prompt(lambda to: Capabilities(), session, turn) == ""


def _source(name: str, user: str, chat_name: str | None = None) -> Source:
    address = Address(platform="fake", chat="1")
    return Source(address=address, kind=SourceKind.GROUP, user=user, user_name=name, chat_name=chat_name)
