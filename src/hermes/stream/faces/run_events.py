"""A feed as the events of a run, and the last event that a run's records tell of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import assert_never

from hermes.domain.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
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
)
from hermes.domain.ids import CallId
from hermes.stream.fold.answer import answer_text, usage_named
from hermes.stream.fold.questions import choices, command_text, for_people
from hermes.stream.fold.shown_text import ShownText, has_words, was_cut
from hermes.stream.fold.tool_lines import ToolState, is_internal, preview, tool_state
from hermes.stream.wire.sse import encode_json_event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    name: str
    arguments: str
    since: float | None = None


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
