"""Settings of MCP servers: programs and services whose tools agents use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hermes.domain.settings.declaring import NONE_LISTED, Names, Secret, Section, setting

MCP_NAME = re.compile(r"(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
"""What a server may be called. Two underscores in a row stand between it and the name of a tool."""


class McpToolFilter(Section, frozen=True, kw_only=True):
    """What of a server is used."""

    include: Names = setting((), "The only tools of it, by the server's own names; not set = all.")
    exclude: Names = setting((), "Tools of it that are left out.")
    resources: bool = setting(True, "Offer its resources, if it has some, as two further tools.")
    prompts: bool = setting(True, "Offer its prompts, if it has some, as two further tools.")

    def allows(self, tool: str) -> bool:
        return tool not in self.exclude and (not self.include or tool in self.include)


class McpOAuth(Section, frozen=True, kw_only=True):
    """How `hermes mcp login` introduces Hermes, where a server does not let it register by itself."""

    client_id: str = setting("", "The id that you registered for Hermes; empty = Hermes registers itself.")
    client_secret: Secret = setting(Secret(""), "Its secret, if it has one; best as `${NAME}`.")
    scope: str = setting("", "What is asked for; empty = what the server names.")
    redirect_port: int = setting(
        0, "The port of this machine that the browser comes back to; 0 = any.", least=0, most=65535
    )


class McpSampling(Section, frozen=True, kw_only=True):
    """Whether a server may have the agent's model answer."""

    enabled: bool = setting(False, "Whether it may.", instead=False)
    max_rpm: int = setting(10, "How often in a minute.", least=0)


class McpServer(Section, frozen=True, kw_only=True):
    """An MCP server: a program (`command`) or an address (`url`). With a mistake in it, it does not count."""

    enabled: bool = setting(True, "Whether it is used.", instead=False)
    command: str = setting("", "The program that is the server.")
    args: Names = setting((), "Its arguments.")
    env: str = setting(
        "", "Variables that it is given: `{NAME: value}`; it sees no others of yours.", form="json"
    )
    cwd: str = setting("", "The folder it starts in; empty = the agent's workspace.")
    backend: str = setting(
        "",
        "Where the program runs: empty = where the agent's commands run, so in its sandbox if it has one; "
        "`local` = on this machine, without a sandbox; or another backend.",
    )
    url: str = setting("", "The address of a server that runs elsewhere.", form="url")
    headers: str = setting(
        "", "Headers that are sent to it: `{Authorization: Bearer ${TOKEN}}`.", form="json"
    )
    transport: str = setting(
        "",
        "Empty = by `command` or `url`; `sse` = the older way over HTTP.",
        choices=("", "stdio", "http", "sse"),
    )
    auth: str = setting("", "`oauth` = log in with `hermes mcp login`.", choices=("", "oauth"))
    oauth: McpOAuth = setting(McpOAuth(), "How to log in.")
    timeout: float = setting(300.0, "Seconds that a call may take.", least=1, most=86_400)
    connect_timeout: float = setting(60.0, "Seconds that a connection may take.", least=1, most=600)
    idle_timeout_seconds: float = setting(
        600.0,
        "Seconds without a call after which it is let go; the next call starts it again. 0 = never.",
        least=0,
    )
    max_lifetime_seconds: float = setting(0.0, "Seconds after which it is begun anew; 0 = never.", least=0)
    tools: McpToolFilter = setting(McpToolFilter(), "What of it is used.")
    supports_parallel_tool_calls: bool = setting(
        False, "Whether its calls may run side by side.", instead=False
    )
    trust: bool = setting(
        False,
        "Believe what it says of its tools: those it calls read-only or idempotent may be repeated after "
        "a crash; read-only ones, and those that lead nowhere else, are not asked for after words from "
        "outside.",
        instead=False,
    )
    strangers: bool = setting(
        False, "Whether people who are neither owner nor admins may use it.", instead=False
    )
    agents: Names = setting((), "The only agents that have it; not set = all.", instead=NONE_LISTED)
    elicitation: bool = setting(True, "Put its questions to the person who is talking.", instead=False)
    sampling: McpSampling = setting(McpSampling(), "Its use of models.")

    @property
    def variables(self) -> dict[str, str]:
        return _texts(self.env)

    @property
    def sent_headers(self) -> dict[str, str]:
        return _texts(self.headers)


def _texts(written: str) -> dict[str, str]:
    values: Mapping[str, object] = json.loads(written) if written else {}
    spelled = {True: "true", False: "false", None: ""}
    return {
        name: spelled[value] if isinstance(value, bool | None) else str(value)
        for name, value in values.items()
    }
