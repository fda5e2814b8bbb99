"""What every wire format needs to write a request: JSON, names and arguments that services accept, tools that
are encoded once, and pictures. Knows no format."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterator, Sequence

import msgspec

from hermes.agent.call_repair import read_arguments
from hermes.agent.context import transcript_messages as transcript
from hermes.agent.context.encoded import Images
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.text import storable
from hermes.domain.tools.deferral import BRIDGE_TOOLSET, TOOL_SEARCH
from hermes.domain.tools.tool import Tool
from hermes.domain.word import replace

_NOT_HERE = "the file is not at hand"
_UNSEEN = "not shown, for this model takes no pictures"
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,", re.ASCII)
_UNREADABLE = 200
_MOST_TOOLS = 1024
_encode = msgspec.json.Encoder().encode


def dump(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return storable(json.dumps(value, ensure_ascii=False, default=str)).encode()


class EncodedTools:
    """Tools that a format encoded before, by their identity: they are the same objects in every request. It
    keeps none alive: an agent that is let go takes its tools along."""

    def __init__(self, encode: Callable[[Tool], dict[str, object]]) -> None:
        self._encode = encode
        self._encoded: dict[int, tuple[weakref.ref[Tool], bytes]] = {}

    def __call__(self, tools: Sequence[Tool]) -> list[bytes]:
        return [self._one(tool) for tool in tools]

    def _one(self, tool: Tool) -> bytes:
        known = self._encoded.get(id(tool))
        if known is None:
            if len(self._encoded) >= _MOST_TOOLS:
                self._encoded.clear()
            ident = id(tool)
            gone = weakref.ref(tool, lambda _: self._encoded.pop(ident, None))
            known = self._encoded[ident] = (gone, dump(self._encode(tool)))
        return known[1]


def is_direct(request: ModelRequest, endpoint: ModelEndpoint) -> bool:
    """Whether the service is told of deferred tools in its own way, so that the model calls what it found by
    its name. All others have the bridge."""
    if not endpoint.defers or "deferral" in endpoint.without:
        return False
    searches = any(tool.name == TOOL_SEARCH and tool.toolset == BRIDGE_TOOLSET for tool in request.tools)
    return searches and re.match(endpoint.defers, request.model.lower()) is not None


def parameters(tool: Tool) -> object:
    return tool.parameters or {"type": "object", "properties": {}}


def wire_name(name: str) -> str:
    """A name or an id that services accept: one that was made up must not spoil every later request."""
    return _NAME_CHARS.sub("_", name)[:64] or "unknown"


def wire_arguments(text: str) -> str:
    if read_arguments(text) is not None:
        return text or "{}"
    return json.dumps({"unreadable": text[:_UNREADABLE]})


def words_and_pictures(message: transcript.ModelMessage, images: Images) -> tuple[str, list[str]]:
    """What a message says, and the addresses or data URLs of what it shows. A picture that is not at hand is
    told of in words, and so are all if there is no mapping of them."""
    if images is None:
        notes = (transcript.attachment_note(replace(image, note=_UNSEEN)) for image in message.images)
        return "\n\n".join(part for part in (message.text, *notes) if part), []
    words, shown = [message.text], list[str]()
    for image in message.images:
        url = images.get(image.sha256 or "") or (image.ref if transcript.is_on_the_web(image) else None)
        if url is None:
            words.append(transcript.attachment_note(replace(image, problem=_NOT_HERE)))
        else:
            shown.append(url)
    return "\n\n".join(part for part in words if part), shown


def split_data_url(url: str) -> tuple[str, str] | None:
    """The media type and the base64 data of a data URL; None for an address."""
    match = _DATA_URL.match(url)
    return None if match is None else (match[1], url[match.end() :])


def output_limit(request: ModelRequest, endpoint: ModelEndpoint) -> int | None:
    """How many tokens the reply may have, as far as anybody says."""
    limits = (endpoint.max_tokens, request.options.max_tokens)
    return min((most for most in limits if most is not None), default=None)


def sampling(request: ModelRequest, endpoint: ModelEndpoint, *names: str) -> dict[str, object]:
    """How words are drawn, as far as the model takes that: many that think do not."""
    refused = ("temperature", "top_p") if "sampling" in endpoint.without else ()
    return {name: getattr(request.options, name) for name in names if name not in refused}


def refuse_options(request: ModelRequest, format: str, *names: str) -> None:
    """Options that a format has no word for are refused by their name."""
    for name in names:
        if getattr(request.options, name) not in (None, ""):
            words = f"{format} has no `{name}`, so this request cannot be answered as it was asked."
            hint = f"Leave `{name}` out, or use a model that is reached in another format."
            raise ModelFault(words, kind=FaultKind.BAD_REQUEST, hint=hint)


def cache_mark(request: ModelRequest) -> bytes:
    """What makes the last block of some bytes a breakpoint of the cache, in the place of its last brace."""
    ttl = b',"ttl":"1h"' if request.cache_ttl == "1h" else b""
    return b',"cache_control":{"type":"ephemeral"' + ttl + b"}}"


def breakpoints(roles: Sequence[transcript.Role]) -> set[int]:
    """Two of the four breakpoints that a request may have, by their messages: where the request before this
    one ended, which is before the last reply, and where this one does. So what was written then is found at
    once, however many blocks came since: without the first, nothing is found that lies more than 20 blocks
    before the end (platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
    last = len(roles) - 1
    reply = next((place for place in range(last, 0, -1) if roles[place] is transcript.Role.ASSISTANT), 0)
    return {reply - 1, last} if reply else {last}


Mark = dict[str, object]


def in_order(kept: Sequence[Mark], text: str, calls: int) -> Iterator[Mark | int]:
    """A reply in the order in which its parts came: what goes back unread (it has a `type`), texts, and the
    numbers of calls. `kept` holds the former and marks for the others: `{"text": length}`, perhaps with more
    to say about it, and `{"call": number}`. A text that is no longer as it was is told whole at its first
    mark."""
    lengths = [mark["text"] for mark in kept if "type" not in mark and isinstance(mark.get("text"), int)]
    changed = sum(length for length in lengths if isinstance(length, int)) != len(text)
    told, called = 0, set[int]()
    for mark in kept:
        number, length = mark.get("call"), mark.get("text")
        if "type" in mark:
            yield mark
        elif isinstance(length, int):
            end = len(text) if changed else told + length
            if told < end:
                yield {**mark, "text": text[told:end]}
            told = end
        elif isinstance(number, int) and number < calls and number not in called:
            if changed and told < len(text):
                yield {"text": text[told:]}
                told = len(text)
            called.add(number)
            yield number
    if told < len(text):
        yield {"text": text[told:]}
    yield from (number for number in range(calls) if number not in called)


def read_marks(text: str) -> list[Mark]:
    """What a format wrote for `in_order`; nothing if it cannot be read."""
    try:
        marks = json.loads(text) if text else []
    except ValueError:
        return []
    return [mark for mark in marks if isinstance(mark, dict)] if isinstance(marks, list) else []
