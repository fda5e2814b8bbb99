"""The chat-completions wire format, inward: events of an answer, told to a `ReplyAssembly`.

Events are decoded into small structs, so a streamed token costs a few microseconds. What a service wants back
unread is kept: see docs/decisions/0015 for who wants what, and where they say so.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hermes.agent.models.assembly import ReplyAssembly, broken
from hermes.agent.models.faults import FILTERED, OTHER_WORDS
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.usage import Usage
from hermes.domain.turns.event import Ending, Kept

NAME = "chat_completions"
_LENGTH = ("length", "max_tokens")
_GROWING = ("text", "summary", "data")

# --- structs -------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Fragment(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _WireMessage(msgspec.Struct):
    """The `delta` of a chunk or the `message` of a completion."""

    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[_Fragment] | None = None


class _Choice(msgspec.Struct):
    delta: _WireMessage | None = None
    message: _WireMessage | None = None
    finish_reason: str | None = None


class _TokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _WireUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None
    completion_tokens_details: _TokenDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    total_tokens: int | None = None
    cost: float | None = None

    def read(self) -> Usage:
        read = self.prompt_tokens_details or _TokenDetails()
        thought = self.completion_tokens_details
        prompt, completion = self.prompt_tokens or 0, self.completion_tokens or 0
        reasoning = (thought.reasoning_tokens if thought else None) or 0
        # xAI counts thoughts beside the answer, not in it: docs.x.ai, models, “Reasoning tokens”.
        if reasoning and self.total_tokens == prompt + completion + reasoning:
            completion += reasoning
        return Usage(
            prompt=prompt,
            completion=completion,
            cached=read.cached_tokens or self.prompt_cache_hit_tokens or 0,
            reasoning=reasoning,
            cache_written=read.cache_write_tokens or 0,
            # OpenRouter says what it charged: openrouter.ai/docs/use-cases/usage-accounting.
            cost=self.cost if self.cost is not None and self.cost >= 0 else None,
        )


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _WireUsage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read_chunk(data: bytes) -> _Chunk:
    try:
        return _decode(data)
    except msgspec.DecodeError:
        pass
    try:
        # Slower, and takes what the fast reader will not: half characters in escapes, odd numbers.
        return msgspec.convert(json.loads(data), _Chunk, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise broken("the model's answer could not be understood") from None


# --- reading -------------------------------------------------------------------------------------


class ChatReader:
    """Reads chunks, or one whole completion."""

    def __init__(self, reply: ReplyAssembly) -> None:
        self._reply = reply
        self._reasoning: list[str] | None = None
        self._details: list[dict[str, Any]] = []
        self._extras: dict[str, Any] = {}

    def take(self, data: bytes) -> None:
        reply = self._reply
        if data == b"[DONE]":
            reply.done = True
            return
        chunk = read_chunk(data)
        if chunk.error:
            reply.fail(chunk.error)
        if chunk.usage is not None:
            reply.usage = chunk.usage.read()
        if chunk.model and not reply.answered_by:
            reply.answered_by = chunk.model
        if chunk.choices:
            self._hear(chunk.choices[0])

    def _hear(self, choice: _Choice) -> None:
        reply = self._reply
        reply.spoke()
        words = choice.delta or choice.message
        if words is not None:
            if words.content:
                text = words.content if isinstance(words.content, str) else _joined(words.content)
                if text:
                    reply.say(text)
            if words.tool_calls:
                for fragment in words.tool_calls:
                    self._call(fragment)
            thought = words.reasoning_content or words.reasoning
            if thought and isinstance(thought, str):
                reply.think(thought)
            if words.refusal and isinstance(words.refusal, str):
                reply.say(words.refusal)
                reply.refused = True
            if words.reasoning_content is not None or words.reasoning_details:
                self._keep(words)
        if choice.finish_reason:
            self._finish(choice.finish_reason)

    def _finish(self, reason: str) -> None:
        reply = self._reply
        if reason == "content_filter":
            reply.fault = ModelFault(FILTERED, kind=FaultKind.FILTERED, hint=OTHER_WORDS)
        elif reason == "error":
            reply.fault = broken("the model broke off with an error")
        else:
            reply.ending = Ending.LENGTH if reason in _LENGTH else Ending.STOP
        text = self._kept_text()
        if text:
            reply.kept = Kept(format=NAME, model=reply.model, text=text)

    def _call(self, fragment: _Fragment) -> None:
        function = fragment.function or _Function()
        arguments = function.arguments or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        self._reply.call(index=fragment.index, id=fragment.id, name=function.name, arguments=arguments)
        if fragment.extra_content and fragment.id:
            self._reply.grow(len(repr(fragment.extra_content)))
            self._extras[fragment.id] = fragment.extra_content

    def _keep(self, words: _WireMessage) -> None:
        if isinstance(words.reasoning_content, str):
            self._reasoning = [*(self._reasoning or ()), words.reasoning_content]
        details = words.reasoning_details
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self._reply.grow(len(repr(detail)))
                _add_detail(self._details, detail)

    def _kept_text(self) -> str:
        kept: dict[str, Any] = {}
        if self._details:
            kept["reasoning_details"] = self._details
        elif self._reasoning is not None and self._reply.has_calls:
            kept["reasoning_content"] = "".join(self._reasoning)
        if self._extras:
            kept["extra_content"] = self._extras
        return json.dumps(kept, ensure_ascii=True, separators=(",", ":")) if kept else ""


def _add_detail(details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
    """A streamed block comes in pieces with the same index; whole it goes back as it was."""
    last = details[-1] if details else {}
    if detail.get("index") is None or (last.get("type"), last.get("index")) != (
        detail.get("type"),
        detail["index"],
    ):
        details.append(dict(detail))
        return
    for name, value in detail.items():
        before = last.get(name)
        if name in _GROWING and isinstance(value, str) and isinstance(before, str):
            last[name] = before + value
        elif value is not None:
            last[name] = value


def _joined(parts: list[Any]) -> str:
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))
