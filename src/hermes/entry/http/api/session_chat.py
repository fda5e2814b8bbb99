"""`/api/sessions/{id}/chat`: say something in a stored conversation and hear the answer, in one piece or as a
stream. What was begun goes on when the client leaves: it is a run, and can be come back to as one."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from aiohttp import web

from hermes.domain.event import Entry, Failed, Stopped
from hermes.domain.ids import AgentId
from hermes.domain.session import Session
from hermes.domain.turn import Turn
from hermes.entry.http.api.runs import TokenUsage
from hermes.entry.http.api.sessions import find_session
from hermes.entry.http.ask.addressee import AgentChoice, agent_name
from hermes.entry.http.ask.continuing import RUN_PREFIX, AnsweringTurn, run_name, turn_headers
from hermes.entry.http.ask.messages import ContentPart, ConversationInput, read_parts
from hermes.entry.http.ask.options import ASKS, TurnOptions
from hermes.entry.http.ask.questions import PendingQuestion, open_questions
from hermes.entry.http.ask.submitting import ask
from hermes.entry.http.ask.watching import PEOPLE, TurnWatch, read_entries
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.entry.http.site.routing import RouteDetails, route
from hermes.stream.faces.session_events import SessionEvents
from hermes.stream.fold.answer import answer_text

SAYS = RouteDetails(headers=ASKS.headers, refuses=ASKS.refuses, example={"message": "And bread?"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionTurn:
    agent: AgentId
    session: Session
    turn: Turn
    words: str


@route(
    "POST",
    "/api/sessions/{session_id}/chat",
    "Say something in a conversation and hear the answer.",
    details=SAYS,
)
async def chat(call: HttpCall, body: SessionChatRequest) -> SessionChat:
    asked = await _say(call, body)
    answering = AnsweringTurn(turn=asked.turn)
    watch = TurnWatch(call=call, agent=asked.agent, answering=answering, stops_at=PEOPLE, live=False)
    entries = await read_entries(watch.feed())
    waiting = await open_questions(call, asked.agent, asked.turn) if watch.pending else []
    return _answer(asked, entries, [question.pending for question in waiting])


@route(
    "POST",
    "/api/sessions/{session_id}/chat/stream",
    "Say something in a conversation and follow the answer.",
    details=SAYS,
)
async def chat_stream(call: HttpCall, body: SessionChatRequest) -> web.StreamResponse:
    asked, clock = await _say(call, body), call.site.clock
    events = SessionEvents(
        session=asked.session.id,
        run=run_name(asked.turn),
        now=lambda: clock.now().timestamp(),
    )
    stream = await call.site.streams.send(
        call.request,
        call.watch(asked.agent, asked.turn.id),
        events.see,
        headers=turn_headers(call, asked.turn),
        first=events.start(asked.words),
        ended=lambda: events.ended,
    )
    return stream.response


async def _say(call: HttpCall, body: SessionChatRequest) -> _SessionTurn:
    content = body.input if body.message is None else body.message
    if content is None:
        raise bad_request("There is no message.", param="message")
    words, images = read_parts(content, "message")
    if not words.strip() and not images:
        raise bad_request("The message says nothing.", param="message")
    agent, session = await find_session(call)
    instructions = body.instructions if body.system_message is None else body.system_message
    conversation = ConversationInput(instructions=instructions or "", text=words, images=images)
    choice = AgentChoice(agent=agent, name=agent_name(call, agent))
    options = TurnOptions(prefix=RUN_PREFIX, lasting=True, session=session.id)
    turn = (await ask(call, choice, conversation, options)).turn
    return _SessionTurn(agent=agent, session=session, turn=turn, words=words)


def _answer(asked: _SessionTurn, entries: list[Entry], pending: list[PendingQuestion]) -> SessionChat:
    text = answer_text(entries, footer=False)
    last = entries[-1].record if entries else None
    details: SessionChatDetails | msgspec.UnsetType = msgspec.UNSET
    if pending:
        details = SessionChatDetails(questions=pending)
    elif isinstance(last, Failed | Stopped):
        if not text:
            raise ApiError(502, "agent_incomplete", last.reason or "The turn was stopped.")
        details = SessionChatDetails(error=last.reason)
    return SessionChat(
        session_id=asked.session.id,
        run_id=run_name(asked.turn),
        message=AssistantMessage(content=text),
        usage=TokenUsage.by(entries),
        hermes=details,
    )
