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
    Stopped,
    ToolFinished,
    TurnEnd,
    usage_of,
)
from hermes.domain.ids import CallId, QuestionId, client_call_id
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
    PartEvent,
    PendingDetails,
    ResponseError,
    ResponseEvent,
    ResponseObject,
    ResponseQuestion,
    ResponseStateEvent,
    ResponseUsage,
)
from hermes.stream.fold.questions import action_text, choices
from hermes.stream.fold.shown_text import SAID_AGAIN, RemainingText, was_cut
from hermes.stream.fold.steps import Steps
from hermes.stream.fold.tool_lines import is_internal


class ResponseFold(Steps[list[ResponseEvent]]):
    """Takes one turn's feed from its first record on; `blank` is the response as it was asked for."""

    def __init__(self, blank: ResponseObject, *, run: str, session: str, part: int = 1) -> None:
        super().__init__([])
        self.seq = 0
        self.done = False
        self.end: TurnEnd | None = None
        self._blank = blank
        self._run = run
        self._session = session
        self._name = blank.id.partition("_")[2]
        self._part = part
        self._now_in = 1
        self._clients: set[CallId] = set()
        self._pending: dict[QuestionId, ResponseQuestion] = {}
        self._begin_part()

    def _begin_part(self) -> None:
        self._items: list[OutputItem] = []
        self._first_reply = len(self._replies)
        self._told_calls: set[CallId] = set()
        self._shown.reset()
        self._message: OutputMessage | None = None
        self._text = ""
        self._sealed = False
        self._gap = False
        self._asked_client = False

    @property
    def _own_replies(self) -> list[ModelSaid]:
        """The replies of this part."""
        return self._replies[self._first_reply :]

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
            events = [*events, self._ending()]
        return events if mine or self.done else []

    def _take(self, entry: Entry) -> list[ResponseEvent]:
        if isinstance(entry.record, Finished | Failed | Stopped):
            self.end = entry.record
        return super()._take(entry)

    # --- words ---

    def _words(self, words: str) -> list[ResponseEvent]:
        events: list[ResponseEvent] = []
        if self._sealed:
            events += self._close_message()
        if self._message is None:
            events += self._open_message()
        assert self._message is not None
        delta = self._spaced(words)
        return [*events, OutputTextDelta(output_index=self._index - 1, item_id=self._message.id, delta=delta)]

    def _open_message(self) -> list[ResponseEvent]:
        place, ident = self._index, self._new_id("msg")
        self._message = OutputMessage(id=ident, content=[])
        self._items.append(self._message)
        self._text, self._sealed, self._gap = "", False, False
        begun = OutputMessage(id=ident, content=[])
        return [
            ItemAdded(output_index=place, item=begun),
            PartEvent(
                type="response.content_part.added",
                output_index=place,
                item_id=ident,
                part=OutputText(text=""),
            ),
        ]

    def _paragraph(self, words: str) -> list[ResponseEvent]:
        self._gap, self._sealed = self._message is not None, False
        return self._words(words)

    def _again(self) -> list[ResponseEvent]:
        """Words that went out cannot be taken back: what replaces them comes after them."""
        events = self._paragraph(SAID_AGAIN)
        self._gap = True
        return events

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> list[ResponseEvent]:
        calls = {call.id for call in reply.calls}
        self._clients -= calls
        self._told_calls -= calls
        events = self._caught_up(rest)
        self._text += text.lstrip("\n")
        self._sealed = not was_cut(reply)
        return events

    def _close_message(self, note: str = "") -> list[ResponseEvent]:
        message, self._message = self._message, None
        if message is None:
            return []
        replies = self._own_replies
        message.status = "incomplete" if replies and replies[-1].partial else "completed"
        message.content = [OutputText(text=self._text + note)]
        self._shown.reset()
        self._sealed = False
        place = self._index - 1
        return message_closed(place, message)

    def _finished(self, note: str) -> list[ResponseEvent]:
        """A note is the last paragraph of the answer."""
        if not note:
            return self._close_message()
        if self._message is None:
            return [*self._words(note), *self._close_message(note)]
        return [*self._paragraph(note), *self._close_message(f"\n\n{note}")]

    def _failed(self, reason: str) -> list[ResponseEvent]:
        return self._close_message()

    def _stopped(self, reason: str) -> list[ResponseEvent]:
        return self._close_message()

    # --- calls ---

    def _call(self, call: ToolCall, *, name: str | None = None) -> list[ResponseEvent]:
        """The item of a call, once; `name` is the id that a client knows it by."""
        if is_internal(call.name) or call.id in self._told_calls:
            return []
        self._told_calls.add(call.id)
        events = self._close_message()
        place, ident = self._index, self._new_id("fc")
        whole = FunctionCallItem(id=ident, call_id=name or call.id, name=call.name, arguments=call.arguments)
        self._items.append(whole)
        begun = msgspec.structs.replace(whole, arguments="", status="in_progress")
        return [
            *events,
            ItemAdded(output_index=place, item=begun),
            ArgumentsDelta(output_index=place, item_id=ident, delta=call.arguments),
            ArgumentsDone(output_index=place, item_id=ident, name=call.name, arguments=call.arguments),
            ItemDone(output_index=place, item=whole),
        ]

    def _tool_began(self, call: ToolCall) -> list[ResponseEvent]:
        return self._call(call)

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> list[ResponseEvent]:
        if call.id in self._clients:
            return []
        events = self._call(call)
        item = FunctionResultItem(
            id=self._new_id("fco"),
            call_id=call.id,
            output=result.text,
            status="incomplete" if result.unknown else "completed",
        )
        place = self._index
        self._items.append(item)
        return [*events, ItemAdded(output_index=place, item=item), ItemDone(output_index=place, item=item)]

    def _client_asked(self, asked: Asked, call: ToolCall, last: bool) -> list[ResponseEvent]:
        self._clients.add(call.id)
        self._asked_client = last
        return self._call(call, name=client_call_id(asked.question))

    # --- questions ---

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> list[ResponseEvent]:
        events = [*self._close_message(), *(self._call(call) if call else [])]
        question = ResponseQuestion(
            id=asked.question,
            kind=asked.kind.value,
            text=asked.text,
            action=action_text(asked, call),
            options=list(choices(asked)),
        )
        self._pending[asked.question] = question
        fields = msgspec.structs.asdict(question)
        return [*events, ApprovalRequested(run_id=self._run, session_id=self._session, **fields)]

    def _answered(self, answer: Answered, asked: Asked | None) -> list[ResponseEvent]:
        question, choice = answer.question, answer.verdict.value
        if self._pending.pop(question, None) is None:
            return []
        return [ApprovalResponded(id=question, choice=choice, run_id=self._run, session_id=self._session)]

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
            self._message.content = [OutputText(text=self._text + self._shown.text)]
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
                replies = self._own_replies
                if replies and replies[-1].ending is Ending.LENGTH:
                    return "incomplete", IncompleteDetails(reason="max_output_tokens")
                return "completed", None
            case _:
                assert_never(self.end)

    def _usage(self) -> ResponseUsage:
        used = usage_of(self._own_replies)
        return ResponseUsage(
            input_tokens=used.prompt,
            input_tokens_details=InputTokens(cached_tokens=used.cached),
            output_tokens=used.completion,
            output_tokens_details=OutputTokens(reasoning_tokens=used.reasoning),
            total_tokens=used.total,
        )

    def _ending(self) -> ResponseEvent:
        response = self.response()
        ending = response.status if response.status in ("completed", "failed") else "incomplete"
        return ResponseStateEvent(type=f"response.{ending}", response=response)


def message_closed(place: int, message: OutputMessage) -> list[ResponseEvent]:
    """The events that end a message of one text."""
    (part,) = message.content
    return [
        OutputTextDone(output_index=place, item_id=message.id, text=part.text),
        PartEvent(type="response.content_part.done", output_index=place, item_id=message.id, part=part),
        ItemDone(output_index=place, item=message),
    ]


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
