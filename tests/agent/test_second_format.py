"""A second wire format, written with nothing but the public halves: it passes the whole provider suite.

Its system prompt stands apart, a result is a block of the person's message, a call's arguments are a block of
the reply, and what its service wants back is called a seal. It is no vendor's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hermes.agent.context.encoded import Images, encode_prompt
from hermes.agent.context.transcript_messages import ModelMessage, Role, attachment_note
from hermes.agent.models.assembly import ReplyAssembly, broken
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint, WireFormat
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import Ending, Kept
from hermes.testing.model_dialects import Dialect
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import CHECKS, KEY, LONG, PORT_CHECKS, DialectMake, ask, hear
from tests.agent.test_openai_provider import deadlines

NAME = "blocks"
Json = dict[str, Any]


# --- the format ---


class Blocks:
    name = NAME

    def path(self, model: str) -> str:
        return f"/talk/{model}"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def encode(self, request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
        prompt = encode_prompt(request, encode_blocks, format=NAME)
        talk: list[Json] = []
        for part, role in zip(prompt.parts, prompt.roles, strict=True):
            who = "machine" if role is Role.ASSISTANT else "person"
            if talk and talk[-1]["who"] == who:
                talk[-1]["blocks"] += json.loads(part)
            else:
                talk.append({"who": who, "blocks": json.loads(part)})
        tools = [{"tool": tool.name, "takes": tool.parameters} for tool in request.tools]
        body = {"model": request.model, "about": request.system, "talk": talk, "tools": tools}
        return json.dumps({**body, **endpoint.extra_body}).encode()

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        seals: list[object] = []

        def take(data: bytes) -> None:
            if data == b"[DONE]":
                reply.done = True
                return
            try:
                event = json.loads(data)
                read_event(reply, event, seals)
            except (ValueError, TypeError, AttributeError, KeyError):
                raise broken("the model's answer could not be understood") from None

        return take


def encode_blocks(message: ModelMessage, images: Images) -> bytes:
    if message.role is Role.TOOL:
        return json.dumps([{"result": message.text, "of": message.call}]).encode()
    blocks: list[Json] = [{"text": message.text}] if message.text else []
    for image in message.images:
        shown = (images or {}).get(image.sha256 or "") or (image.ref if "://" in image.ref else None)
        blocks.append({"text": attachment_note(image)} if images is None or not shown else {"image": shown})
    blocks += [{"use": call.name, "id": call.id, "with": call.arguments} for call in message.calls]
    try:
        blocks += [{"seals": json.loads(message.kept)}] if message.kept else []
    except ValueError:
        pass
    return json.dumps(blocks).encode()


def read_event(reply: ReplyAssembly, event: Json, seals: list[object]) -> None:
    if event.get("error"):
        reply.fail(event["error"])
    if event.get("took"):
        reply.usage = Usage(**event["took"])
    reply.answered_by = event.get("by") or reply.answered_by
    for block in event.get("blocks", ()):
        reply.spoke()
        if block.get("text"):
            reply.say(block["text"] + "")
        if block.get("thought"):
            reply.think(block["thought"])
        for use in block.get("uses") or ():
            arguments = use.get("with") or ""
            arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
            reply.call(index=use.get("n"), id=use.get("id"), name=use.get("tool"), arguments=arguments)
        seals += block.get("seals") or ()
    stop = event.get("stop")
    if stop == "content_filter":
        reply.fault = ModelFault("the filter says no.", kind=FaultKind.FILTERED)
    elif stop:
        reply.ending = Ending.LENGTH if stop == "length" else Ending.STOP
        if seals:
            reply.kept = Kept(format=NAME, model=reply.model, text=json.dumps(seals))


# --- its server, on top of the fake one ---


def read(body: Json) -> Json:
    """A request as the fake server knows it."""
    messages: list[Json] = [{"role": "system", "content": body["about"]}]
    for turn in body["talk"]:
        role = "assistant" if turn["who"] == "machine" else "user"
        said: Json = {"role": role, "content": ""}
        shown: list[Json] = []
        for block in turn["blocks"]:
            if "result" in block:
                messages.append({"role": "tool", "tool_call_id": block["of"], "content": block["result"]})
            elif "image" in block:
                shown.append({"type": "image_url", "image_url": {"url": block["image"]}})
            elif "seals" in block:
                said["reasoning_details"] = block["seals"]
            elif "use" in block:
                said.setdefault("tool_calls", []).append(block)
            else:
                said["content"] += block["text"]
        if shown:
            said["content"] = [{"type": "text", "text": said["content"]}, *shown]
        if said["content"] or "tool_calls" in said:
            messages.append(said)
    tools = [{"function": {"name": tool["tool"]}} for tool in body["tools"]]
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": body["model"], "messages": messages, "tools": tools, **usage}


def write(chunk: Json) -> Json:
    """A chunk as an event of this format."""
    event: Json = {"by": chunk.get("model"), "blocks": []}
    for choice in chunk.get("choices", ()):
        said = choice.get("delta") or choice.get("message") or {}
        uses = said.get("tool_calls")
        if isinstance(uses, list):
            uses = [
                {"n": use.get("index"), "id": use.get("id")}
                | {"tool": use["function"].get("name"), "with": use["function"].get("arguments")}
                for use in uses
            ]
        block = {"text": said.get("content"), "thought": said.get("reasoning_content"), "uses": uses}
        event["blocks"].append({**block, "seals": said.get("reasoning_details")})
        event["stop"] = choice.get("finish_reason")
    if used := chunk.get("usage"):
        took = {"prompt": used["prompt_tokens"], "completion": used["completion_tokens"]}
        took["cached"] = used["prompt_tokens_details"]["cached_tokens"]
        took["reasoning"] = used["completion_tokens_details"]["reasoning_tokens"]
        took["cache_written"] = used["prompt_tokens_details"]["cache_write_tokens"]
        event["took"] = took
    return event


def write_each(chunk: Json | None) -> list[Json]:
    return [] if chunk is None else [write(chunk)]


DIALECT = Dialect(path="/v1/talk/", read=read, writer=lambda wire: write_each)


# --- the contract ---


def make(base_url: str, seconds: float = LONG) -> HttpProvider:
    wire: WireFormat = Blocks()
    endpoint = ModelEndpoint(base_url=base_url, key=Secret(KEY), deadlines=deadlines(seconds))
    return HttpProvider(endpoint, wire)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_it_passes_the_provider_suite(check) -> None:
    await check(DialectMake(make=make, dialect=DIALECT))


@pytest.mark.parametrize("check", PORT_CHECKS, ids=lambda check: check.__name__)
async def test_it_is_a_provider(check) -> None:
    async with FakeModelServer(key=KEY, dialect=DIALECT) as server:
        provider = make(server.base_url)
        await check(provider)
        await provider.close()


async def test_headers_and_further_fields_reach_the_service() -> None:
    async with FakeModelServer(key=KEY, dialect=Dialect(path="/v1/talk/")) as server:
        endpoint = ModelEndpoint(
            base_url=server.base_url,
            key=Secret(KEY),
            headers={"X-Title": "Hermes"},
            extra_body={"messages": [{"role": "user", "content": "x"}], "effort": "high"},
        )
        provider = HttpProvider(endpoint, Blocks())
        await hear(provider, ask("go"))
        await provider.close()
        request = server.requests[0]
        assert request.headers["X-Title"] == "Hermes" and request.body["effort"] == "high"
