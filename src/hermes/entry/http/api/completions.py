"""`/v1/chat/completions`: an agent as if it were a model, in one piece or as a stream.

A request without a session is a conversation of its own: what its messages say came before is told to the
model and kept with the turn alone, and the session is forgotten after a day. Whoever names a session goes on
in it. A client that goes away stops what it began, unless it can come back to it by a session or a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from aiohttp import web

from hermes.control.sessions.repeats import SubmittedTurn, id_for
from hermes.domain.ids import client_call_id
from hermes.domain.text import one_line
from hermes.domain.turns.event import Asked, Ending, Entry, Failed, Finished, ModelSaid, Stopped
from hermes.domain.turns.thoughts import without_thoughts
from hermes.entry.http.api.chat_request import ChatRequest, read_conversation
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import find_addressee
from hermes.entry.http.ask.failures import failure_error
from hermes.entry.http.ask.messages import ChatToolCall, FunctionCall
from hermes.entry.http.ask.questions import PEOPLE, PendingQuestion, TurnQuestion, TurnWatch, read_entries
from hermes.entry.http.site.endpoint import HttpCall, as_json, route
from hermes.entry.http.site.headers import COMPLETED, ERROR, PARTIAL
from hermes.stream.faces.chat_chunks import ChatChunks
from hermes.stream.fold.answer import answer_text, chat_usage
from hermes.stream.fold.failures import is_lost
from hermes.stream.fold.questions import asked_of_client, question_for_reply
from hermes.stream.fold.steps import join_thoughts, thoughts_of

PREFIX = "chatcmpl-"
_OPTIONS = turns.TurnOptions(prefix=PREFIX, answers=True, retried=True, raises=True)


class PromptDetails(msgspec.Struct, kw_only=True):
    cached_tokens: int


class CompletionTokens(msgspec.Struct, kw_only=True):
    reasoning_tokens: int


class ChatUsage(msgspec.Struct, kw_only=True):
    """What the model's calls of this answer took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionTokens


class AnswerMessage(msgspec.Struct, kw_only=True):
    """What the agent says, what it thought before it, and which of the client's functions it calls."""

    role: str = "assistant"
    content: str | None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[ChatToolCall] | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, kw_only=True):
    """The answer; there is always one."""

    index: int = 0
    message: AnswerMessage
    finish_reason: str


class CompletionDetails(msgspec.Struct, kw_only=True):
    """Why an answer is not whole: what went wrong, or the question that the run waits for; or what is to be
    noted beside an answer that is JSON."""

    completed: bool = False
    partial: bool | msgspec.UnsetType = msgspec.UNSET
    failed: bool | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET
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
    data = conversation.wants_data
    answers = conversation.answers
    asked = conversation.asked if answers is None else (answers,)
    choice = await find_addressee(call, body.model, conversation.text, results=asked)
    answering = await turns.continue_turn(call, choice, conversation, _OPTIONS)
    if answering is None:
        answering = await turns.answer_turn(call, choice, conversation, _OPTIONS)
    if answering is None:
        answering = await turns.ask(call, choice, conversation, _OPTIONS)
    async with turns.while_connected(call, answering.turn):
        if body.stream:
            apart = body.stream_options is not None and bool(body.stream_options.include_usage)
            return await _stream(call, choice.name, answering, usage_apart=apart, data=data)
        return await _whole(call, choice.name, answering, data=data)


async def _stream(
    call: HttpCall, model: str, answering: SubmittedTurn, *, usage_apart: bool, data: bool
) -> web.StreamResponse:
    turn = answering.turn
    chunks = ChatChunks(
        id=id_for(PREFIX, turn.id),
        model=model,
        created=int(turn.created_at.timestamp()),
        after=answering.after,
        about={"run_id": turns.run_name(turn), "session_id": turn.session},
        usage_apart=usage_apart,
        data=data,
    )
    watch = TurnWatch(call=call, turn=turn, after=answering.after, stops_at=PEOPLE)
    stream = await turns.stream_turn(
        call, turn, watch.feed(), chunks.see, ended=lambda: chunks.ended, held=True
    )
    if chunks.lost is not None:
        await turns.keep_failure(call, answering, _OPTIONS)
        error = failure_error(call, chunks.lost, answering.failed_at)
        if await stream.give_way():
            error.headers |= turns.turn_headers(call, turn)
            raise error
        await stream.write(chunks.fail(msgspec.to_builtins(error.body)))
    elif watch.pending is not None:
        asked = watch.pending
        await stream.write(
            chunks.ask(question_for_reply(asked.question), msgspec.to_builtins(_waiting(asked)))
        )
    await stream.write(chunks.end("stop"))
    return stream.response


async def _whole(call: HttpCall, model: str, answering: SubmittedTurn, *, data: bool) -> web.Response:
    turn, after = answering.turn, answering.after

    def asks_client(entries: list[Entry]) -> bool:
        last = entries[-1]
        return last.seq > after and isinstance(last.record, Asked) and bool(asked_of_client(entries))

    watch = TurnWatch(call=call, turn=turn, after=after, stops_at=PEOPLE, live=False)
    entries = await read_entries(watch.feed(), asks_client)
    calls = _calls(entries) if entries and asks_client(entries) else []
    new = [entry for entry in entries if entry.seq > after]
    headers = turns.turn_headers(call, turn)
    if new and isinstance(new[-1].record, Failed | Stopped):
        await turns.keep_failure(call, answering, _OPTIONS)
    _check_failure(call, new, headers, answering.failed_at)
    message, reason, details = _answer(new, calls, watch.pending, data=data)
    thoughts = (thoughts_of(entry.record) for entry in new if isinstance(entry.record, ModelSaid))
    message.reasoning_content = join_thoughts(*thoughts) or msgspec.UNSET
    completion = ChatCompletion(
        id=id_for(PREFIX, turn.id),
        created=int(turn.created_at.timestamp()),
        model=model,
        choices=[ChatChoice(message=message, finish_reason=reason)],
        usage=msgspec.convert(chat_usage(entry.record for entry in new), ChatUsage),
        hermes=details,
    )
    return as_json(completion, headers={**headers, **_headers(details)})


def _check_failure(
    call: HttpCall, entries: Sequence[Entry], headers: Mapping[str, str], failed_at: datetime | None
) -> None:
    """A turn that failed is an error; what it had said before is told beside it. One that was stopped is one
    only if it had said nothing."""
    end = entries[-1].record if entries else None
    if not isinstance(end, Failed | Stopped):
        return
    text = _last_words(entries)
    if text and not is_lost(end):
        return
    error = failure_error(call, end, failed_at)
    error.headers |= {**headers, COMPLETED: "false", PARTIAL: str(bool(text)).lower()}
    error.more = {"completed": False, "partial": bool(text), "failed": isinstance(end, Failed)}
    if text:
        error.more["content"] = text
    raise error


def _last_words(entries: Sequence[Entry]) -> str:
    replies = [entry.record.text for entry in entries if isinstance(entry.record, ModelSaid)]
    return answer_text(entries, footer=False) or without_thoughts(replies[-1] if replies else "")


def _answer(
    entries: Sequence[Entry], calls: list[ChatToolCall], pending: TurnQuestion | None, *, data: bool
) -> tuple[AnswerMessage, str, CompletionDetails | msgspec.UnsetType]:
    """What is said, why it ends there, and what it lacks."""
    replies = [entry.record for entry in entries if isinstance(entry.record, ModelSaid)]
    if pending is not None:
        return AnswerMessage(content=question_for_reply(pending.question)), "stop", _waiting(pending)
    if calls:
        words = without_thoughts(replies[-1].text).strip() if replies else ""
        return AnswerMessage(content=words or None, tool_calls=calls), "tool_calls", msgspec.UNSET
    end = entries[-1].record if entries else None
    if isinstance(end, Stopped):
        details = CompletionDetails(partial=True, failed=False, error=end.reason, error_code="agent_stopped")
        return AnswerMessage(content=_last_words(entries)), "stop", details
    cut = bool(replies) and replies[-1].ending is Ending.LENGTH
    note = end.note if isinstance(end, Finished) and data else ""
    return (
        AnswerMessage(content=answer_text(entries, footer=not data)),
        "length" if cut else "stop",
        CompletionDetails(completed=True, note=note) if note else msgspec.UNSET,
    )


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
    headers = {COMPLETED: str(details.completed).lower(), PARTIAL: str(details.partial is True).lower()}
    if details.error is not msgspec.UNSET:
        headers[ERROR] = one_line(details.error, 200).encode("ascii", "replace").decode()
    return headers
