"""What an MCP server says of its tools, and what an owner has accepted of that.

A definition is data from outside. It is pinned when it is first seen, unless it reads like orders to a model;
one that was pinned and is another now is withheld until the owner accepts it. A name stays pinned while its
tool is gone, so that it cannot come back as something else."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, field

from hermes.domain.safety.injection import all_findings
from hermes.domain.text import showable
from hermes.domain.tools.toolsets import MCP

LONGEST_NAME = 64
MOST_TOOLS = 512
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class McpDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it; `output` is the schema of its structured results, a `closed` one
    leads nowhere else."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None
    read_only: bool = False
    idempotent: bool = False
    closed: bool = False

    @property
    def digest(self) -> str:
        return sha256(self.told.encode("utf-8", "replace")).hexdigest()

    @property
    def told(self) -> str:
        """All that it says, as text with sorted keys."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True, indent=1, ensure_ascii=False)

    @property
    def concerns(self) -> tuple[str, ...]:
        """What it seems to be up to, beyond telling what the tool does."""
        return all_findings(self.told.replace("\\n", "\n"))


class McpPins(Struct, frozen=True, kw_only=True):
    """What is known of a server: definitions that count, new ones that wait for the owner, names of `absent`
    tools, and whether it has resources and prompts."""

    accepted: Mapping[str, McpDefinition] = field(default_factory=dict)
    waiting: Mapping[str, McpDefinition] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    resources: bool = False
    prompts: bool = False

    @property
    def offered(self) -> list[McpDefinition]:
        gone = {*self.waiting, *self.absent}
        return [definition for name, definition in self.accepted.items() if name not in gone]

    def see(self, listed: Iterable[McpDefinition], *, resources: bool, prompts: bool) -> McpPins:
        """These, after the server told what it has. Of a name that it tells twice, the first counts."""
        accepted, waiting, seen = dict(self.accepted), {}, set()
        for definition in list(listed)[:MOST_TOOLS]:
            if definition.name in seen:
                continue
            seen.add(definition.name)
            known = accepted.get(definition.name)
            if known is None and not definition.concerns:
                accepted[definition.name] = definition
            elif known != definition:
                waiting[definition.name] = definition
        absent = tuple(name for name in accepted if name not in seen)
        return McpPins(
            accepted=accepted, waiting=waiting, absent=absent, resources=resources, prompts=prompts
        )

    def accept(self, names: Iterable[str]) -> McpPins:
        """With what waits under these names as what counts."""
        taken = {name: self.waiting[name] for name in names}
        waiting = {name: each for name, each in self.waiting.items() if name not in taken}
        return msgspec.structs.replace(self, accepted={**self.accepted, **taken}, waiting=waiting)

    def difference(self, name: str) -> list[str]:
        """What the owner would accept, line by line; for a tool that was never accepted, all of it."""
        old, new = self.accepted.get(name), self.waiting[name]
        before = [] if old is None else old.told.splitlines()
        return [showable(line) for line in difflib.unified_diff(before, new.told.splitlines(), lineterm="")][
            2:
        ]


def toolset_of(server: str) -> str:
    return f"{MCP}{server}"


def tool_name(server: str, tool: str) -> str:
    """What a model calls a tool; a long or odd name ends with a digest, so that it is nobody else's."""
    plain = _ODD.sub("_", f"mcp__{server}__{tool}")
    if plain == f"mcp__{server}__{tool}" and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[: LONGEST_NAME - 9]}_{sha256(tool.encode('utf-8', 'replace')).hexdigest()[:8]}"
