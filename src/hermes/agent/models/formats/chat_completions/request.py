"""The chat-completions wire format, outward: a request as bytes. What was sealed before comes encoded from
`context.encoded`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hermes.agent.context import transcript_messages as transcript
from hermes.agent.context.encoded import Images, encode_prompt
from hermes.agent.models.encoding import (
    EncodedTools,
    dump,
    parameters,
    wire_arguments,
    wire_name,
    words_and_pictures,
)
from hermes.agent.models.formats.chat_completions.reply import NAME
from hermes.domain.call_options import NO_OPTIONS, JsonAnswer
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tool import Tool, ToolCall

_NO_IMAGES: Mapping[str, str] = {}
KEPT_FIELDS = ("reasoning_details", "reasoning_content", "extra_content")
_SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


def encode_messages(request: ModelRequest) -> bytes:
    """The messages of a request, as the inside of a JSON array."""
    parts = encode_prompt(request, encode_message, format=NAME).parts
    if request.system:
        parts.insert(0, dump({"role": "system", "content": request.system}))
    return b",".join(parts)


def encode_request(request: ModelRequest, options: Mapping[str, object]) -> bytes:
    """The body of a request; `options` are further fields of it."""
    head: dict[str, object] = {"model": request.model, **options}
    if request.options is not NO_OPTIONS:
        head |= encode_options(request)
    parts = [dump(head)[:-1]]
    if request.tools:
        parts += [b',"tools":[', b",".join(_tools(request.tools)), b"]"]
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


def encode_tool(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": parameters(tool)}
    strict = {"strict": True} if tool.strict else {}
    return {"type": "function", "function": {**function, **strict}}


def encode_message(message: transcript.ModelMessage, images: Images = _NO_IMAGES) -> bytes:
    """`images` are the contents, as data URLs by their hash; one that is missing is told of in words, and so
    are all if there is no such mapping."""
    if message.role is transcript.Role.TOOL:
        return dump({"role": "tool", "tool_call_id": message.call, "content": message.text})
    if message.images:
        text, shown = words_and_pictures(message, images)
        pictures = [{"type": "image_url", "image_url": {"url": url}} for url in shown]
        words = [{"type": "text", "text": text}] if text else []
        return dump({"role": message.role.value, "content": text if images is None else [*words, *pictures]})
    spoken: dict[str, object] = {"role": message.role.value, "content": message.text}
    kept = _read_kept(message.kept) if message.kept else {}
    if message.calls:
        extras = kept.pop("extra_content", {})
        spoken["content"] = message.text or None
        spoken["tool_calls"] = [_encode_call(call, extras.get(call.id)) for call in message.calls]
    return dump({**spoken, **kept})


def _encode_call(call: ToolCall, extra: object) -> dict[str, object]:
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments)}
    encoded: dict[str, object] = {"id": call.id, "type": "function", "function": function}
    return {**encoded, "extra_content": extra} if extra else encoded


def _read_kept(text: str) -> dict[str, Any]:
    """What the service wants back with a reply; written by `ChatReader`."""
    try:
        kept = json.loads(text)
    except ValueError:
        return {}
    return {name: kept[name] for name in KEPT_FIELDS if name in kept} if isinstance(kept, dict) else {}


_tools = EncodedTools(encode_tool)
