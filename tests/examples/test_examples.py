"""Each example plugin of `examples/` works when it is installed: a real gateway uses it."""

from __future__ import annotations

import csv
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes import plugins
from hermes.control.commands import registry
from hermes.domain.errors import SettingsError
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call
from hermes.testing.model import say as say_words
from hermes.testing.platform_suite import until

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.parent.name for folder in EXAMPLES.glob("*/pyproject.toml"))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs an example as pip would: its module and the metadata that its pyproject.toml makes."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def install(name: str) -> None:
        project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
        info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        groups = project["entry-points"].items()
        lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in made.items()) for group, made in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for module in (EXAMPLES / name).glob("*.py"):
            shutil.copy(module, site)

    return install


async def say(api: ApiWorld, text: str) -> str:
    body = {"messages": [{"role": "user", "content": text}]}
    answer = await api.post("/v1/chat/completions", body)
    assert answer.status == 200, answer.data
    return str(answer.json["choices"][0]["message"]["content"])


def test_there_is_one_for_each_group() -> None:
    made = [tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text()) for name in NAMES]
    groups = [group for project in made for group in project["project"]["entry-points"]]
    assert sorted(groups) == sorted(plugins.GROUPS)


@pytest.mark.parametrize("name", NAMES)
def test_it_loads(install: Callable[[str], None], name: str) -> None:
    install(name)
    mine = [p for p in plugins.survey(plugins.EVERY_PLUGIN) if p.package == f"hermes-example-{name}"]
    assert len(mine) == 1 and mine[0].why == ""


async def test_the_folder_is_a_chat(install: Callable[[str], None], tmp_path: Path) -> None:
    install("platform")
    chats, home = tmp_path / "chats", tmp_path / "home"
    environ = {"FOLDER_PATH": str(chats), "FOLDER_ALLOWED_USERS": "ada"}
    async with ApiWorld(home=home, environ=environ):
        await until((chats / "inbox").is_dir, "the adapter made no folder")
        (chats / "inbox" / "ada-1.txt").write_text("hello there")
        await until(lambda: any((chats / "outbox").glob("ada-*.txt")), "no answer came")
        answer = next((chats / "outbox").glob("ada-*.txt"))
        assert "hello there" in answer.read_text()
        await until(lambda: not any((chats / "inbox").iterdir()), "the message is still there")


async def test_the_parrot_answers(install: Callable[[str], None], tmp_path: Path) -> None:
    install("provider")
    config = "model: {provider: parrot, default: Arr}\n"
    async with ApiWorld(home=tmp_path / "home", provider=None, config=config) as api:
        assert await say(api, "pieces of eight") == "Arr pieces of eight"


async def test_turns_are_logged(
    install: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("hook")
    monkeypatch.setenv("HERMES_TURN_LOG", str(tmp_path))
    async with ApiWorld(home=tmp_path / "home") as api:
        await say(api, "hello")
        log = tmp_path / "turns.csv"
        await until(lambda: log.exists() and log.read_text().count("\n") >= 2, "nothing was logged")
    assert [row[0] for row in csv.reader(log.read_text().splitlines())] == ["agent:start", "agent:end"]


async def test_the_tool_has_the_person_and_the_backend(
    install: Callable[[str], None], tmp_path: Path
) -> None:
    install("tool")

    def script(request: ModelRequest) -> Say:
        results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
        return say_words(results[0].text) if results else call("count_lines", '{"path": "notes.txt"}')

    home = tmp_path / "home"
    async with ApiWorld(home=home, provider=ScriptedModel(script)) as api:
        (home / "workspace" / "notes.txt").write_text("one\ntwo\n")
        shown = (await api.get("/v1/toolsets")).json["data"]
        assert [one["name"] for one in shown][-1] == "lines", "those that Hermes brings along come first"
        assert await say(api, "how many?") == "notes.txt has 2 lines, default."
    (home / "config.yaml").write_text("platform_toolsets: {api_server: [todo, lines]}\n")
    async with ApiWorld(home=home, provider=ScriptedModel(script)) as api:
        assert await say(api, "how many?") == "notes.txt has 2 lines, default."
    (home / "config.yaml").write_text("plugins: {entries: {lines: {unit: rows}}}\n")
    async with ApiWorld(home=home, provider=ScriptedModel(script)) as api:
        assert await say(api, "how many?") == "notes.txt has 2 rows, default."
    (home / "config.yaml").write_text("platform_toolsets: {api_server: [todo]}\n")
    async with ApiWorld(home=home, provider=ScriptedModel(script)) as api:
        assert "There is no tool “count_lines”. There are: todo." in await say(api, "how many?")


async def test_a_quote(
    install: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("command")
    install("platform")
    monkeypatch.setattr(registry, "COMMANDS", dict(registry.COMMANDS))
    chats, home = tmp_path / "chats", tmp_path / "home"
    (chats / "inbox").mkdir(parents=True)
    (chats / "inbox" / "ada-1.txt").write_text("/quote 2")
    home.mkdir()
    (home / "quotes.txt").write_text("Know thyself.\nNothing in excess.\n")
    environ = {"FOLDER_PATH": str(chats), "FOLDER_ALLOWED_USERS": "ada"}
    async with ApiWorld(home=home, environ=environ):
        await until(lambda: any((chats / "outbox").glob("ada-*.txt")), "no answer came")
    assert next((chats / "outbox").glob("ada-*.txt")).read_text() == "Nothing in excess."


async def test_the_calendar_is_known(
    install: Callable[[str], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install("memory")
    model, home = ScriptedModel(), tmp_path / "home"
    home.mkdir()
    async with ApiWorld(home=home, provider=model, config="memory: {provider: calendar}\n") as api:
        assert await say(api, "hello")
        assert "memory.failed memory=calendar why=FileNotFoundError" in caplog.text
        (home / "calendar.json").write_text('{"2026-11-18": "the dentist"}')
        while "the dentist" not in model.requests[-1].system:
            await say(api, "and now?")
    assert "# Calendar\n2026-11-18: the dentist" in model.requests[-1].system


async def test_a_memory_that_is_not_installed(tmp_path: Path) -> None:
    world = ApiWorld(home=tmp_path / "home", config="memory:\n  provider: nowhere\n")
    with pytest.raises(SettingsError, match="there is no memory “nowhere”") as raised:
        await world.__aenter__()
    assert raised.value.line == 2


async def test_commands_are_written_down(install: Callable[[str], None], tmp_path: Path) -> None:
    install("backend")
    home = tmp_path / "home"
    model = ScriptedModel([call("terminal", '{"command": "echo $((6 * 7))"}'), say_words("Done.")])
    config = "terminal: {backend: audited}\n"
    async with ApiWorld(home=home, provider=model, config=config) as api:
        assert await say(api, "compute") == "Done."
    result = next(e.record for e in model.requests[-1].entries if isinstance(e.record, ToolFinished))
    assert "42" in result.text and not result.failed
    assert (home / "audit.log").read_text().endswith("'echo $((6 * 7))'\n")
