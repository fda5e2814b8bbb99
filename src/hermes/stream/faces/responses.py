"""A turn's feed as a response of the Responses API: its items, its status, and the events that tell of them.

A turn that calls functions of the client is several responses, one after the other: each ends where results
are asked for, the next begins with them; `part` says which of them this is. Everything here follows from the
records alone; `response_events` numbers the events and writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

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
    TurnEnd,
    Undone,
    UserSaid,
    Verdict,
    usage_of,
)
from hermes.domain.ids import CallId, QuestionId, client_call_id
from hermes.domain.thoughts import without_thoughts
from hermes.domain.tool import ToolCall
from hermes.stream.faces.response_shape import (
    ApprovalRequested,
    ApprovalResponded,
    ArgumentsDelta,
    ArgumentsDone,
    FunctionCallItem,
    FunctionResultItem,
    IncompleteDetails,
    InputTokens,
    ItemAdded,
    ItemDone,
    OutputItem,
    OutputMessage,
    OutputText,
    OutputTextDelta,
    OutputTextDone,
    OutputTokens,
    PartAdded,
    PartDone,
    PendingDetails,
    ResponseCompleted,
    ResponseError,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    ResponseObject,
    ResponseQuestion,
    ResponseUsage,
)
from hermes.stream.fold.questions import choices, command_text, for_people
from hermes.stream.fold.shown_text import SAID_AGAIN, RemainingText, ShownText, was_cut
from hermes.stream.fold.tool_lines import is_internal


class ResponseFold:
    """Takes one turn's feed from its first record on; `blank` is the response as it was asked for."""

    def __init__(self, blank: ResponseObject, *, run: str, session: str, part: int = 1) -> None:
        self.done = False
        self.seq = 0
        self.end: TurnEnd | None = None
        self._blank = blank
        self._run = run
        self._session = session
        self._name = blank.id.partition("_")[2]
        self._part = part
        self._now_in = 1
        self._calls: dict[CallId, ToolCall] = {}
        self._unsettled: set[CallId] = set()
        self._clients: set[CallId] = set()
        self._pending: dict[QuestionId, ResponseQuestion] = {}
        self._begin_part()

    def _begin_part(self) -> None:
        self._items: list[OutputItem] = []
        self._said: list[ModelSaid] = []
        self._shown: set[CallId] = set()
        self._spoken = ShownText()
        self._message: OutputMessage | None = None
        self._text = ""
        self._sealed = False
        self._gap = False
        self._asked_client = False

    @property
    def waits(self) -> bool:
        """Whether somebody has to answer before it can go on."""
        return bool(self._pending) and not self.done

    def see(self, item: FeedItem) -> list[ResponseEvent]:
        """What is new, as events; nothing for what belongs to another part or was seen before."""
        if self.done:
            return []
        mine = self._now_in == self._part
        events = self._see(item)
        if self._asked_client and not mine:
            self._now_in += 1
            self._begin_part()
        elif self._asked_client or self.end is not None:
            self.done = True
            events.append(self._ending())
        return events if mine or self.done else []

    def _see(self, item: FeedItem) -> list[ResponseEvent]:
        match item:
            case TextDelta(text=text):
                words = self._spoken.more(text)
                return self._words(words) if words else []
            case Entry():
                if item.seq <= self.seq:
                    return []
                self.seq = item.seq
                return self._take(item.record)
            case Snapshot(text=text):
                return self._catch_up(self._spoken.catch_up(text))
            case Reset():
                return self._again() if self._spoken.reset() else []
            case ThoughtDelta() | ToolOutput() | Retrying():
                return []
            case _:
                assert_never(item)

    def _take(self, record: Record) -> list[ResponseEvent]:
        match record:
            case ModelSaid():
                return self._close_reply(record)
            case ToolStarted(call=call):
                return self._call(call)
            case ToolFinished():
                return self._result(record)
            case Asked():
                return self._ask(record)
            case Answered(question=question, verdict=verdict):
                if self._pending.pop(question, None) is None:
                    return []
                return [self._answered(question, verdict)]
            case Finished(note=note):
                self.end = record
                return self._note(note) if note else self._close_message()
            case Failed() | Stopped():
                self.end = record
                return self._close_message()
            case UserSaid() | Summarised() | Undone():
                return []
            case _:
                assert_never(record)

    # --- words ---

    def _words(self, words: str) -> list[ResponseEvent]:
        events: list[ResponseEvent] = []
        if self._sealed:
            events += self._close_message()
        if self._message is None:
            events += self._open_message()
        if self._gap:
            self._gap = False
            words = "\n\n" + words
        assert self._message is not None
        return [*events, OutputTextDelta(output_index=self._index - 1, item_id=self._message.id, delta=words)]

    def _open_message(self) -> list[ResponseEvent]:
        place, ident = self._index, self._new_id("msg")
        self._message = OutputMessage(id=ident, content=[])
        self._items.append(self._message)
        self._text, self._sealed, self._gap = "", False, False
        begun = OutputMessage(id=ident, content=[])
        return [
            ItemAdded(output_index=place, item=begun),
            PartAdded(output_index=place, item_id=ident, part=OutputText(text="")),
        ]

    def _paragraph(self, words: str) -> list[ResponseEvent]:
        self._gap, self._sealed = self._message is not None, False
        return self._words(words)

    def _again(self) -> list[ResponseEvent]:
        """Words that went out cannot be taken back: what replaces them comes after them."""
        events = self._paragraph(SAID_AGAIN)
        self._gap = True
        return events

    def _catch_up(self, rest: RemainingText) -> list[ResponseEvent]:
        events = self._again() if rest.void else []
        return events + (self._words(rest.text) if rest.text else [])

    def _close_reply(self, said: ModelSaid) -> list[ResponseEvent]:
        self._said.append(said)
        self._calls.update((call.id, call) for call in said.calls)
        self._unsettled = {call.id for call in said.calls}
        self._clients -= self._unsettled
        self._shown -= self._unsettled
        events = self._catch_up(self._spoken.close(said.text))
        self._text += without_thoughts(said.text).lstrip("\n")
        self._sealed = not was_cut(said)
        return events

    def _close_message(self, note: str = "") -> list[ResponseEvent]:
        message, self._message = self._message, None
        if message is None:
            return []
        message.status = "incomplete" if self._said and self._said[-1].partial else "completed"
        message.content = [OutputText(text=self._text + note)]
        self._spoken.reset()
        self._sealed = False
        place = self._index - 1
        return [
            OutputTextDone(output_index=place, item_id=message.id, text=self._text + note),
            PartDone(output_index=place, item_id=message.id, part=message.content[0]),
            ItemDone(output_index=place, item=message),
        ]

    def _note(self, note: str) -> list[ResponseEvent]:
        """What is told under the answer, as its last paragraph."""
        if self._message is None:
            return [*self._words(note), *self._close_message(note)]
        return [*self._paragraph(note), *self._close_message(f"\n\n{note}")]

    # --- calls ---

    def _call(self, call: CallId, *, name: str | None = None) -> list[ResponseEvent]:
        """The item of a call, once; `name` is the id that a client knows it by."""
        made = self._calls.get(call)
        if made is None or is_internal(made.name) or call in self._shown:
            return []
        self._shown.add(call)
        events = self._close_message()
        place, ident = self._index, self._new_id("fc")
        begun = FunctionCallItem(
            id=ident, call_id=name or call, name=made.name, arguments="", status="in_progress"
        )
        whole = FunctionCallItem(id=ident, call_id=name or call, name=made.name, arguments=made.arguments)
        self._items.append(whole)
        return [
            *events,
            ItemAdded(output_index=place, item=begun),
            ArgumentsDelta(output_index=place, item_id=ident, delta=made.arguments),
            ArgumentsDone(output_index=place, item_id=ident, name=made.name, arguments=made.arguments),
            ItemDone(output_index=place, item=whole),
        ]

    def _result(self, finished: ToolFinished) -> list[ResponseEvent]:
        call = finished.call
        self._unsettled.discard(call)
        made = self._calls.get(call)
        if made is None or is_internal(made.name) or call in self._clients:
            return []
        events = self._call(call)
        item = FunctionResultItem(
            id=self._new_id("fco"),
            call_id=call,
            output=finished.text,
            status="incomplete" if finished.unknown else "completed",
        )
        place = self._index
        self._items.append(item)
        return [*events, ItemAdded(output_index=place, item=item), ItemDone(output_index=place, item=item)]

    def _ask(self, asked: Asked) -> list[ResponseEvent]:
        if for_people(asked):
            return self._ask_people(asked)
        if asked.kind is not QuestionKind.CLIENT_TOOL or asked.call is None:
            return []
        self._clients.add(asked.call)
        self._unsettled.discard(asked.call)
        # Those come last, together, when every other call of the reply is settled.
        self._asked_client = not self._unsettled
        return self._call(asked.call, name=client_call_id(asked.question))

    def _ask_people(self, asked: Asked) -> list[ResponseEvent]:
        events = self._close_message()
        if asked.call is not None:
            events += self._call(asked.call)
        made = self._calls.get(asked.call) if asked.call else None
        facts = ResponseQuestion(
            id=asked.question,
            kind=asked.kind.value,
            text=asked.text,
            action=command_text(made.arguments) if made else asked.text,
            options=list(choices(asked)),
        )
        self._pending[asked.question] = facts
        told = msgspec.structs.asdict(facts)
        return [*events, ApprovalRequested(run_id=self._run, session_id=self._session, **told)]

    def _answered(self, question: QuestionId, verdict: Verdict) -> ResponseEvent:
        return ApprovalResponded(
            id=question, choice=verdict.value, run_id=self._run, session_id=self._session
        )

    @property
    def _index(self) -> int:
        return len(self._items)

    def _new_id(self, kind: str) -> str:
        return f"{kind}_{self._name}_{self._index}"

    def message_id(self, place: int) -> str:
        """The id of the message that is, or would be, the item at this place."""
        return f"msg_{self._name}_{place}"

    # --- the whole ---

    def begun(self) -> ResponseObject:
        """The response before anything was said."""
        return msgspec.structs.replace(self._blank, status="in_progress", output=[])

    def response(self) -> ResponseObject:
        """The response as it is now."""
        status, details = self._status()
        if self._message is not None:
            self._message.content = [OutputText(text=self._text + self._spoken.text)]
        trouble = ResponseError(message=self.end.reason) if isinstance(self.end, Failed) else None
        waiting: PendingDetails | msgspec.UnsetType = msgspec.UNSET
        if self.waits:
            first = next(iter(self._pending.values()))
            waiting = PendingDetails(pending=first, run_id=self._run, session_id=self._session)
        return msgspec.structs.replace(
            self._blank,
            status=status,
            output=list(self._items),
            error=trouble,
            incomplete_details=details,
            usage=self._usage() if self.done or self.waits else None,
            hermes=waiting,
        )

    def _status(self) -> tuple[str, IncompleteDetails | None]:
        match self.end:
            case None if self.waits:
                return "incomplete", IncompleteDetails()
            case None:
                return ("completed" if self.done else "in_progress"), None
            case Failed():
                return "failed", None
            case Stopped():
                return "cancelled", None
            case Finished():
                if self._said and self._said[-1].ending is Ending.LENGTH:
                    return "incomplete", IncompleteDetails(reason="max_output_tokens")
                return "completed", None
            case _:
                assert_never(self.end)

    def _usage(self) -> ResponseUsage:
        used = usage_of(self._said)
        return ResponseUsage(
            input_tokens=used.prompt,
            input_tokens_details=InputTokens(cached_tokens=used.cached),
            output_tokens=used.completion,
            output_tokens_details=OutputTokens(reasoning_tokens=used.reasoning),
            total_tokens=used.total,
        )

    def _ending(self) -> ResponseEvent:
        response = self.response()
        match response.status:
            case "completed":
                return ResponseCompleted(response=response)
            case "failed":
                return ResponseFailed(response=response)
            case _:
                return ResponseIncomplete(response=response)


def parts_before(entries: Iterable[Entry], question: QuestionId) -> int:
    """How many parts of a turn the client has been given, up to the one that ends with this question."""
    parts, asking = 0, False
    for entry in entries:
        record = entry.record
        asks = isinstance(record, Asked) and record.kind is QuestionKind.CLIENT_TOOL
        parts += asks and not asking
        asking = asks
        if isinstance(record, Asked) and record.question == question:
            break
    return parts
