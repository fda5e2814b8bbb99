"""A turn's feed as a response of the Responses API: its items, its status, and the events that tell of them.

A turn that asks its client (to run a function, to approve a call, to clarify) is several responses, one after
the other: each ends where something is asked, the next begins with the answer; `part` says which of them this
is. Everything here follows from the records alone, and so do the numbers of the events, with which a client
can come back, also after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zlib import crc32

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
from hermes.stream.faces import response_shape as shape
from hermes.stream.fold.failures import NO_ANSWER, error_type, failure_facts
from hermes.stream.fold.questions import action_text, choices, for_people, question_for_reply
from hermes.stream.fold.steps import SAID_AGAIN, RemainingText, Steps, was_cut

ResponseEvent = dict[str, Any]
"""One event of a stream, field by field as it is written; it gets its number then."""
_TEXT_DELTA = "response.output_text.delta"
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
_ARGUMENTS_DONE = "response.function_call_arguments.done"
_OWN_ARGUMENTS_DELTA = "response.mcp_call_arguments.delta"
_OWN_ARGUMENTS_DONE = "response.mcp_call_arguments.done"
_ENDINGS = ("response.completed", "response.incomplete", "response.failed")
_LAST = b"data: [DONE]\n\n"
_ITEM_ADDED = "response.output_item.added"
_ITEM_DONE = "response.output_item.done"
CHECK_BITS = 10
_CHECK = (1 << CHECK_BITS) - 1
_encode = msgspec.json.Encoder().encode


def _event(type: str, /, **fields: object) -> ResponseEvent:
    return {"type": type, "sequence_number": 0, **fields}


def _text_place(place: int, message: str) -> dict[str, object]:
    return {"output_index": place, "item_id": message, "content_index": 0}


def _text_delta(place: int, message: str, delta: str) -> ResponseEvent:
    # Written out, because there are so many of them.
    return {
        "type": _TEXT_DELTA,
        "sequence_number": 0,
        "output_index": place,
        "item_id": message,
        "content_index": 0,
        "delta": delta,
        "logprobs": [],
    }


def _trouble(end: Failed, detailed: bool) -> shape.ResponseError:
    facts = failure_facts(end, detailed=detailed)
    code = "server_error" if end.cause is None or facts.code == NO_ANSWER.code else facts.code
    return shape.ResponseError(type=error_type(facts.status), code=code, message=facts.message)


class ResponseFold(Steps[list[ResponseEvent]]):
    """Takes one turn's feed from its first record on; `blank` is the response as it was asked for. A failure
    is `detailed` for who may know the gateway's addresses."""

    def __init__(
        self,
        blank: shape.ResponseObject,
        *,
        run: str,
        session: str,
        part: int = 1,
        detailed: bool = False,
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
        self._now_in = 1
        self._ended_at: datetime | None = None
        self._clients: set[CallId] = set()
        self._approvals: dict[CallId, str] = {}
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
        events: list[ResponseEvent] = []
        if self._sealed:
            events += self._end_paragraph()
        if self._message is None:
            events += self._open_message()
        assert self._message is not None
        delta = self._spaced(words)
        return [*events, _text_delta(self._index - 1, self._message.id, delta)]

    def _open_message(self) -> list[ResponseEvent]:
        place, ident = self._index, self._new_id("msg")
        self._message = shape.OutputMessage(id=ident, content=[])
        self._items.append(self._message)
        self._text, self._sealed, self._gap = "", False, False
        begun = shape.OutputMessage(id=ident, content=[])
        empty = shape.OutputText(text="")
        return [
            _event(_ITEM_ADDED, output_index=place, item=begun),
            _event("response.content_part.added", **_text_place(place, ident), part=empty),
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
        for reused in calls:
            self._own_calls.pop(reused, None)
            self._approvals.pop(reused, None)
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
        message.content = [shape.OutputText(text=self._text + note)]
        self._shown.reset()
        self._sealed = False
        place = self._index - 1
        return _message_closed(place, message)

    def _end_paragraph(self) -> list[ResponseEvent]:
        """Close the message before more comes: clients join the texts of a response with nothing between."""
        gap = "\n\n" if self._text and not self._text[-1].isspace() else ""
        if self._message is None or not gap:
            return self._close_message()
        told = _text_delta(self._index - 1, self._message.id, gap)
        return [told, *self._close_message(gap)]

    def _ended(self, end: TurnEnd) -> list[ResponseEvent]:
        """A note is the last paragraph of the answer."""
        self.end = end
        if not isinstance(end, Finished) or not end.note:
            return self._close_message()
        if self._message is None:
            return [*self._words(end.note), *self._close_message(end.note)]
        return [*self._paragraph(end.note), *self._close_message(f"\n\n{end.note}")]

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
        begun = msgspec.structs.replace(whole, arguments="", status="in_progress")
        return [
            *events,
            _event(_ITEM_ADDED, output_index=place, item=begun),
            _event(_ARGUMENTS_DELTA, output_index=place, item_id=ident, delta=call.arguments),
            _event(
                _ARGUMENTS_DONE, output_index=place, item_id=ident, name=call.name, arguments=call.arguments
            ),
            _event(_ITEM_DONE, output_index=place, item=whole),
        ]

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
        at: dict[str, object] = {"output_index": place, "item_id": ident}
        return [
            *events,
            _event(_ITEM_ADDED, output_index=place, item=msgspec.structs.replace(item, arguments="")),
            _event("response.mcp_call.in_progress", **at),
            _event(_OWN_ARGUMENTS_DELTA, **at, delta=call.arguments),
            _event(_OWN_ARGUMENTS_DONE, **at, arguments=call.arguments),
        ]

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
        ending = "completed" if status == "completed" else "failed"
        return [
            _event(f"response.mcp_call.{ending}", output_index=place, item_id=item.id),
            _event(_ITEM_DONE, output_index=place, item=item),
        ]

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
        events = self._end_paragraph()
        if call is None or not self._shows(call) or asked.kind is not QuestionKind.APPROVAL:
            text = question_for_reply(asked)
            return [*events, *self._words(text), *self._close_message(text)]
        self._approvals[call.id] = ident = shape.APPROVAL_PREFIX + asked.question
        item = shape.ApprovalItem(id=ident, name=call.name, arguments=call.arguments)
        place = self._index
        self._items.append(item)
        return [*events, *(_event(kind, output_index=place, item=item) for kind in (_ITEM_ADDED, _ITEM_DONE))]

    @property
    def _index(self) -> int:
        return len(self._items)

    def _new_id(self, kind: str) -> str:
        return f"{kind}_{self._name}_{self._index}"

    def message_id(self, place: int) -> str:
        """The id of the message that is, or would be, the item at this place."""
        return f"msg_{self._name}_{place}"

    # --- the whole ---

    def begun(self) -> shape.ResponseObject:
        return msgspec.structs.replace(self._blank, status="in_progress", output=[])

    def response(self) -> shape.ResponseObject:
        status, details = self._status()
        if self._message is not None:
            self._message.content = [shape.OutputText(text=self._text + self._shown.text)]
        trouble = _trouble(self.end, self._detailed) if isinstance(self.end, Failed) else None
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
        match self.end:
            case None:
                return ("completed" if self.done else "in_progress"), None
            case Failed():
                return "failed", None
            case Stopped():
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
        return _event(f"response.{ending}", response=response)


def _message_closed(place: int, message: shape.OutputMessage) -> list[ResponseEvent]:
    (part,) = message.content
    at = _text_place(place, message.id)
    return [
        _event("response.output_text.done", **at, text=part.text, logprobs=[]),
        _event("response.content_part.done", **at, part=part),
        _event(_ITEM_DONE, output_index=place, item=message),
    ]


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


class _EventCounter:
    """How far the story has been told, as the number of the last event.

    A number is a place in the story (each event is a step, each character of the text another) with a short
    check of all that was told up to there in its low bits. Both follow from the records alone, so another
    process that tells the story again, with the words cut otherwise, gives the same numbers."""

    __slots__ = ("_check", "place")

    def __init__(self) -> None:
        self.place = -1
        self._check = 0

    @property
    def number(self) -> int:
        return self.place << CHECK_BITS | self._check & _CHECK

    def go_on(self, event: ResponseEvent) -> int:
        kind = event["type"]
        if kind == _TEXT_DELTA:
            self.place += len(event["delta"])
            told = event["delta"]
        else:
            self.place += 1
            told = f"{kind} "
            if kind == _ITEM_ADDED:
                told += type(event["item"]).__name__
            elif kind in (_ARGUMENTS_DELTA, _OWN_ARGUMENTS_DELTA):
                told += event["delta"]
        if self.place:
            self._check = crc32(told.encode("utf-8", "surrogatepass"), self._check)
        return self.number


class ResponseEvents:
    """`after` is the number that a client comes back with: it is told what follows. What it heard may be part
    of the story no more, if a crash cut off the model and it then chose other words. The check says so: its
    open message is closed as incomplete, and what replaces it comes as further items. `since` is the last
    record from before the turn was started again, 0 if it never was: only what came then can be lost."""

    def __init__(self, fold: ResponseFold, *, after: int | None = None) -> None:
        self.fold = fold
        self._after = after
        self.since = 0
        self._story = _EventCounter()
        self._held: list[tuple[int, ResponseEvent]] = []
        self._shift = 0
        self._ahead = 0

    @property
    def ended(self) -> bool:
        return self.fold.done

    def start(self) -> bytes:
        begun = self.fold.begun()
        states = ("response.created", "response.in_progress")
        return self._tell([_event(state, response=begun) for state in states], 0)

    def see(self, item: FeedItem) -> bytes:
        events = self.fold.see(item)
        if not events:
            return b""
        # Words of an open call will be in the record after the last one.
        return self._tell(events, item.seq if isinstance(item, Entry) else self.fold.seq + 1)

    def _tell(self, events: list[ResponseEvent], seq: int) -> bytes:
        if self._after is None:
            return b"".join(map(self._write, events))
        for place, event in enumerate(events):
            rest = self._look(event, seq)
            if rest is not None:
                self._after = None
                return b"".join([rest, *map(self._write, events[place + 1 :])])
        return b""

    def _write(self, event: ResponseEvent) -> bytes:
        event["sequence_number"] = self._story.go_on(event) + (self._ahead << CHECK_BITS)
        if self._shift and "output_index" in event:
            event["output_index"] += self._shift
        written = b"event: %b\ndata: %b\n\n" % (event["type"].encode("ascii"), _encode(event))
        return written + _LAST if event["type"] in _ENDINGS else written

    # --- a client that comes back ---

    def _look(self, event: ResponseEvent, seq: int) -> bytes | None:
        """Look for the number the client has; once it is found, or cannot be, what it is to be told first."""
        assert self._after is not None
        wanted = self._after >> CHECK_BITS
        before = self._story.place
        if event["type"] == _TEXT_DELTA and before < wanted < before + len(event["delta"]):
            heard = {**event, "delta": event["delta"][: wanted - before]}
            rest = {**event, "delta": event["delta"][wanted - before :]}
            if self._story.go_on(heard) == self._after:
                return self._write(rest)
            self._held += [(seq, heard), (seq, rest)]
            return self._replace_heard()
        self._story.go_on(event)
        self._held.append((seq, event))
        if self._story.place == wanted and self._story.number == self._after:
            return b""
        if self._story.place >= wanted or ("response" in event and self.ended):
            return self._replace_heard()
        return None

    def _replace_heard(self) -> bytes:
        """What the client heard last is void: close its message, then tell what replaces it."""
        assert self._after is not None
        known = [event for seq, event in self._held if seq <= self.since]
        fresh = [event for seq, event in self._held if seq > self.since]
        if not self.since:
            # Nothing was ever lost, so this is no number of ours: all there is to tell is the end.
            return b"".join(self._write(event) for event in fresh[-1:] if self.ended)
        place = sum(event["type"] == _ITEM_ADDED for event in known)
        self._story = _EventCounter()
        for event in known:
            self._story.go_on(event)
        ident = self.fold.message_id(place)
        void = shape.OutputMessage(id=ident, status="incomplete", content=[shape.OutputText(text=SAID_AGAIN)])
        self._ahead = (self._after >> CHECK_BITS) - self._story.place
        closing = [_text_delta(place, ident, f"\n\n{SAID_AGAIN}\n\n"), *_message_closed(place, void)]
        written = [self._write(event) for event in closing]
        self._shift = 1
        return b"".join([*written, *map(self._write, fresh)])
