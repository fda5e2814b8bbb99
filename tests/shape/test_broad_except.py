"""Catching everything is allowed in few places, each of which logs, records the fact and goes on.

Cleaning up and raising again is no catching: a handler that ends in a bare `raise` is fine anywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.shape.tree import parsed, short, sources

# File → why it may catch everything. An entry that is not needed fails the test.
ALLOWED = {
    "agent/context/compress.py": "a plugin's memory may raise anything; it is logged, and left out",
    "agent/run/approval.py": "a plugin's check may raise anything; what is not known is not allowed",
    "agent/run/dispatch.py": "a plugin's tool may raise anything; the call is not run, or told as broken",
    "agent/tools/script_side.py": "a script may raise anything; its own process says so and ends",
    "agent/models/foreign.py": "a plugin's provider may raise anything; it is logged, and the turn is told",
    "app/agents/prompt.py": "a plugin's memory may raise anything; it is logged, and the session begins",
    "app/hooks.py": "a plugin's hook may raise anything; it is counted and said, and the rest goes on",
    "execution/browser/launch.py": "whatever keeps a browser from coming up, none is left behind; raised on",
    "execution/sandboxes/modal.py": "the SDK raises what its parts raise; it becomes one sentence",
    "execution/sandboxes/probe.py": "whatever keeps a sandbox from starting is what was asked for",
    "app/agents/registry.py": "a plugin's part of an agent may raise anything; it is left out",
    "app/generations.py": "the same while settings are adopted; they are refused, and the old ones count",
    "app/start_check.py": "the same while a start is rehearsed; the restart is refused",
    "app/agents/redaction.py": "a plugin's tool may raise anything; it is told without secrets",
    "domain/system/border.py": "an error of a plugin may raise while it is put into words; told without them",
    "control/turn/actor.py": "the actor: a turn that breaks is recorded as failed and the session lives on",
    "control/events.py": "a listener may raise anything; it is noted, and the others hear the event",
    "control/commands/registry.py": "a plugin's command may raise anything; it is undone, and said so",
    "control/commands/run.py": "a plugin's command may raise anything while it prepares; it is said so",
    "control/chores.py": "a chore that breaks is told of and done again at its time; the others go on",
    "control/outbound/row_sender.py": "the lane: a message that breaks is recorded and the next one goes out",
    "control/workers.py": "the supervisor: a loop, worker or row that breaks is logged and tried again",
    "entry/host.py": "the adapter host: an adapter that breaks is reported and started again",
    "entry/http/server.py": "the server: a resource that breaks is logged and answered as a fault of ours",
    "execution/backend_life.py": "a plugin's backend may raise anything; the call that met it hears of it",
    "execution/documents/child.py": "a parser may raise anything; its own process says so and ends",
    "execution/documents/pages.py": "the same; the simpler reader reads the page",
    "execution/media/whisper_child.py": "an engine may raise anything; its own process says so and ends",
    "execution/mcp/connection.py": "the SDK raises what its parts raise; who needs the server is told why",
    "execution/far/pipes.py": "a vendor's SDK may raise anything; the stream is lost, and says why",
    "execution/sandboxes/daytona.py": "the same; who needs the sandbox is told why",
    "execution/hooks/child.py": "a hook may raise anything; its own process says so and lives on",
    "plugins.py": "foreign code may raise anything while it is imported; it is reported and left out",
    "state/store/care/repair.py": "whatever a damaged file holds, the gateway starts on what is left",
    "state/store/writer.py": "the writer thread: whatever a unit raised is handed to whoever asked for it",
}
BROAD = {"Exception", "BaseException"}


def _names(node: ast.expr | None) -> set[str]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node] if node is not None else []
    return {ast.unparse(part).removeprefix("builtins.") for part in parts}


def _broad(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            last = node.body[-1]
            again = isinstance(last, ast.Raise) and last.exc is None
            if (node.type is None or _names(node.type) & BROAD) and not again:
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            yield from (argument.lineno for argument in node.args if _names(argument) & BROAD)


def test_everything_is_caught_only_where_it_may_be() -> None:
    places = [
        f"{short(path)}:{line}"
        for path in sources()
        if short(path) not in ALLOWED
        for line in _broad(parsed(path))
    ]
    assert not places, f"catches everything: {', '.join(places)}"


def test_every_exception_is_needed() -> None:
    needed = {short(path) for path in sources() if any(_broad(parsed(path)))}
    assert not (ALLOWED.keys() - needed), f"no broad except there: {sorted(ALLOWED.keys() - needed)}"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("try: f()\nexcept Exception: pass", 1),
        ("try: f()\nexcept: pass", 1),
        ("try: f()\nexcept (OSError, BaseException) as e: log(e)", 1),
        ("with contextlib.suppress(Exception): f()", 1),
        ("try: f()\nexcept BaseException:\n    undo()\n    raise", 0),
        ("try: f()\nexcept OSError: pass", 0),
    ],
)
def test_a_broad_except_is_noticed(text: str, count: int) -> None:
    assert len(list(_broad(ast.parse(text)))) == count
