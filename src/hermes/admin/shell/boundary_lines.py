"""Which boundary holds whose commands, in words: for `hermes status` and `hermes doctor`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.world import LOCAL, UNKNOWN_BOUNDARY, Boundary
from hermes.domain.settings.settings import AUTO, Settings
from hermes.state.home.homes import user_name

_WAITS = "the strongest sandbox that works here; see: hermes doctor"
OWNERS = "owner and admins"


def boundary_lines(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for everybody to whom the same applies; what counts for owner and admins comes first."""
    lines: dict[str, list[str]] = {}
    for fact in sorted(facts, key=lambda fact: (fact["route"] != "", fact["who"] != OWNERS)):
        who = f"{fact['who']} by {fact['route']}" if fact["route"] else fact["who"]
        lines.setdefault(_words(fact), []).append(who)
    return [f"{', '.join(who)}: {words}" for words, who in lines.items()]


def settled_lines(backend: str) -> list[str]:
    """What is known while no gateway runs."""
    name = backend.strip().lower()
    if name == AUTO:
        return [f"terminal: {_here()}", f"else: {_WAITS}"]
    return [f"owner and admins: {_here()}"] if name == LOCAL else [f"that of the backend {name}"]


def apart_note(settings: Settings) -> str:
    """What does not keep several agents apart; empty where nothing is to be said."""
    backends = {settings.of(AgentId(agent)).terminal.backend for agent in (MAIN_AGENT, *settings.agents)}
    if not settings.agents or not {LOCAL, AUTO} & backends:
        return ""
    who = user_name(os.getuid())
    return f"commands without a sandbox run as {who}, who owns the folders of all agents"


def _here() -> str:
    return f"none; commands run as {user_name(os.getuid())} on this machine"


def _words(fact: Mapping[str, Any]) -> str:
    remedy = f" {fact['remedy']}" if fact["remedy"] else ""
    if fact["refused"]:
        return f"commands are refused. {fact['refused']}{remedy}"
    backend = fact["backend"]
    if fact["why"]:
        return f"{backend} does not work, so commands are refused: {fact['why']}{remedy}"
    if fact["ask_all"]:
        return "none; every command is asked for, because no sandbox works here (hermes doctor tells why)"
    if backend == LOCAL:
        return _here()
    network = f"network {fact['network']}"
    if fact["boundary"] == Boundary.NONE:
        return f"{backend} (no sandbox, {network})"
    if fact["boundary"] == UNKNOWN_BOUNDARY:
        only = "; commands run only if it proves to be one" if fact["own_folder"] else ""
        return f"{backend} (no known sandbox, {network}{only})"
    weak = ", weak" if fact["boundary"] == Boundary.WEAK else ""
    folder = "a folder of their own" if fact["own_folder"] else "workspace only"
    return f"{backend} ({folder}, {network}{weak})"
