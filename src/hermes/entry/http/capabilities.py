"""`/v1/capabilities`: what this gateway can do over HTTP, read off the table of routes, so that a client need
not find out by trying."""

from __future__ import annotations

import msgspec

from hermes.entry.http.door import ROUTES, Call, route
from hermes.entry.http.keys import Scope
from hermes.entry.http.models import default_name

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


class Limits(msgspec.Struct, kw_only=True):
    """What the door takes at most."""

    max_body_bytes: int
    max_concurrent_runs: int


class Endpoint(msgspec.Struct, kw_only=True):
    """Something that can be asked for, and the scope a key needs for it; none for those open to everybody."""

    method: str
    path: str
    summary: str
    scope: Scope | None


class Capabilities(msgspec.Struct, kw_only=True):
    """What there is. `scopes` are those of the key that asks."""

    object: str = "hermes.capabilities"
    version: str
    model: str
    features: dict[str, bool]
    limits: Limits
    scopes: list[Scope]
    endpoints: list[Endpoint]


@route("GET", "/v1/capabilities", "What this gateway can do over HTTP.")
async def read_capabilities(call: Call) -> Capabilities:
    options = call.door.options
    paths = {one.path for one in ROUTES}
    return Capabilities(
        version=call.door.version,
        model=default_name(call.door),
        features={name: path in paths for name, path in _FEATURES.items()},
        limits=Limits(max_body_bytes=options.max_body, max_concurrent_runs=options.max_open),
        scopes=sorted(scope for scope in Scope if call.principal.may(scope)),
        endpoints=[
            Endpoint(method=one.method, path=one.path, summary=one.told, scope=one.scope) for one in ROUTES
        ],
    )
