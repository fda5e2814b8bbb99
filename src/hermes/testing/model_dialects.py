"""The wire formats that the fake model server speaks on top of chat completions: how each reads a request,
and writes chunks and completions as its own events and answers. The official SDKs accept what is written
here (tests/foreign/test_model_sdks.py).

Pure data and small state machines; knows no socket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes.testing.model_script import Json

Write = Callable[[Json | None], Sequence[Json]]
"""What becomes of a chunk or a whole completion; None is the end of a stream."""


def _as_it_is(data: Json) -> Json:
    return data


def _each(chunk: Json | None) -> Sequence[Json]:
    return [] if chunk is None else [chunk]


def _bearer(headers: Mapping[str, str]) -> str:
    return headers.get("Authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A wire format: `read` turns its requests into chat completions, and `writer` makes what turns chunks
    and completions into its own events and answers. `path` is how its addresses begin, `closing` what ends a
    stream, `error` the shape of an error with a status, and `key` finds the key in the headers. `fault` says
    why the service refuses a request as it was sent; a writer is made for such a request."""

    path: str = "/v1/chat/completions"
    read: Callable[[Json], Json] = _as_it_is
    writer: Callable[[Json], Write] = lambda wire: _each
    fault: Callable[[Json], str] = lambda wire: ""
    closing: bytes = b"[DONE]"
    error: Callable[[int, Json], Json] | None = None
    key: Callable[[Mapping[str, str]], str] = _bearer


def _request(body: Json, messages: list[Json], tools: list[Json]) -> Json:
    """A request as chat completions have it; usage is told in any case."""
    usage = {"stream_options": {"include_usage": True}} if body.get("stream") else {}
    asked: Json = {"model": body.get("model"), "messages": messages, "stream": body.get("stream"), **usage}
    return {**asked, "tools": tools}


def _content(texts: list[str], pictures: list[str]) -> Any:
    if not pictures:
        return "".join(texts)
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    return [{"type": "text", "text": "".join(texts)}, *shown]


def _calls(said: Json) -> Sequence[Json]:
    """The calls of a message; if they are no list, one that no format has a place for."""
    calls = said.get("tool_calls") or []
    return calls if isinstance(calls, list) else [{"function": {"name": ["no list"]}}]


def _arguments(call: Json) -> Any:
    return call.get("function", {}).get("arguments")


# --- Anthropic Messages: platform.claude.com/docs/en/build-with-claude/streaming ------------------------

_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_ERRORS |= {400: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error"}
_ERRORS |= {529: "overloaded_error"}


def _read_messages(body: Json) -> Json:
    system = body.get("system") or ""
    text = system if isinstance(system, str) else "".join(block["text"] for block in system)
    messages: list[Json] = [{"role": "system", "content": text}] if text else []
    for message in body.get("messages", ()):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages += _read_blocks(message["role"], blocks)
    tools = [
        {"type": "function", "function": {"name": tool["name"], "parameters": tool.get("input_schema")}}
        for tool in body.get("tools", ())
    ]
    return _request(body, messages, tools)


def _read_blocks(role: str, blocks: Sequence[Json]) -> list[Json]:
    results: list[Json] = []
    texts, pictures = list[str](), list[str]()
    said: Json = {}
    for block in blocks:
        match block["type"]:
            case "tool_result":
                content = block["content"]
                inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
                (result,) = _read_blocks("tool", inner)
                results.append({**result, "tool_call_id": block["tool_use_id"]})
            case "text":
                texts.append(block["text"])
            case "tool_reference":
                texts.append(f"[{block['tool_name']}]")
            case "image":
                source = block["source"]
                data = f"data:{source.get('media_type')};base64,{source.get('data')}"
                pictures.append(source.get("url") or data)
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                call = {"id": block["id"], "type": "function", "function": function}
                said.setdefault("tool_calls", []).append(call)
            case "redacted_thinking":
                said.setdefault("reasoning_details", []).append(json.loads(block["data"]))
    if texts or pictures or said:
        return [*results, {"role": role, "content": _content(texts, pictures), **said}]
    return results


def _message_fault(wire: Json) -> str:
    """platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool: errors."""
    tools = wire.get("tools") or []
    deferred = {tool["name"] for tool in tools if tool.get("defer_loading")}
    if tools and len(deferred) == len(tools):
        return "All tools have defer_loading set. At least one tool must be non-deferred."
    if any(tool.get("defer_loading") and "cache_control" in tool for tool in tools):
        return "A tool with defer_loading cannot have cache_control."
    contents = [message["content"] for message in wire.get("messages", ())]
    told = [block for content in contents if isinstance(content, list) for block in content]
    results = [block["content"] for block in told if block["type"] == "tool_result"]
    for block in (block for result in results if isinstance(result, list) for block in result):
        if block["type"] == "tool_reference" and block["tool_name"] not in deferred:
            return f"Tool reference '{block['tool_name']}' has no corresponding tool definition"
    return ""


def _message_usage(usage: Json | None) -> Json:
    used = usage or {}
    details = used.get("prompt_tokens_details", {})
    read, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    thought = used.get("completion_tokens_details", {}).get("reasoning_tokens", 0)
    return {
        "input_tokens": used.get("prompt_tokens", 0) - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": used.get("completion_tokens", 0),
        "output_tokens_details": {"thinking_tokens": thought},
    }


def _message(data: Json, blocks: list[Json], stop: str | None, usage: Json | None) -> Json:
    identity = {"id": data["id"].replace("chatcmpl", "msg"), "type": "message", "role": "assistant"}
    ending = {"stop_reason": stop, "stop_sequence": None, "usage": _message_usage(usage)}
    return {**identity, "model": data["model"], "content": blocks, **ending}


def _call_input(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"unreadable": arguments}


def _whole_message(data: Json) -> Json:
    choice = (data["choices"] or [{}])[0]
    said = choice.get("message", {})
    blocks: list[Json] = []
    if said.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": said["reasoning_content"], "signature": "c2lnbmVk"})
    blocks += [
        {"type": "redacted_thinking", "data": json.dumps(one)} for one in said.get("reasoning_details", ())
    ]
    if said.get("content"):
        blocks.append({"type": "text", "text": said["content"]})
    for call in _calls(said):
        function = call["function"]
        made = {"id": call.get("id"), "name": function["name"], "input": _call_input(_arguments(call))}
        blocks.append({"type": "tool_use", **made})
    stop = choice.get("finish_reason")
    return _message(data, blocks, _STOPS.get(stop, stop), data.get("usage"))


@dataclass(slots=True)
class _MessageWriter:
    """One stream of events; a block is open until another begins."""

    begun: bool = False
    index: int = -1
    kind: str = ""
    calls: dict[Any, int] = field(default_factory=dict)
    stop: str | None = None
    out: list[Json] = field(default_factory=list)

    def __call__(self, chunk: Json | None) -> Sequence[Json]:
        self.out = []
        if chunk is None:
            self.out.append({"type": "message_stop"})
            return self.out
        if chunk.get("object") == "chat.completion":
            return [_whole_message(chunk)]
        if not self.begun:
            self.begun = True
            self.out.append({"type": "message_start", "message": _message(chunk, [], None, None)})
            self.out.append({"type": "ping"})
        for choice in chunk["choices"]:
            self._hear(choice)
        if chunk.get("usage"):
            ending = {"stop_reason": self.stop, "stop_sequence": None}
            told = {"delta": ending, "usage": _message_usage(chunk["usage"])}
            self.out.append({"type": "message_delta", **told})
        return self.out

    def _hear(self, choice: Json) -> None:
        delta = choice.get("delta", {})
        if delta.get("reasoning_content"):
            self._open("thinking", {"thinking": "", "signature": ""})
            self._delta({"type": "thinking_delta", "thinking": delta["reasoning_content"]})
        for detail in delta.get("reasoning_details", ()):
            self._open("redacted_thinking", {"data": json.dumps(detail)}, again=True)
        if delta.get("content"):
            self._open("text", {"text": ""})
            self._delta({"type": "text_delta", "text": delta["content"]})
        for call in _calls(delta):
            self._call(call)
        if choice.get("finish_reason"):
            self._close()
            self.stop = _STOPS.get(choice["finish_reason"], choice["finish_reason"])

    def _call(self, call: Json) -> None:
        name, arguments = call["function"].get("name"), _arguments(call)
        if name is not None:
            given = arguments if arguments and not isinstance(arguments, str) else {}
            self._open("tool_use", {"id": call.get("id"), "name": name, "input": given}, again=True)
        if arguments and isinstance(arguments, str):
            self._delta({"type": "input_json_delta", "partial_json": arguments})

    def _open(self, kind: str, block: Json, *, again: bool = False) -> None:
        if self.kind == kind and not again:
            return
        self._close()
        self.kind, self.index = kind, self.index + 1
        opened = {"index": self.index, "content_block": {"type": kind, **block}}
        self.out.append({"type": "content_block_start", **opened})

    def _close(self) -> None:
        if self.kind == "thinking":
            self._delta({"type": "signature_delta", "signature": "c2lnbmVk"})
        if self.kind:
            self.out.append({"type": "content_block_stop", "index": self.index})
        self.kind = ""

    def _delta(self, delta: Json) -> None:
        self.out.append({"type": "content_block_delta", "index": self.index, "delta": delta})


def _message_error(status: int, error: Json) -> Json:
    kind = _ERRORS.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": error.get("message", "")},
        "request_id": "req_1",
    }


MESSAGES = Dialect(
    path="/v1/messages",
    read=_read_messages,
    writer=lambda wire: _MessageWriter(),
    fault=_message_fault,
    closing=b"",
    error=_message_error,
    key=lambda headers: headers.get("x-api-key") or _bearer(headers),
)

# --- OpenAI Responses: developers.openai.com/api/reference/responses/streaming-events --------------------


def _read_responses(body: Json) -> Json:
    system = body.get("instructions")
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    given = body.get("input") or []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        message = _read_item(item)
        last = messages[-1] if messages else {}
        if message["role"] == "assistant" and last.get("role") == "assistant":
            for name in ("tool_calls", "reasoning_details"):
                if name in message:
                    last[name] = [*last.get(name, ()), *message[name]]
            last["content"] += message["content"]
        else:
            messages.append(message)
    tools = [{"type": "function", "function": {"name": tool.get("name")}} for tool in body.get("tools", ())]
    return _request(body, messages, tools)


_SEARCH = "tool_search"


def _searches(wire: Json) -> bool:
    """Whether the client searches for tools (developers.openai.com/api/docs/guides/tools-tool-search)."""
    return any(tool["type"] == _SEARCH and tool["execution"] == "client" for tool in wire.get("tools") or ())


def _response_fault(wire: Json) -> str:
    items = wire.get("input") or []
    if not _searches(wire) or isinstance(items, str):
        return ""
    made = {item["call_id"] for item in items if item.get("type") == "tool_search_call"}
    answered = {item["call_id"] for item in items if item.get("type") == "tool_search_output"}
    return "" if made == answered else "No tool output found for tool search call"


def _search_call(item: Json) -> Json:
    """The call of a search, as the service has it."""
    call = {"execution": "client", "status": "completed", "arguments": _call_input(item["arguments"])}
    return {"type": "tool_search_call", "id": item["id"], "call_id": item["call_id"], **call}


def _read_item(item: Json) -> Json:
    match item.get("type", "message"):
        case "reasoning":
            details = [json.loads(item["encrypted_content"])]
            return {"role": "assistant", "content": "", "reasoning_details": details}
        case "function_call":
            call = {"name": item["name"], "arguments": item["arguments"]}
            calls = [{"id": item["call_id"], "type": "function", "function": call}]
            return {"role": "assistant", "content": "", "tool_calls": calls}
        case "tool_search_call":
            call = {"name": _SEARCH, "arguments": json.dumps(item["arguments"])}
            calls = [{"id": item["call_id"], "type": "function", "function": call}]
            return {"role": "assistant", "content": "", "tool_calls": calls}
        case "tool_search_output":
            found = "".join(f"[{tool['name']}]" for tool in item["tools"])
            return {"role": "tool", "tool_call_id": item["call_id"], "content": found}
        case "function_call_output":
            content = _read_parts(item["output"])
            return {"role": "tool", "tool_call_id": item["call_id"], "content": content}
        case _:
            return {"role": item["role"], "content": _read_parts(item["content"])}


def _read_parts(content: Any) -> Any:
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if "text" in part]
    return _content(texts, [part["image_url"] for part in content if "image_url" in part])


def _response_usage(usage: Json) -> Json:
    asked = {"cache_write_tokens": 0, **usage["prompt_tokens_details"]}
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": asked,
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }


def _response(data: Json, output: list[Json], status: str, usage: Json | None, why: str | None) -> Json:
    return {
        "id": data["id"].replace("chatcmpl", "resp"),
        "object": "response",
        "created_at": data["created"],
        "status": status,
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "instructions": None,
        "metadata": {},
        "model": data["model"],
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _response_usage(usage) if usage else None,
    }


_WHY = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _whole_response(data: Json, searches: bool = False) -> Json:
    choice = (data["choices"] or [{}])[0]
    said = choice.get("message", {})
    output: list[Json] = []
    if said.get("reasoning_content"):
        summary = [{"type": "summary_text", "text": said["reasoning_content"]}]
        output.append({"type": "reasoning", "id": "rs_0", "summary": summary})
    for place, detail in enumerate(said.get("reasoning_details", ())):
        output.append(_reasoning(f"rs_{place + 1}", detail))
    if said.get("content"):
        output.append(_spoken("msg_0", said["content"]))
    for place, call in enumerate(_calls(said)):
        made = {"name": call["function"]["name"], "arguments": _arguments(call)}
        item = {"type": "function_call", "id": f"fc_{place}", "call_id": call.get("id"), **made}
        output.append(_search_call(item) if searches and made["name"] == _SEARCH else item)
    why = _WHY.get(choice.get("finish_reason"))
    status = "incomplete" if why else "completed" if choice else "in_progress"
    return _response(data, output, status, data.get("usage"), why)


def _reasoning(id: str, detail: Json) -> Json:
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": json.dumps(detail)}


def _spoken(id: str, text: Any, status: str = "completed") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": id, "status": status, "role": "assistant", "content": [part]}


@dataclass(slots=True)
class _ResponseWriter:
    """One stream of events; an item is open until another begins."""

    searches: bool = False
    number: int = -1
    place: int = -1
    item: Json = field(default_factory=dict)
    said: str = ""
    output: list[Json] = field(default_factory=list)
    finish: str | None = None
    ended: bool = False
    last: Json = field(default_factory=dict)
    out: list[Json] = field(default_factory=list)

    def __call__(self, chunk: Json | None) -> Sequence[Json]:
        self.out = []
        if chunk is None:
            if not self.ended and (self.output or self.item):
                self._end(self.last, None)
            return self.out
        if chunk.get("object") == "chat.completion":
            return [_whole_response(chunk, self.searches)]
        if not self.last:
            for kind in ("created", "in_progress"):
                self._tell(kind, response=_response(chunk, [], "in_progress", None, None))
        self.last = chunk
        for choice in chunk["choices"]:
            self._hear(choice)
        if chunk.get("usage") and self.finish:
            self._end(chunk, chunk["usage"])
        return self.out

    def _hear(self, choice: Json) -> None:
        delta = choice.get("delta", {})
        if delta.get("reasoning_content"):
            if self.item.get("type") != "reasoning":
                self._open({"type": "reasoning", "id": f"rs_{self.place + 1}", "summary": []})
                part = {"type": "summary_text", "text": ""}
                self._tell("reasoning_summary_part.added", summary_index=0, part=part)
            self._say("reasoning_summary_text", delta["reasoning_content"], summary_index=0)
        for detail in delta.get("reasoning_details", ()):
            self._open(_reasoning(f"rs_{self.place + 1}", detail))
            self._close()
        if delta.get("content"):
            if self.item.get("type") != "message":
                self._open({**_spoken(f"msg_{self.place + 1}", "", "in_progress"), "content": []})
                empty = _spoken("", "")["content"][0]
                self._tell("content_part.added", content_index=0, part=empty)
            self._say("output_text", delta["content"], content_index=0, logprobs=[])
        for call in _calls(delta):
            self._call(call)
        if choice.get("finish_reason"):
            self._close()
            self.finish = choice["finish_reason"]

    def _call(self, call: Json) -> None:
        name, arguments = call["function"].get("name"), _arguments(call)
        if name is not None:
            given = arguments if arguments and not isinstance(arguments, str) else ""
            made = {"call_id": call.get("id"), "name": name, "arguments": given, "status": "in_progress"}
            self._open({"type": "function_call", "id": f"fc_{self.place + 1}", **made})
        if arguments and isinstance(arguments, str):
            if self.item.get("name") == _SEARCH and self.searches:
                self.said += arguments
            else:
                self._say("function_call_arguments", arguments)

    def _tell(self, kind: str, **fields: Any) -> None:
        self.number += 1
        if "response" not in fields:
            fields = {"output_index": self.place, **fields}
            if "item" not in fields:
                fields["item_id"] = self.item["id"]
        self.out.append({"type": f"response.{kind}", "sequence_number": self.number, **fields})

    def _say(self, kind: str, text: Any, **fields: Any) -> None:
        self.said += text if isinstance(text, str) else ""
        self._tell(f"{kind}.delta", delta=text, **fields)

    def _open(self, item: Json) -> None:
        self._close()
        self.item, self.place, self.said = item, self.place + 1, ""
        searching = self.searches and item.get("name") == _SEARCH
        self._tell("output_item.added", item=_search_call(item) if searching else item)

    def _close(self) -> None:
        """An item is told whole when it is done, piece by piece."""
        item, said = self.item, self.said
        match item.get("type"):
            case "reasoning" if said:
                part = {"type": "summary_text", "text": said}
                self._tell("reasoning_summary_text.done", summary_index=0, text=said)
                self._tell("reasoning_summary_part.done", summary_index=0, part=part)
                item = {**item, "summary": [part]}
            case "message":
                whole = _spoken(item["id"], said)
                self._tell("output_text.done", content_index=0, text=said, logprobs=[])
                self._tell("content_part.done", content_index=0, part=whole["content"][0])
                item = whole
            case "function_call" if self.searches and item["name"] == _SEARCH:
                item = _search_call({**item, "arguments": said or item["arguments"]})
            case "function_call":
                item = {**item, "arguments": said or item["arguments"], "status": "completed"}
                told = {"name": item["name"], "arguments": item["arguments"]}
                self._tell("function_call_arguments.done", **told)
            case None:
                return
        self._tell("output_item.done", item=item)
        self.output.append(item)
        self.item = {}

    def _end(self, chunk: Json, usage: Json | None) -> None:
        self._close()
        self.ended = True
        why = _WHY.get(self.finish or "")
        status = "incomplete" if why else "completed"
        self._tell(status, response=_response(chunk, self.output, status, usage, why))


RESPONSES = Dialect(
    path="/v1/responses",
    read=_read_responses,
    writer=lambda wire: _ResponseWriter(searches=_searches(wire)),
    fault=_response_fault,
    closing=b"",
)

CHAT = Dialect()
DIALECTS: Mapping[str, Dialect] = {
    "chat_completions": CHAT,
    "codex_responses": RESPONSES,
    "anthropic_messages": MESSAGES,
}
"""What the fake server speaks, by the names of `model.api_mode`; the address of a request tells which."""
