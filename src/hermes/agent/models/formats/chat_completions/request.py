"""The chat-completions wire format, outward: a request as bytes. What was sealed before comes encoded from
`context.encoded`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.agent.call_repair import read_arguments
from hermes.agent.context import transcript_messages as transcript
from hermes.agent.context.encoded import Images, encode_prompt
from hermes.agent.models.formats.chat_completions.reply import NAME
from hermes.domain.call_options import NO_OPTIONS, JsonAnswer
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.text import storable
from hermes.domain.tool import Tool, ToolCall
from hermes.domain.word import replace

_NO_IMAGES: Mapping[str, str] = {}
_NOT_HERE = "the file is not at hand"
_UNSEEN = "not shown, for this model takes no pictures"
KEPT_FIELDS = ("reasoning_details", "reasoning_content", "extra_content")
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_UNREADABLE = 200
_SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
_encode = msgspec.json.Encoder().encode
_MOST_TOOLS = 1024
_encoded_tools: dict[int, tuple[Tool, bytes]] = {}
"""Tools that were encoded before, by their identity: they are the same objects in every request."""


def encode_messages(request: ModelRequest) -> bytes:
    """The messages of a request, as the inside of a JSON array."""
    parts = encode_prompt(request, encode_message, format=NAME).parts
    if request.system:
        parts.insert(0, _dump({"role": "system", "content": request.system}))
    return b",".join(parts)


def encode_request(request: ModelRequest, options: Mapping[str, object]) -> bytes:
    """The body of a request; `options` are further fields of it."""
    head: dict[str, object] = {"model": request.model, **options}
    if request.options is not NO_OPTIONS:
        head |= encode_options(request)
    parts = [_dump(head)[:-1]]
    if request.tools:
        parts += [b',"tools":[', b",".join(map(_encoded_tool, request.tools)), b"]"]
    return b"".join((*parts, b',"messages":[', encode_messages(request), b"]}"))


def encode_options(request: ModelRequest) -> dict[str, object]:
    """How the reply is wanted. A call that must be made leaves no place for the form of an answer."""
    options = request.options
    fields: dict[str, object] = {name: getattr(options, name) for name in _SAMPLING}
    fields |= {"reasoning_effort": options.effort or None, "verbosity": options.verbosity or None}
    if options.stop:
        fields["stop"] = options.stop
    if request.tools and not options.parallel:
        fields["parallel_tool_calls"] = False
    if len(options.must_call) == 1:
        fields["tool_choice"] = {"type": "function", "function": {"name": options.must_call[0]}}
    elif options.must_call:
        fields["tool_choice"] = "required"
    elif options.json is not None:
        fields["response_format"] = _encode_form(options.json)
    return {name: value for name, value in fields.items() if value is not None}


def _encode_form(form: JsonAnswer) -> dict[str, object]:
    if not form.schema:
        return {"type": "json_object"}
    told: dict[str, object] = {"name": form.name, "schema": json.loads(form.schema)}
    if form.description:
        told["description"] = form.description
    if form.strict is not None:
        told["strict"] = form.strict
    return {"type": "json_schema", "json_schema": told}


def _encoded_tool(tool: Tool) -> bytes:
    known = _encoded_tools.get(id(tool))
    if known is None:
        if len(_encoded_tools) >= _MOST_TOOLS:
            _encoded_tools.clear()
        known = _encoded_tools[id(tool)] = (tool, _dump(encode_tool(tool)))
    return known[1]


def encode_tool(tool: Tool) -> dict[str, object]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    strict = {"strict": True} if tool.strict else {}
    return {"type": "function", "function": {**function, **strict}}


def encode_message(message: transcript.ModelMessage, images: Images = _NO_IMAGES) -> bytes:
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
    words: dict[str, object] = {"role": message.role.value, "content": message.text}
    kept = _read_kept(message.kept) if message.kept else {}
    if message.calls:
        extras = kept.pop("extra_content", {})
        words["content"] = message.text or None
        words["tool_calls"] = [_encode_call(call, extras.get(call.id)) for call in message.calls]
    return _dump({**words, **kept})


def _encode_call(call: ToolCall, extra: object) -> dict[str, object]:
    function = {"name": _wire_name(call.name), "arguments": _wire_arguments(call.arguments)}
    encoded: dict[str, object] = {"id": call.id, "type": "function", "function": function}
    return {**encoded, "extra_content": extra} if extra else encoded


def _read_kept(text: str) -> dict[str, Any]:
    """What the service wants back with a reply; written by `ChatReader`."""
    try:
        kept = json.loads(text)
    except ValueError:
        return {}
    return {name: kept[name] for name in KEPT_FIELDS if name in kept} if isinstance(kept, dict) else {}


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
