"""The Responses format, inward: events of a stream, or one whole response, told to a `ReplyAssembly`.

Encrypted thoughts are kept to go back unread (developers.openai.com/api/docs/guides/reasoning: encrypted
reasoning items), with marks for the texts and calls between them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hermes.agent.models.assembly import ReplyAssembly, broken
from hermes.agent.models.faults import FILTERED, OTHER_WORDS
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.usage import Usage
from hermes.domain.tools.deferral import TOOL_SEARCH
from hermes.domain.turns.event import Ending, Kept

NAME = "codex_responses"
_TO_KEEP = ("type", "phase", "namespace")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")

# --- structs -------------------------------------------------------------------------------------


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _WireUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None

    def read(self) -> Usage:
        read, written = self.input_tokens_details or _Details(), self.output_tokens_details or _Details()
        return Usage(
            prompt=self.input_tokens or 0,
            completion=self.output_tokens or 0,
            cached=read.cached_tokens or 0,
            reasoning=written.reasoning_tokens or 0,
            cache_written=read.cache_write_tokens or 0,
        )


class _Part(msgspec.Struct):
    """A part of a message's content or of a summary."""

    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    phase: str | None = None
    namespace: str | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    model: str | None = None
    output: list[msgspec.Raw] | None = None
    usage: _WireUsage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Event(_Response):
    """An event, or a whole response, which has no `type`."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    item: msgspec.Raw = msgspec.Raw(b"null")
    response: _Response | None = None
    summary_index: int = 0
    code: Any = None
    message: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_item = msgspec.json.Decoder(_Item | None).decode


def _read_event(data: bytes) -> _Event:
    try:
        return _decode(data)
    except msgspec.DecodeError:
        pass
    try:
        # Slower, and takes what the fast reader will not: half characters in escapes, odd numbers.
        event = json.loads(data)
        items = [event, event.get("response") or {}]
        for holder in items:
            if holder.get("output"):
                holder["output"] = [msgspec.Raw(json.dumps(item).encode()) for item in holder["output"]]
        if "item" in event:
            event["item"] = msgspec.Raw(json.dumps(event["item"]).encode())
        return msgspec.convert(event, _Event, strict=False)
    except (ValueError, RecursionError, AttributeError, TypeError, msgspec.ValidationError):
        raise broken("the model's answer could not be understood") from None


def _read_item(data: msgspec.Raw) -> _Item:
    try:
        return _decode_item(data) or _Item()
    except msgspec.DecodeError:
        raise broken("the model's answer could not be understood") from None


# --- reading -------------------------------------------------------------------------------------


class ResponseReader:
    """Reads the events of a stream, or one whole response."""

    def __init__(self, reply: ReplyAssembly) -> None:
        self._reply = reply
        self._marks: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._heard: set[int] = set()
        """Items of which a piece came already; the others are whole when they are done."""
        self._length = 0
        self._calls = 0

    def take(self, data: bytes) -> None:
        reply = self._reply
        if data == b"[DONE]":
            reply.done = True
            return
        event = _read_event(data)
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                reply.refused = reply.refused or event.type == "response.refusal.delta"
                self._say(event.delta or "", self._place(event))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._think(event.delta or "", self._place(event))
            case "response.reasoning_summary_part.added" if event.summary_index:
                self._think("\n\n", self._place(event))
            case "response.function_call_arguments.delta":
                self._call(_Item(arguments=event.delta), self._place(event))
            case "response.output_item.added":
                self._begin(_read_item(event.item), self._place(event))
            case "response.output_item.done":
                self._close(event.item, self._place(event))
            case kind if kind in _ENDS:
                self._finish(event.response or _Response())
            case "error":
                reply.fail(event.error or {"code": event.code, "message": event.message})
            case _ if event.error:
                reply.fail(event.error)
            case "" if event.status or event.output is not None:
                self._finish(event)

    def _place(self, event: _Event) -> int:
        """Which item of the reply an event is about. Some services number them, some name them."""
        name = event.item_id or (_read_item(event.item).id if event.item else None) or ""
        if event.output_index is None:
            return self._places.setdefault(name, len(self._places)) if name else len(self._places)
        self._places.setdefault(name or str(event.output_index), event.output_index)
        return event.output_index

    def _begin(self, item: _Item, place: int) -> None:
        self._reply.spoke()
        if item.type == "function_call":
            self._call(item, place)

    def _close(self, raw: msgspec.Raw, place: int) -> None:
        """An item is whole: tell what no piece told, and note its place."""
        self._reply.spoke()
        item = _read_item(raw)
        match item.type:
            case "message":
                if place not in self._heard:
                    for part in item.content or ():
                        reply = self._reply
                        reply.refused = reply.refused or bool(part.refusal)
                        self._say(part.text or part.refusal or "", place)
                mark = {"text": self._length} | ({"phase": item.phase} if item.phase else {})
                self._marks.append(mark)
                self._length = 0
            case "function_call":
                self._call(item if place not in self._heard else _Item(name=item.name), place)
                self._mark_call(item)
            case "tool_search_call" if item.call_id:
                # One that is ours to make; its arguments come whole.
                self._call(msgspec.structs.replace(item, name=TOOL_SEARCH), place)
                self._mark_call(item)
            case "reasoning":
                if place not in self._heard:
                    parts = item.summary or item.content or ()
                    self._think("\n\n".join(part.text or "" for part in parts), place)
                if item.encrypted_content:
                    self._reply.grow(len(raw))
                    self._marks.append(json.loads(bytes(raw)))

    def _mark_call(self, item: _Item) -> None:
        """A function that was found has a namespace, which the service wants back."""
        mark: dict[str, Any] = {"call": self._calls}
        self._marks.append(mark | ({"namespace": item.namespace} if item.namespace else {}))
        self._calls += 1

    def _say(self, text: str, place: int) -> None:
        self._heard.add(place)
        self._length += len(text)
        self._reply.spoke()
        self._reply.say(text)

    def _think(self, text: str, place: int) -> None:
        self._heard.add(place)
        self._reply.think(text)

    def _call(self, item: _Item, place: int) -> None:
        arguments = item.arguments or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        if arguments:
            self._heard.add(place)
        self._reply.call(index=place, id=item.call_id, name=item.name, arguments=arguments)

    def _finish(self, response: _Response) -> None:
        reply = self._reply
        reply.answered_by = response.model or reply.answered_by
        if response.usage is not None:
            reply.usage = response.usage.read()
        if response.error or response.status == "failed":
            reply.fail(response.error or {"code": "server_error"})
        if not self._marks:
            # A whole response, or a stream whose only event this is.
            for place, item in enumerate(response.output or ()):
                self._close(item, place)
        reply.done = True
        if response.status in ("completed", "incomplete"):
            reply.spoke()
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if response.status == "cancelled":
            reply.fault = broken("the model broke off")
        elif reason == "content_filter":
            reply.fault = ModelFault(FILTERED, kind=FaultKind.FILTERED, hint=OTHER_WORDS)
        else:
            reply.ending = Ending.LENGTH if response.status == "incomplete" else Ending.STOP
            if any(not mark.keys().isdisjoint(_TO_KEEP) for mark in self._marks):
                text = json.dumps(self._marks, separators=(",", ":"))
                reply.kept = Kept(format=NAME, model=reply.model, text=text)
