"""`/v1/chat/completions`: an agent as if it were a model, in one piece or as a stream.

A request without a session is a conversation of its own: what its messages say came before is told to the
model and kept with the turn alone, and the session is forgotten after a day. Whoever names a session goes on
in it. A client that goes away stops what it began, unless it can come back to it by a session or a key."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import cast

import msgspec
from aiohttp import web

from hermes.control.submission import id_for
from hermes.domain.event import Ending, Entry, Failed, ModelSaid, Seen, Stopped
from hermes.domain.turn import Turn
from hermes.entry.http.asking import ASKS, Wish, ask, turn_headers, while_connected
from hermes.entry.http.door import Call, route
from hermes.entry.http.errors import ApiError
from hermes.entry.http.messages import Message, read_messages
from hermes.entry.http.models import Picked, pick
from hermes.stream.fold import answer_text
from hermes.stream.sse import ChatChunks

PREFIX = "chatcmpl-"
EXAMPLE = {"model": "hermes-agent", "messages": [{"role": "user", "content": "What can you do?"}]}


class StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool = False


class ChatRequest(msgspec.Struct, kw_only=True):
    """What is said, to whom, and how the answer is wanted. Sampling options are the agent's own business and
    ignored."""

    messages: list[Message]
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None


class Usage(msgspec.Struct, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AnswerMessage(msgspec.Struct, kw_only=True):
    role: str = "assistant"
    content: str | None


class Choice(msgspec.Struct, kw_only=True):
    index: int = 0
    message: AnswerMessage
    finish_reason: str


class Incomplete(msgspec.Struct, kw_only=True):
    """Why an answer is not whole."""

    completed: bool
    partial: bool
    failed: bool
    error: str
    error_code: str


class ChatCompletion(msgspec.Struct, kw_only=True, omit_defaults=False):
    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    hermes: Incomplete | msgspec.UnsetType = msgspec.UNSET


@route(
    "POST",
    "/v1/chat/completions",
    "Say something to an agent, as to a model.",
    wire=replace(ASKS, example=EXAMPLE),
)
async def complete(call: Call, body: ChatRequest) -> ChatCompletion | web.StreamResponse:
    picked = pick(call, body.model)
    said = read_messages(body.messages)
    turn = (await ask(call, picked, said, Wish(prefix=PREFIX))).turn
    async with while_connected(call, picked.agent, turn):
        if body.stream:
            return await _stream(call, picked, turn)
        return _headed(call, turn, await _whole(call, picked, turn))


async def _stream(call: Call, picked: Picked, turn: Turn) -> web.StreamResponse:
    created = int(turn.created_at.timestamp())
    chunks = ChatChunks(id=id_for(PREFIX, turn.id), model=picked.name, created=created)
    stream = await call.door.streams.send(
        call.request,
        cast(AsyncGenerator[Seen], call.door.gateway.watch(picked.agent, turn.id)),
        chunks.see,
        headers=turn_headers(call, turn),
        first=chunks.start(),
        ended=lambda: chunks.ended,
    )
    await stream.write(chunks.end("stop"))
    return stream.response


async def _whole(call: Call, picked: Picked, turn: Turn) -> ChatCompletion:
    entries: list[Entry] = []
    async for seen in call.door.gateway.watch(picked.agent, turn.id):
        if isinstance(seen, Entry):
            entries.append(seen)
    said = [entry.record for entry in entries if isinstance(entry.record, ModelSaid)]
    last = entries[-1].record if entries else None
    text = answer_text(entries)
    trouble: Incomplete | msgspec.UnsetType = msgspec.UNSET
    reason = "length" if said and said[-1].ending is Ending.LENGTH else "stop"
    if isinstance(last, Failed | Stopped):
        failed = isinstance(last, Failed)
        reason = "error" if failed else "stop"
        trouble = Incomplete(
            completed=False,
            partial=bool(text),
            failed=failed,
            error=last.reason,
            error_code="agent_failed" if failed else "agent_stopped",
        )
        if not text:
            raise ApiError(502, "agent_incomplete", last.reason or "The turn was stopped.")
    prompt, completion = sum(one.usage.prompt for one in said), sum(one.usage.completion for one in said)
    return ChatCompletion(
        id=id_for(PREFIX, turn.id),
        created=int(turn.created_at.timestamp()),
        model=picked.name,
        choices=[Choice(message=AnswerMessage(content=text), finish_reason=reason)],
        usage=Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion),
        hermes=trouble,
    )


def _headed(call: Call, turn: Turn, answer: ChatCompletion) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(answer), content_type="application/json", headers=turn_headers(call, turn)
    )
