"""An operator's scripts: what they are given, what they may not see, and that they end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from hermes.admin.process.run import loop_factory
from hermes.domain.errors import UserError
from hermes.execution.scripts import FOLDER, MOST_OUTPUT, Scripts


def scripts(home: Path, **files: str) -> Scripts:
    (home / FOLDER).mkdir()
    for name, text in files.items():
        path = home / FOLDER / name.replace("_", ".")
        path.write_text(text)
        path.chmod(0o755)
    return Scripts(home, {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "very secret"})


async def test_words_in_words_out(tmp_path: Path) -> None:
    own = scripts(tmp_path, a_sh="cat; echo !; exit 3", b_py="import sys; print(sys.stdin.read().upper())")
    end = await own.run("a.sh", b"hello", 20)
    assert (end.code, end.output) == (3, b"hello!\n")
    assert (await own.run("b.py", b"hello", 20)).output == b"HELLO\n"


def test_on_the_loop_of_the_gateway(tmp_path: Path) -> None:
    loop = loop_factory()
    if loop is None:
        pytest.skip("uvloop is not installed")
    own = scripts(tmp_path, a_sh="cat")
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(own.run("a.sh", b"hello", 20)).output == b"hello"


async def test_one_with_its_own_interpreter(tmp_path: Path) -> None:
    own = scripts(tmp_path, run="#!/bin/sh\nwc -c")
    assert (await own.run("run", b"x" * 300_000, 20)).output.strip() == b"300000"


async def test_the_environment_is_built_from_nothing(tmp_path: Path) -> None:
    own = scripts(tmp_path, a_sh="env")
    said = (await own.run("a.sh", b"", 20)).output.decode()
    assert "very secret" not in said and f"HERMES_HOME={tmp_path}" in said


async def test_time_is_up_for_everything_it_started(tmp_path: Path) -> None:
    own = scripts(tmp_path, a_sh="sleep 600 & echo $! > child; sleep 600")
    written = tmp_path / FOLDER / "child"
    for seconds in (0.5, 5.0, 40.0):
        assert (await own.run("a.sh", b"", seconds)).code is None
        if written.exists() and written.read_text().strip():
            break  # otherwise the machine was too busy to begin it in time
    child, end = int(written.read_text()), time.monotonic() + 40
    while _lives(child):
        assert time.monotonic() < end, "what the script started goes on"
        await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_one_that_does_not_read_or_says_too_much(tmp_path: Path) -> None:
    own = scripts(tmp_path, quiet_sh="exec <&-; echo fine", loud_sh="yes")
    assert (await own.run("quiet.sh", b"x" * 3_000_000, 20)).output == b"fine\n"
    assert (await own.run("loud.sh", b"", 20)).code is None
    assert MOST_OUTPUT == 1 << 20


async def test_what_leaves_the_group_is_not_waited_for(tmp_path: Path) -> None:
    away = "import os, subprocess; p = subprocess.Popen(['sleep', '8'], start_new_session=True); print(p.pid)"
    own = scripts(tmp_path, a_py=away)
    end = await own.run("a.py", b"", 20)
    assert end.code == 0
    os.kill(int(end.output), signal.SIGKILL)


@pytest.mark.parametrize("name", ["../outside.sh", "/bin/sh", "gone.sh", "", ".", "link.sh"])
async def test_only_what_lies_in_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.sh").write_text("echo no")
    own = scripts(tmp_path)
    (tmp_path / FOLDER / "link.sh").symlink_to(tmp_path / "outside.sh")
    with pytest.raises(UserError):
        await own.run(name, b"", 20)


async def test_one_that_cannot_be_started(tmp_path: Path) -> None:
    own = scripts(tmp_path, plain="no program")
    (tmp_path / FOLDER / "plain").chmod(0o600)
    with pytest.raises(UserError):
        await own.run("plain", b"", 20)


async def test_what_it_complains_of_and_where_it_stands(tmp_path: Path) -> None:
    own = scripts(tmp_path, a_bash="echo no >&2; pwd; [[ 1 == 1 ]] && exit 3")
    end = await own.run("a.bash", b"", 20, str(tmp_path))
    assert (end.code, end.output.strip(), end.complaint) == (3, str(tmp_path).encode(), b"no\n")
