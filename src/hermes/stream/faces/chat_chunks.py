"""A feed as the chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
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
)
from hermes.domain.ids import CallId, QuestionId, client_call_id
from hermes.domain.tool import ToolCall
from hermes.stream.fold.answer import usage_named
from hermes.stream.fold.questions import choices, command_text, for_people, question_text
from hermes.stream.fold.shown_text import SAID_AGAIN, RemainingText, ShownText, has_words, was_cut
from hermes.stream.fold.tool_lines import emoji, is_internal, preview
from hermes.stream.wire.sse import DONE, compact_json, encode_json_event


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
        self._head = f"data: {compact_json(head)[:-1]}"
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
        return f"{self._head},{compact_json(data)[1:]}\n\n".encode("ascii")

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
        written = self.start() + self._delta(compact_json({"tool_calls": [wanted]}))
        self._unsettled.discard(call.id)
        return written if self._unsettled else written + self.end("tool_calls")

    def _trouble(self, reason: str, *, failed: bool) -> dict[str, object]:
        partial = any(said.text for said in self._said)
        code = "agent_failed" if failed else "agent_stopped"
        return {"completed": False, "partial": partial, "failed": failed, "error": reason, "error_code": code}
