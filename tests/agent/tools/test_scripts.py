"""Scripts that the agent wrote, and what a workspace keeps from it, over the real local backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.agent.tools.trail import SessionTrail
from hermes.domain.errors import Unreachable, UserError
from tests.agent.tools.test_tools import Bench

BAD = "#!/bin/sh\nrm -rf ~/documents\n"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.backend.close()


async def test_a_script_of_the_agents_own_is_read(bench: Bench) -> None:
    (bench.folder / "theirs.sh").write_text(BAD)
    await bench.use("write_file", path="mine.sh", content=BAD)
    await bench.use("write_file", path="calm.sh", content="echo hi\n")
    assert await bench.ask("terminal", command="bash theirs.sh") is None
    assert await bench.ask("terminal", command="bash calm.sh") is None
    asked = await bench.ask("terminal", command="bash mine.sh")
    assert asked is not None and "deletes" in asked.text


async def test_what_a_command_writes_is_read_too(bench: Bench) -> None:
    await bench.use("terminal", command="printf 'rm -rf ~/documents' > made.sh")
    assert await bench.ask("terminal", command="sh made.sh") is not None
    await bench.use("terminal", command="mkdir -p sub && cp made.sh sub/copy.sh")
    assert await bench.ask("terminal", command="sh copy.sh", workdir=str(bench.folder / "sub")) is not None


async def test_a_changed_script_is_another_question(bench: Bench) -> None:
    await bench.use("write_file", path="x.sh", content=BAD)
    before = await bench.ask("terminal", command="bash x.sh")
    await bench.use("patch", path="x.sh", old="documents", new="pictures")
    after = await bench.ask("terminal", command="bash x.sh")
    assert before is not None and after is not None and before.digest != after.digest


async def test_a_patched_file_counts_as_written(bench: Bench) -> None:
    (bench.folder / "theirs.sh").write_text("echo hi\n")
    await bench.use("patch", path="theirs.sh", old="echo hi", new="rm -rf ~/documents")
    assert await bench.ask("terminal", command="./theirs.sh") is not None


@pytest.mark.parametrize("data", [b"\x7fELF\0\0", b"echo hi\n" * 20_000, b"\xff\xfe not text"])
async def test_what_is_no_readable_text_is_asked_for(bench: Bench, data: bytes) -> None:
    await bench.use("write_file", path="tool.sh", content="echo hi")
    (bench.folder / "tool.sh").write_bytes(data)
    assert await bench.ask("terminal", command="bash tool.sh") is not None


async def test_scripts_are_followed_into_scripts(bench: Bench) -> None:
    await bench.use("write_file", path="a.sh", content="bash b.sh\n")
    await bench.use("write_file", path="b.sh", content=BAD)
    assert await bench.ask("terminal", command="bash a.sh") is not None


async def test_what_is_never_run_is_not_run_by_a_script(bench: Bench) -> None:
    await bench.use("write_file", path="x.sh", content="mkfs.ext4 /dev/does-not-exist\n")
    with pytest.raises(Exception, match="Refused"):
        await bench.use("terminal", command="bash x.sh")


async def test_ignored_files_are_asked_for(bench: Bench) -> None:
    (bench.folder / "plan.md").write_text("words")
    assert await bench.ask("read_file", path="plan.md") is None
    (bench.folder / ".agentignore").write_text("plan.md\n")
    assert await bench.ask("read_file", path="plan.md") is not None
    assert await bench.ask("write_file", path="plan.md", content="x") is not None
    assert await bench.ask("patch", path="plan.md", old="words", new="x") is not None
    assert await bench.ask("terminal", command="cat plan.md") is not None
    assert await bench.ask("write_file", path=".agentignore", content="") is not None
    assert await bench.ask("read_file", path="other.md") is None
    assert "plan.md" not in await bench.text("search_files", pattern="words")


@pytest.mark.parametrize(
    "command",
    [
        "grep -r words .", "rg words", "tar czf /tmp/x.tgz .", "cp -r . /tmp/copy", "zip -r /tmp/x.zip keep",
        "cat keep/*", "cat keep/pl*", "find . -type f -exec cat {} +", "find . -type f | xargs cat",
        "mv keep x", "cat $(find keep -type f)", "cd keep && grep -rn words", "rsync -a keep/ /tmp/there",
    ],
)  # fmt: skip
async def test_folders_with_ignored_files_are_asked_for_as_a_whole(bench: Bench, command: str) -> None:
    (bench.folder / "keep").mkdir()
    (bench.folder / "keep" / "plan.md").write_text("words")
    (bench.folder / "src").mkdir()
    (bench.folder / "src" / "a.py").write_text("words")
    (bench.folder / ".gitignore").write_text("*.md\n")
    calm = await bench.ask("terminal", command=command) is None
    (bench.folder / ".agentignore").write_text("plan.*\n")
    asked = await bench.ask("terminal", command=command)
    assert calm and asked is not None and ".agentignore" in asked.text
    assert await bench.ask("terminal", command="grep -r words src") is None
    assert await bench.ask("terminal", command="find . -name '*.py' | wc -l") is None


async def test_an_agentignore_that_cannot_be_read_keeps_everything(bench: Bench) -> None:
    (bench.folder / ".agentignore").mkdir()
    assert await bench.ask("read_file", path="other.md") is not None


async def test_a_place_that_cannot_be_opened_says_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stat(session: str, path: str) -> None:
        raise Unreachable("the command runner dies as soon as it is started (bwrap: no permissions)")

    monkeypatch.setattr(bench.backend.files, "stat", stat)
    with pytest.raises(UserError, match=r"^the command runner dies .* \(bwrap: no permissions\)$"):
        await bench.ask("terminal", command="echo hi")


async def test_where_too_much_was_written_every_file_counts() -> None:
    trail = SessionTrail()
    await trail.note_written("s", ["/w/a"])
    assert await trail.wrote("s", "/w/a")
    assert not await trail.wrote("s", "/w/b") and not await trail.wrote("t", "/w/a")
    await trail.note_written("s", (f"/w/{i}" for i in range(3000)))
    assert await trail.wrote("s", "/w/b")
