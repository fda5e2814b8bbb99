"""A turn's feed as a response of the Responses API: its items, its status, and the events that tell of them.

A turn that asks its client (to run a function, to approve a call, to clarify) is several responses, one after
the other: each ends where something is asked, the next begins with the answer; `part` says which of them this
is. Everything here follows from the records alone, and so do the numbers of the events, with which a client
can come back, also after a crash.

For that, thoughts have one place, however they came: what a reply thinks before its first word is an item
before its message, told as it comes; what it thinks later is an item behind it, told with the record."""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import datetime

import msgspec

from hermes.domain.ids import CallId, QuestionId, client_call_id
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
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
from hermes.stream.faces.responses import events as told
from hermes.stream.faces.responses import shape
from hermes.stream.faces.responses.events import ResponseEvent
from hermes.stream.fold.failures import NO_ANSWER, error_type, failure_facts, is_lost
from hermes.stream.fold.questions import action_text, choices, for_people, question_for_reply
from hermes.stream.fold.steps import (
    SAID_AGAIN,
    RemainingText,
    Steps,
    join_thoughts,
    thoughts_in_order,
    was_cut,
)


def _trouble(end: Failed | Stopped, detailed: bool) -> shape.ResponseError:
    facts = failure_facts(end, detailed=detailed)
    code = "server_error" if facts.code == NO_ANSWER.code else facts.code
    return shape.ResponseError(type=error_type(facts.status), code=code, message=facts.message)


class ResponseFold(Steps[list[ResponseEvent]]):
    """Takes one turn's feed from its first record on; `blank` is the response as it was asked for. A failure
    is `detailed` for who may know the gateway's addresses. What needs an approval is asked in words, and with
    `approval_items` in an item behind them too."""

    def __init__(
        self,
        blank: shape.ResponseObject,
        *,
        run: str,
        session: str,
        part: int = 1,
        detailed: bool = False,
        approval_items: bool = True,
    ) -> None:
        super().__init__([])
        self.seq = 0
        self.done = False
        self.end: TurnEnd | None = None
        self._blank = blank
        self._run = run
        self._session = session
        self._name = blank.id.partition("_")[2]
        self._part = part
        self._detailed = detailed
        self._approval_items = approval_items
        self._now_in = 1
        self._ended_at: datetime | None = None
        self._clients: set[CallId] = set()
        self._approvals: dict[CallId, str] = {}
        self.tells_thoughts = blank.reasoning.summary is not None
        self._begin_part()

    def _begin_part(self) -> None:
        self._items: list[shape.OutputItem] = []
        self._first_reply = len(self._replies)
        self._told_calls: set[CallId] = set()
        self._own_calls: dict[CallId, int] = {}
        self._pending: shape.ResponseQuestion | None = None
        self._shown.reset()
        self._message: shape.OutputMessage | None = None
        self._text = ""
        self._sealed = False
        self._gap = False
        self._asked = False
        self._reasoning: shape.ReasoningItem | None = None
        self._thoughts = io.StringIO()
        self._reasoned = False
        self._late_thoughts = ""

    @property
    def _own_replies(self) -> list[ModelSaid]:
        return self._replies[self._first_reply :]

    def see(self, item: FeedItem) -> list[ResponseEvent]:
        """What is new, as events; nothing for what belongs to another part or was seen before."""
        if self.done:
            self._look_back(item)
            return []
        mine = self._now_in == self._part
        events = super().see(item)
        if self._asked and not mine:
            self._now_in += 1
            self._begin_part()
        elif self._asked or self.end is not None:
            self.done = True
            self._ended_at = item.at if isinstance(item, Entry) else None
            events = [*events, *self._leave_calls(), self._ending()]
        return events if mine or self.done else []

    def _look_back(self, item: FeedItem) -> None:
        """This part has ended: what may still change is whether its question waits."""
        if self._pending is None or not isinstance(item, Entry):
            return
        if isinstance(item.record, Answered) and item.record.question == self._pending.id:
            self._pending = None
        elif isinstance(item.record, TurnEnd):
            self._pending, self.end = None, item.record

    # --- words ---

    def _words(self, words: str) -> list[ResponseEvent]:
        events = self._close_reasoning()
        if self._sealed:
            events += self._end_paragraph()
        if self._message is None:
            events += self._open_message()
        assert self._message is not None
        delta = self._spaced(words)
        return [*events, told.text_delta(self._index - 1, self._message.id, delta)]

    def _open_message(self) -> list[ResponseEvent]:
        place, ident = self._index, self._new_id("msg")
        self._message = shape.OutputMessage(id=ident, content=[])
        self._items.append(self._message)
        self._text, self._sealed, self._gap = "", False, False
        return told.message_opened(place, self._message)

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
        for reused in calls:
            self._own_calls.pop(reused, None)
            self._approvals.pop(reused, None)
        events = [*self._caught_up(rest), *self._close_reasoning()]
        self._text += text.lstrip("\n")
        self._sealed = not was_cut(reply)
        return [*events, *self._take_late_thoughts(reply)] if self.tells_thoughts else events

    def _close_message(self, note: str = "") -> list[ResponseEvent]:
        message, self._message = self._message, None
        if message is None:
            return self._tell_late_thoughts()
        replies = self._own_replies
        message.status = "incomplete" if replies and replies[-1].partial else "completed"
        message.content = [shape.OutputText(text=self._text + note)]
        self._sealed = False
        closing = told.message_closed(self._index - 1, message)
        return [*closing, *self._tell_late_thoughts()]

    def _end_paragraph(self) -> list[ResponseEvent]:
        """Close the message before more comes: clients join the texts of a response with nothing between."""
        gap = "\n\n" if self._text and not self._text[-1].isspace() else ""
        if self._message is None or not gap:
            return self._close_message()
        spaced = told.text_delta(self._index - 1, self._message.id, gap)
        return [spaced, *self._close_message(gap)]

    def _ended(self, end: TurnEnd) -> list[ResponseEvent]:
        """A note is the last paragraph of the answer."""
        self.end = end
        if not isinstance(end, Finished) or not end.note:
            return [*self._void_reasoning(), *self._close_message()]
        if self._message is None:
            return [*self._words(end.note), *self._close_message(end.note)]
        return [*self._paragraph(end.note), *self._close_message(f"\n\n{end.note}")]

    # --- thoughts ---

    def _thought(self, text: str) -> list[ResponseEvent]:
        if not self.tells_thoughts:
            return []
        events: list[ResponseEvent] = []
        if self._reasoning is None:
            if self._message is not None and not self._sealed:
                return []  # The message goes on: they are told behind it.
            events = [*self._end_paragraph(), *self._open_reasoning()]
        assert self._reasoning is not None
        self._thoughts.write(text)
        return [*events, told.summary_delta(self._index - 1, self._reasoning.id, text)]

    def _thought_late(self, text: str) -> list[ResponseEvent]:
        return []

    def _open_reasoning(self) -> list[ResponseEvent]:
        place = self._index
        self._reasoning = shape.ReasoningItem(id=self._new_id("rs"))
        self._items.append(self._reasoning)
        self._thoughts, self._reasoned = io.StringIO(), True
        return told.reasoning_opened(place, self._reasoning)

    def _close_reasoning(self, status: str = "completed") -> list[ResponseEvent]:
        item, self._reasoning = self._reasoning, None
        if item is None:
            return []
        item.summary, item.status = [shape.SummaryText(text=self._thoughts.getvalue())], status
        return told.reasoning_closed(self._index - 1, item)

    def _void_reasoning(self) -> list[ResponseEvent]:
        """The turn ended while the model thought, and no record tells of that."""
        if self._reasoning is None:
            return []
        events = self._close_reasoning("incomplete")
        self._items.pop()
        return events

    def _voided(self, shown: bool) -> list[ResponseEvent]:
        if self._reasoning is None:
            return super()._voided(shown)
        self._thoughts = io.StringIO()
        return [told.summary_delta(self._index - 1, self._reasoning.id, f"\n\n{SAID_AGAIN}\n\n")]

    def _take_late_thoughts(self, reply: ModelSaid) -> list[ResponseEvent]:
        thoughts, reasoned = thoughts_in_order(reply), self._reasoned
        self._reasoned = False
        late = join_thoughts("" if reasoned else thoughts.first, thoughts.late)
        self._late_thoughts = join_thoughts(self._late_thoughts, late)
        return self._end_paragraph() if late and not was_cut(reply) else []

    def _tell_late_thoughts(self) -> list[ResponseEvent]:
        thoughts, self._late_thoughts = self._late_thoughts, ""
        if not thoughts:
            return []
        place, ident = self._index, self._new_id("rs")
        item = shape.ReasoningItem(id=ident, summary=[shape.SummaryText(text=thoughts)], status="completed")
        self._items.append(item)
        begun = shape.ReasoningItem(id=ident)
        delta = told.summary_delta(place, ident, thoughts)
        return [*told.reasoning_opened(place, begun), delta, *told.reasoning_closed(place, item)]

    # --- calls ---

    def _call(self, call: ToolCall, name: str) -> list[ResponseEvent]:
        """The item of a call that the client has to make, once; `name` is the id it knows the call by."""
        if call.id in self._told_calls:
            return []
        self._told_calls.add(call.id)
        events = self._close_message()
        place, ident = self._index, self._new_id("fc")
        whole = shape.FunctionCallItem(id=ident, call_id=name, name=call.name, arguments=call.arguments)
        self._items.append(whole)
        return [*events, *told.function_called(place, whole)]

    def _tool_began(self, call: ToolCall) -> list[ResponseEvent]:
        if call.id in self._own_calls:
            return []
        events = self._end_paragraph()
        place, ident = self._index, self._new_id("mcp")
        self._own_calls[call.id] = place
        item = shape.OwnCallItem(
            id=ident,
            name=call.name,
            arguments=call.arguments,
            approval_request_id=self._approvals.get(call.id),
        )
        self._items.append(item)
        return [*events, *told.own_call_opened(place, item)]

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> list[ResponseEvent]:
        if call.id in self._clients:
            return []
        events = self._tool_began(call)
        if result.unknown:
            return [*events, *self._close_call_item(call.id, "incomplete", error=result.text)]
        if result.failed:
            return [*events, *self._close_call_item(call.id, "failed", error=result.text)]
        return [*events, *self._close_call_item(call.id, "completed", output=result.text)]

    def _close_call_item(self, call: CallId, status: str, **outcome: str) -> list[ResponseEvent]:
        place = self._own_calls[call]
        item = self._items[place]
        assert isinstance(item, shape.OwnCallItem)
        item = self._items[place] = msgspec.structs.replace(item, status=status, **outcome)
        return told.own_call_closed(place, item)

    def _leave_calls(self) -> list[ResponseEvent]:
        """Calls whose results do not belong to this part any more, or never came."""
        events: list[ResponseEvent] = []
        for call, place in self._own_calls.items():
            item = self._items[place]
            if isinstance(item, shape.OwnCallItem) and item.status == "in_progress":
                events += self._close_call_item(call, "incomplete")
        return events

    def _client_asked(self, asked: Asked, call: ToolCall, last: bool) -> list[ResponseEvent]:
        self._clients.add(call.id)
        self._asked = last
        return self._call(call, client_call_id(asked.question))

    # --- questions ---

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> list[ResponseEvent]:
        self._asked = True
        self._pending = shape.ResponseQuestion(
            id=asked.question,
            kind=asked.kind.value,
            text=asked.text,
            action=action_text(asked, call),
            options=list(choices(asked)),
        )
        text = question_for_reply(asked)
        events = [*self._end_paragraph(), *self._words(text), *self._close_message(text)]
        is_item = self._approval_items and asked.kind is QuestionKind.APPROVAL
        if call is None or not self._shows(call) or not is_item:
            return events
        self._approvals[call.id] = ident = shape.APPROVAL_PREFIX + asked.question
        item = shape.ApprovalItem(id=ident, name=call.name, arguments=call.arguments)
        place = self._index
        self._items.append(item)
        return [*events, *told.whole_item(place, item)]

    @property
    def _index(self) -> int:
        return len(self._items)

    def _new_id(self, kind: str) -> str:
        return self.item_id(kind, self._index)

    def item_id(self, kind: str, place: int) -> str:
        """The id of the item of this kind that is, or would be, at this place."""
        return f"{kind}_{self._name}_{place}"

    # --- the whole ---

    def begun(self) -> shape.ResponseObject:
        return msgspec.structs.replace(self._blank, status="in_progress", output=[])

    def response(self) -> shape.ResponseObject:
        status, details = self._status()
        if self._message is not None:
            self._message.content = [shape.OutputText(text=self._text + self._shown.text)]
        trouble = _trouble(self.end, self._detailed) if is_lost(self.end) else None
        waiting: shape.PendingDetails | msgspec.UnsetType = msgspec.UNSET
        if self._pending is not None and self.done:
            following = f"{self._blank.id.removesuffix(f'_{self._part}')}_{self._part + 1}"
            waiting = shape.PendingDetails(
                pending=self._pending, next=following, run_id=self._run, session_id=self._session
            )
        whole = status == "completed" and self._ended_at is not None
        return msgspec.structs.replace(
            self._blank,
            status=status,
            completed_at=int(self._ended_at.timestamp()) if whole and self._ended_at else None,
            output=list(self._items),
            error=trouble,
            incomplete_details=details,
            usage=self._usage() if self.done else None,
            hermes=waiting,
        )

    def _status(self) -> tuple[str, shape.IncompleteDetails | None]:
        if is_lost(self.end):
            return "failed", None
        match self.end:
            case None:
                return ("completed" if self.done else "in_progress"), None
            case Failed() | Stopped():
                return "cancelled", None
            case Finished():
                replies = self._own_replies
                if replies and replies[-1].ending is Ending.LENGTH:
                    return "incomplete", shape.IncompleteDetails(reason="max_output_tokens")
                return "completed", None

    def _usage(self) -> shape.ResponseUsage:
        used = usage_of(self._own_replies)
        return shape.ResponseUsage(
            input_tokens=used.prompt,
            input_tokens_details=shape.InputTokens(cached_tokens=used.cached),
            output_tokens=used.completion,
            output_tokens_details=shape.OutputTokens(reasoning_tokens=used.reasoning),
            total_tokens=used.total,
        )

    def _ending(self) -> ResponseEvent:
        response = self.response()
        ending = response.status if response.status in ("completed", "failed") else "incomplete"
        return told.make_event(f"response.{ending}", response=response)


def parts_asked(entries: Iterable[Entry]) -> int:
    """How many parts of a turn ended with something that was asked."""
    return parts_before(entries, None)


def parts_before(entries: Iterable[Entry], question: QuestionId | None) -> int:
    """How many parts of a turn the client has been given, up to the one that ends with this question."""
    parts, asking = 0, False
    for entry in entries:
        record = entry.record
        asks = isinstance(record, Asked) and record.kind is QuestionKind.CLIENT_TOOL
        parts += (asks and not asking) or (isinstance(record, Asked) and for_people(record))
        asking = asks
        if isinstance(record, Asked) and record.question == question:
            break
    return parts
