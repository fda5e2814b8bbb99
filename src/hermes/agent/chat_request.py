"""The chat-completions wire format, outward: a request as bytes.

Of a warm session only what is new is encoded: the bytes of sealed messages are kept in the request's `memory`
and never change, so a long conversation costs no more than its last turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hermes.agent.context import Conversation, Message, Role, with_ending
from hermes.agent.repair import read_arguments
from hermes.domain.event import Entry
from hermes.domain.ports import ModelRequest
from hermes.domain.text import storable
from hermes.domain.tool import Tool

_MEMORY_KEY = "chat_request"
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_UNREADABLE = 200
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, kw_only=True)
class _Encoded:
    """A transcript that was encoded before, as far as it is sealed."""

    shared: bool
    conversation: Conversation
    first: Entry | None = None
    last: Entry | None = None
    count: int = 0
    sealed: list[bytes] = field(default_factory=list)

    def leads_to(self, entries: Sequence[Entry], *, shared: bool) -> bool:
        """Whether these entries begin with those that were encoded. The ends tell: an undo takes from the
        end, a summary puts itself in front, and a number is never given twice."""
        if self.shared is not shared or self.count > len(entries):
            return False
        return not self.count or (entries[0] is self.first and entries[self.count - 1] is self.last)

    def take(self, entries: Sequence[Entry]) -> None:
        if len(entries) > self.count:
            self.conversation.add(entries[self.count :])
            self.first, self.last, self.count = entries[0], entries[-1], len(entries)
        fresh = self.conversation.sealed[len(self.sealed) :]
        self.sealed += [encode_message(message) for message in fresh]


def encode_messages(request: ModelRequest) -> bytes:
    """The messages of a request, as the inside of a JSON array."""
    kept = request.memory.get(_MEMORY_KEY)
    if not isinstance(kept, _Encoded) or not kept.leads_to(request.entries, shared=request.shared):
        kept = _Encoded(shared=request.shared, conversation=Conversation(shared=request.shared))
        request.memory[_MEMORY_KEY] = kept
    kept.take(request.entries)
    tail = with_ending(kept.conversation.tail(), said=request.said, note=request.note)
    opening = [_dump({"role": "system", "content": request.system})] if request.system else []
    return b",".join([*opening, *kept.sealed, *map(encode_message, tail)])


def encode_request(request: ModelRequest, options: Mapping[str, object]) -> bytes:
    """The body of a request; `options` are further fields of it."""
    head: dict[str, object] = {"model": request.model, **options}
    if request.tools:
        head["tools"] = [encode_tool(tool) for tool in request.tools]
    return _dump(head)[:-1] + b',"messages":[' + encode_messages(request) + b"]}"


def encode_tool(tool: Tool) -> dict[str, object]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def encode_message(message: Message) -> bytes:
    if message.role is Role.TOOL:
        return _dump({"role": "tool", "tool_call_id": message.call, "content": message.text})
    if not message.calls:
        return _dump({"role": message.role.value, "content": message.text})
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": _wire_name(call.name), "arguments": _wire_arguments(call.arguments)},
        }
        for call in message.calls
    ]
    return _dump({"role": "assistant", "content": message.text or None, "tool_calls": calls})


def _wire_name(name: str) -> str:
    """A name that services accept: one that was made up must not spoil every later request."""
    return _NAME_CHARS.sub("_", name)[:64] or "unknown"


def _wire_arguments(text: str) -> str:
    if read_arguments(text) is not None:
        return text or "{}"
    return json.dumps({"unreadable": text[:_UNREADABLE]})


def _dump(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return storable(json.dumps(value, ensure_ascii=False, default=str)).encode()
