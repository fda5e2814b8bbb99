"""The names of the events that user hooks can follow. What is in their context is told in the docs."""

from __future__ import annotations

EVENTS = (
    "gateway:startup",
    "session:start",
    "session:end",
    "session:reset",
    "agent:start",
    "agent:step",
    "agent:end",
    "command:*",
)
