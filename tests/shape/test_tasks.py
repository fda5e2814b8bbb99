"""A task or a thread is started in few places. Loops that live long run under the supervisor
(`control/workers.py`). Every other place says here whom its tasks belong to, and so why they may die."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.shape.tree import parsed, short, sources

STARTS = ("create_task", "ensure_future", "TaskGroup", "Thread")
# File → why what it starts needs no supervisor of its own. An entry that is not needed fails the test.
ALLOWED = {
    "agent/run/dispatch.py": "the call that waits for its tool stops it, or tells of one that will not stop",
    "admin/process/run.py": (
        1,
        "writes the state file; the next change starts it again, the log hears of it",
    ),
    "admin/commands/conversation.py": "the terminal's own process: the chat, and coming in beside it",
    "admin/batch/runner.py": "the command's own process: workers that it awaits",
    "admin/process/watchdog.py": "the watchdog's thread must not depend on the loop that it watches",
    "agent/tools/script_side.py": "threads of a script's own process, which end with it",
    "app/agents/process_news.py": "tells of one process and is over; the log hears what it died of",
    "app/app.py": "the gateway's own life, its start and its drain: each is awaited where it begins",
    "app/hooks.py": "BOOT.md, once a start, and a plugin's call, which is waited for with a deadline",
    "app/agents/credentials.py": "renews one login; who asked awaits it, closing waits for it, the log hears",
    "app/agents/memory_provider.py": "one call of a plugin, waited for with a deadline; the log hears",
    "app/agents/ladder.py": "looks which sandboxes work, each failure an answer; who asks awaits it",
    "app/agents/registry.py": "builds one runtime; everybody who asked for it awaits it and hears the error",
    "app/agents/rewinding.py": "one rewind of files, awaited by its turn, also when that is interrupted",
    "app/agents/tools.py": "waits for the first answers of tool sources, whose own lives are supervised",
    "control/handoff/worker.py": "one hand-off; its end is noted with the supervised loop `handoffs`",
    "control/jobs/ticker.py": "one run of a job; its end is noted with the supervised loop `cron`",
    "control/outbound/draft.py": (
        1,
        "watches one turn for its lane, which goes on without it and is supervised",
    ),
    "control/workers.py": "the supervisor, workers under it, and waits that end where they begin",
    "entry/host.py": "one connection; the host awaits them, reports their end, and is supervised itself",
    "entry/http/ask/turns.py": "one request's change, awaited by the request",
    "entry/http/site/streams.py": "one keep-alive of one stream; the loop that sends them is supervised",
    "entry/kit/http.py": "a courtesy that nobody waits for; the log hears what it died of",
    "entry/kit/listener.py": "opens a port, and is awaited there",
    "entry/kit/socket.py": (
        1,
        "reads one connection; its end is the connection's, and the host begins again",
    ),
    "entry/platforms/slack/socket.py": "connections that the adapter awaits; its host begins again",
    "entry/terminal/background.py": "the terminal's own process: what its view ends with the conversation",
    "entry/terminal/oneshot.py": "the terminal's own process: its output and its talk, awaited there",
    "entry/terminal/remote.py": (
        1,
        "the terminal's own process: the line to its gateway, which connects again",
    ),
    "entry/terminal/talk.py": "the terminal's own process: words that could not be sent yet",
    "entry/terminal/view_plain.py": "the terminal's own process: input, output and turns, awaited there",
    "entry/terminal/view_rich.py": "the terminal's own process: input, output and turns, awaited there",
    "execution/browser/cdp.py": "reads one connection, and does what its events ask; closing it ends them",
    "execution/commands/file_server.py": "one piece of work in a sandbox; who asked hears its end",
    "execution/commands/processes.py": "watches one background process, and ends with it",
    "execution/far/backend.py": "closing the backend ends the start of its first stream",
    "execution/sandboxes/modal.py": "reads one stream, keeps files while it is open, ends it: closing awaits",
    "execution/far/pipes.py": "carries what is written to one program, and ends with it",
    "execution/far/streams.py": "closing the pool waits for every stream that leaves",
    "execution/egress/forwarder.py": "one direction of one connection inside a sandbox, and ends with it",
    "execution/egress/proxy.py": "one connection of a sandbox; its end is logged unless it was silence",
    "execution/egress/wire.py": "tries one address; the dial that began it hears its end or cancels it",
    "execution/hooks/child.py": "a hook's own process, which is ended when it does not answer",
    "execution/hooks/processes.py": (
        2,
        "starts and ends one hook process; calls that wait for it hear of it",
    ),
    "execution/mcp/connection.py": "holds one connection; closing it ends it, and its end is logged",
    "execution/mcp/program.py": "carries the words of one server, and ends with it",
    "execution/mcp/source.py": "the first look at a server; who asks for its tools hears its end",
    "execution/sandboxes/box.py": "watches the disk while something runs; the next command begins it again",
    "execution/sandboxes/daytona.py": "sees one terminal end; keeps a sandbox up until closing it ends that",
    "plugins.py": "loads a plugin with a deadline, and is waited for",
    "script/engine.py": "the thread of a gateway inside a script, which the script waits for",
    "state/store/writer.py": "the writer, which catches everything and hands it to whoever asked",
}


def _starts(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in STARTS:
                yield node.lineno


def test_tasks_are_started_where_somebody_answers_for_them() -> None:
    places = [
        f"{short(path)}:{line}"
        for path in sources()
        if short(path) not in ALLOWED and not short(path).startswith("testing/")
        for line in _starts(parsed(path))
    ]
    assert not places, f"use Supervisor.keep, or say in the table who answers for it: {', '.join(places)}"


def test_every_place_is_needed() -> None:
    needed = {short(path) for path in sources() if any(_starts(parsed(path)))}
    assert not (ALLOWED.keys() - needed), f"nothing is started there: {sorted(ALLOWED.keys() - needed)}"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("asyncio.create_task(f())", 1),
        ("loop.create_task(f())", 1),
        ("asyncio.ensure_future(f())", 1),
        ("async def f():\n async with asyncio.TaskGroup() as g: g.create_task(h())", 2),
        ("threading.Thread(target=f).start()", 1),
        ("MailThread(id=1)", 0),
        ("loops.keep('name', live)", 0),
    ],
)
def test_a_start_is_noticed(text: str, count: int) -> None:
    assert len(list(_starts(ast.parse(text)))) == count
