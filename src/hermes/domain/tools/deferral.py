"""Tools that a session is not told of in full: which they are, and how a model finds them.

The schemas of a session's tools are paid for with every request. Those that everybody needs are always sent;
what does not fit the budget beside them is deferred: two constant tools, the bridge, lead to it. A service
that can append tools to a conversation itself is told of deferred tools in its own way (see the formats)."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.tools.tool import Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.word import replace

TOOL_SEARCH, TOOL_CALL = "tool_search", "tool_call"
BRIDGE = frozenset((TOOL_SEARCH, TOOL_CALL))
BRIDGE_TOOLSET = "tools"
_CORE = (
    "terminal process read_file write_file patch search_files session_search clarify todo memory skill_view"
)
CORE = frozenset(_CORE.split())
"""Tools that are never deferred."""
BUDGET = 5_200
_STUBS = 320
"""Bytes that the list of deferred tools may take."""
_STUB_WORDS = 6
_HITS, _MOST_HITS = 5, 20
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_K1, _B, _NAME_WEIGHT = 1.2, 0.5, 3
_BY_BRIDGE = "; call them with tool_call"
NO_CALL = "tool_call needs the name of a tool and its arguments as an object."


class LoadRule(Struct, frozen=True, kw_only=True):
    """When tools are deferred: never, always (but for the core), or if the schemas exceed a budget of bytes.
    `load` names tools and toolsets that are loaded whatever they take."""

    defer: str = "auto"
    budget: int = BUDGET
    load: tuple[str, ...] = ()

    def loaded(self, tools: Mapping[str, Tool], *, more: bool = False) -> list[Tool]:
        """The tools that a session which begins now is told of, the bridge among them if there are others, or
        if there may be `more` some time."""
        every = list(tools.values())
        if self.defer == "never":
            return every
        fits = self.defer != "always" and sum(map(schema_size, every)) <= self.budget
        chosen = set(tools) if fits else self._choose(tools)
        deferred = [tool for tool in every if tool.name not in chosen]
        bridge = bridge_tools(deferred) if deferred or more else []
        return [*(tool for tool in every if tool.name in chosen), *bridge]

    def _choose(self, tools: Mapping[str, Tool]) -> set[str]:
        """What is loaded whatever it takes, then whole toolsets in their order as long as they fit."""
        groups: dict[str, list[Tool]] = {}
        chosen: set[str] = set()
        for tool in tools.values():
            if tool.name in CORE or not {tool.name, tool.toolset}.isdisjoint(self.load):
                chosen.add(tool.name)
            else:
                groups.setdefault(tool.toolset, []).append(tool)
        if self.defer == "always":
            return chosen
        bridge = sum(map(schema_size, bridge_tools(tools.values())))
        left = self.budget - bridge - sum(schema_size(tools[name]) for name in chosen)
        for group in groups.values():
            size = sum(map(schema_size, group))
            if size <= left:
                left -= size
                chosen |= {tool.name for tool in group}
        return chosen


LOAD_BY_BUDGET = LoadRule()


def schema_size(tool: Tool) -> int:
    """Bytes that a tool takes in a request, in the most common format."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    told = {"type": "function", "function": function}
    return len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()) + 1


# --- the bridge ---


def bridge_tools(deferred: Iterable[Tool]) -> list[Tool]:
    return [search_tool({}, list_stubs(list(deferred))), _call_tool()]


def list_stubs(deferred: Sequence[Tool]) -> str:
    """What there is: names with a few words, or names alone, or toolsets with how many tools they have."""
    toolsets = Counter(tool.toolset for tool in deferred)
    forms = (
        "; ".join(f"{tool.name}: {stub_words(tool)}" for tool in deferred),
        ", ".join(tool.name for tool in deferred),
        ", ".join(f"{name} ({count})" for name, count in toolsets.most_common()),
    )
    return next((form for form in forms if len(form.encode()) <= _STUBS), forms[-1][:_STUBS])


def stub_words(tool: Tool) -> str:
    return " ".join(tool.description.split()[:_STUB_WORDS]).rstrip(".,:;")


def search_tool(hidden: Mapping[str, Tool], stubs: str = "") -> Tool:
    """Finds tools among the hidden ones."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        query, most = arguments.get("query"), arguments.get("limit", _HITS)
        if not isinstance(query, str) or not query.strip():
            raise UserError("tool_search needs a query.", hint="Name what the tool should do.")
        limit = min(max(most, 1), _MOST_HITS) if isinstance(most, int) else _HITS
        hits = find_tools(query, hidden.values(), limit)
        if not hits:
            raise UserError("No further tool fits.", hint="Try other words, or go on without.")
        told = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in hits
        ]
        return ToolResult(text=json.dumps(told, ensure_ascii=False))

    description = f"Find more tools and their parameters{_BY_BRIDGE}."
    properties = {"query": {"type": "string"}, "limit": {"type": "integer"}}
    return Tool(
        name=TOOL_SEARCH,
        description=f"{description} There are: {stubs}" if stubs else description,
        parameters={"type": "object", "properties": properties, "required": ["query"]},
        run=run,
        toolset=BRIDGE_TOOLSET,
        effect=Effect.READ,
        parallel=True,
    )


def _call_tool() -> Tool:
    """A call through it is taken for one of the tool it names, before anything is recorded; so it runs only
    if it names none."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        raise UserError(NO_CALL)

    properties = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    return Tool(
        name=TOOL_CALL,
        description="Call a tool that tool_search found.",
        parameters={"type": "object", "properties": properties, "required": ["name", "arguments"]},
        run=run,
        toolset=BRIDGE_TOOLSET,
        effect=Effect.READ,
    )


def direct_search(description: str) -> str:
    """What the search is called where a service makes callable what was found."""
    return description.replace(_BY_BRIDGE, "; call them by their names", 1)


def read_hits(result: str) -> list[dict[str, Any]] | None:
    """The tools that a search found, from its result; None if it is none, or was cut or cleared since."""
    try:
        hits = json.loads(result) if result.startswith("[{") else None
    except ValueError:
        return None
    named = isinstance(hits, list) and all(isinstance(hit, dict) and hit.get("name") for hit in hits)
    return hits if named else None


def as_made(call: ToolCall) -> ToolCall:
    """A call as the model made it."""
    if not call.bridged:
        return call
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    made = {"name": call.name, "arguments": arguments}
    return replace(call, name=TOOL_CALL, arguments=json.dumps(made, ensure_ascii=False))


def runnable_bridge(hidden: Mapping[str, Tool]) -> dict[str, Tool]:
    return {TOOL_SEARCH: search_tool(hidden), TOOL_CALL: _call_tool()}


# --- the search (Okapi BM25; a name counts more than a description) ---


def find_tools(query: str, tools: Collection[Tool], limit: int = _HITS) -> list[Tool]:
    """The tools that fit a query best; one that is named in it comes first."""
    by_name = {tool.name: tool for tool in tools}
    texts = {tool.name: _texts_of(tool) for tool in tools}
    return [by_name[name] for name in rank_texts(query, texts, limit)]


def rank_texts(query: str, named: Mapping[str, tuple[str, str]], limit: int) -> list[str]:
    """The names whose texts (a weighty one, and another) fit a query best, by BM25."""
    texts = {name: _indexed(*both) for name, both in named.items()}
    wanted = set(_split(query))
    exact = {word.strip(".,;:`\"'()") for word in query.split()}
    average = sum(map(len, texts.values())) / max(len(texts), 1)
    seen = Counter(word for words in texts.values() for word in wanted.intersection(words))
    scores: list[tuple[float, str]] = []
    for name, words in texts.items():
        counts, score = Counter(words), 1e6 if name in exact else 0.0
        for word in wanted & counts.keys():
            rarity = math.log(1 + (len(texts) - seen[word] + 0.5) / (seen[word] + 0.5))
            norm = _K1 * (1 - _B + _B * len(words) / average)
            score += rarity * counts[word] * (_K1 + 1) / (counts[word] + norm)
        if score > 0:
            scores.append((-score, name))
    return [name for _, name in sorted(scores)[:limit]]


def _texts_of(tool: Tool) -> tuple[str, str]:
    properties = tool.parameters.get("properties")
    fields = " ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
    return f"{tool.name} {tool.toolset}", f"{tool.description} {fields}"


@lru_cache(maxsize=4096)
def _indexed(name: str, text: str) -> tuple[str, ...]:
    return (*_split(name) * _NAME_WEIGHT, *_split(text))


def _split(text: str) -> tuple[str, ...]:
    """Words, without the ending that tells one from several."""
    words = _WORD.findall(_CAMEL.sub(" ", text).lower())
    return tuple(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words)
