"""The resources of the API, one file or room each, under their names in the documentation. Importing one
registers its routes. Two are there from the start; the others come with the first request for one of them,
since together they take a tenth of the start's time and 3 MB."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

RESOURCES = {
    "chat": "api.completions",
    "responses": "api.responses.endpoints",
    "runs": "api.runs",
    "sessions": "api.sessions",
    "session_chat": "api.session_chat",
    "questions": "api.questions",
    "jobs": "api.jobs",
    "models": "api.models",
    "health": "api.health",
    "capabilities": "api.capabilities",
    "webhooks": "webhooks.receive",
    "usage": "api.usage",
    "metrics": "api.metrics",
    "openapi": "api.openapi",
    "docs": "api.docs",
    "control": "owner",
    "batches": "batches",
}
AT_START = ("chat", "health")
_ROOM = "hermes.entry.http."
TAGS = {_ROOM + module: name for name, module in RESOURCES.items()}
"""What a resource is called in the documentation, by the module that declares it."""


def load_resources(names: Iterable[str] = RESOURCES) -> None:
    for name in names:
        import_module(_ROOM + RESOURCES[name])
