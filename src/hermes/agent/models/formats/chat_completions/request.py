"""The chat-completions wire format, outward: a request as bytes.

Of a warm session only what is new is encoded: the bytes of sealed messages are kept in the request's `memory`
and never change, so a long conversation costs no more than its last turn. A message with images is kept as it
is, without the images, and encoded with each request: a picture is larger than a whole conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from hermes.agent.call_repair import read_arguments
from hermes.agent.context import transcript_messages as transcript
from hermes.domain.event import Entry
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.text import storable
from hermes.domain.tool import Tool

_MEMORY_KEY = "chat_request"
_NO_IMAGES: Mapping[str, str] = {}
_NOT_HERE = "the file is not at hand"
_UNSEEN = "not shown, for this model takes no pictures"
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_UNREADABLE = 200
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, kw_only=True)
class _EncodedTranscript:
    """A transcript that was encoded before, as far as it is sealed."""

    shared: bool
    conversation: transcript.ContextFold
    first: Entry | None = None
    last: Entry | None = None
    count: int = 0
    sealed: list[bytes] = field(default_factory=list)
    pictured: list[int] = field(default_factory=list)

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
        for place in range(len(self.sealed), len(self.conversation.sealed)):
            message = self.conversation.sealed[place]
            if message.images:
                self.pictured.append(place)
            self.sealed.append(b"" if message.images else encode_message(message))

    def with_images(self, images: Mapping[str, str] | None) -> list[bytes]:
        """The sealed messages, each whole."""
        if not self.pictured:
            return self.sealed
        whole = list(self.sealed)
        for place in self.pictured:
            whole[place] = encode_message(self.conversation.sealed[place], images)
        return whole


def encode_messages(request: ModelRequest) -> bytes:
    """The messages of a request, as the inside of a JSON array."""
    kept = request.memory.get(_MEMORY_KEY)
    if not isinstance(kept, _EncodedTranscript) or not kept.leads_to(request.entries, shared=request.shared):
        kept = _EncodedTranscript(
            shared=request.shared, conversation=transcript.ContextFold(shared=request.shared)
        )
        request.memory[_MEMORY_KEY] = kept
    kept.take(request.entries)
    tail = transcript.with_ending(kept.conversation.tail(), spoken=request.spoken, note=request.note)
    sealed = kept.with_images(request.images)
    told = transcript.recalled(request.history) if request.history else []
    if told and told[-1].role is transcript.Role.USER:
        # Users and replies take turns, so the last of these words and the first of the transcript are one.
        if sealed:
            told[-1], sealed = transcript.joined(told[-1], kept.conversation.sealed[0]), sealed[1:]
        else:
            told[-1], tail = transcript.joined(told[-1], tail[0]), tail[1:]
    opening = [_dump({"role": "system", "content": request.system})] if request.system else []
    opening += [encode_message(message, request.images) for message in told]
    return b",".join([*opening, *sealed, *(encode_message(message, request.images) for message in tail)])


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


def encode_message(message: transcript.ModelMessage, images: Mapping[str, str] | None = _NO_IMAGES) -> bytes:
    """`images` are the contents, as data URLs by their hash; one that is missing is told of in words, and so
    are all if there is no such mapping."""
    if message.role is transcript.Role.TOOL:
        return _dump({"role": "tool", "tool_call_id": message.call, "content": message.text})
    if message.images and images is None:
        notes = [transcript.attachment_note(replace(image, note=_UNSEEN)) for image in message.images]
        content = "\n\n".join(part for part in (message.text, *notes) if part)
        return _dump({"role": message.role.value, "content": content})
    if message.images and images is not None:
        return _dump({"role": message.role.value, "content": _parts(message, images)})
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


def _parts(message: transcript.ModelMessage, images: Mapping[str, str]) -> list[dict[str, object]]:
    words, shown = [message.text], list[dict[str, object]]()
    for image in message.images:
        url = images.get(image.sha256 or "") or (image.ref if transcript.is_on_the_web(image) else None)
        if url is None:
            words.append(transcript.attachment_note(replace(image, problem=_NOT_HERE)))
        else:
            shown.append({"type": "image_url", "image_url": {"url": url}})
    text = "\n\n".join(part for part in words if part)
    return [{"type": "text", "text": text}, *shown] if text else shown


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
