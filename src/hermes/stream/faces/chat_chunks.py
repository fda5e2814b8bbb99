"""A feed as the chunks of a chat completion. What does not change from word to word is encoded once."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted

from hermes.domain.event import (
    Answered,
    Asked,
    Ending,
    Failed,
    FeedItem,
    Finished,
    QuestionKind,
    Stopped,
    ToolFinished,
    TurnEnd,
)
from hermes.domain.ids import client_call_id
from hermes.domain.sse import DONE, compact_json, encode_json_event
from hermes.domain.tool import ToolCall
from hermes.stream.fold.answer import usage_named
from hermes.stream.fold.questions import action_text, choices, for_people, question_text
from hermes.stream.fold.steps import SAID_AGAIN, Steps
from hermes.stream.fold.tool_lines import emoji, preview


class ChatChunks(Steps[bytes]):
    """Words that went out cannot be taken back here.

    The end record closes the stream, and so does the last call that the client is asked to run. A turn that
    waits for a person is closed by its door with `end`. `seq` is the last record that was seen. A stream that
    continues a turn is given the whole feed, and as `after` the last record that an earlier stream told.
    Approvals are events of their own beside the answer and carry `about`; with `usage_apart` the usage is a
    chunk of its own."""

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
        super().__init__(b"", after=after)
        self.ended = False
        self._about = dict(about or {})
        self._usage_apart = usage_apart
        self._client_calls = 0
        self._begun = False
        self._spoke = False
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
        return b"" if self.ended else super().see(item)

    def end(self, reason: str, *, trouble: dict[str, object] | None = None) -> bytes:
        """The last chunk with the reason and the usage, and the end mark. Once."""
        if self.ended:
            return b""
        self.ended = True
        usage = {"usage": usage_named(self._replies, "prompt_tokens", "completion_tokens")}
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
        return before + f"{self._prefix}{quoted(self._spaced(words))}{self._suffix}".encode("ascii")

    def _paragraph(self, words: str) -> bytes:
        self._gap = self._gap or self._spoke
        written = self._words(words)
        self._gap = True
        return written

    def _delta(self, delta: str) -> bytes:
        return f'{self._head},"choices":[{{"index":0,"delta":{delta}{self._suffix[1:]}'.encode("ascii")

    def _again(self) -> bytes:
        return self._paragraph(SAID_AGAIN)

    def _tool_began(self, call: ToolCall) -> bytes:
        return self._progress(call, "running")

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> bytes:
        return b"" if seconds is None else self._progress(call, "completed")

    def _progress(self, call: ToolCall, status: str) -> bytes:
        data = {
            "tool": call.name,
            "emoji": emoji(call.name),
            "label": preview(call.arguments) or call.name,
            "toolCallId": call.id,
            "status": status,
        }
        return self.start() + encode_json_event(data, name="hermes.tool.progress")

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> bytes:
        if asked.kind is QuestionKind.CLARIFY:
            return self._paragraph(question_text(asked))
        data = {
            "id": asked.question,
            "kind": asked.kind.value,
            "text": asked.text,
            "action": action_text(asked, call),
            "options": list(choices(asked)),
            **self._about,
        }
        return self.start() + encode_json_event(data, name="hermes.approval.request")

    def _answered(self, answer: Answered, asked: Asked | None) -> bytes:
        if asked is None or not for_people(asked) or asked.kind is QuestionKind.CLARIFY:
            return b""
        data = {"id": answer.question, "choice": answer.verdict.value, **self._about}
        return encode_json_event(data, name="hermes.approval.responded")

    def _client_asked(self, asked: Asked, call: ToolCall, last: bool) -> bytes:
        function = {"name": call.name, "arguments": call.arguments}
        identity = client_call_id(asked.question)
        wanted = {"index": self._client_calls, "id": identity, "type": "function", "function": function}
        self._client_calls += 1
        written = self.start() + self._delta(compact_json({"tool_calls": [wanted]}))
        return written + self.end("tool_calls") if last else written

    def _ended(self, end: TurnEnd) -> bytes:
        match end:
            case Finished(note=note):
                cut = bool(self._replies) and self._replies[-1].ending is Ending.LENGTH
                return (self._paragraph(note) if note else b"") + self.end("length" if cut else "stop")
            case Failed(reason=reason):
                return self.end("error", trouble=self._trouble(reason, failed=True))
            case Stopped(reason=reason):
                return self.end("stop", trouble=self._trouble(reason, failed=False))

    def _trouble(self, reason: str, *, failed: bool) -> dict[str, object]:
        partial = any(reply.text for reply in self._replies)
        code = "agent_failed" if failed else "agent_stopped"
        return {"completed": False, "partial": partial, "failed": failed, "error": reason, "error_code": code}
