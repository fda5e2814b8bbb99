"""What a fake model says: replies, scripts that choose them, and `FAULTS`, every way a reply goes wrong.

Pure data. `model_server` puts it on the wire; nothing here opens a socket or tells the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain, repeat
from typing import Any, Literal

from hermes.domain.models.usage import Usage
from hermes.domain.word import replace

Json = dict[str, Any]

# --- what was asked ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request as it came. `body` is its parsed JSON, or None if it had none or it did not parse, as a chat
    completion whatever its wire format; `wire` is the JSON as it was sent, and `raw` its bytes."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: datetime
    wire: Any = None
    raw: bytes = b""

    def _asked(self, name: str) -> Any:
        return self.body.get(name) if isinstance(self.body, dict) else None

    @property
    def model(self) -> str:
        return str(self._asked("model") or "")

    @property
    def messages(self) -> list[Json]:
        messages = self._asked("messages")
        return [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []

    @property
    def streams(self) -> bool:
        return self._asked("stream") is True

    @property
    def wants_usage(self) -> bool:
        options = self._asked("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    @property
    def last_message(self) -> str:
        return message_text(self.messages[-1]) if self.messages else ""

    @property
    def last_user_message(self) -> str:
        said = [message_text(one) for one in self.messages if one.get("role") == "user"]
        return said[-1] if said else ""


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message whose content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


# --- what is answered ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call. Without an id none is sent; arguments that are not text are sent as they are."""

    id: str | None = "call_1"
    name: str = "echo"
    arguments: object = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds before the status line, seconds between stream events, and characters per event (the
    sizes are used in turn, the last one on and on). `write` cuts the body into writes of so many bytes."""

    first_byte: float = 0.0
    between: float = 0.0
    sizes: tuple[int, ...] = (12,)
    write: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or (self.write is not None and self.write < 1):
            raise ValueError("sizes must be given and be at least 1")

    def split(self, text: str) -> Iterator[str]:
        start = 0
        for size in chain(self.sizes, repeat(self.sizes[-1])):
            if start >= len(text):
                return
            yield text[start : start + size]
            start += size


class Then(StrEnum):
    """What the server does where a reply is cut."""

    END = "end"
    CLOSE = "close"
    RESET = "reset"
    STALL = "stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Break off after so many bytes of the body, or after the first match of a regular expression in it
    (in the middle of a body without a match). `None` breaks off before the status line."""

    after: int | bytes | None
    then: Then = Then.CLOSE

    def position(self, body: bytes) -> int:
        if isinstance(self.after, bytes):
            match = re.search(self.after, body)
            return match.end() if match else len(body) // 2
        return min(self.after or 0, len(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """How stream events are written. `opening` comes first of all, `before_each` before every event,
    and `junk` once, after the first words."""

    newline: bytes = b"\n"
    prefix: bytes = b"data: "
    lines_per_event: Literal["one", "many"] = "one"
    opening: bytes = b""
    before_each: bytes = b""
    junk: bytes = b""
    done: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """After its text the stream repeats this delta (or a comment line) until the client goes away."""

    delta: Mapping[str, object] | None = None
    between: float = 0.0


AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One assistant message. `finish` is worked out unless given, None sends no finish reason; `usage`
    is counted in words unless given. `details` are blocks that the service wants back. `warp` changes each
    JSON object on its way out, stream or not. With `streams` off a stream request gets
    the plain JSON body."""

    text: str | None = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    details: tuple[Json, ...] = ()
    finish: str | None = AUTO
    usage: Usage | None = None
    pace: Pace = field(default_factory=Pace)
    framing: Framing = field(default_factory=Framing)
    cut: Cut | None = None
    endless: Endless | None = None
    warp: Callable[[Json], Json] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False
    streams: bool = True

    @property
    def finish_reason(self) -> str | None:
        return ("tool_calls" if self.calls else "stop") if self.finish == AUTO else self.finish


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    seconds: float
    as_date: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """An HTTP response that is no assistant message: an error, a web page, nothing."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: RetryAfter | None = None
    pace: Pace = field(default_factory=Pace)
    cut: Cut | None = None


Said = Reply | RawReply
Respond = Callable[[ModelRequest], Said]
Script = Sequence[Said] | Respond


def failure(
    status: int, message: str, *, kind: str = "", code: str | None = None, after: RetryAfter | None = None
) -> RawReply:
    """An error in OpenAI's shape."""
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    error = {"message": message, "type": kind, "param": None, "code": code}
    body = json.dumps({"error": error}).encode()
    return RawReply(status=status, body=body, headers={"Content-Type": "application/json"}, retry_after=after)


# --- scripts -------------------------------------------------------------------------------------


def echo(request: ModelRequest) -> Reply:
    """Say what the user said last."""
    return Reply(text=request.last_user_message)


def in_order(replies: Sequence[Said], *, repeat_last: bool = False) -> Respond:
    """Each request gets the next reply; then the last one for ever, or an error that no client retries."""
    given = tuple(replies)
    remaining = iter(given)

    def respond(request: ModelRequest) -> Said:
        exhausted = failure(400, f"the script has only {len(given)} replies", code="script_exhausted")
        return next(remaining, given[-1] if given and repeat_last else exhausted)

    return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Answer with `reply` when the regular expression is found in the last message."""

    match: str
    reply: Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A script: the first rule that matches answers, else `otherwise`."""

    rules: tuple[Rule, ...]
    otherwise: Respond = echo

    def __call__(self, request: ModelRequest) -> Said:
        for rule in self.rules:
            if re.search(rule.match, request.last_message):
                return rule.reply
        return self.otherwise(request)


def script_from_json(data: Mapping[str, Any]) -> Respond:
    """`{"rules": [{"match", "reply"}], "replies": [reply…], "repeat_last": bool}`, where a reply is the
    fields of `Reply`, `{"fault": name}`, or `{"status", "body", "headers"}`. Empty: echo."""
    try:
        replies = [_reply_from_json(one) for one in data.get("replies", ())]
        otherwise = in_order(replies, repeat_last=data.get("repeat_last", False)) if replies else echo
        rules = tuple(
            Rule(match=one["match"], reply=_reply_from_json(one["reply"])) for one in data.get("rules", ())
        )
        for rule in rules:
            re.compile(rule.match)
    except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
        raise ValueError(f"not a model script: {error!r}") from error
    return Rules(rules=rules, otherwise=otherwise) if rules else otherwise


def _reply_from_json(data: Mapping[str, Any]) -> Said:
    if "fault" in data:
        return FAULTS[data["fault"]].reply
    fields = dict(data)
    if "status" in fields:
        return RawReply(**{**fields, "body": fields.get("body", "").encode()})
    if "calls" in fields:
        fields["calls"] = tuple(Call(**one) for one in fields["calls"])
    if "usage" in fields:
        fields["usage"] = Usage(**fields["usage"])
    if "pace" in fields:
        pace = Pace(**fields["pace"])
        fields["pace"] = replace(pace, sizes=tuple(pace.sizes))
    if "cut" in fields:
        after = fields["cut"]["after"]
        then = Then(fields["cut"].get("then", Then.CLOSE))
        fields["cut"] = Cut(after=after.encode() if isinstance(after, str) else after, then=then)
    return Reply(**fields)


# --- faults --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A reply that goes wrong, and what one call of a client should end in. `retry` says whether asking
    again may help. A `stream_only` fault is a plain answer to a request that does not stream."""

    reply: Said
    ends: Literal["answer", "error"]
    retry: bool = False
    stream_only: bool = False


WORDS = "One two three four five six seven eight."
VISIBLE = rb"three [^\n]*\n\n"
_BY_WORD = Pace(sizes=(4, 4, 6, 5, 5, 4, 6, 6))
_CALL = Call(name="write_file", arguments='{"path": "notes.txt", "content": "a long line of text"}')
_IN_CALL: Json = {"calls": (_CALL,), "pace": Pace(sizes=(20,))}
_HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"


def _answer(*, stream_only: bool = False, **fields: Any) -> Fault:
    return Fault(reply=replace(Reply(text=WORDS), **fields), ends="answer", stream_only=stream_only)


def _broken(*, stream_only: bool = False, **fields: Any) -> Fault:
    reply = replace(Reply(text=WORDS, pace=_BY_WORD), **fields)
    return Fault(reply=reply, ends="error", retry=True, stream_only=stream_only)


def _raw(status: int, body: bytes, content_type: str) -> Fault:
    reply = RawReply(status=status, body=body, headers={"Content-Type": content_type})
    return Fault(reply=reply, ends="error", retry=True)


def _status(status: int, message: str, *, retry: bool = False, **fields: Any) -> Fault:
    return Fault(reply=failure(status, message, **fields), ends="error", retry=retry)


def _cut(after: int | bytes | None, then: Then, **fields: Any) -> Fault:
    return _broken(cut=Cut(after=after, then=then), **fields)


def _calls(*calls: Call, **fields: Any) -> Fault:
    said: Json = {"text": None, "calls": calls, **fields}
    return _answer(**said)


def _arguments(arguments: object) -> Fault:
    return _calls(Call(name="write_file", arguments=arguments))


def _message_part(data: Json) -> Json:
    """The delta or message of a chunk or completion; empty where it has none."""
    choices = data["choices"] or [{}]
    part: Json = choices[0].get("delta", choices[0].get("message", {}))
    return part


def _no_choices(data: Json) -> Json:
    return {**data, "choices": []}


def _with_content(content: Callable[[], object]) -> Callable[[Json], Json]:
    def warp(data: Json) -> Json:
        part = _message_part(data)
        if part.get("content"):
            part["content"] = content()
        return data

    return warp


def _calls_as_object(data: Json) -> Json:
    part = _message_part(data)
    if part.get("tool_calls"):
        part["tool_calls"] = part["tool_calls"][0]
    return data


def _calls_without_index(data: Json) -> Json:
    for call in _message_part(data).get("tool_calls", ()):
        call.pop("index", None)
    return data


def _calls_streamed(text: str) -> Json:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


_BUSY = "Rate limit reached for requests"

_STATUSES: Mapping[str, Fault] = {
    "rate_limited": _status(429, _BUSY, retry=True, kind="requests", code="rate_limit_exceeded"),
    "rate_limited_for_seconds": _status(429, _BUSY, retry=True, after=RetryAfter(seconds=2)),
    "rate_limited_until_date": _status(429, _BUSY, retry=True, after=RetryAfter(seconds=3, as_date=True)),
    "rate_limited_for_a_day": _status(429, _BUSY, retry=True, after=RetryAfter(seconds=86_400)),
    "quota_used_up": _status(429, "You exceeded your current quota", code="insufficient_quota"),
    "server_error": _status(500, "The server had an error", retry=True),
    "bad_gateway": _status(502, "Bad gateway", retry=True),
    "unavailable": _status(503, "The engine is overloaded", retry=True),
    "unavailable_for_seconds": _status(503, "Loading", retry=True, after=RetryAfter(seconds=1)),
    "overloaded": _status(529, "Overloaded", retry=True, kind="overloaded_error"),
    "unauthorized": _status(401, "Incorrect API key provided", code="invalid_api_key"),
    "forbidden": _status(403, "Country, region, or territory not supported", code="unsupported_country"),
    "model_not_found": _status(404, "The model does not exist", code="model_not_found"),
    "context_too_long": _status(400, "maximum context length is 8 tokens", code="context_length_exceeded"),
    "html_error_page": _raw(502, _HTML, "text/html"),
    "html_page_as_success": _raw(200, _HTML, "text/html"),
    "plain_text_as_success": _raw(200, b"upstream is warming up\n", "text/plain"),
    "empty_body_as_success": _raw(200, b"", "text/event-stream"),
    "error_body_as_success": _raw(
        200, b'{"error": {"message": "Provider returned error", "code": 502}}', "application/json"
    ),
}

_CUTS: Mapping[str, Fault] = {
    "never_answers": _cut(None, Then.STALL),
    "stall_after_headers": _cut(0, Then.STALL),
    "stall_before_first_text": _cut(rb"\n\n", Then.STALL),
    "stall_after_words": _cut(VISIBLE, Then.STALL),
    "stall_in_arguments": _cut(rb"notes", Then.STALL, **_IN_CALL),
    "close_before_headers": _cut(None, Then.CLOSE),
    "close_after_headers": _cut(0, Then.CLOSE),
    "close_before_first_text": _cut(rb"\n\n", Then.CLOSE),
    "close_after_words": _cut(VISIBLE, Then.CLOSE),
    "close_in_arguments": _cut(rb"notes", Then.CLOSE, **_IN_CALL),
    "close_in_utf8_character": _cut(rb"\xf0\x9f", Then.CLOSE, text="Grüße 😀 an alle"),
    "close_in_sse_line": _cut(rb"three", Then.CLOSE),
    "close_before_finish": _cut(rb"eigh[^\n]*\n\n", Then.CLOSE),
    "reset_before_headers": _cut(None, Then.RESET),
    "reset_after_words": _cut(VISIBLE, Then.RESET),
    "clean_end_after_words": _cut(VISIBLE, Then.END),
    "clean_end_in_arguments": _cut(rb"notes[^\n]*\n\n", Then.END, **_IN_CALL),
}

_ENDLESS: Mapping[str, Fault] = {
    "endless_dribble": _broken(endless=Endless(delta={"content": "la "}, between=0.02), stream_only=True),
    "endless_comments": _broken(endless=Endless(between=0.02), stream_only=True),
    "endless_big_deltas": _broken(endless=Endless(delta={"content": "x" * 65_536}), stream_only=True),
    "endless_reasoning": _broken(
        endless=Endless(delta={"reasoning_content": "hmm " * 4_096}), stream_only=True
    ),
    "endless_arguments": _broken(
        calls=(_CALL,), endless=Endless(delta=_calls_streamed(" " * 16_384)), stream_only=True
    ),
}

_STREAMS: Mapping[str, Fault] = {
    "missing_done": _answer(framing=Framing(done=False)),
    "done_without_finish": _answer(finish=None),
    "invalid_json_line": _broken(framing=Framing(junk=b'data: {"choices": [{"del\n\n'), stream_only=True),
    "error_in_stream": _broken(
        framing=Framing(junk=b'data: {"error": {"message": "Overloaded", "code": 502}}\n\n', done=False),
        finish=None,
        stream_only=True,
    ),
    "json_body_to_stream": _answer(streams=False),
    "huge_line": Fault(reply=Reply(text="x", warp=_with_content(lambda: "x" * 5_000_000)), ends="error"),
    "gzip": _answer(gzip=True),
    "false_gzip": _broken(headers={"Content-Encoding": "gzip"}),
    "odd_content_type": _answer(headers={"Content-Type": "application/octet-stream"}),
    "comments": _answer(framing=Framing(before_each=b": OPENROUTER PROCESSING\n\n:\n")),
    "other_fields": _answer(framing=Framing(before_each=b"event: message\nid: 7\nretry: 10\n")),
    "crlf": _answer(framing=Framing(newline=b"\r\n")),
    "no_space_after_colon": _answer(framing=Framing(prefix=b"data:")),
    "many_data_lines": _answer(framing=Framing(lines_per_event="many")),
    "byte_order_mark": _answer(framing=Framing(opening=b"\xef\xbb\xbf")),
    "byte_by_byte": _answer(text="Grüße 😀", pace=Pace(write=1)),
    "surrogate_halves": _answer(text="smile \ud83d\ude00", pace=Pace(sizes=(1,))),
    "reasoning": _answer(reasoning="Let me count to eight."),
}

_SHAPES: Mapping[str, Fault] = {
    "empty_choices": _broken(warp=_no_choices),
    "empty_content": _answer(text=""),
    "null_content": _answer(text=None),
    "content_number": _broken(warp=_with_content(lambda: 42)),
    "tool_calls_object": _broken(text=None, calls=(_CALL,), warp=_calls_as_object),
    "finish_length": _answer(finish="length"),
    "finish_length_in_arguments": _calls(Call(arguments='{"text": "and so'), finish="length"),
    "finish_content_filter": Fault(reply=Reply(text="", finish="content_filter"), ends="error"),
    "finish_unknown": _answer(finish="eos"),
    "finish_stop_with_calls": _calls(_CALL, finish="stop"),
    "unknown_tool": _calls(Call(name="no_such_tool")),
    "words_and_call": _calls(_CALL, text=WORDS),
    "arguments_empty": _arguments(""),
    "arguments_truncated": _arguments('{"path": "notes.txt", "content": "hal'),
    "arguments_trailing_comma": _arguments('{"path": "notes.txt", "content": "x",}'),
    "arguments_single_quotes": _arguments("{'path': 'notes.txt', 'content': 'x'}"),
    "arguments_python_literals": _arguments('{"path": "notes.txt", "append": True, "mode": None}'),
    "arguments_not_object": _arguments('["notes.txt", "x"]'),
    "arguments_object": _arguments({"path": "notes.txt", "content": "x"}),
    "many_calls": _calls(*(Call(id=f"call_{n}", arguments=f'{{"n": {n}}}') for n in range(500))),
    "duplicate_call_ids": _calls(Call(arguments='{"n": 1}'), Call(arguments='{"n": 2}')),
    "missing_call_ids": _calls(Call(id=None, arguments='{"n": 1}'), Call(id=None, arguments='{"n": 2}')),
    "missing_call_index": _calls(_CALL, warp=_calls_without_index),
}

FAULTS: Mapping[str, Fault] = {**_STATUSES, **_CUTS, **_ENDLESS, **_STREAMS, **_SHAPES}
"""Every fault by name. `ends` is about one call of a streaming client that keeps time and size limits."""
