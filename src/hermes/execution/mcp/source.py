"""The tools of one MCP server, as a source of the toolbox. What was seen of it before is offered at once; the
server itself is started by the first call. If nothing was ever seen of it, it is started to be asked.

A server may ask for more in the middle of a call. The person is asked then, by the turn's own means: the call
comes to rest with what it needs to go on, and nothing is held open for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import Media
from hermes.domain.safety.outside import defused
from hermes.domain.text import one_line
from hermes.domain.tools.mcp import McpDefinition, McpPins, tool_name, toolset_of
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolContext, ToolResult
from hermes.domain.word import replace
from hermes.execution.mcp import questions
from hermes.execution.mcp.connection import Listing, McpConnection, McpPlace, McpRefusal, load_sdk
from hermes.execution.mcp.results import call_result, listed, prompt_result, resource_result

log = logging.getLogger("hermes.mcp")
_FIRST_SECONDS = 25.0
_LONGEST_DESCRIPTION = 1024
_MOST_ROUNDS = 10
_MOST_PAGES, _MOST_LISTED = 50, 2000
_LARGEST_STATE = 256 << 10
_MINUTE = 60.0
CHANGED = (
    "Not run: {tool} of {server} has changed since its owner accepted it. "
    "They can look at the change and accept it: hermes mcp accept {server}"
)


class PinBook(Struct, frozen=True, kw_only=True):
    """What was accepted of a server, on disk; both functions are called off the loop."""

    read: Callable[[], McpPins | None]
    change: Callable[[Callable[[McpPins], McpPins]], McpPins]


class McpSource:
    def __init__(self, place: McpPlace, book: PinBook, media: Media | None) -> None:
        self._name, self._server = place.name, place.server
        self._book = book
        self._media = media
        self._pins: McpPins | None = None
        self._changed = asyncio.Event()
        self._first: asyncio.Task[None] | None = None
        self._sampled: list[float] = []
        self._calls: list[ToolContext] = []
        callbacks: dict[str, Any] = {}
        if place.server.elicitation:
            callbacks["elicitation_callback"] = self._decline
        if place.server.sampling.enabled:
            callbacks["sampling_callback"] = self._sample_for_only_call
        self.connection = McpConnection(place, self._take, callbacks)

    # --- a source of the toolbox ---

    async def open(self) -> None:
        self.connection.reopen()
        await asyncio.to_thread(self.read_pins)

    async def tools(self) -> Sequence[Tool]:
        if self._pins is None:
            if self._first is None or self._first.done():
                self._first = asyncio.create_task(self._look(), name=f"mcp {self._name} first look")
            await asyncio.wait((self._first,), timeout=_FIRST_SECONDS)
            if self._first.done():
                self._first.result()
        return self.offered()

    async def changed(self) -> None:
        waiting = asyncio.create_task(self._changed.wait(), name=f"mcp {self._name} changes")
        try:
            looking = [] if self._first is None or self._first.done() else [self._first]
            await asyncio.wait((waiting, *looking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._first is not None and self._first.done():
            self._first.result()
        if self._changed.is_set():
            self._changed.clear()
            await self.open()

    async def close(self) -> None:
        if self._first is not None:
            self._first.cancel()
        await self.connection.close()

    def read_pins(self) -> McpPins | None:
        """What was accepted and seen; looks at the disk."""
        self._pins = self._book.read()
        return self._pins

    def look_again(self) -> None:
        """What was accepted may be other than it was."""
        self._changed.set()

    async def _look(self) -> None:
        await self.connection.use(_nothing)

    async def _take(self, listing: Listing) -> None:
        before, times = self._pins, Counter(each.name for each in listing.tools)
        if twice := ", ".join(name for name, count in times.items() if count > 1):
            log.warning("mcp.tools_told_twice server=%s tools=%s", self._name, one_line(twice, 200))
        see = partial(McpPins.see, listed=listing.tools, resources=listing.resources, prompts=listing.prompts)
        self._pins = await asyncio.to_thread(self._book.change, see)
        if self._pins.waiting and (before is None or before.waiting != self._pins.waiting):
            names = ", ".join(self._pins.waiting)
            log.warning("mcp.tools_withheld server=%s tools=%s", self._name, one_line(names, 200))
        if before is not None and before != self._pins:
            self._changed.set()

    # --- its tools ---

    def offered(self) -> list[Tool]:
        """Those that are known, whether it runs or not."""
        pins, chosen = self._pins, self._server.tools
        if pins is None:
            return []
        tools = [self._tool(each) for each in pins.offered if chosen.allows(each.name)]
        if pins.resources and chosen.resources:
            tools += [
                self._further("list_resources", "List the resources of {}.", {}, self._list_resources),
                self._further(
                    "read_resource", "Read a resource of {}.", {"uri": "string"}, self._read_resource
                ),
            ]
        if pins.prompts and chosen.prompts:
            named = {"name": "string", "arguments": "object"}
            tools += [
                self._further("list_prompts", "List the prompts of {}.", {}, self._list_prompts),
                self._further("get_prompt", "Get a prompt of {}.", named, self._get_prompt),
            ]
        return tools

    def _tool(self, definition: McpDefinition) -> Tool:
        effect, trusted = Effect.ONCE, self._server.trust
        if trusted and (definition.read_only or definition.idempotent):
            effect = Effect.READ if definition.read_only else Effect.KEYED
        return Tool(
            name=tool_name(self._name, definition.name),
            description=defused(definition.description)[:_LONGEST_DESCRIPTION],
            parameters={"type": "object", "properties": {}, **definition.parameters},
            run=partial(self._run, partial(self._call, definition)),
            toolset=toolset_of(self._name),
            effect=effect,
            parallel=self._server.supports_parallel_tool_calls,
            seconds=self._server.timeout + self._server.connect_timeout,
            after_outside=Approval.NEVER
            if effect is Effect.READ or (trusted and definition.closed)
            else None,
        )

    def _further(
        self,
        name: str,
        about: str,
        takes: Mapping[str, str],
        run: Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]],
    ) -> Tool:
        properties = {each: {"type": kind} for each, kind in takes.items()}
        required = [each for each, kind in takes.items() if kind == "string"]
        harmless = self._server.trust or not takes  # what it takes may carry anything to the server
        return Tool(
            name=tool_name(self._name, name),
            description=about.format(f"the MCP server {self._name}"),
            parameters={"type": "object", "properties": properties, "required": required},
            run=partial(self._run, run),
            toolset=toolset_of(self._name),
            effect=Effect.READ if harmless else Effect.ONCE,
            seconds=self._server.timeout + self._server.connect_timeout,
            after_outside=Approval.NEVER if harmless else None,
        )

    async def _run(
        self,
        work: Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]],
        context: ToolContext,
        arguments: Mapping[str, object],
    ) -> ToolResult:
        """One sentence for whatever goes wrong."""
        self._calls.append(context)
        try:
            return await work(context, arguments)
        except McpRefusal as error:
            return ToolResult(text=f"{self._name} gives no result: {error}", failed=True, outside=True)
        except Unreachable as error:
            unknown = " Whether it was done is unknown." if error.maybe_done else ""
            return ToolResult(
                text=f"{str(error).rstrip('.')}.{unknown}", failed=True, unknown=error.maybe_done
            )
        except RuntimeError as error:  # the SDK's word for a server that asks without end
            return ToolResult(
                text=f"{self._name} gave an answer that cannot be used ({one_line(str(error), 200)}).",
                failed=True,
                outside=True,
            )
        finally:
            self._calls.remove(context)

    async def _call(
        self, definition: McpDefinition, context: ToolContext, arguments: Mapping[str, object]
    ) -> ToolResult:
        exchange = _Exchange.read(context.answer)
        if context.answer is not None and exchange.asked:
            asked = exchange.requests[exchange.asked]["params"]
            try:
                exchange.responses[exchange.asked] = questions.read_answer(asked, context.answer[1])
            except UserError as error:
                return exchange.ask(self._name, f"{error.message} Please answer once more.")
            if exchange.opens and exchange.responses[exchange.asked]["action"] != "accept":
                raise McpRefusal("it wants an address to be opened first, and that was declined")
        sdk = await load_sdk()
        for _ in range(_MOST_ROUNDS):
            if exchange.requests:
                wants = await self._respond(exchange, context)
                if wants is not None:
                    return wants
            send = partial(self._send, definition, dict(arguments), exchange, context)
            try:
                result = await self.connection.use(send)
            except McpRefusal as refusal:
                if not (refusal.opened and self._server.elicitation):
                    raise
                exchange = _Exchange.to_open(refusal.opened)
                continue
            if not isinstance(result, sdk.types.InputRequiredResult):
                return await call_result(result, self._media)
            exchange = _Exchange.of(result)
            if not exchange.requests:
                await asyncio.sleep(0.25)  # it only wants to be asked again
        raise McpRefusal(f"it asked for more than {_MOST_ROUNDS} times")

    async def _send(
        self,
        definition: McpDefinition,
        arguments: dict[str, Any],
        exchange: _Exchange,
        context: ToolContext,
        client: Any,
    ) -> Any:
        # Connected, so what the server has now was compared with what was accepted.
        pins, name = self._pins or McpPins(), definition.name
        if name in pins.waiting or pins.accepted.get(name) != definition:
            raise UserError(CHANGED.format(tool=definition.name, server=self._name))

        async def progress(done: float, total: float | None, message: str | None) -> None:
            context.output(f"{one_line(message, 200)}\n" if message else "")

        return await client.session.call_tool(
            definition.name,
            arguments,
            read_timeout_seconds=self._server.timeout,
            progress_callback=progress,
            input_responses=None if exchange.opens else exchange.responses or None,
            request_state=exchange.state,
            allow_input_required=True,
        )

    # --- what a server wants in the middle of a call ---

    async def _respond(self, exchange: _Exchange, context: ToolContext) -> ToolResult | None:
        """Answer what it wants; what only a person can answer is put to them."""
        for key, request in exchange.requests.items():
            if key in exchange.responses:
                continue
            match request.get("method"):
                case "elicitation/create" if self._server.elicitation:
                    return replace(exchange, asked=key).ask(self._name)
                case "sampling/createMessage" if self._server.sampling.enabled:
                    exchange.responses[key] = await self._sample(context, request["params"])
                case "roots/list":
                    exchange.responses[key] = {"roots": []}
                case other:
                    raise McpRefusal(f"it wants {one_line(str(other), 60)}, which its settings do not allow")
        return None

    async def _decline(self, context: Any, params: Any) -> Any:
        """Older servers ask while a call is open, and cannot wait for a person."""
        sdk = await load_sdk()
        return sdk.types.ElicitResult(action="decline")

    async def _sample_for_only_call(self, context: Any, params: Any) -> Any:
        """Older servers do not say for which call; it must be clear."""
        sdk = await load_sdk()
        try:
            if len(self._calls) != 1:
                raise UserError("More than one call is open.")
            asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            return sdk.types.CreateMessageResult.model_validate(await self._sample(self._calls[0], asked))
        except (HermesError, McpRefusal) as error:
            return sdk.types.ErrorData(code=sdk.types.INTERNAL_ERROR, message=str(error))

    async def _sample(self, context: ToolContext, params: Mapping[str, Any]) -> dict[str, Any]:
        now = time.monotonic()
        self._sampled = [at for at in self._sampled if now - at < _MINUTE]
        if len(self._sampled) >= self._server.sampling.max_rpm:
            raise McpRefusal("it wants a model more often than its settings allow")
        self._sampled.append(now)
        parts = [str(params.get("systemPrompt") or "")]
        for message in params.get("messages", ()):
            content = message.get("content")
            blocks = content if isinstance(content, list) else [content]
            words = " ".join(block.get("text", "") for block in blocks if isinstance(block, dict))
            parts.append(f"{message.get('role')}: {words}")
        answer = await context.ask_model("mcp", "\n\n".join(filter(None, parts)))
        return {"role": "assistant", "content": {"type": "text", "text": answer}, "model": "hermes"}

    # --- resources and prompts ---

    async def _list(self, what: str) -> list[Any]:
        """All of them, as far as anybody reads on."""

        async def ask(client: Any) -> list[Any]:
            found: list[Any] = []
            cursor = None
            for _ in range(_MOST_PAGES):
                page = await getattr(client, f"list_{what}")(cursor=cursor)
                found += getattr(page, what)
                cursor = page.next_cursor
                if cursor is None or len(found) > _MOST_LISTED:
                    break
            return found

        return await self.connection.use(ask)

    async def _list_resources(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        found = [(each.uri, each) for each in await self._list("resources")]
        with contextlib.suppress(McpRefusal):  # it has none whose address has a part to fill in
            found += [(each.uri_template, each) for each in await self._list("resource_templates")]
        lines = (f"{uri} {each.name}: {each.description or ''}".rstrip(": ") for uri, each in found)
        return listed(lines, "There are none.")

    async def _read_resource(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        uri = str(arguments.get("uri", ""))
        found = await self.connection.use(lambda client: client.read_resource(uri))
        return await resource_result(found.contents, self._media)

    async def _list_prompts(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        lines = (
            f"{each.name}({', '.join(one.name for one in each.arguments or ())}): {each.description or ''}"
            for each in await self._list("prompts")
        )
        return listed(lines, "There are none.")

    async def _get_prompt(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        given = arguments.get("arguments")
        texts = {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}
        name = str(arguments.get("name", ""))
        found = await self.connection.use(lambda client: client.get_prompt(name, texts))
        return await prompt_result(found.messages, self._media)


class _Exchange(Struct, kw_only=True):
    """What a server wants before it answers, and what it was told so far; `asked` is put to the person. Of
    addresses that it only wants opened (`opens`) it is told nothing: it knows by itself."""

    requests: dict[str, dict[str, Any]]
    responses: dict[str, dict[str, Any]]
    state: str | None = None
    asked: str = ""
    opens: bool = False

    @classmethod
    def to_open(cls, wanted: Sequence[dict[str, Any]]) -> _Exchange:
        requests = {
            str(place): {"method": "elicitation/create", "params": {**each, "mode": "url"}}
            for place, each in enumerate(wanted)
        }
        return cls(requests=requests, responses={}, opens=True)

    @classmethod
    def of(cls, result: Any) -> _Exchange:
        told = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return cls(requests=told.get("inputRequests") or {}, responses={}, state=told.get("requestState"))

    @classmethod
    def read(cls, answer: tuple[str, str] | None) -> _Exchange:
        return cls(requests={}, responses={}) if answer is None else cls(**json.loads(answer[0]))

    def ask(self, server: str, complaint: str = "") -> ToolResult:
        kept = {
            "requests": self.requests,
            "responses": self.responses,
            "state": self.state,
            "asked": self.asked,
            "opens": self.opens,
        }
        text = json.dumps(kept, ensure_ascii=False)
        if len(text) > _LARGEST_STATE:
            raise McpRefusal("it wants more to be remembered than anybody keeps")
        wants = questions.as_question(server, self.requests[self.asked]["params"], complaint)
        return ToolResult(text="", wants=wants, kept=text)


async def _nothing(client: Any) -> None:
    return None
