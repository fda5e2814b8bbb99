"""`/v1/chat/completions`: an agent as if it were a model, in one piece or as a stream.

A request without a session is a conversation of its own: what its messages say came before is told to the
model and kept with the turn alone, and the session is forgotten after a day. Whoever names a session goes on
in it. A client that goes away stops what it began, unless it can come back to it by a session or a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from aiohttp import web

from hermes.control.sessions.submission import SubmittedTurn, id_for
from hermes.domain.event import Asked, Ending, Entry, Failed, ModelSaid, QuestionKind, Stopped, usage_of
from hermes.domain.ids import client_call_id
from hermes.domain.text import one_line
from hermes.entry.http.api.chat_request import ChatRequest, read_conversation
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import find_addressee
from hermes.entry.http.ask.messages import ChatToolCall, FunctionCall
from hermes.entry.http.ask.questions import PEOPLE, PendingQuestion, TurnQuestion, TurnWatch, read_entries
from hermes.entry.http.site.endpoint import HttpCall, as_json, route
from hermes.entry.http.site.errors import ApiError
from hermes.entry.http.site.headers import COMPLETED, ERROR, PARTIAL
from hermes.stream.faces.chat_chunks import ChatChunks
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.questions import asked_of_client, question_text

PREFIX = "chatcmpl-"
_CLARIFY = frozenset((QuestionKind.CLARIFY,))


class ChatUsage(msgspec.Struct, kw_only=True):
    """What the model's calls of this answer took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AnswerMessage(msgspec.Struct, kw_only=True):
    """What the agent says, and which of the client's functions it calls."""

    role: str = "assistant"
    content: str | None
    tool_calls: list[ChatToolCall] | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, kw_only=True):
    """The answer; there is always one."""

    index: int = 0
    message: AnswerMessage
    finish_reason: str


class CompletionDetails(msgspec.Struct, kw_only=True):
    """Why an answer is not whole: what went wrong, or the question that the run waits for."""

    completed: bool = False
    partial: bool | msgspec.UnsetType = msgspec.UNSET
    failed: bool | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    error_code: str | msgspec.UnsetType = msgspec.UNSET
    pending: PendingQuestion | msgspec.UnsetType = msgspec.UNSET
    run_id: str | msgspec.UnsetType = msgspec.UNSET
    session_id: str | msgspec.UnsetType = msgspec.UNSET


class ChatCompletion(msgspec.Struct, kw_only=True, omit_defaults=False):
    """An answer in one piece. `hermes` is there when it is not whole."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    hermes: CompletionDetails | msgspec.UnsetType = msgspec.UNSET


@route(
    "POST",
    "/v1/chat/completions",
    "Say something to an agent, as to a model.",
    headers=turns.ASKING,
    returns=turns.TURN_HEADERS,
    refuses=turns.REFUSES,
    example={"model": "hermes-agent", "messages": [{"role": "user", "content": "What can you do?"}]},
)
async def complete(call: HttpCall, body: ChatRequest) -> ChatCompletion | web.StreamResponse:
    conversation = read_conversation(body)
    choice = await find_addressee(call, body.model, conversation.text, results=conversation.asked)
    options = turns.TurnOptions(prefix=PREFIX, answers=True)
    answering = await turns.continue_turn(call, choice, conversation, options)
    if answering is None:
        answering = await turns.ask(call, choice, conversation, options)
    async with turns.while_connected(call, answering.turn):
        if body.stream:
            apart = body.stream_options is not None and body.stream_options.include_usage
            return await _stream(call, choice.name, answering, usage_apart=apart)
        return await _whole(call, choice.name, answering)


async def _stream(
    call: HttpCall, model: str, answering: SubmittedTurn, *, usage_apart: bool
) -> web.StreamResponse:
    turn = answering.turn
    chunks = ChatChunks(
        id=id_for(PREFIX, turn.id),
        model=model,
        created=int(turn.created_at.timestamp()),
        after=answering.after,
        about={"run_id": turns.run_name(turn), "session_id": turn.session},
        usage_apart=usage_apart,
    )
    # A decision is asked for beside the answer, which then goes on; a question in words is the answer, and
    # the reply to it is another request.
    watch = TurnWatch(call=call, turn=turn, after=answering.after, stops_at=_CLARIFY)
    stream = await turns.stream_turn(
        call, turn, watch.feed(), chunks.see, first=chunks.start(), ended=lambda: chunks.ended
    )
    trouble = None if watch.pending is None else msgspec.to_builtins(_waiting(watch.pending))
    await stream.write(chunks.end("stop", trouble=trouble))
    return stream.response


async def _whole(call: HttpCall, model: str, answering: SubmittedTurn) -> web.Response:
    turn, after = answering.turn, answering.after

    def asks_client(entries: list[Entry]) -> bool:
        last = entries[-1]
        return last.seq > after and isinstance(last.record, Asked) and bool(asked_of_client(entries))

    watch = TurnWatch(call=call, turn=turn, after=after, stops_at=PEOPLE, live=False)
    entries = await read_entries(watch.feed(), asks_client)
    calls = _calls(entries) if entries and asks_client(entries) else []
    new = [entry for entry in entries if entry.seq > after]
    message, reason, details = _answer(new, calls, watch.pending)
    headers = {**turns.turn_headers(call, turn), **_headers(details)}
    if details is not msgspec.UNSET and message.content == "":
        why = str(details.error) or "The turn was stopped."
        raise ApiError(502, "agent_incomplete", why, headers=headers)
    used = usage_of(entry.record for entry in new)
    completion = ChatCompletion(
        id=id_for(PREFIX, turn.id),
        created=int(turn.created_at.timestamp()),
        model=model,
        choices=[ChatChoice(message=message, finish_reason=reason)],
        usage=ChatUsage(
            prompt_tokens=used.prompt, completion_tokens=used.completion, total_tokens=used.total
        ),
        hermes=details,
    )
    return as_json(completion, headers=headers)


def _answer(
    entries: Sequence[Entry], calls: list[ChatToolCall], pending: TurnQuestion | None
) -> tuple[AnswerMessage, str, CompletionDetails | msgspec.UnsetType]:
    """What is said, why it ends there, and what it lacks."""
    replies = [entry.record for entry in entries if isinstance(entry.record, ModelSaid)]
    last_words = replies[-1].text if replies else ""
    if pending is not None:
        asked = pending.question
        text = question_text(asked) if asked.kind in _CLARIFY else asked.text
        return AnswerMessage(content=text), "stop", _waiting(pending)
    if calls:
        return AnswerMessage(content=last_words or None, tool_calls=calls), "tool_calls", msgspec.UNSET
    end = entries[-1].record if entries else None
    if isinstance(end, Failed | Stopped):
        text, failed = answer_text(entries, footer=False) or last_words, isinstance(end, Failed)
        code = "agent_failed" if failed else "agent_stopped"
        details = CompletionDetails(partial=bool(text), failed=failed, error=end.reason, error_code=code)
        return AnswerMessage(content=text), "error" if failed else "stop", details
    cut = bool(replies) and replies[-1].ending is Ending.LENGTH
    return AnswerMessage(content=answer_text(entries)), "length" if cut else "stop", msgspec.UNSET


def _waiting(asked: TurnQuestion) -> CompletionDetails:
    run = turns.run_name(asked.turn)
    return CompletionDetails(pending=asked.pending, run_id=run, session_id=asked.turn.session)


def _calls(entries: Sequence[Entry]) -> list[ChatToolCall]:
    return [
        ChatToolCall(
            id=client_call_id(asked.question),
            function=FunctionCall(name=wanted.name, arguments=wanted.arguments),
        )
        for asked, wanted in asked_of_client(entries)
    ]


def _headers(details: CompletionDetails | msgspec.UnsetType) -> Mapping[str, str]:
    """That an answer is not whole, for those who read no bodies."""
    if details is msgspec.UNSET:
        return {}
    headers = {COMPLETED: "false", PARTIAL: str(details.partial is True).lower()}
    if details.error is not msgspec.UNSET:
        headers[ERROR] = one_line(details.error, 200).encode("ascii", "replace").decode()
    return headers
