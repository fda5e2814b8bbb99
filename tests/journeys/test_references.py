"""References in a person's words: how they are read, what they stand for, who may use them, and that they are
looked up once, whatever happens."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hermes.app.agents.references import AgentReferences
from hermes.app.overrides import AppOverrides
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.ids import TurnId
from hermes.domain.safety.outside import is_foreign
from hermes.domain.turns.event import Entry, UserSaid
from hermes.domain.turns.references import Expansion, find_references
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Turn
from hermes.testing.clock import START
from hermes.testing.harness import Journey
from hermes.testing.model import ScriptedModel, echo
from tests.agent.test_demo_tools import living, say
from tests.journeys.cut import cut_everywhere


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @file:a.py, please", ["@file:a.py"]),
        ("(@file:a.py:3-9) and @file:a.py:7 and @file:a.py:7", ["@file:a.py:3-9", "@file:a.py:7-7"]),
        ('@file:"my notes.md" @folder:src/', ["@file:my notes.md", "@folder:src/"]),
        ("@git:3 @git:x @diff @staged. @differ @diff:x", ["@git:3", "@diff", "@staged"]),
        ("see @url:https://example.org/a?b=c.", ["@url:https://example.org/a?b=c"]),
        ("me@file:x.com, @somebody, @file:, @", []),
    ],
)
def test_how_they_are_written(text: str, found: list[str]) -> None:
    assert [str(reference) for reference in find_references(text)] == found


class Lookups:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, session: Session, turn: Turn) -> Expansion:
        self.count += 1
        return Expansion(context="[@file:a stands for this:]\nwords of a", notes=("a is long.",))


async def test_they_are_stored_with_the_message_and_told_once(tmp_path: Path) -> None:
    lookups = Lookups()
    async with Journey(folder=tmp_path, expand=lookups) as chat:
        chat.world.write("read @file:a")
        await chat.until_seen("You said: read @file:a", "⚠️ a is long.")
        chat.world.write("and now?")
        await chat.until_seen("You said: and now?")
        said = [
            entry.record for entry in chat.model.requests[-1].entries if isinstance(entry.record, UserSaid)
        ]
        assert "words of a" in said[0].context and "words of a" not in said[1].context
        assert lookups.count == 1
        await chat.until_idle()


@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_loses_and_doubles_none(tmp_path: Path, after: bool, full: bool) -> None:
    def make(folder: Path) -> Journey:
        return Journey(folder=folder, expand=Lookups())

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("read @file:a")
        await chat.until_seen("You said: read @file:a", "a is long.")
        await chat.until_idle()
        (session,) = await chat.database.read(lambda tx: tx.sessions.find(""))
        entries = await chat.database.read(lambda tx: tx.journal.read(session.id))
        said = [entry.record for entry in entries if isinstance(entry.record, UserSaid)]
        assert len(said) == 1 and said[0].context.count("words of a") == 1

    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 3


# --- what they stand for, in a whole gateway ---


async def told(tmp_path: Path, text: str, source: Source | None = None, config: str = "") -> str:
    home, workspace = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(config or "timezone: UTC\n")
    owner = Source(address=Address(platform=LOCAL_DOOR, chat="local"), kind=SourceKind.PRIVATE, user="local")
    given = AppOverrides(provider=ScriptedModel(echo), workspace=workspace, platforms={})
    async with living(home, given) as app:
        records = await say(app, text, source=source or owner)
    (said,) = [record for record in records if isinstance(record, UserSaid)]
    assert said.text == text
    entry = Entry(seq=1, turn=TurnId("t"), at=START, record=said)
    assert is_foreign(entry) is ("[from outside" in said.context), "what was read is data"
    return said.context


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    return folder


async def test_files_and_folders(tmp_path: Path, project: Path) -> None:
    context = await told(tmp_path, "see @file:a.txt:3-4 and @folder:. and @file:gone.txt")
    assert "3|line 3\n4|line 4" in context and "line 5" not in context
    assert "[@folder:. stands for this:]" in context and "a.txt" in context
    assert "@file:gone.txt was not looked up: There is no gone.txt" in context


async def test_secrets_are_not_read(tmp_path: Path, project: Path) -> None:
    (project / ".env").write_text("TOKEN=abcdefgh\n")
    context = await told(tmp_path, "see @file:.env and @file:../home/config.yaml", config="timezone: UTC\n")
    assert context.count("was not looked up: it would have to be allowed first") == 2
    assert "abcdefgh" not in context and "UTC" not in context


async def test_changes_and_commits(tmp_path: Path, project: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    git("init", "-q")
    git("add", "a.txt")
    git("commit", "-q", "-m", "first words")
    (project / "b.txt").write_text("staged line\n")
    git("add", "b.txt")
    (project / "a.txt").write_text("changed line\n")
    context = await told(tmp_path, "@git:1 @diff @staged")
    assert "first words" in context and "+changed line" in context and "+staged line" in context


async def test_too_much_is_refused_and_much_is_told(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("word " * 1000)
    config = "models: {m: {context_length: %d}}\nmodel: m\n"
    context = await told(tmp_path, "@file:a.txt", config=config % 1000)
    assert "left out, for they take about" in context and "word word" not in context
    assert "word word" in await told(tmp_path, "@file:a.txt", config=config % 3000)


@pytest.mark.parametrize(("window", "warned"), [(2000, True), (8000, False)])
async def test_a_quarter_of_the_window_is_warned_of(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, window: int, warned: bool
) -> None:
    made: list[Expansion] = []
    expand = AgentReferences.expand

    async def watched(self: AgentReferences, session: Session, turn: Turn) -> Expansion:
        made.append(await expand(self, session, turn))
        return made[-1]

    monkeypatch.setattr(AgentReferences, "expand", watched)
    (project / "a.txt").write_text("word " * 1000)
    await told(tmp_path, "@file:a.txt", config=f"models: {{m: {{context_length: {window}}}}}\nmodel: m\n")
    (expansion,) = made
    assert [note[:32] for note in expansion.notes] == (["What you referred to takes about"] if warned else [])


@pytest.mark.parametrize(
    ("mime", "page", "there", "gone"),
    [
        ("text/html", "<h1>Title</h1><script>evil()</script><p>Words &amp; more</p>", "Words & more", "evil"),
        ("application/json", '{"a": 1}', '{"a": 1}', "was not looked up"),
        ("image/png", "PNG", "it is no text, but image/png", "stands for this"),
    ],
)
async def test_a_page_is_read(
    tmp_path: Path, project: Path, mime: str, page: str, there: str, gone: str
) -> None:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(text=page, content_type=mime)

    site = web.Application()
    site.router.add_get("/page", serve)
    async with TestServer(site) as server:
        config = "security: {allow_private_urls: true}\n"
        context = await told(tmp_path, f"see @url:{server.make_url('/page')}", config=config)
    assert there in context and gone not in context


async def test_strangers_have_nothing_read(tmp_path: Path, project: Path) -> None:
    stranger = Source(address=Address(platform="telegram", chat="7"), kind=SourceKind.PRIVATE, user="9")
    config = "terminal: {backend: local}\n"
    context = await told(tmp_path, "@file:a.txt @url:https://example.org", stranger, config)
    assert context.count("was not looked up") == 2 and "line 1" not in context
    owners = await told(tmp_path, "@url:http://127.0.0.1:9/")
    assert "was not looked up" in owners
