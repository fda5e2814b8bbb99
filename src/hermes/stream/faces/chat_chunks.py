"""A feed as the chunks of a chat completion. What does not change from word to word is encoded once.

Clients read every `data:` as a chunk, whatever its event is called: what else is to be told stands in a field
of its own, `hermes`, of a chunk that says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted

from hermes.domain.ids import client_call_id
from hermes.domain.sse import DONE, compact_json
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Stopped,
    ToolFinished,
    TurnEnd,
)
from hermes.stream.fold.answer import chat_usage
from hermes.stream.fold.failures import is_lost
from hermes.stream.fold.questions import action_text, choices, for_people
from hermes.stream.fold.steps import SAID_AGAIN, RemainingText, Steps
from hermes.stream.fold.tool_lines import emoji, preview, shown_arguments


class ChatChunks(Steps[bytes]):
    """Words that went out cannot be taken back here.

    The end record closes the stream, and so does the last call that the client is asked to run. A turn that
    waits for a person is closed by its door with `ask`, one that has no answer (`lost`) with `fail`. `seq` is
    the last record that was seen. A stream that continues a turn is given the whole feed, and as `after` the
    last record that an earlier stream told. Approvals carry `about`; with `usage_apart` the usage is a chunk
    of its own. Of an answer that is `data`, words that are no JSON are held back until it is clear that they
    are the answer, and a note under it is told beside it."""

    def __init__(
        self,
        *,
        id: str,
        model: str,
        created: int,
        after: int = -1,
        about: Mapping[str, str] | None = None,
        usage_apart: bool = False,
        data: bool = False,
    ) -> None:
        super().__init__(b"", after=after)
        self.ended = False
        self.lost: Failed | Stopped | None = None
        self._thinks = False
        self._thought_gap = ""
        self._about = dict(about or {})
        self._usage_apart = usage_apart
        self._data = data
        self._held: str | None = "" if data else None
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
        usage = {"usage": chat_usage(entry.record for entry in self._entries)}
        choice = {"index": 0, "delta": {}, "finish_reason": reason}
        extra = {"hermes": trouble} if trouble else {}
        last = {"choices": [choice], **({} if self._usage_apart else usage), **extra}
        written = self.start() + self._chunk(last)
        if self._usage_apart:
            written += self._chunk({"choices": [], **usage})
        return written + DONE

    def ask(self, question: str, trouble: dict[str, object]) -> bytes:
        """A question as the last words: who reads them answers in the next request."""
        return b"" if self.ended else self._paragraph(question) + self.end("stop", trouble=trouble)

    def fail(self, error: Mapping[str, object]) -> bytes:
        """An error that clients raise, instead of the end of an answer."""
        return f"data: {compact_json(error)}\n\n".encode("ascii") + DONE

    def _chunk(self, data: Mapping[str, object]) -> bytes:
        return f"{self._head},{compact_json(data)[1:]}\n\n".encode("ascii")

    def _words(self, words: str) -> bytes:
        if self._held is not None:
            self._held += words
            if not self._held.lstrip().startswith(("{", "[")):
                return b""
            words, self._held = self._held, None
        return self._say(words)

    def _say(self, words: str) -> bytes:
        before = b"" if self._begun else self.start()
        self._spoke = True
        return before + f"{self._prefix}{quoted(self._spaced(words))}{self._suffix}".encode("ascii")

    def _paragraph(self, words: str) -> bytes:
        self._gap = self._gap or self._spoke
        written = self._say(words)
        self._gap = True
        return written

    def _delta(self, delta: str) -> bytes:
        return f'{self._head},"choices":[{{"index":0,"delta":{delta}{self._suffix[1:]}'.encode("ascii")

    def _again(self) -> bytes:
        return self._paragraph(SAID_AGAIN)

    def _thought(self, text: str) -> bytes:
        gap, self._thinks = "" if self._thinks else self._thought_gap, True
        return self.start() + self._delta(f'{{"reasoning_content":{quoted(gap + text)}}}')

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> bytes:
        self._thought_gap, self._thinks = "\n\n" if self._thinks else self._thought_gap, False
        written = super()._replied(reply, text, rest)
        if self._data:
            held, self._held = self._held, ""
            # What is said before a call is no answer.
            written += self._say(held) if held and not reply.calls else b""
        return written

    def _beside(self, event: str, **data: object) -> bytes:
        """What happens beside the answer."""
        silent = {"index": 0, "delta": {}, "finish_reason": None}
        return self.start() + self._chunk({"choices": [silent], "hermes": {"event": event, **data}})

    def _tool_began(self, call: ToolCall) -> bytes:
        return self._progress(call, "running")

    def _child_worked(self, call: ToolCall, text: str) -> bytes:
        return self._progress(call, "running", text.strip())

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> bytes:
        return b"" if seconds is None else self._progress(call, "completed")

    def _progress(self, call: ToolCall, status: str, label: str = "") -> bytes:
        return self._beside(
            "hermes.tool.progress",
            tool=call.name,
            emoji=emoji(call.name),
            label=label or preview(shown_arguments(call)) or call.name,
            toolCallId=call.id,
            status=status,
        )

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> bytes:
        if asked.kind is QuestionKind.CLARIFY:
            return b""
        return self._beside(
            "hermes.approval.request",
            id=asked.question,
            kind=asked.kind.value,
            text=asked.text,
            action=action_text(asked, call),
            options=list(choices(asked)),
            **self._about,
        )

    def _answered(self, answer: Answered, asked: Asked | None) -> bytes:
        if asked is None or not for_people(asked) or asked.kind is QuestionKind.CLARIFY:
            return b""
        return self._beside(
            "hermes.approval.responded", id=answer.question, choice=answer.verdict.value, **self._about
        )

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
                beside: dict[str, object] | None = {"completed": True, "note": note} if self._data else None
                words = self._paragraph(note) if note and not self._data else b""
                return words + self.end("length" if cut else "stop", trouble=beside if note else None)
            case Stopped(reason=reason) if any(reply.text for reply in self._replies) and not is_lost(end):
                trouble = {"completed": False, "partial": True, "failed": False}
                return self.end("stop", trouble={**trouble, "error": reason, "error_code": "agent_stopped"})
            case Failed() | Stopped():
                self.ended, self.lost = True, end
                return b""
