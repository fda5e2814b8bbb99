"""The chat-completions wire format, inward: the bytes of an answer as pieces of a reply.

Pure: knows no socket and no clock. Events are decoded into small structs, so a streamed token costs a few
microseconds; what came in one read becomes one piece.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes.agent.call_repair import may_be_written_call, written_call
from hermes.agent.models.faults import FILTERED, error_for, read_error_object
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.event import Ending, TextDelta, ThoughtDelta, Usage
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelEnd
from hermes.domain.sse import SseParser
from hermes.domain.text import storable
from hermes.domain.tool import ToolCall

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# --- structs -------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Fragment(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _WireMessage(msgspec.Struct):
    """The `delta` of a chunk or the `message` of a completion."""

    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_Fragment] | None = None


class _Choice(msgspec.Struct):
    delta: _WireMessage | None = None
    message: _WireMessage | None = None
    finish_reason: str | None = None


class _TokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _WireUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None
    completion_tokens_details: _TokenDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def read(self) -> Usage:
        cached = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        thought = self.completion_tokens_details
        return Usage(
            prompt=self.prompt_tokens or 0,
            completion=self.completion_tokens or 0,
            cached=cached or self.prompt_cache_hit_tokens or 0,
            reasoning=(thought.reasoning_tokens if thought else None) or 0,
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
        raise Unreachable("the model's answer could not be understood") from None


def too_long() -> Refused:
    return Refused("the answer grew beyond every measure and was cut off.")


# --- a reply being put together ----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ReplyAssembler:
    """Takes chunks, hands out pieces, and knows at the end whether the reply is whole. `most_text` bounds
    words, thoughts and arguments together; calls beyond `most_calls` are left out. If `tools` are given, a
    reply that is nothing but a call of one of them, written as text, is taken as that call; words that may
    become one are held back until it is clear."""

    most_text: int
    most_calls: int
    model: str = ""
    place: str = ""
    secret: str = ""
    tools: Collection[str] = ()
    finish: str | None = None
    done: bool = False
    _spoke: bool = False
    _size: int = 0
    _text: str = ""
    _thought: str = ""
    _half: str = ""
    _calls: list[_OpenCall] = field(default_factory=list)
    _by_index: dict[int, _OpenCall | None] = field(default_factory=dict)
    _usage: Usage = field(default_factory=Usage)
    _answered_by: str = ""

    def take(self, data: bytes) -> None:
        """One event of a stream, or the whole body of an answer that is not streamed."""
        if data.strip() == b"[DONE]":
            self.done = True
            return
        chunk = read_chunk(data)
        if chunk.error:
            told = read_error_object(chunk.error, secret=self.secret)
            raise error_for(told, model=self.model, place=self.place)
        if chunk.usage is not None:
            self._usage = chunk.usage.read()
        if chunk.model and not self._answered_by:
            self._answered_by = chunk.model
        if chunk.choices:
            self._hear(chunk.choices[0])

    def pieces(self, *, whole: bool = False) -> list[TextDelta | ThoughtDelta]:
        """What was said since the last time; all that is left if the reply is whole."""
        pieces: list[TextDelta | ThoughtDelta] = []
        if self._thought:
            pieces.append(ThoughtDelta(text=self._thought))
            self._thought = ""
        if self.tools and self._text and not self._holds_back(whole):
            self.tools = ()
        if self._text and not self.tools:
            pieces.append(TextDelta(text=self._text))
            self._text = ""
        return pieces

    def _holds_back(self, whole: bool) -> bool:
        """Whether the words so far are, or may become, a call that was written instead of made."""
        if self._calls or not whole:
            return not self._calls and may_be_written_call(self._text)
        call = written_call(self._text, self.tools)
        if call is not None:
            self._calls.append(_OpenCall(name=call.name, arguments=[call.arguments]))
        return call is not None

    def end(self) -> ModelEnd:
        """The end of a whole reply; an error if it is none."""
        match self.finish:
            case "content_filter":
                raise Refused(f"{FILTERED}.")
            case "error":
                raise Unreachable("the model broke off with an error")
            case None if not self.done:
                raise Unreachable("the model's answer broke off")
        if not self._spoke:
            raise Unreachable("the model's answer had nothing in it")
        calls = tuple(
            ToolCall(id=CallId(call.id), name=call.name, arguments="".join(call.arguments))
            for call in self._calls
            if call.name or call.arguments
        )
        cut = self.finish in ("length", "max_tokens")
        return ModelEnd(
            calls=calls,
            ending=Ending.LENGTH if cut else Ending.CALLS if calls else Ending.STOP,
            usage=self._usage,
            model=self._answered_by or self.model,
        )

    def _hear(self, choice: _Choice) -> None:
        self._spoke = True
        if choice.finish_reason:
            self.finish = choice.finish_reason
        words = choice.delta or choice.message
        if words is None:
            return
        if words.content:
            text = words.content if isinstance(words.content, str) else self._parts(words.content)
            if text:
                self._say(text)
        if words.tool_calls:
            for fragment in words.tool_calls:
                self._call(fragment)
        thought = words.reasoning_content or words.reasoning
        if thought and isinstance(thought, str):
            self._grow(len(thought))
            self._thought += storable(thought)
        if words.refusal and isinstance(words.refusal, str):
            self._say(words.refusal)

    def _say(self, text: str) -> None:
        self._grow(len(text))
        if self._half or not text.isascii():
            text = self._mend(text)
        elif "\0" in text:
            text = storable(text)
        self._text += text

    def _mend(self, text: str) -> str:
        """Join characters whose halves came in different chunks; a half at the end waits for the other."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return storable(text)

    def _parts(self, parts: list[Any]) -> str:
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))

    def _call(self, fragment: _Fragment) -> None:
        call, function = self._call_of(fragment), fragment.function
        if call is None or function is None:
            return
        if function.name and not call.name:
            self._grow(len(function.name))
            call.name = function.name
        arguments = function.arguments
        if arguments:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._grow(len(text))
            call.arguments.append(text)

    def _call_of(self, fragment: _Fragment) -> _OpenCall | None:
        """The call that a fragment belongs to. Some services send no index, some always the same one; then
        another id, or without ids another name, begins another call."""
        name = fragment.function.name if fragment.function else None
        if fragment.index is not None:
            known = self._by_index.get(fragment.index)
            if known is not None and not (fragment.id and known.id and fragment.id != known.id):
                known.id = known.id or fragment.id or ""
                return known
            if known is None and fragment.index in self._by_index:
                return None
        elif self._calls and not name and fragment.id in (None, "", self._calls[-1].id):
            return self._calls[-1]
        self._grow(64)
        call = None
        if len(self._calls) < self.most_calls:
            call = _OpenCall(id=fragment.id or "")
            self._calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        return call

    def _grow(self, more: int) -> None:
        self._size += more
        if self._size > self.most_text:
            raise too_long()


class ReplyBody:
    """The body of an answer, fed as it comes: a stream of events, or one JSON object if it opens like one."""

    def __init__(self, reply: ReplyAssembler, *, text: int, wire: int) -> None:
        self._reply = reply
        self._events = SseParser(limit=2 * text)
        self._whole: list[bytes] | None = None
        self._left = wire
        self._most_whole = 2 * text
        self._begun = False

    def feed(self, data: bytes) -> list[TextDelta | ThoughtDelta]:
        if not self._begun:
            self._begun = True
            if data.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"<", b"["):
                self._whole, self._left = [], self._most_whole
        self._left -= len(data)
        if self._left < 0:
            raise too_long()
        if self._whole is not None:
            self._whole.append(data)
            return []
        try:
            events = self._events.feed_raw(data)
        except Refused:
            raise too_long() from None
        for event, _, _ in events:
            self._reply.take(event)
        return self._reply.pieces()

    def close(self) -> list[TextDelta | ThoughtDelta]:
        """What the end of the body completes."""
        reply = self._reply
        if self._whole is not None:
            reply.take(b"".join(self._whole).removeprefix(_BYTE_ORDER_MARK))
            reply.done = True
        elif reply.finish is None and not reply.done:
            for event, _, _ in self._events.close():
                reply.take(event)
        return reply.pieces(whole=True)
