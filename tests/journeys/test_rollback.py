"""`/undo` and `/rollback` take back what turns did to files, whole, also when the gateway dies on the way."""

from __future__ import annotations

import asyncio
import os
import subprocess
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from hermes.admin.commands.chat import ChatProcess, arguments
from hermes.admin.shell.command import CliCommand
from hermes.admin.shell.output import this_console
from hermes.agent.tools import make_tools
from hermes.agent.tools.delegate import Delegation
from hermes.app.agents.checkpoints import CheckpointStores
from hermes.app.agents.rewinding import AgentCheckpoints
from hermes.domain.chats.address import Source
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import World
from hermes.domain.settings.checkpoints import CheckpointSettings
from hermes.domain.settings.delegation import DelegationSettings
from hermes.domain.settings.settings import Profile
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.turns.session import Session
from hermes.domain.word import replace
from hermes.entry.terminal.served_door import ServedDoor, terminal_caller
from hermes.execution.local.backend import LocalBackend
from hermes.testing.backends import local_backend
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.tools import world_tools
from tests.execution.beds import install
from tests.journeys.cut import cut_everywhere

SCRIPT: dict[str, dict[str, str | None] | str] = {
    "first": {"a.txt": "one", "made/deep.txt": "new", "old.txt": None},
    "second": {"a.txt": "two", "b.txt": "two"},
}
BACK = "/rollback 1 brings back what was removed."
UNDONE = f"Undone: the last turn. Files: restored a.txt, old.txt; removed made/deep.txt. {BACK}"
AT_FIRST = {"a.txt": "zero", "old.txt": "kept by you"}


def by_words(request: ModelRequest) -> Say:
    """Does what its words name, then answers."""
    words = last_words(request)
    last = max(n for n, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    done = any(isinstance(entry.record, ToolFinished) for entry in request.entries[last:])
    return (
        call("write_file", f'{{"path": "{words}"}}') if words in SCRIPT and not done else say(f"did {words}")
    )


class Bed:
    """A journey with a workspace, files in it, and a tool that changes them as the script says."""

    def __init__(self, folder: Path, settings: CheckpointSettings | None = None) -> None:
        self.workspace = Path(os.path.realpath(folder)) / "workspace"
        self.workspace.mkdir()
        for name, text in AT_FIRST.items():
            (self.workspace / name).write_text(text)
        (self.workspace / "old.txt").chmod(0o755)
        self.backend = self._backend(folder)
        self.environ: Mapping[str, str] = {**os.environ, "HOME": str(folder / "person")}
        self.chat = Journey(
            folder=folder,
            script=by_words,
            tools=[self._tool()],
            keep=self._keep,
            settings=open_settings(checkpoints=settings or CheckpointSettings()),
        )

    def _backend(self, folder: Path) -> LocalBackend:
        (folder / "agent").mkdir(exist_ok=True)
        return local_backend(home=folder / "agent", workspace=self.workspace, environ=os.environ)

    def _tool(self) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
            if isinstance(command := SCRIPT[str(arguments["path"])], str):
                await asyncio.to_thread(subprocess.run, command, shell=True, check=True, cwd=self.workspace)
                return ToolResult(text="done")
            for name, text in command.items():
                file = self.workspace / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.unlink(missing_ok=True) if text is None else file.write_text(text)
            return ToolResult(text="done")

        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        return Tool(name="write_file", description="x", parameters=schema, run=run, effect=Effect.KEYED)

    def _keep(self, profile: Profile, store: Store) -> AgentCheckpoints:
        own = replace(profile, home=profile.home / "agent")
        stores = CheckpointStores(
            own, store, self.chat.clock, lambda: self.chat.settings.checkpoints, self.environ
        )

        async def place(source: Source, session: Session) -> World:
            return await self.backend.place()

        return AgentCheckpoints(stores, self.backend, lambda turn, folder: self.backend, place)

    def files(self) -> dict[str, str]:
        there = (path for path in self.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(self.workspace)): path.read_text() for path in there}

    async def say(self, words: str) -> str:
        await self.chat.until_idle()
        before = len(self.chat.world.seen())
        self.chat.world.write(words)
        await self.chat.until(lambda: len(self.chat.world.seen()) > before)
        await self.chat.until_idle()
        return self.chat.world.seen()[-1]


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    install("git", "git")
    made = Bed(tmp_path)
    yield made
    await made.backend.close()


async def test_undo_takes_back_chat_and_files(bed: Bed) -> None:
    async with bed.chat:
        assert await bed.say("first") == "did first"
        assert bed.files() == {"a.txt": "one", "made/deep.txt": "new"}
        told = await bed.say("/undo")
        assert told == UNDONE
        assert bed.files() == AT_FIRST
        assert not (bed.workspace / "made").exists()
        assert (bed.workspace / "old.txt").stat().st_mode & 0o100
        await bed.say("hello")
        said = [e.record.text for e in bed.chat.model.requests[-1].entries if isinstance(e.record, UserSaid)]
        assert said == ["hello"]


async def test_undo_of_several_turns_and_once_more(bed: Bed) -> None:
    async with bed.chat:
        await bed.say("first")
        await bed.say("second")
        assert "a.txt" in await bed.say("/undo")
        assert bed.files() == {"a.txt": "one", "made/deep.txt": "new"}
        await bed.say("/undo")
        assert bed.files() == AT_FIRST
        await bed.say("first")
        await bed.say("second")
        assert (await bed.say("/undo 2")).startswith("Undone: the last 2 turns. Files: restored a.txt")
        assert bed.files() == AT_FIRST


async def test_what_others_changed_is_kept_and_said(bed: Bed) -> None:
    async with bed.chat:
        await bed.say("first")
        (bed.workspace / "a.txt").write_text("by hand")
        (bed.workspace / "mine.txt").write_text("mine")
        told = await bed.say("/undo")
        assert told.endswith("Kept as they are, because they were changed since: a.txt, mine.txt.")
        assert bed.files() == {"a.txt": "by hand", "mine.txt": "mine", "old.txt": "kept by you"}


async def test_what_others_changed_between_two_turns_is_kept(bed: Bed) -> None:
    async with bed.chat:
        await bed.say("first")
        (bed.workspace / "a.txt").write_text("by hand")
        await bed.say("second")
        told = await bed.say("/undo 2")
        assert "changed since: a.txt" in told
        assert bed.files() == {"a.txt": "two", "old.txt": "kept by you"}


async def test_rollback_lists_shows_and_goes_back(bed: Bed) -> None:
    async with bed.chat:
        assert "no checkpoints of this folder yet" in await bed.say("/rollback")
        await bed.say("first")
        await bed.say("second")
        listing = await bed.say("/rollback")
        assert "1. 0 min ago, before write_file second\n2. 0 min ago, before write_file first" in listing
        diff = await bed.say("/rollback diff 2")
        assert "-zero" in diff and "+one" in diff and "+two" not in diff
        assert "is no number from 1 to 2" in await bed.say("/rollback 3")
        assert await bed.say("/rollback 2 a.txt") == "Files: restored a.txt."
        assert bed.files() == {"a.txt": "zero", "b.txt": "two", "made/deep.txt": "new"}
        told = await bed.say("/rollback 3")
        assert told == f"Files: restored old.txt; removed b.txt, made/deep.txt. {BACK}"
        assert bed.files() == AT_FIRST
        # What the rollback itself did can be taken back.
        await bed.say("/rollback 1")
        assert bed.files() == {"a.txt": "zero", "b.txt": "two", "made/deep.txt": "new"}


SPARED = "Kept, because they may hold what is in no checkpoint: {}."
UNKEPT = "Changed, but in no checkpoint: {}."


@pytest.mark.parametrize(
    ("command", "spared", "left_out", "after"),
    [
        ("mv .env settings.txt", "settings.txt", ".env", {"settings.txt": "SECRET=1"}),
        ("mv .env a.txt", "a.txt", ".env", {"a.txt": "SECRET=1"}),
        ("mv .env x; echo more >> x", "x", ".env", {"x": "SECRET=1more\n"}),
        ("cp .env x; rm .env", "x", ".env", {"x": "SECRET=1"}),
        ("mv build release", "release/report.md", "build", {"release/report.md": "mine"}),
        ("mv build/report.md .", "report.md", "build", {"report.md": "mine"}),
        ("mv node_modules lib", "lib/left.js", "node_modules", {"lib/left.js": "pad"}),
        ("rm cfg; echo y > cfg", "cfg", "cfg", {"cfg": "y\n"}),
        ("printf short > data.csv", "data.csv", "data.csv", {"data.csv": "short"}),
        ("echo new > fresh; rm .env", "", ".env", {".env": None}),
        ("echo newer > build/report.md", "", "build", {"build/report.md": "newer\n"}),
        ("cp .env n.pem; mv .env x; echo more >> x; mv n.pem .env", "", ".env", {"x": None}),
        ("mv a.txt b.txt", "", "", {}),
        ("mkdir dist; echo x > dist/x", "", "dist", {"dist/x": "x\n"}),
    ],
)
async def test_what_no_checkpoint_holds_is_not_removed_but_named(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, command: str, spared: str, left_out: str, after: dict[str, str]
) -> None:
    monkeypatch.setitem(SCRIPT, "move", command)
    laid = {".env": "SECRET=1", "build/report.md": "mine", "node_modules/left.js": "pad", "real": "there"}
    for name, text in laid.items():
        (bed.workspace / name).parent.mkdir(exist_ok=True)
        (bed.workspace / name).write_text(text)
    (bed.workspace / "cfg").symlink_to("real")
    (bed.workspace / "data.csv").write_bytes(b"x" * (11 << 20))
    async with bed.chat:
        await bed.say("move")
        told = await bed.say("/undo")
    assert (SPARED.format(spared) in told) if spared else ("Kept" not in told)
    assert (UNKEPT.format(left_out) in told) if left_out else ("Changed" not in told)
    there = {path: text for path, text in bed.files().items() if path != "data.csv" or len(text) < 10}
    assert {name: there.get(name) for name in after} == after
    assert there.keys() - laid.keys() - after.keys() <= AT_FIRST.keys() | {"cfg"}


async def test_what_only_its_owner_could_read_is_so_again(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRIPT, "remove", "rm a.txt old.txt own.sh")
    (bed.workspace / "own.sh").write_text("true")
    (bed.workspace / "own.sh").chmod(0o700)
    (bed.workspace / "a.txt").chmod(0o600)
    async with bed.chat:
        await bed.say("remove")
        await bed.say("/undo")
    modes = {path.name: path.stat().st_mode & 0o777 for path in bed.workspace.iterdir()}
    assert modes == {"a.txt": 0o600, "old.txt": 0o755, "own.sh": 0o700}


async def test_a_turn_that_changes_nothing_makes_none(bed: Bed) -> None:
    async with bed.chat:
        await bed.say("hello")
        assert await bed.say("/undo") == "Undone: the last turn."
        assert not (bed.chat.folder / "agent" / "checkpoints").exists()


async def test_without_git_it_is_said_once_and_work_goes_on(bed: Bed) -> None:
    bed.environ = {"PATH": "/nowhere", "HOME": "/nowhere"}
    async with bed.chat:
        assert "There is no checkpoint to go back to: git is not installed." in await bed.say("first")
        assert await bed.say("second") == "did second"
        unkept = "Undone: the last turn. Files that were changed without a checkpoint stay as they are."
        assert await bed.say("/undo") == unkept
        assert bed.files()["b.txt"] == "two"


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_terminal_that_wants_checkpoints_has_them(wanted: bool, tmp_path: Path) -> None:
    install("git", "git")
    bed = Bed(tmp_path, CheckpointSettings(enabled=False))
    async with bed.chat:
        parser = ArgumentParser()
        arguments(parser)
        asked = parser.parse_args(["--checkpoints"] if wanted else [])
        command = CliCommand(name="chat", asked=asked, home=tmp_path, environ={}, console=this_console({}))
        terminal = ChatProcess(command=command).wish().terminal
        door = ServedDoor(bed.chat.gateway, terminal_caller(terminal), terminal)
        for words in ("first", "/undo"):
            await bed.chat.until_idle()
            await (door.command(words) if words == "/undo" else door.say(words, "k"))
        await bed.chat.until_idle()
        assert (bed.files() == AT_FIRST) is wanted
    await bed.backend.close()


async def test_a_home_is_never_kept(bed: Bed) -> None:
    bed.environ = {**bed.environ, "HOME": str(bed.workspace)}
    async with bed.chat:
        assert "holds your home itself" in await bed.say("first")


async def test_pruning_keeps_the_newest_and_clearing_none(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.execution.checkpoints.shadow._YOUNG", -60)
    bed.chat.settings = open_settings(checkpoints=CheckpointSettings(max_snapshots=1))
    async with bed.chat:
        await bed.say("first")
        await bed.say("second")
        runtime = bed.chat.gateway.agents.built(next(iter(bed.chat.gateway.agents)))
        assert runtime is not None and runtime.checkpoints is not None
        assert [view.checkpoints for view in await runtime.checkpoints.tend("status")] == [2]
        assert [view.checkpoints for view in await runtime.checkpoints.tend("prune")] == [1]
        assert bed.files()["a.txt"] == "two"
        await bed.say("/undo")
        assert bed.files() == {"a.txt": "one", "made/deep.txt": "new"}
        assert await runtime.checkpoints.tend("clear") == []
        assert "no checkpoints of this folder" in await bed.say("/rollback")


def in_steps(*steps: Say) -> Callable[[ModelRequest], Say]:
    """Does one step after another for “go”."""

    def script(request: ModelRequest) -> Say:
        last = max(n for n, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
        done = sum(isinstance(entry.record, ToolFinished) for entry in request.entries[last:])
        return steps[done] if last_words(request) == "go" else by_words(request)

    return script


def writes(name: str) -> Say:
    return call("write_file", f'{{"path": "{name}"}}', id=f"write-{name}")


async def test_a_turn_that_waits_in_between_is_taken_back_whole(bed: Bed) -> None:
    """What a person changes while it waits is theirs."""
    danger = call("danger", '{"token": "m1"}', id="danger")
    bed.chat.script = in_steps(writes("first"), danger, writes("second"), say("finished"))
    bed.chat.tools = [*bed.chat.tools, *(t for t in world_tools(bed.chat.world.effect) if t.name == "danger")]
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until(lambda: any("May I" in seen for seen in bed.chat.world.seen()))
        (bed.workspace / "mine.txt").write_text("mine")
        bed.chat.world.write("/approve")
        await bed.chat.until_seen("finished")
        told = await bed.say("/undo")
        assert "Something went wrong" not in " ".join(bed.chat.world.seen()), bed.chat.world.seen()
        assert "restored a.txt, old.txt; removed b.txt, made/deep.txt" in told
        assert bed.files() == AT_FIRST | {"mine.txt": "mine"}


@pytest.mark.parametrize("how", ["stopped", "crashed"])
async def test_what_people_do_after_a_turn_that_did_not_end_is_theirs(bed: Bed, how: str) -> None:
    bed.chat.script = in_steps(writes("first"), Say(text="still there", hold=asyncio.Event()))
    await bed.chat.__aenter__()
    bed.chat.world.write("go")
    await bed.chat.until(lambda: len(bed.chat.model.requests) == 2)
    if how == "stopped":
        bed.chat.world.write("/stop")
        await bed.chat.until_idle()
    else:
        await bed.chat.abandon()
        bed.chat = replace(bed.chat, script=in_steps(writes("first"), say("still there")))
        await bed.chat.__aenter__()
        await bed.chat.until_seen("still there")
        await bed.chat.until_idle()
    (bed.workspace / "mine.txt").write_text("mine")
    (bed.workspace / "a.txt").write_text("by hand")
    told = await bed.say("/undo")
    assert "restored old.txt; removed made/deep.txt" in told and "a.txt, mine.txt" in told, told
    assert bed.files() == {"a.txt": "by hand", "mine.txt": "mine", "old.txt": "kept by you"}
    await bed.chat.__aexit__(None, None, None)


async def test_what_people_do_while_the_gateway_is_down_is_theirs(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*args: object) -> None:
        """A gateway that is killed writes nothing down."""

    bed.chat.script = in_steps(writes("first"), Say(text="still there", hold=asyncio.Event()))
    await bed.chat.__aenter__()
    bed.chat.world.write("go")
    await bed.chat.until(lambda: len(bed.chat.model.requests) == 2)
    monkeypatch.setattr(AgentCheckpoints, "settle", killed)
    await bed.chat.abandon()
    monkeypatch.undo()
    monkeypatch.setattr("hermes.app.agents.checkpoints._UNDER_WAY", 0.0)
    (bed.workspace / "mine.txt").write_text("mine")
    (bed.workspace / "a.txt").write_text("by hand")
    bed.chat = replace(bed.chat, script=in_steps(writes("first"), writes("second"), say("went on")))
    async with bed.chat:
        await bed.chat.until_seen("went on")
        await bed.chat.until_idle()
        assert bed.files()["b.txt"] == "two"
        told = await bed.say("/undo")
        assert "removed b.txt" in told and "interrupted part" in told and "mine.txt" in told, told
        assert bed.files() == {"a.txt": "by hand", "made/deep.txt": "new", "mine.txt": "mine"}


async def test_what_a_child_did_to_files_is_taken_back_too(bed: Bed) -> None:
    task = call("delegate_task", '{"goal": "first"}', id="task")
    bed.chat.script = in_steps(task, say("finished"))
    given = Delegation(settings=lambda: bed.chat.settings.delegation, agents=dict)
    bed.chat.tools = [*bed.chat.tools, *make_tools(ToolServices({Delegation: given}))]
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until_seen("finished")
        assert bed.files() == {"a.txt": "one", "made/deep.txt": "new"}
        assert "restored a.txt, old.txt; removed made/deep.txt" in await bed.say("/undo")
        assert bed.files() == AT_FIRST


async def test_what_another_chat_did_meanwhile_stays(bed: Bed) -> None:
    """Both work in one folder at the same time; then one of them is undone."""
    hold = asyncio.Event()
    bed.chat.script = in_steps(writes("first"), Say(text="finished", hold=hold))
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until(lambda: len(bed.chat.model.requests) == 2)
        bed.chat.world.write("second", chat="other", user="other")
        await bed.chat.until_seen("did second", chat="other")
        hold.set()
        await bed.chat.until_seen("finished")
        await bed.chat.until_idle()
        told = await bed.say("/undo")
        assert "Kept as they are" in told and "a.txt, b.txt" in told, told
        assert bed.files() == {"a.txt": "two", "b.txt": "two", "old.txt": "kept by you"}


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_an_undo_that_is_cut_at_each_write_of_the_store(
    tmp_path: Path, full: bool, after: bool
) -> None:
    install("git", "git")
    beds: dict[Path, Bed] = {}
    undone: set[Path] = set()

    def make(folder: Path) -> Journey:
        bed = beds[folder] = Bed(folder)
        bed.chat.world.write("first")
        return bed.chat

    async def story(chat: Journey) -> None:
        await chat.until_seen("did first")
        await chat.until_idle()
        if chat.folder not in undone:
            undone.add(chat.folder)
            chat.world.write("/undo")
        await chat.until_seen(UNDONE)
        await chat.until_idle()
        assert beds[chat.folder].files() == AT_FIRST

    try:
        await cut_everywhere(tmp_path, make, story, after=after, full=full)
    finally:
        for bed in beds.values():
            await bed.backend.close()


@pytest.mark.parametrize("stop_at", [1, 2, 3])
async def test_an_undo_that_is_cut_at_each_file(
    bed: Bed, stop_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, stopped, count = bed.backend.files, asyncio.Event(), 0
    write = files.write

    async def stopping(*args: object, **options: object) -> None:
        nonlocal count
        count += 1
        if count == stop_at:
            stopped.set()
            await asyncio.Event().wait()
        await write(*args, **options)  # type: ignore[arg-type]

    await bed.chat.__aenter__()
    await bed.say("first")
    monkeypatch.setattr(files, "write", stopping)
    bed.chat.world.write("/undo")
    await asyncio.wait_for(stopped.wait(), 40)
    await bed.chat.abandon()
    monkeypatch.undo()
    async with replace_life(bed):
        await bed.chat.until_seen(UNDONE.removeprefix("Undone: the last turn. "))
        await bed.chat.until_idle()
        assert bed.files() == AT_FIRST


async def test_what_a_task_of_another_chat_did_meanwhile_stays(bed: Bed) -> None:
    hold = asyncio.Event()
    mine = in_steps(writes("first"), Say(text="finished", hold=hold))

    def script(request: ModelRequest) -> Say:
        if last_words(request) != "give":
            return mine(request)
        done = any(isinstance(entry.record, ToolFinished) for entry in request.entries)
        return say("delegated") if done else call("delegate_task", '{"goal": "second"}', id="task")

    bed.chat.script = script
    given = Delegation(settings=lambda: bed.chat.settings.delegation, agents=dict)
    bed.chat.tools = [*bed.chat.tools, *make_tools(ToolServices({Delegation: given}))]
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until(lambda: len(bed.chat.model.requests) == 2)
        bed.chat.world.write("give", chat="other", user="other")
        await bed.chat.until_seen("delegated", chat="other")
        hold.set()
        await bed.chat.until_seen("finished")
        told = await bed.say("/undo")
        assert "Kept as they are" in told and "a.txt, b.txt" in told, told
        assert bed.files() == {"a.txt": "two", "b.txt": "two", "old.txt": "kept by you"}


async def test_what_a_task_of_a_task_did_is_taken_back_too(bed: Bed) -> None:
    def script(request: ModelRequest) -> Say:
        words = last_words(request)
        done = any(isinstance(entry.record, ToolFinished) for entry in request.entries)
        if words == "first":
            return by_words(request)
        goal = "first" if words == "middle" else "middle"
        asked = f'{{"goal": "{goal}", "role": "orchestrator"}}'
        return say(f"did {words}") if done else call("delegate_task", asked, id=goal)

    bed.chat.script = script
    settings = DelegationSettings(max_spawn_depth=2)
    given = Delegation(settings=lambda: settings, agents=dict)
    bed.chat.tools = [*bed.chat.tools, *make_tools(ToolServices({Delegation: given}))]
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until_seen("did go")
        assert bed.files() == {"a.txt": "one", "made/deep.txt": "new"}
        assert "restored a.txt, old.txt; removed made/deep.txt" in await bed.say("/undo")
        assert bed.files() == AT_FIRST


async def test_a_file_that_became_a_folder_is_a_file_again(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRIPT, "folder", {"a.txt": None, "a.txt/deep/x": "new"})
    async with bed.chat:
        await bed.say("folder")
        assert (bed.workspace / "a.txt").is_dir()
        assert "restored a.txt; removed a.txt/deep/x" in await bed.say("/undo")
        assert bed.files() == AT_FIRST


async def test_a_file_that_grew_without_end_is_not_read(bed: Bed) -> None:
    hold = asyncio.Event()
    bed.chat.script = in_steps(writes("first"), Say(text="finished", hold=hold))
    async with bed.chat:
        bed.chat.world.write("go")
        await bed.chat.until(lambda: len(bed.chat.model.requests) == 2)
        os.truncate(bed.workspace / "a.txt", 1 << 43)
        hold.set()
        await bed.chat.until_seen("finished")
        told = await bed.say("/undo")
        assert "Kept as they are, because they were changed since: a.txt" in told, told
        os.truncate(bed.workspace / "a.txt", 4)


async def test_nothing_is_made_where_a_folder_leads_outside_by_now(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bed.workspace / "lib" / "deep").mkdir(parents=True)
    (bed.workspace / "lib" / "deep" / "x").write_text("yours")
    monkeypatch.setitem(SCRIPT, "away", {"lib/deep/x": None})
    outside = tmp_path / "outside"
    outside.mkdir()
    async with bed.chat:
        await bed.say("away")
        (bed.workspace / "lib" / "deep").rmdir()
        (bed.workspace / "lib").rmdir()
        (bed.workspace / "lib").symlink_to(outside)
        assert "Kept as they are" in await bed.say("/undo")
        assert not any(outside.iterdir())


async def test_a_folder_or_a_file_that_is_not_there_is_said(bed: Bed) -> None:
    async with bed.chat:
        await bed.say("first")
        assert "nothing of it" in await bed.say("/rollback 1 missing.txt")
        assert "restored a.txt" in await bed.say("/rollback 2 ./a.txt/")


def replace_life(bed: Bed) -> Journey:
    bed.chat = replace(bed.chat)
    return bed.chat
