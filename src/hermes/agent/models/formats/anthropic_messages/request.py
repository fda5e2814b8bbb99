"""The Messages format, outward: a request as bytes.

Each message of the transcript is encoded as the blocks it has; what opens and closes the messages around
them stands between. So all results of a reply are in one message, as the API wants them. Breakpoints of the
cache are put in last, into bytes that are otherwise the same as before."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial

from hermes.agent.call_repair import read_arguments
from hermes.agent.context.encoded import Images, encode_prompt
from hermes.agent.context.transcript_messages import ModelMessage, Role
from hermes.agent.models.encoding import (
    EncodedTools,
    breakpoints,
    cache_mark,
    dump,
    in_order,
    is_direct,
    output_limit,
    parameters,
    read_marks,
    refuse_options,
    sampling,
    split_data_url,
    wire_arguments,
    wire_name,
    words_and_pictures,
)
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.anthropic_messages.reply import NAME
from hermes.agent.models.formats.anthropic_messages.thinking import encode_effort
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.call_options import NO_OPTIONS
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.deferral import TOOL_SEARCH, direct_search, read_hits
from hermes.domain.tools.tool import Tool

_NO_THOUGHTS = {"type": "disabled"}
USUAL_LIMIT = 8192
"""Tokens of a reply, which this API wants to be told, where nobody knows what the model can write."""


def encode_request(request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
    known = output_limit(request, endpoint) or endpoint.facts(request.model).max_output or USUAL_LIMIT
    head: dict[str, object] = {"model": request.model, "max_tokens": known}
    if endpoint.stream:
        head["stream"] = True
    if request.options is not NO_OPTIONS:
        head |= _encode_options(request, endpoint, known)
    mark = cache_mark(request) if "cache_marks" not in endpoint.without else b""
    parts = [dump({**head, **endpoint.extra_body})[:-1]]
    deferred = _deferred(request) if request.deferred and is_direct(request, endpoint) else {}
    if request.tools:
        # A deferred tool takes no breakpoint.
        tools = (_direct_tools if deferred else _tools)(request.tools)
        told = [*tools[:-1], _marked(tools[-1], mark), *_deferred_tools(list(deferred.values()))]
        parts += [b',"tools":[', b",".join(told), b"]"]
    if request.system:
        system = dump({"type": "text", "text": request.system})
        parts += [b',"system":[', _marked(system, mark), b"]"]
    prompt = encode_prompt(
        request,
        partial(encode_blocks, deferred=deferred.keys()) if deferred else encode_blocks,
        format=NAME,
        variant="direct" if deferred else "",
        between=_between,
        results_show=True,
        kept="kept" not in endpoint.without,
    )
    for place in breakpoints(prompt.roles):
        prompt.parts[place] = _marked(prompt.parts[place], mark)
    return b"".join((*parts, b',"messages":[', *prompt.parts, b"]}]}"))


def _marked(block: bytes, mark: bytes) -> bytes:
    return block[:-1] + mark if mark else block


def _between(before: Role | None, role: Role) -> bytes:
    speaker = b"assistant" if role is Role.ASSISTANT else b"user"
    if before is None:
        return b'{"role":"' + speaker + b'","content":['
    if (before is Role.ASSISTANT) is (role is Role.ASSISTANT):
        return b","
    return b']},{"role":"' + speaker + b'","content":['


# --- options -------------------------------------------------------------------------------------


def _encode_options(request: ModelRequest, endpoint: ModelEndpoint, limit: int) -> dict[str, object]:
    options = request.options
    refuse_options(request, NAME, "seed", "presence_penalty", "frequency_penalty", "verbosity")
    fields = sampling(request, endpoint, "temperature", "top_p")
    # One of spaces alone is refused there; whoever reads the reply ends it at each of them anyway.
    fields["stop_sequences"] = [stop for stop in options.stop if stop.strip()] or None
    output: dict[str, object] = {}
    if options.must_call:
        one = len(options.must_call) == 1
        choice: dict[str, object] = {"type": "tool", "name": options.must_call[0]} if one else {"type": "any"}
        fields["tool_choice"] = choice
    elif options.json is not None:
        if not options.json.schema:
            words = f"{NAME} gives JSON only by a schema, and this request has none."
            raise ModelFault(words, kind=FaultKind.BAD_REQUEST, hint="Give a JSON schema.")
        output["format"] = {"type": "json_schema", "schema": json.loads(options.json.schema)}
    if request.tools and not options.parallel:
        choice = fields.get("tool_choice") or {"type": "auto"}  # type: ignore[assignment]
        fields["tool_choice"] = {**choice, "disable_parallel_tool_use": True}
    if options.effort and not options.must_call and "effort" not in endpoint.without:
        # Thinking does not go with a call that must be made.
        thinking = encode_effort(options.effort, request.model, limit)
        output |= thinking.pop("output_config", {})
        if thinking.get("thinking", _NO_THOUGHTS) != _NO_THOUGHTS:
            # They do not go with thinking, and many clients always send them.
            fields |= {"temperature": None, "top_p": None}
        fields |= thinking
    fields["output_config"] = output or None
    return {name: value for name, value in fields.items() if value is not None}


# --- messages ------------------------------------------------------------------------------------


def encode_tool(tool: Tool) -> dict[str, object]:
    words = {"name": tool.name, "description": tool.description, "input_schema": parameters(tool)}
    return {**words, "strict": True} if tool.strict else words


# --- deferred tools ------------------------------------------------------------------------------
# platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool: custom tool search implementation


def _deferred(request: ModelRequest) -> Mapping[str, Tool]:
    """What is defined and kept from the model until a search finds it."""
    told = {tool.name for tool in request.tools}
    return {tool.name: tool for tool in request.deferred if tool.name not in told}


def _encode_direct(tool: Tool) -> dict[str, object]:
    words = encode_tool(tool)
    return {**words, "description": direct_search(tool.description)} if tool.name == TOOL_SEARCH else words


def _references(result: str, deferred: Collection[str]) -> list[dict[str, object]]:
    """What a search found. A result with a tool that was not defined from the start stays text: a reference
    to it would be refused, and the bridge leads to it."""
    names = [hit["name"] for hit in read_hits(result) or ()]
    if not all(name in deferred for name in names):
        return []
    return [{"type": "tool_reference", "tool_name": name} for name in names]


_tools = EncodedTools(encode_tool)
_direct_tools = EncodedTools(_encode_direct)
_deferred_tools = EncodedTools(lambda tool: {**encode_tool(tool), "defer_loading": True})


def encode_blocks(message: ModelMessage, images: Images, deferred: Collection[str] = ()) -> bytes:
    """The blocks of a message, without the message around them."""
    if message.role is Role.ASSISTANT:
        blocks = _reply_blocks(message)
    else:
        text, shown = words_and_pictures(message, images) if message.images else (message.text, [])
        blocks = [*([_text(text)] if text else ()), *map(_picture, shown)]
        if message.role is Role.TOOL:
            found = _references(text, deferred) if deferred and message.tool == TOOL_SEARCH else []
            content: object = found or (blocks if shown else text)
            blocks = [
                {"type": "tool_result", "tool_use_id": wire_name(message.call or ""), "content": content}
            ]
    return dump(blocks)[1:-1]


def _reply_blocks(message: ModelMessage) -> list[dict[str, object]]:
    blocks: list[dict[str, object]] = []
    for part in in_order(read_marks(message.kept), message.text, len(message.calls)):
        if isinstance(part, int):
            call = message.calls[part]
            given = read_arguments(wire_arguments(call.arguments))
            identity = {"id": wire_name(call.id), "name": wire_name(call.name)}
            blocks.append({"type": "tool_use", **identity, "input": given or {}})
        else:
            blocks.append(part if "type" in part else _text(part["text"]))
    return blocks


def _text(text: object) -> dict[str, object]:
    return {"type": "text", "text": text}


def _picture(url: str) -> dict[str, object]:
    data = split_data_url(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}
