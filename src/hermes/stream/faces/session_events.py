"""A turn as the named events of a session's chat stream. Each carries session, run, number and time.

A client that reads this stream began the turn and sees it from its first word on. A reset announces that
words are said again after a break, and the complete answer comes once more at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes.domain.sse import encode_json_event
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.chat_format import as_messages
from hermes.domain.turns.event import Asked, Failed, Finished, Stopped, ToolFinished, TurnEnd
from hermes.stream.fold.answer import answer_text, usage_named
from hermes.stream.fold.failures import failure_facts
from hermes.stream.fold.questions import action_text, choices
from hermes.stream.fold.steps import Steps
from hermes.stream.fold.tool_lines import ToolState, preview, shown_arguments, tool_state


class SessionEvents(Steps[bytes]):
    """`see` gives the bytes for what happens; `start` opens the stream."""

    def __init__(self, *, session: str, run: str, now: Callable[[], float], detailed: bool = False) -> None:
        super().__init__(b"")
        self._detailed = detailed
        self.ended = False
        self._session = session
        self._run = run
        self._now = now
        self._count = 0

    def start(self, words: str) -> bytes:
        started = self._event("run.started", user_message={"role": "user", "content": words})
        return started + self._event("message.started", message={"id": self._run, "role": "assistant"})

    def _event(self, name: str, **data: Any) -> bytes:
        self._count += 1
        place = {"session_id": self._session, "run_id": self._run, "seq": self._count}
        return encode_json_event({**place, "ts": round(self._now(), 3), **data}, name=name)

    def _words(self, words: str) -> bytes:
        return self._event("assistant.delta", message_id=self._run, delta=self._spaced(words))

    def _again(self) -> bytes:
        return self._event("assistant.reset", message_id=self._run)

    def _tool(self, event: str, call: ToolCall, **data: Any) -> bytes:
        return self._event(event, message_id=self._run, tool_call_id=call.id, tool_name=call.name, **data)

    def _tool_began(self, call: ToolCall) -> bytes:
        shown = shown_arguments(call)
        return self._tool("tool.started", call, preview=preview(shown), args=shown)

    def _tool_printed(self, call: ToolCall, text: str) -> bytes:
        return self._tool("tool.progress", call, delta=text)

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> bytes:
        if seconds is None:
            return b""
        state = tool_state(result)
        event = "tool.completed" if state is ToolState.DONE else "tool.failed"
        unknown = {"unknown": True} if state is ToolState.UNKNOWN else {}
        return self._tool(event, call, duration=round(seconds, 3), **unknown)

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> bytes:
        return self._event(
            "approval.request",
            question_id=asked.question,
            kind=asked.kind.value,
            command=action_text(asked, call),
            description=asked.text,
            choices=list(choices(asked)),
        )

    def _ended(self, end: TurnEnd) -> bytes:
        self.ended = True
        name, extra, written = "run.completed", {}, b""
        match end:
            case Finished(note=note):
                extra = {"note": note} if note else {}
            case Failed():
                name, extra = "run.failed", {"error": failure_facts(end, detailed=self._detailed).message}
                written = self._event("error", message=extra["error"])
            case Stopped(reason=reason):
                name, extra = "run.cancelled", {"reason": reason} if reason else {}
        completed, text = isinstance(end, Finished), answer_text(self._entries, footer=False)
        written += self._event(
            "assistant.completed",
            message_id=self._run,
            content=text,
            completed=completed,
            partial=bool(text) and not completed,
            interrupted=isinstance(end, Stopped),
        )
        usage = usage_named(self._replies, "input_tokens", "output_tokens")
        messages = as_messages(self._entries)
        written += self._event(name, completed=completed, messages=messages, usage=usage, **extra)
        return written + self._event("done")
