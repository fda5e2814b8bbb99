"""Which tools a turn has. The toolbox of an agent answers, whenever somebody asks; nobody keeps a copy.

What Hermes brings along and the plain tools of plugins are there from the start. A source with a life of its
own (a plugin's connection, a server of tools) offers what it has whenever that changes, and has nothing while
it is away. Limits only narrow: what the settings say for all agents, for this one, for the platform and for
the route, and what came with the turn."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct

from hermes.domain.chats.address import Source
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.tools.deferral import BRIDGE, LOAD_BY_BUDGET, TOOL_CALL, LoadRule, runnable_bridge
from hermes.domain.tools.tool import Approval, Effect, Tool, ToolContext, ToolResult
from hermes.domain.tools.toolsets import MCP, check_names, is_chosen, stands_for
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace

WITHDRAWN = "Not run: {name} is not available any more. Go on without it."
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA = frozenset(("const", "enum", "default", "examples"))
_LARGEST_SCHEMA = 64 * 1024
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_MOST_ANSWERS = 64
_MOST_SECONDS = 365 * 24 * 3600


class ToolSource(Protocol):
    """Tools that come and go. It is opened, asked for its tools, and asked again each time `changed` returns.
    If it raises, or hangs while it is opened or asked, its tools are withdrawn and it is opened anew after a
    while."""

    async def open(self) -> None: ...

    async def tools(self) -> Sequence[Tool]: ...

    async def changed(self) -> None:
        """Return when the tools may be others than they were; it may take for ever."""

    async def close(self) -> None: ...


class ToolsetLimit(Struct, frozen=True, kw_only=True):
    """The only toolsets, groups of them or tools there are (all if none is named, nothing for `none`),
    without those that are disabled."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()

    def allows(self, tool: Tool) -> bool:
        if any(stands_for(name, tool.name, tool.toolset) for name in self.disabled):
            return False
        return is_chosen(self.enabled, tool.name, tool.toolset)


Limits = Callable[[Session | None, Source | None], Sequence[ToolsetLimit]]
"""The limits for what comes from a source, as they are now; without one, those that all turns have."""


class Toolbox:
    """`dress` is what every tool goes through (secrets are left out of results, hooks are asked); `limits`
    are those of a turn, beside what the turn brings along; `loading` says which tools a model is told of in
    full, and which it has to find."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        limits: Limits = lambda session, source: (),
        dress: Callable[[Tool], Tool] = lambda tool: tool,
        loading: LoadRule = LOAD_BY_BUDGET,
    ) -> None:
        self._limits = limits
        self._loading = loading
        self._dress = dress
        self._offers: dict[str, Sequence[Tool]] = {"": list(tools)}
        self._all: dict[str, Tool] = {}
        self._answers: dict[tuple[ToolsetLimit | str, ...], Mapping[str, Tool]] = {}
        self._lists: dict[tuple[ToolsetLimit, ...], str] = {}
        self._away: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._collect()

    @property
    def all(self) -> Mapping[str, Tool]:
        """What there is now for turns that have no limits of their own."""
        return self._within(tuple(self._limits(None, None)))

    @property
    def loaded(self) -> Sequence[Tool]:
        """What a session that begins now is told of in full, for want of limits of its own."""
        return self._loaded(tuple(self._limits(None, None)))

    def loaded_for(self, source: Source) -> Sequence[Tool]:
        """The same for a session that begins with what comes from there."""
        return self._loaded(tuple(self._limits(None, source)))

    def usable_for(self, source: Source | None) -> Mapping[str, Tool]:
        """What such a session can reach, told of or not."""
        return self._within(tuple(self._limits(None, source)))

    def check_names(self, names: Iterable[str]) -> None:
        """A `UserError` for a name in a list of toolsets that means nothing here."""
        tools = self._all.values()
        toolsets = {tool.toolset for tool in tools}
        servers = {name.removeprefix(MCP) for name in toolsets}
        check_names(names, {*toolsets, *servers, *(tool.name for tool in tools)})

    @property
    def problems(self) -> Mapping[str, str]:
        """Why a source, or a tool of it, cannot be used, by `source` or `source/tool`."""
        return self._away | self._faults

    def for_turn(self, session: Session, turn: Turn) -> Mapping[str, Tool]:
        """What the model of a turn is offered. A session keeps the tools it began with, so that the beginning
        of its requests stays the same: one that is gone since is refused when it is called, and one that
        came since, or did not fit, is found through the bridge."""
        limits = self._limits_of(session, turn)
        if session.tool_list is None:
            return self._within(limits)
        key: tuple[ToolsetLimit | str, ...] = (*limits, session.tool_list)
        answer = self._answers.get(key)
        if answer is None:
            usable, brought = self._within(limits), self._brought(turn)
            listed = {tool.name: tool for tool in read_tool_list(session.tool_list)[0]}
            frozen = [tool for tool in listed.values() if all(limit.allows(tool) for limit in brought)]
            if usable.keys() - listed.keys():
                # Limits of tools say nothing about the way to them.
                frozen = [tool for tool in listed.values() if tool in frozen or tool.name in BRIDGE]
            runnable = {**usable, **runnable_bridge({})}
            answer = self._keep(key, {tool.name: _offered(tool, runnable.get(tool.name)) for tool in frozen})
        return answer

    def deferred(self, session: Session) -> Sequence[Tool]:
        """What a session was not told of when it began, for services that are given it beforehand and show it
        to the model when it is found. It stays the same, like what it was told of; no limits are asked,
        because a call of it is asked for them."""
        return read_tool_list(session.tool_list)[1] if session.tool_list else ()

    def usable(self, session: Session, turn: Turn) -> Mapping[str, Tool]:
        """What a call of a turn may run at this moment."""
        return self._within(self._limits_of(session, turn))

    def freeze(self, session: Session | None, source: Source | None) -> str:
        """The tools as a session keeps them that begins now."""
        limits = tuple(self._limits(session, source))
        if limits not in self._lists:
            loaded = self._loaded(limits)
            names = {tool.name for tool in loaded}
            deferred = [tool for name, tool in self._within(limits).items() if name not in names]
            self._lists = {limits: write_tool_list([*loaded, *deferred])}
        return self._lists[limits]

    def _loaded(self, limits: tuple[ToolsetLimit, ...]) -> Sequence[Tool]:
        """A source may bring more any time, and an open session reaches that through the bridge alone."""
        more = len(self._offers) > 1 or bool(self._away)
        return self._loading.loaded(self._within(limits), more=more)

    def _limits_of(self, session: Session, turn: Turn) -> tuple[ToolsetLimit, ...]:
        return (*self._limits(session, turn.source), *self._brought(turn))

    def _brought(self, turn: Turn) -> tuple[ToolsetLimit, ...]:
        """The limits that came with a turn; a job is no way around those of the chat it was made in."""
        guidance = turn.input.guidance
        own = ToolsetLimit(enabled=guidance.toolsets, disabled=guidance.withheld)
        return (own,) if guidance.origin is None else (own, *self._limits(None, guidance.origin))

    def _within(self, limits: tuple[ToolsetLimit, ...]) -> Mapping[str, Tool]:
        answer = self._answers.get(limits)
        if answer is None:
            left = {
                name: tool for name, tool in self._all.items() if all(limit.allows(tool) for limit in limits)
            }
            answer = self._keep(limits, left)
        return answer

    def _keep(self, key: tuple[ToolsetLimit | str, ...], answer: Mapping[str, Tool]) -> Mapping[str, Tool]:
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers = {}
        self._answers[key] = answer
        return answer

    # --- sources ---

    def offer(self, source: str, tools: Sequence[Tool]) -> None:
        """What a source has from now on."""
        self._away.pop(source, None)
        self._offers[source] = list(tools)
        self._collect()

    def withdraw(self, source: str, why: str = "") -> None:
        """What a source had is gone."""
        self._offers.pop(source, None)
        if why:
            self._away[source] = why
        self._collect()

    def _collect(self) -> None:
        self._all, self._answers, self._lists, self._faults = {}, {}, {}, {}
        for source, tools in self._offers.items():
            for tool in tools:
                fault = tool_fault(tool)
                if not fault and (tool.name in self._all or tool.name in BRIDGE):
                    fault = "there is a tool of this name already"
                if fault:
                    name = one_line(str(getattr(tool, "name", "?")), 80)
                    self._faults[f"{source}/{name}" if source else name] = fault
                else:
                    self._all[tool.name] = self._dress(tool)


# --- the tools that a session keeps ------------------------------------------------------------------


def write_tool_list(tools: Iterable[Tool]) -> str:
    kept = [[tool.name, tool.description, tool.parameters, tool.toolset] for tool in tools]
    return json.dumps(kept, ensure_ascii=False)


@lru_cache(maxsize=64)
def read_tool_list(text: str) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Tools that are there to be described; none of them runs. Those behind the bridge are deferred."""
    tools = tuple(
        Tool(name=name, description=description, parameters=parameters, toolset=toolset, run=_withdrawn(name))
        for name, description, parameters, toolset in json.loads(text)
    )
    told = next((place for place, tool in enumerate(tools, 1) if tool.name == TOOL_CALL), len(tools))
    return tools[:told], tools[told:]


def _withdrawn(name: str) -> Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]]:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        raise UserError(WITHDRAWN.format(name=name))

    return run


def _offered(frozen: Tool, usable: Tool | None) -> Tool:
    """A tool as the model was told of it, with what runs it now."""
    if usable is None:
        return frozen
    return replace(usable, description=frozen.description, parameters=frozen.parameters)


def tool_fault(tool: Any) -> str:
    """Why something that was offered cannot be used as a tool; empty if it can. A model's service refuses a
    whole request for one bad schema."""
    name, *texts = (getattr(tool, field, None) for field in ("name", "description", "toolset"))
    if not isinstance(tool, Tool):
        return "it is not a tool"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "its name must be up to 64 letters, digits, - and _"
    if not all(isinstance(text, str) for text in texts):
        return "its description and toolset must be texts"
    return _way_fault(tool) or _schema_fault(tool.parameters)


def _way_fault(tool: Any) -> str:
    """What is wrong with how it says that it is to be run."""
    if not callable(tool.run) or not (tool.asks is None or callable(tool.asks)):
        return "its run and asks must be functions"
    if not isinstance(tool.effect, Effect):
        return "its effect must be an Effect"
    if not isinstance(tool.approval, Approval) and not callable(tool.approval):
        return "its approval must be an Approval or a function"
    if not isinstance(tool.parallel, bool):
        return "its parallel must be True or False"
    if not isinstance(tool.seconds, int | float) or not 0 <= tool.seconds <= _MOST_SECONDS:
        return "its seconds must be a number from 0 to a year"
    return ""


def _schema_fault(schema: Any) -> str:
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return "its parameters are no JSON schema of an object"
    if not isinstance(schema.get("properties", {}), Mapping):
        return "the properties of its parameters are no mapping"
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its parameters are no JSON ({one_line(str(error), 80)})"
    if len(text) > _LARGEST_SCHEMA:
        return "its parameters are too long"
    return _type_fault(schema, "parameters") or _reference_fault(schema, schema)


def _type_fault(schema: Any, place: str) -> str:
    """What is wrong with the types in a schema, however deep; other keywords are the model's business."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, Mapping):
        return f"{one_line(place, 80)} is no JSON schema"
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list | tuple) else [kinds]:
        if kind not in _TYPES:
            return f"{one_line(place, 80)} has the type {one_line(str(kind), 40)}, which JSON schema has not"
    inner = {keyword: schema[keyword] for keyword in ("items", "additionalProperties") if keyword in schema}
    for keyword in ("properties", "$defs", "anyOf", "oneOf", "allOf"):
        below = schema.get(keyword, {})
        if isinstance(below, list | tuple):
            below = {f"{keyword}[{number}]": each for number, each in enumerate(below)}
        if not isinstance(below, Mapping):
            return f"{keyword} of {one_line(place, 80)} is neither a list nor a mapping"
        inner |= below
    return next(filter(None, (_type_fault(part, f"{place}.{name}") for name, part in inner.items())), "")


def _reference_fault(part: Any, schema: Mapping[str, Any]) -> str:
    """A `$ref` to something that the schema has not; what is only data is not looked at."""
    if isinstance(part, list | tuple):
        return next(filter(None, (_reference_fault(each, schema) for each in part)), "")
    if not isinstance(part, Mapping):
        return ""
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        found: Any = schema
        for step in reference.split("/")[1:]:
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is None:
            return f"its parameters refer to {one_line(reference, 60)}, which is not there"
    inner = (value for key, value in part.items() if key not in _DATA)
    return next(filter(None, (_reference_fault(each, schema) for each in inner)), "")
