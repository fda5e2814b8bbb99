"""The Responses format, outward: a request as bytes. The service stores nothing: what it wants to know of
earlier thoughts goes back encrypted with each request."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hermes.agent.call_repair import read_arguments
from hermes.agent.context.encoded import Images, comma, encode_prompt
from hermes.agent.context.transcript_messages import ModelMessage, Role
from hermes.agent.models.effort import OPENAI_EFFORTS, nearest_effort
from hermes.agent.models.encoding import (
    EncodedTools,
    dump,
    in_order,
    is_direct,
    output_limit,
    parameters,
    read_marks,
    refuse_options,
    sampling,
    wire_arguments,
    wire_name,
    words_and_pictures,
)
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.responses.reply import NAME
from hermes.domain.models.call_options import NO_OPTIONS, JsonAnswer
from hermes.domain.models.providers import CacheStyle
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.deferral import TOOL_CALL, TOOL_SEARCH, direct_search, read_hits
from hermes.domain.tools.tool import Tool

_ENCRYPTED = "reasoning.encrypted_content"


def encode_request(request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
    head: dict[str, object] = {"model": request.model, "store": False}
    if endpoint.stream:
        head["stream"] = True
    thinks = endpoint.facts(request.model).thinking
    if thinks is not False and "encrypted" not in endpoint.without:
        head["include"] = [_ENCRYPTED]
    limit = output_limit(request, endpoint)
    if limit is not None and endpoint.token_limit:
        head["max_output_tokens"] = limit
    if endpoint.caching is CacheStyle.KEY and request.cache_key:
        head["prompt_cache_key"] = request.cache_key
    if "effort" not in endpoint.without:
        effort = nearest_effort(request.options.effort, OPENAI_EFFORTS)
        if effort or thinks:
            wanted = {"effort": effort} if effort else {}
            summary = {"summary": "auto"} if "summary" not in endpoint.without else {}
            if wanted or summary:
                head["reasoning"] = wanted | summary
    if request.options is not NO_OPTIONS:
        head |= _encode_options(request, endpoint)
    if request.system:
        head["instructions"] = request.system
    parts = [dump({**head, **endpoint.extra_body})[:-1]]
    direct = is_direct(request, endpoint)
    if request.tools:
        tools = _direct_tools(_without_bridge(request.tools)) if direct else _tools(request.tools)
        parts += [b',"tools":[', b",".join(tools), b"]"]
    prompt = encode_prompt(
        request,
        _encode_direct_items if direct else encode_items,
        format=NAME,
        variant="direct" if direct else "",
        between=comma,
        results_show=True,
        kept="kept" not in endpoint.without,
    )
    return b"".join((*parts, b',"input":[', *prompt.parts, b"]}"))


def _encode_options(request: ModelRequest, endpoint: ModelEndpoint) -> dict[str, object]:
    """How the reply is wanted. The API knows no texts to stop at: whoever reads the reply ends it there."""
    options = request.options
    refuse_options(request, NAME, "seed", "presence_penalty", "frequency_penalty")
    fields = sampling(request, endpoint, "temperature", "top_p")
    if request.tools and not options.parallel:
        fields["parallel_tool_calls"] = False
    text: dict[str, object] = {"verbosity": options.verbosity} if options.verbosity else {}
    if len(options.must_call) == 1:
        fields["tool_choice"] = {"type": "function", "name": options.must_call[0]}
    elif options.must_call:
        fields["tool_choice"] = "required"
    elif options.json is not None:
        text["format"] = _encode_form(options.json)
    fields["text"] = text or None
    return {name: value for name, value in fields.items() if value is not None}


def _encode_form(form: JsonAnswer) -> dict[str, object]:
    if not form.schema:
        return {"type": "json_object"}
    fields = {"name": form.name, "schema": json.loads(form.schema), "description": form.description or None}
    fields["strict"] = form.strict
    return {"type": "json_schema", **{name: value for name, value in fields.items() if value is not None}}


def encode_tool(tool: Tool) -> dict[str, object]:
    # Without a word about it, this API takes every function as strict.
    words = {"name": tool.name, "description": tool.description, "parameters": parameters(tool)}
    return {"type": "function", **words, "strict": tool.strict}


# --- deferred tools ------------------------------------------------------------------------------
# developers.openai.com/api/docs/guides/tools-tool-search: client-executed tool search


def _encode_direct(tool: Tool) -> dict[str, object]:
    """The search is a tool of the service's own kind. What it finds comes with its result and is callable
    from there on, so no other tool is defined beforehand."""
    if tool.name != TOOL_SEARCH:
        return encode_tool(tool)
    words = {"description": direct_search(tool.description), "parameters": parameters(tool)}
    return {"type": "tool_search", "execution": "client", **words}


def _without_bridge(tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if tool.name != TOOL_CALL]


def _search_item(kind: str, call: str | None, **content: object) -> dict[str, object]:
    return {"type": kind, "call_id": call, "execution": "client", "status": "completed", **content}


def _loaded(result: str) -> list[dict[str, object]]:
    """What a search found, as functions; nothing if it found none, or its result was cleared."""
    return [
        {
            "type": "function",
            "name": hit["name"],
            "description": hit.get("description", ""),
            "parameters": hit.get("parameters") or {"type": "object", "properties": {}},
            "strict": False,
            "defer_loading": True,
        }
        for hit in read_hits(result) or ()
    ]


_tools = EncodedTools(encode_tool)
_direct_tools = EncodedTools(_encode_direct)


def _encode_direct_items(message: ModelMessage, images: Images) -> bytes:
    if message.tool == TOOL_SEARCH:
        return dump(_search_item("tool_search_output", message.call, tools=_loaded(message.text)))
    return encode_items(message, images, direct=True)


def encode_items(message: ModelMessage, images: Images, direct: bool = False) -> bytes:
    """The items of a message, as the inside of a JSON array."""
    if message.role is Role.ASSISTANT:
        return dump(_reply_items(message, direct))[1:-1]
    text, shown = words_and_pictures(message, images) if message.images else (message.text, [])
    content: list[dict[str, object]] = [{"type": "input_text", "text": text}] if text else []
    content += [{"type": "input_image", "image_url": url, "detail": "auto"} for url in shown]
    if message.role is Role.TOOL:
        result = {"type": "function_call_output", "call_id": message.call}
        return dump({**result, "output": content if shown else text})
    return dump({"type": "message", "role": message.role.value, "content": content})


def _reply_items(message: ModelMessage, direct: bool) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    marks = read_marks(message.kept)
    spaces = {mark["call"]: mark["namespace"] for mark in marks if direct and "namespace" in mark}
    for part in in_order(marks, message.text, len(message.calls)):
        if isinstance(part, int):
            call = message.calls[part]
            if direct and call.name == TOOL_SEARCH:
                given = read_arguments(wire_arguments(call.arguments))
                items.append(_search_item("tool_search_call", call.id, arguments=given or {}))
                continue
            made = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments)}
            space = {"namespace": spaces[part]} if part in spaces else {}
            items.append({"type": "function_call", "call_id": call.id, **made, **space})
        elif "type" in part:
            items.append(part)
        else:
            words = {"type": "output_text", "text": part["text"], "annotations": []}
            phase = {"phase": part["phase"]} if part.get("phase") else {}
            items.append({"type": "message", "role": "assistant", "content": [words], **phase})
    return items
