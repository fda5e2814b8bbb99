"""The Messages format, inward: events of a stream, or one whole message, told to a `ReplyAssembly`.

Signed and redacted thoughts are kept to go back unread (platform.claude.com/docs/en/build-with-claude/
extended-thinking: preserving thinking blocks), with marks for the texts and calls between them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hermes.agent.models.assembly import ReplyAssembly, broken
from hermes.agent.models.faults import FILTERED, OTHER_WORDS
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.usage import Usage
from hermes.domain.text import one_line
from hermes.domain.turns.event import Ending, Kept

NAME = "anthropic_messages"
# platform.claude.com/docs/en/build-with-claude/handling-stop-reasons; a paused turn goes on like a cut one.
_LENGTH = ("max_tokens", "model_context_window_exceeded", "pause_turn")

# --- structs -------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    """A block of content, or a piece of one (`delta`)."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: Any = None


class _OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _CacheCreation(msgspec.Struct):
    ephemeral_1h_input_tokens: int | None = None


class _WireUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(msgspec.Struct):
    model: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    stop_details: Any = None
    usage: _WireUsage | None = None


class _Event(_Message):
    """An event, or a whole message: both have a `type`."""

    type: str = ""
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


def _read_event(data: bytes) -> _Event:
    try:
        return _decode(data)
    except msgspec.DecodeError:
        pass
    try:
        # Slower, and takes what the fast reader will not: half characters in escapes, odd numbers.
        return msgspec.convert(json.loads(data), _Event, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise broken("the model's answer could not be understood") from None


# --- reading -------------------------------------------------------------------------------------


class MessageReader:
    """Reads the events of a stream, or one whole message."""

    def __init__(self, reply: ReplyAssembly) -> None:
        self._reply = reply
        self._marks: list[dict[str, Any]] = []
        self._open: dict[str, Any] = {}
        self._calls = 0
        self._used = _WireUsage()

    def take(self, data: bytes) -> None:
        reply = self._reply
        if data == b"[DONE]":
            reply.done = True
            return
        event = _read_event(data)
        match event.type:
            case "content_block_delta":
                self._grow(event)
            case "content_block_start":
                self._begin(event.content_block or _Block(), event.index)
            case "content_block_stop":
                self._open = {}
            case "message_start":
                self._meet(event.message or _Message())
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._finish(event.delta.stop_reason, event.delta.stop_details)
            case "message_stop":
                reply.done = True
            case _:
                if event.error:
                    reply.fail(event.error)
                if event.type == "message":
                    self._whole(event)

    def _whole(self, message: _Message) -> None:
        self._meet(message)
        for place, block in enumerate(message.content or ()):
            self._begin(block, place)
            self._open = {}
        if message.stop_reason:
            self._finish(message.stop_reason, message.stop_details)

    def _meet(self, message: _Message) -> None:
        self._count(message.usage)
        self._reply.answered_by = message.model or self._reply.answered_by

    def _begin(self, block: _Block, index: int | None) -> None:
        reply = self._reply
        reply.spoke()
        match block.type:
            case "text":
                self._open = {"text": 0}
                if block.text:
                    self._say(block.text)
            case "thinking" | "redacted_thinking":
                self._open = {"type": block.type}
                self._think(block)
            case "tool_use":
                self._open = {"call": self._calls}
                self._calls += 1
                # In a stream the arguments follow; whole messages have them here.
                arguments = json.dumps(block.input) if block.input else ""
                reply.call(index=index, id=block.id, name=block.name, arguments=arguments)
            case _:
                # What a service did by itself is none of our business.
                self._open = {}
                return
        self._marks.append(self._open)

    def _grow(self, event: _Event) -> None:
        delta = event.delta or _Block()
        match delta.type:
            case "text_delta":
                self._say(delta.text or "")
            case "input_json_delta" if "call" in self._open:
                self._reply.call(index=event.index, arguments=delta.partial_json or "")
            case "thinking_delta" | "signature_delta":
                self._think(delta)

    def _say(self, text: str) -> None:
        if "text" not in self._open:
            self._open = {"text": 0}
            self._marks.append(self._open)
        self._open["text"] += len(text)
        self._reply.say(text)

    def _think(self, block: _Block) -> None:
        """Thoughts to be shown, and what comes back with them."""
        reply, open_block = self._reply, self._open
        if block.thinking:
            reply.think(block.thinking)
        for name, value in (("signature", block.signature), ("data", block.data)):
            if value:
                reply.grow(len(value))
                open_block[name] = open_block.get(name, "") + value
        if open_block.get("type") == "thinking":
            open_block["thinking"] = open_block.get("thinking", "") + (block.thinking or "")

    def _count(self, usage: _WireUsage | None) -> None:
        """Counts are sums so far; a later event names only those that changed."""
        if usage is None:
            return
        used = self._used
        for name in usage.__struct_fields__:
            value = getattr(usage, name)
            if value is not None:
                setattr(used, name, value)
        read, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
        details = used.output_tokens_details
        self._reply.usage = Usage(
            prompt=(used.input_tokens or 0) + read + written,
            completion=used.output_tokens or 0,
            cached=read,
            reasoning=(details.thinking_tokens if details else None) or 0,
            cache_written=written,
            cache_kept=(used.cache_creation.ephemeral_1h_input_tokens if used.cache_creation else None) or 0,
        )

    def _finish(self, reason: str, details: object) -> None:
        reply = self._reply
        reply.spoke()
        if reason in ("refusal", "content_filter"):
            why = details.get("explanation") if isinstance(details, dict) else None
            quote = one_line(why, 200) if isinstance(why, str) else ""
            reply.fault = ModelFault(FILTERED, kind=FaultKind.FILTERED, hint=OTHER_WORDS, quote=quote)
            return
        reply.ending = Ending.LENGTH if reason in _LENGTH else Ending.STOP
        sealed = [mark for mark in self._marks if "signature" in mark or "data" in mark]
        if sealed:
            marks = [mark for mark in self._marks if "type" not in mark or mark in sealed]
            text = json.dumps(marks, separators=(",", ":"))
            reply.kept = Kept(format=NAME, model=reply.model, text=text)
