"""A turn as the named events of a session's chat stream. Each carries session, run, number and time.

Whoever reads this stream began the turn and sees it from its first word on; what is said again after a break
is announced by a reset, and the complete answer comes once more at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from hermes.domain.chat_format import as_messages
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
)
from hermes.domain.ids import CallId
from hermes.domain.tool import ToolCall
from hermes.stream.fold.answer import answer_text, usage_named
from hermes.stream.fold.questions import choices, command_text, for_people
from hermes.stream.fold.shown_text import ShownText, has_words, was_cut
from hermes.stream.fold.tool_lines import ToolState, is_internal, preview, tool_state
from hermes.stream.wire.sse import encode_json_event


class SessionEvents:
    """`see` gives the bytes for what happens; `start` opens the stream."""

    def __init__(self, *, session: str, run: str, now: Callable[[], float]) -> None:
        self.ended = False
        self._session = session
        self._run = run
        self._now = now
        self._count = 0
        self._seq = -1
        self._entries: list[Entry] = []
        self._spoken = ShownText()
        self._calls: dict[CallId, ToolCall] = {}
        self._running: dict[CallId, tuple[str, float]] = {}
        self._gap = False

    def start(self, words: str) -> bytes:
        said = self._event("run.started", user_message={"role": "user", "content": words})
        return said + self._event("message.started", message={"id": self._run, "role": "assistant"})

    def see(self, item: FeedItem) -> bytes:
        match item:
            case TextDelta(text=text):
                return self._words(self._spoken.more(text))
            case Snapshot(text=text):
                rest = self._spoken.catch_up(text)
                return (self._void() if rest.void else b"") + self._words(rest.text)
            case Reset():
                return self._void() if self._spoken.reset() else b""
            case ToolOutput(call=call, text=text):
                tool = self._running.get(call)
                return b"" if tool is None else self._tool("tool.progress", call, tool[0], delta=text)
            case Entry():
                if item.seq <= self._seq:
                    return b""
                self._seq = item.seq
                self._entries.append(item)
                return self._take(item)
            case ThoughtDelta() | Retrying():
                return b""
            case _:
                assert_never(item)

    def _event(self, name: str, **data: Any) -> bytes:
        self._count += 1
        known = {"session_id": self._session, "run_id": self._run, "seq": self._count}
        return encode_json_event({**known, "ts": round(self._now(), 3), **data}, name=name)

    def _words(self, words: str) -> bytes:
        if not words:
            return b""
        if self._gap:
            self._gap = False
            words = "\n\n" + words
        return self._event("assistant.delta", message_id=self._run, delta=words)

    def _void(self) -> bytes:
        return self._event("assistant.reset", message_id=self._run)

    def _tool(self, event: str, call: CallId, name: str, **data: Any) -> bytes:
        if is_internal(name):
            return b""
        return self._event(event, message_id=self._run, tool_call_id=call, tool_name=name, **data)

    def _take(self, entry: Entry) -> bytes:
        record, at = entry.record, entry.at.timestamp()
        match record:
            case ModelSaid():
                return self._close_call(record)
            case ToolStarted(call=call, name=name):
                known = self._calls.get(call)
                arguments = known.arguments if known else ""
                self._running[call] = (name, at)
                return self._tool("tool.started", call, name, preview=preview(arguments), args=arguments)
            case ToolFinished(call=call):
                return self._settle(call, tool_state(record), at)
            case Asked():
                return self._ask(record) if for_people(record) else b""
            case Finished(note=note):
                return self._end(completed=True, note=note)
            case Failed(reason=reason):
                return self._event("error", message=reason) + self._end(completed=False)
            case Stopped(reason=reason):
                return self._end(completed=False, interrupted=True, reason=reason)
            case UserSaid() | Answered() | Summarised() | Undone():
                return b""
            case _:
                assert_never(record)

    def _close_call(self, said: ModelSaid) -> bytes:
        self._calls.update((call.id, call) for call in said.calls)
        rest = self._spoken.close(said.text)
        written = (self._void() if rest.void else b"") + self._words(rest.text)
        self._gap = not was_cut(said) and (self._gap or has_words(said))
        return written

    def _settle(self, call: CallId, state: ToolState, at: float) -> bytes:
        tool = self._running.pop(call, None)
        if tool is None:
            return b""
        name, since = tool
        event = "tool.completed" if state is ToolState.DONE else "tool.failed"
        unknown = {"unknown": True} if state is ToolState.UNKNOWN else {}
        return self._tool(event, call, name, duration=round(at - since, 3), **unknown)

    def _ask(self, asked: Asked) -> bytes:
        call = self._calls.get(asked.call) if asked.call else None
        return self._event(
            "approval.request",
            question_id=asked.question,
            kind=asked.kind.value,
            command=command_text(call.arguments) if call else asked.text,
            description=asked.text,
            choices=list(choices(asked)),
        )

    def _end(self, *, completed: bool, interrupted: bool = False, **more: str) -> bytes:
        self.ended = True
        text = answer_text(self._entries, footer=False)
        usage = usage_named((entry.record for entry in self._entries), "input_tokens", "output_tokens")
        extra = {name: words for name, words in more.items() if words}
        answer = self._event(
            "assistant.completed",
            message_id=self._run,
            content=text,
            completed=completed,
            partial=bool(text) and not completed,
            interrupted=interrupted,
        )
        end = self._event(
            "run.completed", completed=completed, messages=as_messages(self._entries), usage=usage, **extra
        )
        return answer + end + self._event("done")
