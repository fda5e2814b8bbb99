"""Server-sent events: bytes out for the HTTP doors. Reading is in `sse_parser`, whose names are here too.

Encoders take one turn's feed and give the bytes to write now, empty if there are none. What does not
change from token to token is encoded once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import assert_never

from hermes.domain.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Reset,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Undone,
    UserSaid,
    Verdict,
    usage_of,
)
from hermes.domain.ids import CallId, QuestionId, client_call_id
from hermes.domain.tool import ToolCall
from hermes.stream.fold.turn_fold import (
    SAID_AGAIN,
    RemainingText,
    ShownText,
    ToolState,
    answer_text,
    choices,
    command_text,
    emoji,
    for_people,
    has_words,
    is_internal,
    preview,
    question_text,
    tool_state,
    was_cut,
)

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNFIT = re.compile(r"[\r\n\0]")
_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

DONE = b"data: [DONE]\n\n"


# --- the format ------------------------------------------------------------------------------------


def encode_event(
    data: str, *, name: str | None = None, id: str | int | None = None, retry: int | None = None
) -> bytes:
    """One event. Data may have any lines; a name or id that could break out of its line is refused."""
    lines = []
    if name:
        lines.append(f"event: {_fit(name)}")
    if id is not None:
        lines.append(f"id: {_fit(str(id))}")
    if retry is not None:
        lines.append(f"retry: {int(retry)}")
    lines.extend(f"data: {line}" for line in _LINE_END.split(data))
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_json_event(data: object, *, name: str | None = None, id: str | int | None = None) -> bytes:
    return encode_event(_json(data), name=name, id=id)


def comment(text: str = "") -> bytes:
    """Bytes that keep a connection alive and mean nothing."""
    lines = "\n".join(f": {line}" for line in _LINE_END.split(text))
    return f"{lines}\n\n".encode("utf-8", "replace")


def _fit(word: str) -> str:
    if _UNFIT.search(word):
        raise ValueError("a name or id of an event is one line without NUL")
    return word


# --- runs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    name: str
    arguments: str
    since: float | None = None


def usage_named(records: Iterable[Record], prompt: str, completion: str) -> dict[str, int]:
    """What the model calls took, under the names that a format has for it."""
    used = usage_of(records)
    return {prompt: used.prompt, completion: used.completion, "total_tokens": used.total}


class RunEvents:
    """A feed as the events of a run. Each carries its name, run and time in its data.

    The last event of an entry has the entry's number as its id; a client that comes back with the
    number it saw last is given `after`, so that the entries up to there are known but not sent again.
    The words that came since the last id are those of the open model call: a snapshot stands in their
    place and a reset voids them. Who comes back may hold such words, so one of the two comes first."""

    def __init__(self, run: str, *, now: Callable[[], float], after: int = -1) -> None:
        self._now = now
        self._after = after
        self._seq = -1
        self._entries: list[Entry] = []
        self._calls: dict[CallId, _Running] = {}
        self._asked: set[str] = set()
        self._spoken = ShownText()
        self._gap = False
        self._rejoined = after >= 0
        self._run = run
        self._delta = f'data: {{"event":"message.delta","run_id":{quoted(run)},"timestamp":'

    def see(self, item: FeedItem) -> bytes:
        match item:
            case TextDelta(text=text):
                words = self._spoken.more(text)
                if words and self._rejoined:
                    return self._void() + self._words(words)
                return self._words(words) if words else b""
            case Entry():
                return self._take(item)
            case Snapshot(text=text):
                self._spoken.catch_up(text)
                return self._replace(self._spoken.text, self._now())
            case Reset():
                self._spoken.reset()
                return self._void()
            case ThoughtDelta() | ToolOutput() | Retrying():
                return b""
            case _:
                assert_never(item)

    def _words(self, words: str) -> bytes:
        if self._gap:
            self._gap = False
            words = "\n\n" + words
        return f'{self._delta}{self._now():.3f},"delta":{quoted(words)}}}\n\n'.encode("ascii")

    def _void(self) -> bytes:
        self._rejoined = False
        return self._event("message.reset", self._now())

    def _replace(self, words: str, at: float) -> bytes:
        self._rejoined = self._gap = False
        return self._event("message.snapshot", at, text=words)

    def _event(self, name: str, at: float, **data: object) -> bytes:
        return encode_json_event({"event": name, "run_id": self._run, "timestamp": round(at, 3), **data})

    def _take(self, entry: Entry) -> bytes:
        if entry.seq <= self._seq:
            return b""
        self._seq = entry.seq
        self._entries.append(entry)
        events = self._events(entry)
        if entry.seq <= self._after:
            return b""
        last = f"id: {entry.seq}\n".encode("ascii")
        # An id without data moves the client's mark and shows it nothing.
        return b"".join(events[:-1]) + last + (events[-1] if events else b"\n")

    def _events(self, entry: Entry) -> list[bytes]:
        record, at = entry.record, entry.at.timestamp()
        match record:
            case ModelSaid():
                return self._close_call(record, at)
            case ToolStarted(call=call, name=name):
                return self._start(call, name, at)
            case ToolFinished(call=call):
                return self._settle(call, tool_state(record), at)
            case Asked():
                return [self._ask(record, at)] if for_people(record) else []
            case Answered(question=question, verdict=verdict):
                if question not in self._asked:
                    return []
                resolved = 0 if verdict in (Verdict.EXPIRED, Verdict.WITHDRAWN) else 1
                return [self._event("approval.responded", at, choice=verdict.value, resolved=resolved)]
            case Finished(note=note):
                return [self._complete(at, note)]
            case Failed(reason=reason):
                return [self._event("run.failed", at, error=reason)]
            case Stopped(reason=reason):
                return [self._event("run.cancelled", at, reason=reason)]
            case UserSaid() | Summarised() | Undone():
                return []
            case _:
                assert_never(record)

    def _close_call(self, said: ModelSaid, at: float) -> list[bytes]:
        events = [self._event("reasoning.available", at, text=said.thought)] if said.thought else []
        rest = self._spoken.close(said.text)
        if rest.void or (self._rejoined and self._seq > self._after):
            events.append(self._replace(rest.text, at))
        elif rest.text:
            events.append(self._words(rest.text))
        self._gap = not was_cut(said) and (self._gap or has_words(said))
        for call in said.calls:
            self._calls[call.id] = _Running(name=call.name, arguments=call.arguments)
        return events

    def _start(self, call: CallId, name: str, at: float) -> list[bytes]:
        known = self._calls.get(call)
        arguments = known.arguments if known else ""
        self._calls[call] = _Running(name=name, arguments=arguments, since=at)
        if is_internal(name):
            return []
        return [self._event("tool.started", at, tool=name, preview=preview(arguments), tool_call_id=call)]

    def _settle(self, call: CallId, state: ToolState, at: float) -> list[bytes]:
        tool = self._calls.get(call)
        if tool is None or is_internal(tool.name):
            return []
        duration = round(at - tool.since, 3) if tool.since is not None else 0.0
        failed, unknown = state is not ToolState.DONE, state is ToolState.UNKNOWN
        data = {"tool": tool.name, "duration": duration, "error": failed, "unknown": unknown}
        return [self._event("tool.completed", at, **data, tool_call_id=call)]

    def _ask(self, asked: Asked, at: float) -> bytes:
        self._asked.add(asked.question)
        tool = self._calls.get(asked.call) if asked.call else None
        data = {
            "question_id": asked.question,
            "kind": asked.kind.value,
            "command": command_text(tool.arguments) if tool else asked.text,
            "description": asked.text,
            "pattern_keys": [],
            "choices": list(choices(asked)),
        }
        return self._event("approval.request", at, **data)

    def _complete(self, at: float, note: str) -> bytes:
        usage = usage_named((entry.record for entry in self._entries), "input_tokens", "output_tokens")
        output = answer_text(self._entries, footer=False)
        extra = {"note": note} if note else {}
        return self._event("run.completed", at, output=output, usage=usage, **extra)


# --- chat completions ------------------------------------------------------------------------------


class ChatChunks:
    """A feed as chat-completion chunks. Words that went out cannot be taken back here either.

    The end record closes the stream, and so does the last call that is asked of the client: those come when
    all other calls of the reply are settled. A turn that waits for a person is closed by its door with `end`.
    `seq` is the last record that was seen. A stream that goes on with a turn is given the whole feed, and as
    `after` the record up to which another stream has told it. Approvals are events of their own beside the
    answer, told with `about`; with `usage_apart` the usage is a chunk of its own."""

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        after: int = -1,
        about: Mapping[str, str] | None = None,
        usage_apart: bool = False,
    ) -> None:
        self.ended = False
        self._about = dict(about or {})
        self._usage_apart = usage_apart
        self._approvals: set[QuestionId] = set()
        self.seq = -1
        self._after = after
        self._spoken = ShownText()
        self._said: list[ModelSaid] = []
        self._calls: dict[CallId, ToolCall] = {}
        self._unsettled: set[CallId] = set()
        self._running: dict[CallId, str] = {}
        self._client_calls = 0
        self._begun = False
        self._spoke = False
        self._gap = False
        head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = f"data: {_json(head)[:-1]}"
        self._prefix = f'{self._head},"choices":[{{"index":0,"delta":{{"content":'
        self._suffix = '},"finish_reason":null}]}\n\n'

    def start(self) -> bytes:
        """The role chunk; `see` sends it by itself if it was not asked for before."""
        if self._begun:
            return b""
        self._begun = True
        return self._delta('{"role":"assistant","content":""}')

    def see(self, item: FeedItem) -> bytes:
        if self.ended:
            return b""
        match item:
            case TextDelta(text=text):
                words = self._spoken.more(text)
                return self._words(words) if words else b""
            case Entry():
                if item.seq <= self.seq:
                    return b""
                self.seq = item.seq
                return self._take(item) if item.seq > self._after else self._recall(item.record)
            case Snapshot(text=text):
                return self._catch_up(self._spoken.catch_up(text))
            case Reset():
                return self._paragraph(SAID_AGAIN) if self._spoken.reset() else b""
            case ThoughtDelta() | ToolOutput() | Retrying():
                return b""
            case _:
                assert_never(item)

    def end(self, reason: str, *, trouble: dict[str, object] | None = None) -> bytes:
        """The last chunk with the reason and the usage, and the end mark. Once."""
        if self.ended:
            return b""
        self.ended = True
        usage = {"usage": usage_named(self._said, "prompt_tokens", "completion_tokens")}
        choice = {"index": 0, "delta": {}, "finish_reason": reason}
        extra = {"hermes": trouble} if trouble else {}
        last = {"choices": [choice], **({} if self._usage_apart else usage), **extra}
        written = self.start() + self._chunk(last)
        if self._usage_apart:
            written += self._chunk({"choices": [], **usage})
        return written + DONE

    def _chunk(self, data: Mapping[str, object]) -> bytes:
        return f"{self._head},{_json(data)[1:]}\n\n".encode("ascii")

    def _words(self, words: str) -> bytes:
        before = b"" if self._begun else self.start()
        self._spoke = True
        if self._gap:
            self._gap = False
            words = "\n\n" + words
        return before + f"{self._prefix}{quoted(words)}{self._suffix}".encode("ascii")

    def _paragraph(self, words: str) -> bytes:
        self._gap = self._gap or self._spoke
        written = self._words(words)
        self._gap = True
        return written

    def _delta(self, delta: str) -> bytes:
        return f'{self._head},"choices":[{{"index":0,"delta":{delta}{self._suffix[1:]}'.encode("ascii")

    def _catch_up(self, rest: RemainingText) -> bytes:
        again = self._paragraph(SAID_AGAIN) if rest.void else b""
        return again + (self._words(rest.text) if rest.text else b"")

    def _take(self, entry: Entry) -> bytes:
        record = entry.record
        match record:
            case ModelSaid():
                return self._close_call(record)
            case ToolStarted(call=call, name=name):
                self._running[call] = name
                return self._progress(call, name, "running")
            case ToolFinished(call=call):
                self._unsettled.discard(call)
                running = self._running.pop(call, None)
                return self._progress(call, running, "completed") if running else b""
            case Asked():
                return self._ask(record)
            case Finished(note=note):
                cut = bool(self._said) and self._said[-1].ending is Ending.LENGTH
                return (self._paragraph(note) if note else b"") + self.end("length" if cut else "stop")
            case Failed(reason=reason):
                return self.end("error", trouble=self._trouble(reason, failed=True))
            case Stopped(reason=reason):
                return self.end("stop", trouble=self._trouble(reason, failed=False))
            case Answered():
                return self._approved(record)
            case UserSaid() | Summarised() | Undone():
                return b""
            case _:
                assert_never(record)

    def _recall(self, record: Record) -> bytes:
        """Of what another stream told, the calls that are still open."""
        if isinstance(record, ModelSaid):
            self._expect(record)
        elif isinstance(record, ToolFinished | Asked) and record.call is not None:
            self._unsettled.discard(record.call)
        return b""

    def _expect(self, said: ModelSaid) -> None:
        self._calls.update((call.id, call) for call in said.calls)
        self._unsettled = {call.id for call in said.calls}

    def _close_call(self, said: ModelSaid) -> bytes:
        self._said.append(said)
        self._expect(said)
        written = self._catch_up(self._spoken.close(said.text))
        self._gap = not was_cut(said) and (self._gap or has_words(said))
        return written

    def _progress(self, call: CallId, name: str, status: str) -> bytes:
        if is_internal(name):
            return b""
        known = self._calls.get(call)
        label = preview(known.arguments) if known else ""
        data = {
            "tool": name,
            "emoji": emoji(name),
            "label": label or name,
            "toolCallId": call,
            "status": status,
        }
        return self.start() + encode_json_event(data, name="hermes.tool.progress")

    def _approve(self, asked: Asked) -> bytes:
        self._approvals.add(asked.question)
        call = self._calls.get(asked.call) if asked.call else None
        data = {
            "id": asked.question,
            "kind": asked.kind.value,
            "text": asked.text,
            "action": command_text(call.arguments) if call else asked.text,
            "options": list(choices(asked)),
            **self._about,
        }
        return self.start() + encode_json_event(data, name="hermes.approval.request")

    def _approved(self, answered: Answered) -> bytes:
        if answered.question not in self._approvals:
            return b""
        data = {"id": answered.question, "choice": answered.verdict.value, **self._about}
        return encode_json_event(data, name="hermes.approval.responded")

    def _ask(self, asked: Asked) -> bytes:
        if asked.kind is QuestionKind.CLARIFY:
            return self._paragraph(question_text(asked))
        if for_people(asked):
            return self._approve(asked)
        call = self._calls.get(asked.call) if asked.call else None
        if asked.kind is not QuestionKind.CLIENT_TOOL or call is None:
            return b""
        function = {"name": call.name, "arguments": call.arguments}
        identity = client_call_id(asked.question)
        wanted = {"index": self._client_calls, "id": identity, "type": "function", "function": function}
        self._client_calls += 1
        written = self.start() + self._delta(_json({"tool_calls": [wanted]}))
        self._unsettled.discard(call.id)
        return written if self._unsettled else written + self.end("tool_calls")

    def _trouble(self, reason: str, *, failed: bool) -> dict[str, object]:
        partial = any(said.text for said in self._said)
        code = "agent_failed" if failed else "agent_stopped"
        return {"completed": False, "partial": partial, "failed": failed, "error": reason, "error_code": code}
