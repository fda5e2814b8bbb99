"""Hook folders: what is read, in which order, and one clear sentence for each that is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.system.hooks import EVENTS, Hook, is_event
from hermes.state.files.hook_files import read_hooks

HANDLER = "def handle(event_type, context): pass\n"


def write(home: Path, name: str, manifest: str | None, handler: str | None = HANDLER) -> None:
    folder = home / "hooks" / name
    folder.mkdir(parents=True)
    if manifest is not None:
        (folder / "HOOK.yaml").write_text(manifest)
    if handler is not None:
        (folder / "handler.py").write_text(handler)


def test_hooks_come_in_the_order_of_their_folders(tmp_path: Path) -> None:
    write(tmp_path, "b", "name: Second\ndescription: tells\nevents: [agent:end, 'command:*']\ntimeout: 3\n")
    write(tmp_path, "a", "events: session:start\n")
    write(tmp_path, ".hidden", None)
    write(tmp_path, "__pycache__", None)
    found = read_hooks(tmp_path)
    assert not found.problems
    assert [(hook.name, hook.events) for hook in found.hooks] == [
        ("a", ("session:start",)),
        ("Second", ("agent:end", "command:*")),
    ]
    assert found.hooks[1].timeout == 3 and found.hooks[1].description == "tells"


def test_a_home_without_hooks(tmp_path: Path) -> None:
    assert read_hooks(tmp_path).hooks == () and read_hooks(tmp_path / "nowhere").problems == ()


@pytest.mark.parametrize(
    ("manifest", "line", "said", "remedy"),
    [
        (None, None, "The file is missing.", "events: [agent:end]"),
        ("name: x\n", None, "It follows no events.", "events: [agent:end]"),
        ("name: x\nevents: []\n", 2, "It follows no events.", "events: [agent:end]"),
        ("events:\n  - agent:start\n  - agent:ends\n", 3, "no event “agent:ends”", "Did you mean agent:end?"),
        ("events: ['*']\n", 1, "no event “*”", "There are:"),
        ("events: ['nothing:*']\n", 1, "no event “nothing:*”", "There are:"),
        ("events: [[agent:end]]\n", 1, "must be a list of names", "events: [agent:end]"),
        ("events: [agent:end]\ntimeout: soon\n", 2, "must be seconds", "timeout: 3"),
        ("events: [agent:end]\ntimeout: 0\n", 2, "must be seconds", "timeout: 3"),
        ("events: [agent:end]\ntimeout: nan\n", 2, "must be seconds", "timeout: 3"),
        ("events: [agent:end]\ntimeout: 3600\n", 2, "must be seconds", "timeout: 3"),
        ("events: [agent:end]\nname: [x]\n", 2, "“name” must be a text.", "name: a few words"),
        ("events: [agent:end\n", 1, "not closed", "Close it"),
    ],
)
def test_a_mistake_leaves_one_hook_out(
    tmp_path: Path, manifest: str | None, line: int | None, said: str, remedy: str
) -> None:
    write(tmp_path, "bad", manifest)
    write(tmp_path, "good", "events: [agent:end]\n")
    found = read_hooks(tmp_path)
    assert [hook.name for hook in found.hooks] == ["good"]
    (problem,) = found.problems
    assert problem.file == "hooks/bad/HOOK.yaml" and problem.line == line
    assert said in str(problem) and remedy in str(problem)


def test_a_hook_needs_its_code_and_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "a", "events: [agent:end]\n", handler=None)
    write(tmp_path, "b", "name: x\nevents: [agent:end]\n")
    write(tmp_path, "c", "name: x\nevents: [agent:end]\n")
    found = read_hooks(tmp_path)
    assert [hook.folder for hook in found.hooks] == [str(tmp_path / "hooks" / "b")]
    assert "no handler.py" in str(found.problems[0]) and "called “x” too" in str(found.problems[1])


def test_wildcards() -> None:
    hook = Hook(name="x", folder="x", events=("agent:*", "command:new"))
    assert hook.follows("agent:start") and hook.follows("agent:end") and hook.follows("command:new")
    assert not hook.follows("session:start") and not hook.follows("command:stop")
    every = Hook(name="x", folder="x", events=("command:*",))
    assert every.follows("command:new") and every.follows("command:anything")
    assert all(is_event(event) for event in EVENTS) and is_event("command:new") and is_event("gate:*")
    assert not is_event("command:") and not is_event("agent:other") and not is_event("")


def test_deadlines() -> None:
    hook = Hook(name="x", folder="x", events=())
    assert (
        hook.seconds("agent:end") == 5 and hook.seconds("gate:tool") == 2 and hook.seconds("command:new") == 2
    )
    assert Hook(name="x", folder="x", events=(), timeout=7).seconds("gate:tool") == 7
