"""The chat-completions wire format, outward: a request as bytes. What was sealed before comes encoded from
`context.encoded`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from hermes.agent.context import transcript_messages as transcript
from hermes.agent.context.encoded import EncodeMessage, Images, comma, encode_prompt
from hermes.agent.models.effort import OPENAI_EFFORTS, nearest_effort
from hermes.agent.models.encoding import (
    EncodedTools,
    breakpoints,
    cache_mark,
    dump,
    output_limit,
    parameters,
    sampling,
    wire_arguments,
    wire_name,
    words_and_pictures,
)
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.chat_completions.reply import NAME
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import NO_OPTIONS, JsonAnswer
from hermes.domain.models.providers import CacheStyle, ReasoningField
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Tool, ToolCall
from hermes.domain.word import replace

_NO_IMAGES: Mapping[str, str] = {}
KEPT_FIELDS = ("reasoning_details", "reasoning_content", "extra_content")
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens"}
# openrouter.ai/docs/use-cases/reasoning-tokens
_OBJECT_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
# openrouter.ai/docs/features/prompt-caching: these are cached up to breakpoints, all others by themselves.
_MARKED = re.compile("claude|qwen")
_NINE = re.compile("[A-Za-z0-9]{9}")
_STAND_IN = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_SAMPLING = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


def encode_messages(request: ModelRequest) -> bytes:
    """The messages of a request, as the inside of a JSON array."""
    return b"".join(message_parts(request))


def message_parts(
    request: ModelRequest, mark: bytes = b"", without: frozenset[str] = frozenset()
) -> list[bytes]:
    """The same in pieces, `without` what the service refused. A `mark` of the cache is set where the system
    prompt ends, where the request before this one ended, and where this one does."""
    if not mark:
        encode, variant = _adapted(encode_message, "", without)
        parts = encode_prompt(request, encode, format=NAME, variant=variant, between=comma).parts
        if request.system:
            parts.insert(0, dump({"role": "system", "content": request.system}) + b",")
        return parts
    encode, variant = _adapted(encode_in_parts, "parts", without)
    prompt = encode_prompt(request, encode, format=NAME, variant=variant, between=comma)
    for place in breakpoints(prompt.roles):
        prompt.parts[place] = prompt.parts[place][:-3] + mark
    if request.system:
        words = [{"type": "text", "text": request.system}]
        prompt.parts.insert(0, dump({"role": "system", "content": words})[:-3] + mark + b",")
    return prompt.parts


def encode_request(request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
    """The body of a request."""
    head: dict[str, object] = {"model": request.model}
    limit = output_limit(request, endpoint)
    if limit is not None and endpoint.token_limit:
        # OpenAI's newer models refuse the old name, and many other services do not know the new one.
        swap = "token_limit" in endpoint.without
        head[_OTHER_LIMIT.get(endpoint.token_limit, "max_tokens") if swap else endpoint.token_limit] = limit
    if endpoint.stream:
        head |= {"stream": True, "stream_options": {"include_usage": True}}
    if endpoint.caching is CacheStyle.KEY and request.cache_key:
        head["prompt_cache_key"] = request.cache_key
    head |= endpoint.extra_body
    if request.options is not NO_OPTIONS:
        head |= encode_options(request, endpoint)
    parts = [dump(head)[:-1]]
    if request.tools:
        parts += [b',"tools":[', b",".join(_tools(request.tools)), b"]"]
    marked = endpoint.caching is CacheStyle.MARKS and _MARKED.search(request.model.lower())
    mark = cache_mark(request) + b"]}" if marked and "cache_marks" not in endpoint.without else b""
    return b"".join((*parts, b',"messages":[', *message_parts(request, mark, endpoint.without), b"]}"))


def encode_options(request: ModelRequest, endpoint: ModelEndpoint) -> dict[str, object]:
    """How the reply is wanted. A call that must be made leaves no place for the form of an answer."""
    options = request.options
    fields = sampling(request, endpoint, *_SAMPLING)
    fields["verbosity"] = options.verbosity or None
    if options.effort and "effort" not in endpoint.without:
        if endpoint.reasoning is ReasoningField.OBJECT:
            fields["reasoning"] = {"effort": nearest_effort(options.effort, _OBJECT_EFFORTS)}
        else:
            fields["reasoning_effort"] = nearest_effort(options.effort, OPENAI_EFFORTS)
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


def _adapted(encode: EncodeMessage, variant: str, without: frozenset[str]) -> tuple[EncodeMessage, str]:
    """The encoder for a service that refuses ids of calls or lost signatures, and the name of its variant."""
    refused = sorted(without & {"call_ids", "signatures"})
    if not refused:
        return encode, variant

    def adapted(message: transcript.ModelMessage, images: Images = _NO_IMAGES) -> bytes:
        if "signatures" in refused and message.calls:
            message = _signed(message)
        if "call_ids" in refused:
            calls = tuple(replace(call, id=_nine(call.id)) for call in message.calls)
            message = replace(message, calls=calls, call=_nine(message.call) if message.call else None)
        return encode(message, images)

    return adapted, ".".join(filter(None, (variant, *refused)))


def _signed(message: transcript.ModelMessage) -> transcript.ModelMessage:
    """With the stand-in that Gemini takes for a signature that was lost: by clearing, or with the model."""
    kept = _read_kept(message.kept) if message.kept else {}
    extras = kept.get("extra_content") or {}
    first = message.calls[0].id
    if first in extras:
        return message
    return replace(message, kept=json.dumps({**kept, "extra_content": {**extras, first: _STAND_IN}}))


def _nine(call: CallId) -> CallId:
    return call if _NINE.fullmatch(call) else CallId(sha256(call.encode()).hexdigest()[:9])


def encode_in_parts(message: transcript.ModelMessage, images: Images = _NO_IMAGES) -> bytes:
    """The same with its content last and in parts, so that a mark of the cache can stand in the last of
    them; replies have no marks."""
    if message.role is transcript.Role.ASSISTANT:
        return encode_message(message, images)
    text, shown = words_and_pictures(message, images)
    words = [{"type": "text", "text": text}] if text else []
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in shown]
    call = {"tool_call_id": message.call} if message.role is transcript.Role.TOOL else {}
    return dump({"role": message.role.value, **call, "content": [*words, *pictures]})


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
