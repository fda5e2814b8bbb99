"""`/api/sessions/{id}/chat`: say something in a stored conversation and hear the answer, in one piece or as a
stream. What was begun goes on when the client leaves: it is a run, and can be come back to as one."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from hermes.domain.turns.event import Entry, Failed, Stopped
from hermes.domain.turns.turn import Turn
from hermes.entry.http.api.runs import TokenUsage
from hermes.entry.http.api.sessions import find_session
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import AgentChoice, agent_name
from hermes.entry.http.ask.failures import failure_error, failure_words, may_know
from hermes.entry.http.ask.messages import ContentPart, ConversationInput, read_parts
from hermes.entry.http.ask.questions import PEOPLE, PendingQuestion, TurnWatch, open_questions, read_entries
from hermes.entry.http.site.endpoint import HttpCall, route
from hermes.entry.http.site.errors import bad_request
from hermes.stream.faces.session_events import SessionEvents
from hermes.stream.fold.answer import answer_text

SAYS: dict[str, Any] = {
    "headers": turns.ASKING,
    "refuses": turns.REFUSES,
    "example": {"message": "And bread?"},
}


class SessionChatRequest(msgspec.Struct, kw_only=True):
    """What is said (`message`, also called `input`), and words for the model beside the system prompt, for
    this once (`system_message`, also called `instructions`)."""

    message: str | list[ContentPart] | None = None
    input: str | list[ContentPart] | None = None
    system_message: str | None = None
    instructions: str | None = None


class AssistantMessage(msgspec.Struct, kw_only=True):
    """The agent's answer."""

    role: str = "assistant"
    content: str


class SessionChatDetails(msgspec.Struct, kw_only=True):
    """Why an answer is not whole: what went wrong, or the questions that the run waits for."""

    completed: bool = False
    error: str | None = None
    questions: list[PendingQuestion] = []


class SessionChat(msgspec.Struct, kw_only=True):
    """An answer in a session."""

    object: str = "hermes.session.chat.completion"
    session_id: str
    run_id: str
    message: AssistantMessage
    usage: TokenUsage
    hermes: SessionChatDetails | msgspec.UnsetType = msgspec.UNSET


@route(
    "POST",
    "/api/sessions/{session_id}/chat",
    "Say something in a conversation and hear the answer.",
    **SAYS,
)
async def chat(call: HttpCall, body: SessionChatRequest) -> SessionChat:
    turn, _ = await _say(call, body)
    watch = TurnWatch(call=call, turn=turn, stops_at=PEOPLE, live=False)
    entries = await read_entries(watch.feed())
    waiting = await open_questions(call, turn) if watch.pending else []
    return _answer(call, turn, entries, [question.pending for question in waiting])


@route(
    "POST",
    "/api/sessions/{session_id}/chat/stream",
    "Say something in a conversation and follow the answer.",
    **SAYS,
)
async def chat_stream(call: HttpCall, body: SessionChatRequest) -> web.StreamResponse:
    turn, words = await _say(call, body)
    clock = call.site.clock
    events = SessionEvents(
        session=turn.session,
        run=turns.run_name(turn),
        now=lambda: clock.now().timestamp(),
        detailed=may_know(call),
    )
    stream = await turns.stream_turn(
        call, turn, call.watch(turn), events.see, first=events.start(words), ended=lambda: events.ended
    )
    return stream.response


async def _say(call: HttpCall, body: SessionChatRequest) -> tuple[Turn, str]:
    content = body.input if body.message is None else body.message
    if content is None:
        raise bad_request("There is no message.", param="message")
    words, images = read_parts(content, "message", files=True)
    if not words.strip() and not images:
        raise bad_request("The message says nothing.", param="message")
    session = await find_session(call)
    instructions = body.instructions if body.system_message is None else body.system_message
    conversation = ConversationInput(instructions=instructions or "", text=words, images=images)
    choice = AgentChoice(agent=session.agent, name=agent_name(call, session.agent))
    options = turns.TurnOptions(prefix=turns.RUN_PREFIX, lasting=True, session=session.id)
    return (await turns.ask(call, choice, conversation, options)).turn, words


def _answer(call: HttpCall, turn: Turn, entries: list[Entry], pending: list[PendingQuestion]) -> SessionChat:
    text = answer_text(entries, footer=False)
    last = entries[-1].record if entries else None
    details: SessionChatDetails | msgspec.UnsetType = msgspec.UNSET
    if pending:
        details = SessionChatDetails(questions=pending)
    elif isinstance(last, Failed | Stopped):
        if not text:
            raise failure_error(call, last)
        details = SessionChatDetails(error=failure_words(call, last))
    return SessionChat(
        session_id=turn.session,
        run_id=turns.run_name(turn),
        message=AssistantMessage(content=text),
        usage=TokenUsage.by(entries),
        hermes=details,
    )
