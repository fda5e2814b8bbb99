"""The tools, over the real local backend: what they say, what they refuse, and what they ask for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools import files
from hermes.agent.tools.registry import TOOLS, toolsets
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.world import DocumentReader, FileView, FolderRules
from hermes.domain.tools.tool import ApprovalPrompt, Effect, Tool, ToolContext, ToolResult
from hermes.execution.documents.reader import DocumentProcess
from hermes.execution.files import search
from hermes.testing.backends import fixed_scope, local_backend
from hermes.testing.tools import SilentNews, tool_services, tools_of
from tests.agent.tools.reference import tools_page
from tests.execution.test_documents import word

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tools.md"


async def nobody(query: str, limit: int, context: ToolContext, *place: object) -> list[SearchHit]:
    """The history of an agent to which nobody has spoken."""
    return []


class Bench:
    """The tools of an agent whose workspace is `folder`."""

    def __init__(self, tmp_path: Path, *, asks: bool = True, ask_all: bool = False) -> None:
        self.repeated = False
        self.folder = tmp_path / "work"
        self.folder.mkdir(exist_ok=True)
        self.user = tmp_path / "user"
        self.user.mkdir(exist_ok=True)
        environ = {**os.environ, "HOME": str(self.user)}
        self.backend = local_backend(home=tmp_path / "agent", environ=environ, workspace=self.folder)
        self.news = SilentNews()
        bench = tool_services(
            backend=self.backend,
            recall=nobody,
            scope_in=fixed_scope(
                CommandScope(
                    cwd=str(self.folder),
                    workspace=str(self.folder),
                    home=str(self.user),
                    homes=FolderRules(closed=(str(tmp_path / "agent"),)),
                    ask_all=ask_all,
                )
            ),
            asks=asks,
            news=self.news,
        )
        self.services = bench
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools_of(bench)}

    async def use(self, name: str, **arguments: object) -> ToolResult:
        context = ToolContext(
            agent=MAIN_AGENT,
            session=SessionId("s"),
            turn=TurnId("t"),
            call_id=CallId("c"),
            key="k",
            output=lambda text: None,
            repeated=self.repeated,
        )
        return await self.tools[name].run(context, arguments)

    async def text(self, name: str, **arguments: object) -> str:
        return (await self.use(name, **arguments)).text

    async def ask(self, name: str, **arguments: object) -> ApprovalPrompt | None:
        approval = self.tools[name].approval
        assert callable(approval)
        return await approval(SessionId("s"), arguments)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.backend.close()


# --- the registry ---

SCHEMA_GROUPS = {
    "skills": "skills",
    "browser": "browser",
    "vision": "media",
    "image_gen": "media",
    "tts": "media",
    "homeassistant": "homeassistant",
}
"""Toolsets whose schemas are counted together; the others are one group."""


@pytest.mark.parametrize(
    ("toolset", "count", "most"),
    [
        ("", 17, 8500),
        ("skills", 3, 1300),
        ("browser", 12, 3200),
        ("media", 3, 1100),
        ("homeassistant", 3, 1100),
    ],
)
def test_schemas_are_small(toolset: str, count: int, most: int) -> None:
    schemas = [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.signature.description,
                "parameters": spec.signature.parameters,
            },
        }
        for spec in TOOLS.values()
        if SCHEMA_GROUPS.get(spec.toolset, "") == toolset
    ]
    assert len(schemas) == count
    assert len(json.dumps(schemas, separators=(",", ":"), ensure_ascii=False).encode()) <= most


def test_a_schema_follows_the_signature() -> None:
    assert TOOLS["process"].signature.parameters == {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["list", "poll", "log", "wait", "kill", "write", "close"]},
            "id": {"type": "string"},
            "text": {"type": "string"},
            "seconds": {"type": "integer"},
            "offset": {"type": "integer"},
            "limit": {"type": "integer"},
        },
        "required": ["action"],
    }


def test_effects_and_company() -> None:
    effects = {
        name: (spec.effect, spec.parallel) for name, spec in TOOLS.items() if spec.toolset != "browser"
    }
    assert effects == {
        "read_file": (Effect.READ, True),
        "search_files": (Effect.READ, True),
        "write_file": (Effect.KEYED, False),
        "patch": (Effect.KEYED, False),
        "terminal": (Effect.ONCE, False),
        "process": (Effect.ONCE, False),
        "session_search": (Effect.READ, True),
        "send_message": (Effect.KEYED, False),
        "cronjob": (Effect.ONCE, False),
        "clarify": (Effect.READ, False),
        "todo": (Effect.READ, False),
        "memory": (Effect.KEYED, False),
        "skill_view": (Effect.READ, True),
        "skills_list": (Effect.READ, True),
        "skill_manage": (Effect.ONCE, False),
        "web_search": (Effect.READ, True),
        "web_extract": (Effect.READ, True),
        "execute_code": (Effect.ONCE, False),
        "delegate_task": (Effect.READ, False),
        "notify": (Effect.KEYED, False),
        "vision_analyze": (Effect.READ, True),
        "image_generate": (Effect.ONCE, False),
        "text_to_speech": (Effect.READ, False),
        "ha_list_entities": (Effect.READ, True),
        "ha_get_state": (Effect.READ, True),
        "ha_call_service": (Effect.ONCE, False),
    }


async def test_toolsets(bench: Bench) -> None:
    made = tool_services(backend=bench.backend, recall=nobody, scope_in=fixed_scope())
    assert {tool.name for tool in tools_of(made, "terminal")} == {"terminal", "process"}
    assert set(toolsets()) == {
        "file",
        "terminal",
        "session_search",
        "cronjob",
        "messaging",
        "clarify",
        "todo",
        "memory",
        "skills",
        "web",
        "code_execution",
        "delegation",
        "notify",
        "browser",
        "vision",
        "image_gen",
        "tts",
        "homeassistant",
    }


async def test_slips_in_arguments_are_put_right(bench: Bench) -> None:
    await bench.use("write_file", path="a.txt", content="1\n2\n3\n")
    assert (
        await bench.text("read_file", path="a.txt", offset="2", limit=1.0)
        == "2|2\n[more follows; next offset 3]"
    )
    items = json.dumps([{"text": "go", "status": "pending"}])
    assert await bench.text("todo", items=items) == "[ ] go\n0 of 1 done."
    for wrong in ({}, {"path": "a", "nope": 1}, {"path": "a.txt", "limit": "many"}):
        with pytest.raises(UserError):
            await bench.use("read_file", **wrong)


def test_the_reference_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == tools_page(), "write tools_page() to docs/reference/tools.md"


# --- files ---


async def test_reading(bench: Bench) -> None:
    (bench.folder / "a.txt").write_text("eins\nzwei\n", encoding="utf-8")
    assert await bench.text("read_file", path="a.txt") == "1|eins\n2|zwei"
    (bench.folder / "empty").touch()
    assert await bench.text("read_file", path="empty") == "[the file is empty]"
    (bench.folder / "b.bin").write_bytes(b"\0\1\2")
    (bench.folder / "long.txt").write_text("x" * 5000 + "\n")
    assert len(await bench.text("read_file", path="long.txt")) < 2100
    assert "a.txt" in await bench.text("read_file", path=".")
    with pytest.raises(UserError, match=r"b\.bin is a binary file of 3 bytes.* terminal"):
        await bench.use("read_file", path="b.bin")
    with pytest.raises(UserError, match=r"Near: a\.txt"):
        await bench.use("read_file", path="a.tx")
    with pytest.raises(UserError, match="ends before line 9"):
        await bench.use("read_file", path="a.txt", offset=9)


async def test_reading_far_into_a_large_file(bench: Bench) -> None:
    (bench.folder / "big.txt").write_text("".join(f"line {n}\n" for n in range(1, 400_001)))
    assert (
        await bench.text("read_file", path="big.txt", offset=399_999)
        == "399999|line 399999\n400000|line 400000"
    )
    assert (await bench.text("read_file", path="big.txt", offset=200_000, limit=2)).splitlines() == [
        "200000|line 200000",
        "200001|line 200001",
        "[more follows; next offset 200002]",
    ]


async def test_a_huge_line_is_cut_and_never_gathered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with (bench.folder / "big.json").open("wb") as file:
        file.write(b"x" * (6 << 20) + b"\nend")
    first = await bench.use("read_file", path="big.json")
    assert first.text.startswith("1|xxx") and first.text.endswith(
        "[… line cut]\n[more follows; next offset 2]"
    )
    assert isinstance(first.data, dict) and len(first.data["content"]) < 6 << 20
    assert await bench.text("read_file", path="big.json", offset=2) == "2|end"
    with (bench.folder / "big.json").open("wb") as file:
        file.truncate(files._LARGEST_READ + 1)  # it is empty, and a hole
        file.write(b"x" * 9000)
    with pytest.raises(UserError, match=r"Line 2 of big\.json is too far into it"):
        await bench.text("read_file", path="big.json", offset=2)


async def test_a_document_is_read_as_text(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.services = bench.services.plus(DocumentReader, DocumentProcess())
    bench.tools = {tool.name: tool for tool in tools_of(bench.services)}
    cells = [{"cell_type": "code", "source": ["import bees\n", "bees.fly()"]}]
    (bench.folder / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    (bench.folder / "offer.docx").write_bytes(word("<w:p><w:r><w:t>Two bees</w:t></w:r></w:p>"))
    (bench.folder / "windows.txt").write_bytes("eins\r\nzwei\r\n".encode("utf-16"))
    (bench.folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert await bench.text("read_file", path="a.ipynb") == "1|[1 code]\n2|import bees\n3|bees.fly()"
    assert await bench.text("read_file", path="a.ipynb", offset=2, limit=1) == (
        "2|import bees\n[more follows; next offset 3]"
    )
    assert await bench.text("read_file", path="offer.docx") == "1|Two bees"
    assert await bench.text("read_file", path="windows.txt", offset=2) == "2|zwei"
    with pytest.raises(UserError, match="ends before line 9"):
        await bench.use("read_file", path="offer.docx", offset=9)
    with pytest.raises(UserError, match=r"a\.png is a binary file of 10 bytes.* vision_analyze"):
        await bench.use("read_file", path="a.png")
    (bench.folder / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UserError, match=r"a\.zip: It cannot be read \(a damaged or locked ZIP file\)"):
        await bench.use("read_file", path="a.zip")
    with (bench.folder / "huge.zip").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(60_000_000)
    with pytest.raises(UserError, match=r"huge\.zip is a binary file of 60000000 bytes"):
        await bench.use("read_file", path="huge.zip")


async def test_a_file_of_windows_stays_one(bench: Bench) -> None:
    path = bench.folder / "a.ini"
    path.write_bytes(b"\xef\xbb\xbf[a]\r\nb=1\r\n")
    await bench.use("write_file", path="a.ini", content="[a]\nb=2\n")
    assert path.read_bytes() == b"\xef\xbb\xbf[a]\r\nb=2\r\n"
    await bench.use("patch", patch="*** Update File: a.ini\n@@\n-[a]\n+[c]\n b=2\n")
    assert path.read_bytes() == b"\xef\xbb\xbf[c]\r\nb=2\r\n"
    path.write_bytes(b"a\r\nb\n")  # mixed: what is written counts
    await bench.use("write_file", path="a.ini", content="a\nb\n")
    assert path.read_bytes() == b"a\nb\n"


async def test_a_search_says_what_it_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.folder / "a.txt").write_text("needle\n" * 3)
    assert "more matches" in await bench.text("search_files", pattern="needle", limit=2)
    monkeypatch.setattr(search, "_SECONDS", -1.0)
    assert await bench.text("search_files", pattern="needle") == (
        "Nothing found.\n[not all was searched; narrow the search]"
    )


async def test_writing_again_changes_nothing(bench: Bench) -> None:
    assert (await bench.text("write_file", path="new/x.py", content="a = 1\n")).startswith(
        "Wrote new/x.py: 6 bytes, 1 line."
    )
    assert "3 bytes, 2 lines." in await bench.text("write_file", path="y", content="a\nb")
    assert "0 bytes, 0 lines." in await bench.text("write_file", path="z", content="")
    again = await bench.text("write_file", path="new/x.py", content="a = 1\n")
    assert again == "Replaced new/x.py: 6 bytes, 1 line."
    other = await bench.text("write_file", path="y", content="a\nc")
    assert other.splitlines()[1:] == ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert (bench.folder / "new/x.py").read_text() == "a = 1\n"
    assert "SyntaxError" in await bench.text("write_file", path="bad.py", content="def (")


async def test_files_follow_the_terminal(bench: Bench) -> None:
    await bench.use("terminal", command="mkdir sub; cd sub")
    await bench.use("write_file", path="here.txt", content="x")
    assert (bench.folder / "sub/here.txt").read_text() == "x"
    assert await bench.text("terminal", command="cat here.txt") == "x"


async def test_searching(bench: Bench) -> None:
    (bench.folder / "a.py").write_text("one\nneedle\n")
    (bench.folder / ".env").write_text("needle=1\n")
    assert await bench.text("search_files", pattern="need") == "a.py\n  2|needle"
    assert await bench.text("search_files", pattern="*.py", target="files") == "a.py"
    assert (await bench.text("search_files", pattern="nowhere")).startswith("Nothing found")


async def test_matches_are_paged_counted_and_shown_in_their_place(bench: Bench) -> None:
    (bench.folder / "a.py").write_text("one\nneedle 1\nneedle 2\nfour\nfive\nsix\nneedle 3\n")
    (bench.folder / "b.py").write_text("needle\n" * 250)
    around = "a.py\n  1-one\n  2|needle 1\n  3|needle 2\n  4-four\n  --\n  6-six\n  7|needle 3"
    assert await bench.text("search_files", pattern="needle", context=1, path="a.py") == around
    pages = [await bench.text("search_files", pattern="needle", limit=2, offset=at) for at in (0, 2)]
    assert pages[0] == "a.py\n  2|needle 1\n  3|needle 2\n[more matches; narrow the search, or next offset 2]"
    assert pages[1].startswith("a.py\n  7|needle 3\nb.py\n  1|needle\n[more")
    assert "  250|" in await bench.text("search_files", pattern="needle", path="b.py", limit=100, offset=200)
    assert "no matches from 300" in await bench.text("search_files", pattern="needle", offset=300)
    assert await bench.text("search_files", pattern="needle", output_mode="files_only") == "a.py\nb.py"
    counted = await bench.use("search_files", pattern="needle", output_mode="count")
    assert counted.text == "a.py: 3\nb.py: 250"
    assert counted.data == {
        "matches": [
            {"path": str(bench.folder / "a.py"), "count": 3},
            {"path": str(bench.folder / "b.py"), "count": 250},
        ],
        "more": False,
    }


async def test_private_places_are_asked_for(bench: Bench) -> None:
    key = bench.user / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("private")
    asked = await bench.ask("read_file", path=str(key))
    assert asked is not None and str(key) in asked.text
    assert await bench.ask("write_file", path=str(bench.user / ".bashrc"), content="x") is not None
    assert await bench.ask("patch", path="/etc/hosts", old="a", new="b") is not None
    assert await bench.ask("read_file", path="a.txt") is None
    assert await bench.ask("write_file", path="src/a.py", content="") is None
    (bench.folder / "innocent").symlink_to(key)
    for use in (
        bench.use("read_file", path="innocent"),
        bench.use("write_file", path="innocent", content="x"),
    ):
        with pytest.raises(UserError, match="leads to"):
            await use
    assert key.read_text() == "private"


@pytest.mark.parametrize("folders", [False, True], ids=["a link", "a folder above"])
async def test_a_link_that_comes_after_the_look(
    bench: Bench, folders: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read and written is what was judged, whatever a command in the background does meanwhile."""
    private = bench.user / ".ssh"
    private.mkdir()
    (private / "config").write_text("private")
    place, look = bench.folder / "d", type(bench.backend.files).stat

    async def look_and_swap(files: Any, session: str, path: str) -> FileView | None:
        found = await look(files, session, path)
        if os.path.basename(path) in ("config", "link", "d"):
            shutil.rmtree(place)
            if folders:
                place.symlink_to(private)
            else:
                place.mkdir()
                (place / "config").symlink_to(private / "config")
        return found

    uses: list[tuple[str, dict[str, object]]] = [
        ("read_file", {"path": "d/config"}),
        ("read_file", {"path": "link"}),
        ("patch", {"path": "d/config", "old": "private", "new": "x"}),
        ("write_file", {"path": "d/config", "content": "x"}),
        ("write_file", {"path": "link", "content": "x"}),
        ("search_files", {"path": "d", "pattern": "private"}),
    ]
    (bench.folder / "link").symlink_to("d/config")
    for name, arguments in uses:
        if place.is_symlink():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "config").write_text("plain")
        with monkeypatch.context() as patched:
            patched.setattr(type(bench.backend.files), "stat", look_and_swap)
            try:
                told = await bench.text(name, **arguments)
            except UserError as error:
                told = str(error)
        assert "private" not in told and (private / "config").read_text() == "private", name
        assert os.listdir(private) == ["config"]


async def test_a_new_folder_below_a_link(bench: Bench) -> None:
    private, open_place = bench.user / ".ssh", bench.folder / "open"
    private.mkdir()
    open_place.mkdir()
    (bench.folder / "away").symlink_to(private)
    (bench.folder / "near").symlink_to(open_place)
    with pytest.raises(UserError, match="leads to"):
        await bench.use("write_file", path="away/a/b/c", content="x")
    assert not (private / "a").exists()
    await bench.use("write_file", path="near/a/b/c", content="x")
    assert (open_place / "a/b/c").read_text() == "x"


async def test_files_are_asked_for_where_the_shell_stands(bench: Bench) -> None:
    (bench.folder / "proj").mkdir()
    (bench.folder / "proj" / ".env").write_text("KEY=1")
    assert await bench.ask("read_file", path="proj") is None
    await bench.use("terminal", command="cd proj")
    asked = await bench.ask("read_file", path=".env")
    assert asked is not None and str(bench.folder / "proj" / ".env") in asked.text
    assert "KEY=1" in await bench.text("read_file", path=".env")
    await bench.use("write_file", path=".env", content="KEY=2")
    (bench.folder / "proj" / "link").symlink_to(bench.folder / "proj" / ".env")
    with pytest.raises(UserError, match="leads to"):
        await bench.use("read_file", path="link")


async def test_a_search_does_not_look_into_homes(bench: Bench) -> None:
    for name in ("a/gateway.log", "agent/logs/gateway.log", "agent/logs/more.log"):
        path = bench.folder.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n" * 20)
    assert await bench.ask("search_files", pattern="needle", path="..") is None
    found = await bench.text("search_files", pattern="needle", path="..", limit=20)
    assert found.count("needle") == 20 and "agent" not in found and "more matches" not in found
    (bench.folder / "up").symlink_to(bench.folder.parent)
    assert "agent/" not in await bench.text("search_files", pattern="needle", path="up", limit=20)
    assert "agent/" not in await bench.text("search_files", pattern="*.log", path="up", target="files")
    assert await bench.ask("search_files", pattern="x", path="../agent/logs") is not None


async def test_a_write_is_shown_and_bound_to_its_content(bench: Bench) -> None:
    path = bench.user / ".bashrc"
    path.write_text("alias a=b\nexport X=1\n")
    first = await bench.ask("write_file", path=str(path), content="alias a=b\n# innocent\n")
    assert first is not None and first.more is not None
    assert await first.more(SessionId("s")) == " alias a=b\n-export X=1\n+# innocent"
    other = await bench.ask("write_file", path=str(path), content="alias a=b\ncurl x | sh\n")
    assert other is not None and other.digest != first.digest
    elsewhere = await bench.ask(
        "write_file", path=str(bench.user / ".zshrc"), content="alias a=b\n# innocent\n"
    )
    assert elsewhere is not None and elsewhere.digest != first.digest
    assert first == await bench.ask("write_file", path=str(path), content="alias a=b\n# innocent\n")
    fresh = await bench.ask("write_file", path=str(bench.user / ".zshrc"), content="a\u202eb\n" + "x\n" * 900)
    assert fresh is not None and fresh.more is not None
    shown = await fresh.more(SessionId("s"))
    assert shown.startswith("+a\\u202eb\n+x") and shown.endswith("[… 861 more lines]")
    long = await bench.ask("write_file", path=str(path), content="y" * 5000 + "\nz" * 1200)
    assert long is not None and long.more is not None
    shown = await long.more(SessionId("s"))
    assert (
        shown.startswith("[2 lines are replaced by 1201]\n+yyy")
        and "[… line cut]" in shown
        and len(shown) < 3000
    )


async def test_a_question_is_short_enough_to_be_read(bench: Bench) -> None:
    content = "".join(f"{number} {'x' * 180}\n" for number in range(30))
    asked = await bench.ask("write_file", path=str(bench.user / ".bashrc"), content=content)
    assert asked is not None and asked.more is not None
    shown = await asked.more(SessionId("s"))
    assert shown.startswith("+0 xxx") and shown.endswith("[… 24 more lines]") and len(shown) < 1300


async def test_a_patch_is_shown_and_bound_to_its_content(bench: Bench) -> None:
    path = str(bench.user / ".bashrc")
    first = await bench.ask("patch", path=path, old="a\nb", new="c")
    assert first is not None and first.text.endswith("\n-a\n-b\n+c")
    others = [
        await bench.ask("patch", path=path, old="a\nb", new="d"),
        await bench.ask("patch", path=path, old="a", new="c"),
        await bench.ask("patch", path=path, old="a\nb", new="c", replace_all=True),
    ]
    assert len({first.digest, *(other.digest for other in others if other)}) == 4


async def test_nothing_in_a_question_speaks_for_itself(bench: Bench) -> None:
    trick = f"{bench.user}/.ssh/x\nIt reads nothing.\u202e"
    for asked in (
        await bench.ask("read_file", path=trick),
        await bench.ask("write_file", path=trick, content=""),
    ):
        assert asked is not None
        assert "\\u000aIt reads nothing.\\u202e" in asked.text and asked.text.count("\n") == 1
    command = await bench.ask("terminal", command="git push --force\nIt only lists files.")
    assert command is not None and "\n│ It only lists files." in command.text


# --- the terminal ---


async def test_what_the_terminal_says(bench: Bench) -> None:
    assert await bench.text("terminal", command="true") == "[no output]"
    ended = await bench.use("terminal", command="echo a; exit 2")
    assert ended.text == "a\n[exit code 2]" and ended.ended_badly and not ended.failed
    assert await bench.text("terminal", command="printf '\\e[31mred\\e[0m\\r\\n10%%\\r20%%\\n'") == "red\n20%"
    for seconds in (1, 5, 40):
        slow = await bench.use("terminal", command="echo a; sleep 60", timeout=seconds)
        if slow.text.startswith("a"):
            break  # otherwise the machine was too busy to begin it in time
    assert slow.failed and slow.text.startswith(f"a\n[stopped after {seconds} s")
    assert "it left processes running as proc_" in await bench.text("terminal", command="sleep 60 &")


async def test_the_log_of_a_process(bench: Bench) -> None:
    started = await bench.text("terminal", command="seq 300; read l; printf '\\033[1mbold'", background=True)
    name = started.split()[1]
    while "300\n[" not in await bench.text("process", action="log", id=name):
        pass
    log = await bench.text("process", action="log", id=name)
    assert log.split("\n")[1] == "101" and log.endswith("\n300\n[101 to 300 of 300 lines]")
    page = await bench.text("process", action="log", id=name, offset=2, limit=2)
    assert page.split("\n")[1:] == ["2", "3", "[2 to 3 of 300 lines]"]
    assert "[nothing from 301 on, of 300 lines]" in await bench.text(
        "process", action="log", id=name, offset=301
    )
    assert "\n1\n2\n" in await bench.text("process", action="poll", id=name), "nobody had looked yet"
    await bench.use("process", action="write", id=name)
    assert (await bench.text("process", action="wait", id=name)).endswith("\nbold")
    assert (await bench.text("process", action="log", id=name)).endswith("bold\n[102 to 301 of 301 lines]")


async def test_a_program_on_a_terminal(bench: Bench) -> None:
    assert await bench.text("terminal", command="test -t 1 && echo yes", pty=True) == "yes"
    started = await bench.text(
        "terminal", command="stty raw -echo; echo ready; head -c 4 | od -An -c", background=True, pty=True
    )
    name = started.split()[1]
    while "\nready" not in await bench.text("process", action="log", id=name):
        pass
    await bench.use("process", action="write", id=name, text="ab")
    await bench.use("process", action="close", id=name)
    ended = await bench.text("process", action="wait", id=name)
    assert "a   b  \\r 004" in ended, "Enter and the end of the input as a keyboard has them"


async def test_what_a_process_is_watched_for(bench: Bench) -> None:
    command = (
        "echo one; echo 'is ready'; printf 'Pass'; printf 'word: '; read l; seq 100000; echo ready.; echo x"
    )
    started = await bench.text(
        "terminal", command=command, background=True, watch_patterns=["ready", "word:"]
    )
    name = started.split()[1]
    assert "told of lines" in started
    while len(bench.news.lines) < 2:
        await bench.text("process", action="poll", id=name)
    await bench.use("process", action="write", id=name)
    await bench.text("process", action="wait", id=name)
    assert bench.news.lines == ["is ready", "Password: ", "ready."] and len(bench.news.ends) == 1
    both = await bench.text(
        "terminal", command="echo ready", background=True, notify=True, watch_patterns=["r"]
    )
    assert "count only without notify" in both
    await bench.text("process", action="wait", id=both.split()[1])
    assert len(bench.news.lines) == 3
    for wrong in ([""], ["a\nb"], ["x" * 201], ["x"] * 11):
        with pytest.raises(UserError, match=r"watched for|too many"):
            await bench.use("terminal", command="true", background=True, watch_patterns=wrong)
    with pytest.raises(UserError, match="in the background"):
        await bench.use("terminal", command="true", watch_patterns=["x"])


async def test_background_processes(bench: Bench) -> None:
    started = await bench.text("terminal", command="read l; echo heard $l", background=True, notify=True)
    name = started.split()[1]
    assert name in await bench.text("process", action="list")
    assert "[no new output]" in await bench.text("process", action="poll", id=name)
    await bench.use("process", action="write", id=name, text="you")
    assert (await bench.text("process", action="wait", id=name)).endswith("heard you\n")
    assert [(view.id, view.code) for view in bench.news.ends] == [(name, 0)]
    with pytest.raises(UserError, match="no process"):
        await bench.use("process", action="poll", id="proc_x")
    sorting = (await bench.text("terminal", command="sort", background=True)).split()[1]
    for line in ("b", "a"):
        await bench.use("process", action="write", id=sorting, text=line)
    assert await bench.text("process", action="close", id=sorting) == f"The input of {sorting} has ended."
    assert (await bench.text("process", action="wait", id=sorting)).endswith("a\nb\n")
    other = (await bench.text("terminal", command="sleep 60", background=True, notify=True)).split()[1]
    assert "ended with 1" in await bench.text("process", action="kill", id=other)


async def test_what_a_process_is_told_is_judged(bench: Bench) -> None:
    (bench.user / "docs").mkdir()
    shell = (await bench.text("terminal", command="bash", background=True)).split()[1]
    wanted = {"action": "write", "id": shell, "text": f"rm -rf {bench.user}/docs"}
    asked = await bench.ask("process", **wanted)
    assert asked is not None and f"Send to {shell} (bash): rm -rf" in asked.text and "workspace" in asked.text
    assert asked == await bench.ask("process", **wanted)
    other = await bench.ask("process", **{**wanted, "text": f"rm -rf {bench.user}/docs/"})
    assert other is not None and other.digest != asked.digest
    assert await bench.ask("process", action="write", id=shell, text="echo hi") is None
    assert await bench.ask("process", action="kill", id=shell) is None
    assert await bench.ask("process", action="write", id=shell, text="mkfs.ext4 /dev/nowhere") is None
    with pytest.raises(UserError, match="Refused"):
        await bench.use("process", action="write", id=shell, text="mkfs.ext4 /dev/nowhere")
    (bench.user / ".aws").mkdir()
    there = await bench.text("terminal", command="bash", workdir=str(bench.user / ".aws"), background=True)
    assert (
        await bench.ask("process", action="write", id=there.split()[1], text="head -n 3 config") is not None
    )
    assert await bench.ask("process", action="write", id=shell, text="head -n 3 config") is None
    repl = (await bench.text("terminal", command="python3 -i", background=True)).split()[1]
    assert await bench.ask("process", action="write", id=repl, text="import os") is not None
    assert await bench.ask("process", action="write", id=repl, text="y") is None
    second = (await bench.text("terminal", command="bash", background=True)).split()[1]
    again = await bench.ask("process", **{**wanted, "id": second})
    assert again is not None and again.digest != asked.digest


async def test_dangerous_commands_are_asked_for(bench: Bench) -> None:
    asked = await bench.ask("terminal", command="git push --force")
    assert asked is not None and "git push --force" in asked.text and "remote" in asked.text
    assert await bench.ask("terminal", command="git push --force") == asked
    others = [
        await bench.ask("terminal", command="git push --force", workdir="/srv"),
        await bench.ask("terminal", command="git push --force "),
    ]
    assert all(other is not None and other.digest != asked.digest for other in others)
    assert await bench.ask("terminal", command="git status") is None
    hidden = await bench.ask("terminal", command="ls \u202etxt.x")
    assert hidden is not None and "\\u202e" in hidden.text and "\u202e" not in hidden.text


async def test_what_is_never_run(bench: Bench) -> None:
    assert await bench.ask("terminal", command="rm -rf /") is None
    with pytest.raises(UserError, match="Refused"):
        await bench.use("terminal", command="rm -rf /")


async def test_a_command_is_judged_where_it_runs(bench: Bench) -> None:
    (bench.user / "docs").mkdir()
    assert await bench.ask("terminal", command="rm -rf docs") is None
    await bench.use("terminal", command="cd ../user")
    there = await bench.ask("terminal", command="rm -rf docs")
    assert there is not None and str(bench.user) in there.text
    named = await bench.ask("terminal", command="rm -rf docs", workdir=str(bench.user))
    assert named is not None and named.digest == there.digest
    await bench.use("terminal", command="rm -rf docs", workdir=str(bench.user))
    assert not (bench.user / "docs").exists()


async def test_nobody_is_asked_when_asking_is_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path, asks=False)
    assert await bench.ask("terminal", command="git push --force") is None
    with pytest.raises(UserError, match="Refused"):
        await bench.use("terminal", command="rm -rf ~")
    await bench.backend.close()


# --- talking ---


async def test_clarify(bench: Bench) -> None:
    asks = bench.tools["clarify"].asks
    assert asks is not None
    wanted = asks({"question": "Which?", "options": ["a", "b", "c", "d", "e"]})
    assert (wanted.text, wanted.options) == ("Which?", ("a", "b", "c", "d"))


async def test_todo_says_the_whole_list(bench: Bench) -> None:
    items = [{"text": "one", "status": "completed"}, {"text": "two", "status": "in_progress"}]
    assert await bench.text("todo", items=items) == "[x] one\n[>] two\n1 of 2 done."
    with pytest.raises(UserError, match="must be one of"):
        await bench.use("todo", items=[{"text": "a", "status": "soon"}])


async def test_where_nothing_holds_commands_each_is_asked_for(tmp_path: Path) -> None:
    free, bare = Bench(tmp_path), Bench(tmp_path, ask_all=True)
    assert await free.ask("terminal", command="ls") is None
    asked = await bare.ask("terminal", command="ls")
    assert asked is not None
    assert asked.text == "Run: ls\nNo sandbox holds commands here, so each is asked for."
    dangerous = await bare.ask("terminal", command="rm -rf /srv/data")
    assert dangerous is not None and "No sandbox" not in dangerous.text, "the reason counts for more"
    assert await bare.ask("terminal", command="rm -rf /") is None, "it is refused, whoever asks"
    line = await bare.ask("process", action="write", id="p1", text="y")
    assert line is not None and line.text.endswith("each is asked for.")
    assert await bare.ask("process", action="list") is None
    await free.backend.close()
    await bare.backend.close()
