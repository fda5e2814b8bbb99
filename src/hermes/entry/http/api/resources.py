"""The resources of the HTTP site, each under its name in the documentation. Importing one registers its
routes."""

from __future__ import annotations

from importlib import import_module

RESOURCES = {
    "chat": "api.completions",
    "responses": "api.responses",
    "runs": "api.runs",
    "sessions": "api.sessions",
    "session_chat": "api.session_chat",
    "questions": "api.questions",
    "jobs": "api.jobs",
    "models": "api.models",
    "health": "api.health",
    "capabilities": "api.capabilities",
    "webhooks": "webhooks.receive",
    "metrics": "api.metrics",
    "openapi": "api.openapi",
    "docs": "api.docs",
    "control": "owner",
}
_ROOM = "hermes.entry.http."
_NAMES = {_ROOM + module: name for name, module in RESOURCES.items()}


def load_resources() -> None:
    for module in RESOURCES.values():
        import_module(_ROOM + module)


def resource_name(module: str) -> str:
    """What a resource is called in the documentation, by the module that declares it."""
    return _NAMES[module]
