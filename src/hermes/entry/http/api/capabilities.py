"""`/v1/capabilities` and `/v1/toolsets`: what this gateway can do over HTTP, and its agents by themselves, so
that a client need not find out by trying."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hermes.control.core import AgentUnavailable
from hermes.domain.ids import AgentId
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Effect
from hermes.entry.http.ask.addressee import default_name
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import ROUTES, HttpCall, route, shown_path
from hermes.entry.http.site.errors import bad_request

_FEATURES = {
    "chat_completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "runs": "/v1/runs",
    "run_events": "/v1/runs/{run_id}/events",
    "approvals": "/v1/runs/{run_id}/approval",
    "sessions": "/api/sessions",
    "questions": "/v1/questions",
    "jobs": "/api/jobs",
    "skills": "/v1/skills",
    "toolsets": "/v1/toolsets",
    "webhooks": "/webhooks/{route}",
}
"""What clients ask for, and the path that it stands and falls with."""


class ToolFacts(msgspec.Struct, kw_only=True):
    """Something the agent can do by itself. `effect` says whether it may be repeated after a crash."""

    name: str
    description: str
    effect: Effect


class Toolset(msgspec.Struct, kw_only=True):
    """Tools that are switched on and off together."""

    name: str
    agent: str
    tools: list[ToolFacts]


class ToolsetList(msgspec.Struct, kw_only=True):
    """The toolsets of the agents that the key may see; `has_more` says that there are further agents."""

    object: str = "list"
    data: list[Toolset]
    has_more: bool


class ApiLimits(msgspec.Struct, kw_only=True):
    """The limits of the API server."""

    max_body_bytes: int
    max_concurrent_runs: int


class ApiEndpoint(msgspec.Struct, kw_only=True):
    """Something that can be asked for, and the scope a key needs for it; none for those open to everybody."""

    method: str
    path: str
    summary: str
    scope: KeyScope | None


class ApiCapabilities(msgspec.Struct, kw_only=True):
    """What there is. `scopes` are those of the key that asks, `context_length` is the model's, if known."""

    object: str = "hermes.capabilities"
    version: str
    model: str
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    features: dict[str, bool]
    limits: ApiLimits
    scopes: list[KeyScope]
    endpoints: list[ApiEndpoint]


@route("GET", "/v1/capabilities", "What this gateway can do over HTTP.")
async def read_capabilities(call: HttpCall) -> ApiCapabilities:
    options = call.site.options
    paths = {shown_path(route) for route in ROUTES}
    return ApiCapabilities(
        version=call.site.version,
        model=default_name(call.site),
        context_length=call.site.model_facts(call.default, "").window or msgspec.UNSET,
        features={name: path in paths for name, path in _FEATURES.items()},
        limits=ApiLimits(max_body_bytes=options.max_body, max_concurrent_runs=options.max_runs),
        scopes=sorted(scope for scope in KeyScope if call.principal.may(scope)),
        endpoints=[
            ApiEndpoint(method=route.method, path=shown_path(route), summary=route.summary, scope=route.scope)
            for route in ROUTES
        ],
    )


@route("GET", "/v1/toolsets", "What the agents can do by themselves.")
async def list_toolsets(
    call: HttpCall, limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20, after: str = ""
) -> ToolsetList:
    """Each agent is built for it, so they come in pages: so many agents, those after a named one. One that
    cannot be built has none."""
    sets: dict[tuple[str, str], Toolset] = {}
    agents = call.agents
    if after:
        if after not in agents:
            raise bad_request(f"There is no agent “{one_line(after, 80)}”.", param="after")
        agents = agents[agents.index(AgentId(after)) + 1 :]
    for agent in agents[:limit]:
        try:
            toolbox = (await call.site.agents.get(agent)).toolbox
        except AgentUnavailable:
            continue
        for tool in toolbox.all.values():
            toolset = Toolset(name=tool.toolset, agent=agent, tools=[])
            facts = ToolFacts(name=tool.name, description=tool.description, effect=tool.effect)
            sets.setdefault((agent, tool.toolset), toolset).tools.append(facts)
    return ToolsetList(data=list(sets.values()), has_more=len(agents) > limit)
