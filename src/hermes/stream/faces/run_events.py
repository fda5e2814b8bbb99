"""A feed as the events of a run, and the name of the last event that a run's records tell of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as quoted

from hermes.domain.sse import encode_json_event
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Record,
    Stopped,
    ToolFinished,
    ToolStarted,
    TurnEnd,
    Verdict,
)
from hermes.domain.turns.thoughts import without_thoughts
from hermes.stream.fold.answer import answer_text, usage_named
from hermes.stream.fold.failures import failure_facts
from hermes.stream.fold.questions import action_text, choices, for_people
from hermes.stream.fold.steps import RemainingText, Steps, thoughts_of
from hermes.stream.fold.tool_lines import ToolState, is_internal, preview, shown_arguments, tool_state


class RunEvents(Steps[bytes]):
    """Each event carries its name, run and time in its data.

    The last event of an entry has the entry's number as its id; a client that comes back with the
    number it saw last is given `after`, so that the entries up to there are known but not sent again.
    The words that came since the last id are those of the open model call: a snapshot replaces them and a
    reset voids them. A client that comes back may hold such words, so one of the two comes first. A failure
    is `detailed` for who may know the gateway's addresses."""

    def __init__(
        self, run: str, *, now: Callable[[], float], after: int = -1, detailed: bool = False
    ) -> None:
        super().__init__(b"")
        self._detailed = detailed
        self._now = now
        self._at = 0.0
        self._after = after
        self._rejoined = after >= 0
        self._run = run
        self._delta = f'data: {{"event":"message.delta","run_id":{quoted(run)},"timestamp":'

    def _take(self, entry: Entry) -> bytes:
        self._at = entry.at.timestamp()
        written = super()._take(entry)
        if entry.seq <= self._after:
            return b""
        before, gap, last = written.removesuffix(b"\n\n").rpartition(b"\n\n")
        # An id without data moves the client's mark and shows it nothing.
        return b"%b%bid: %d\n%b\n" % (before, gap, entry.seq, last and last + b"\n")

    def _event(self, name: str, **data: object) -> bytes:
        """An event of the record that is being told, at its time."""
        return self._event_at(self._at, name, **data)

    def _event_at(self, at: float, name: str, **data: object) -> bytes:
        return encode_json_event({"event": name, "run_id": self._run, "timestamp": round(at, 3), **data})

    # --- words ---

    def _words(self, words: str) -> bytes:
        return (self._voided(True) if self._rejoined else b"") + self._more(words, self._now())

    def _more(self, words: str, at: float) -> bytes:
        words = quoted(self._spaced(words))
        return f'{self._delta}{at:.3f},"delta":{words}}}\n\n'.encode("ascii")

    def _voided(self, shown: bool) -> bytes:
        self._rejoined = False
        return self._event_at(self._now(), "message.reset")

    def _caught_up(self, rest: RemainingText) -> bytes:
        return self._replace(self._shown.text, self._now())

    def _replace(self, words: str, at: float) -> bytes:
        self._rejoined = self._gap = False
        return self._event_at(at, "message.snapshot", text=words)

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> bytes:
        thought = thoughts_of(reply)
        written = self._event("reasoning.available", text=thought) if thought else b""
        if rest.void or (self._rejoined and self.seq > self._after):
            written += self._replace(rest.text, self._at)
        elif rest.text:
            # Told again later, these words are still from the time of their record.
            written += self._more(rest.text, self._at)
        self._close_paragraph(reply, text)
        return written

    # --- calls, questions, the end ---

    def _tool_began(self, call: ToolCall) -> bytes:
        shown = preview(shown_arguments(call))
        return self._event("tool.started", tool=call.name, preview=shown, tool_call_id=call.id)

    def _child_worked(self, call: ToolCall, text: str) -> bytes:
        return self._event_at(self._now(), "subagent.progress", tool_call_id=call.id, text=text.strip())

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> bytes:
        state = tool_state(result)
        return self._event(
            "tool.completed",
            tool=call.name,
            duration=round(seconds or 0.0, 3),
            error=state is not ToolState.DONE,
            unknown=state is ToolState.UNKNOWN,
            tool_call_id=call.id,
        )

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> bytes:
        return self._event(
            "approval.request",
            question_id=asked.question,
            kind=asked.kind.value,
            command=action_text(asked, call),
            description=asked.text,
            pattern_keys=[],
            choices=list(choices(asked)),
        )

    def _answered(self, answer: Answered, asked: Asked | None) -> bytes:
        if asked is None or not for_people(asked):
            return b""
        resolved = 0 if answer.verdict in (Verdict.EXPIRED, Verdict.WITHDRAWN) else 1
        return self._event("approval.responded", choice=answer.verdict.value, resolved=resolved)

    def _ended(self, end: TurnEnd) -> bytes:
        match end:
            case Finished(note=note):
                usage = usage_named(self._replies, "input_tokens", "output_tokens")
                output = answer_text(self._entries, footer=False)
                extra = {"note": note} if note else {}
                return self._event("run.completed", output=output, usage=usage, **extra)
            case Failed():
                facts = failure_facts(end, detailed=self._detailed)
                return self._event("run.failed", error=facts.message)
            case Stopped(reason=reason):
                return self._event("run.cancelled", reason=reason)


_NAMES: dict[type[Record], str] = {
    ModelSaid: "message.delta",
    ToolStarted: "tool.started",
    ToolFinished: "tool.completed",
    Asked: "approval.request",
    Answered: "approval.responded",
    Finished: "run.completed",
    Failed: "run.failed",
    Stopped: "run.cancelled",
}


def last_event(entries: Sequence[Entry]) -> str | None:
    """The name of the last event of a run; None if there was none yet."""
    names = (_NAMES.get(type(entry.record)) for entry in reversed(entries) if _is_shown(entry.record))
    return next((name for name in names if name), None)


def _is_shown(record: Record) -> bool:
    match record:
        case ModelSaid(text=text):
            return bool(without_thoughts(text).strip())
        case ToolStarted(name=name, inside=words):
            return not (words or is_internal(name))
        case Asked():
            return for_people(record)
        case _:
            return True
