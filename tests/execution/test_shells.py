"""What lasts between the commands of a session is read as data: nothing in it is ever run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from hermes.domain.ports.world import Command
from hermes.execution.commands.shell_states import ShellState, ShellStates, read_dump, read_exports
from hermes.testing.backends import local_backend


def listing(*commands: str) -> str:
    script = "; ".join([*commands, "export -p"])
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_shells_own_listing_is_taken_over() -> None:
    values = {"A": "a\"b$c`d\\e'f", "B": "x\ny\t\x01z", "C": "", "D": "äöü ! #", "E": "$(id)", "F": "`id`"}
    quoted = [f"export {name}={_quoted(value)}" for name, value in values.items()]
    kept = read_exports(
        listing(*quoted, "export UNSET", "declare -ix N=3", "readonly R=1; export R", "export X=(1 2)")
    )
    script = kept + "".join(f'printf "%s\\0" "${name}";' for name in (*values, "N", "R", "X"))
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\0")[:-1] == [*values.values(), "3", "1", ""]


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


@pytest.mark.parametrize(
    "text",
    [
        "id > x\n",
        'declare -x A="1"\nid > x\n',
        'declare -x A="1"; id > x\n',
        'declare -x A="$(id)"\n',
        'declare -x A="`id`"\n',
        'declare -x A="\\\\$(id)"\n',
        "declare -x A=$(id)\n",
        "declare -x A=$'a'$(id)\n",
        'declare -x A="1" $(id)\n',
        'declare -ax A=([$(id)]="1")\n',
        'declare -x A[$(id)]="1"\n',
        'declare -x A="1"',
    ],
)
def test_anything_else_is_not(text: str) -> None:
    assert read_exports(text) == ""
    assert read_dump(f"/tmp\n\0{text}\0\0".encode()) == ShellState(cwd="/tmp")


def test_a_number_is_kept_as_text() -> None:
    """Whole numbers are computed when they are set, and computing may run commands."""
    assert read_exports('declare -ix N="a[\\$(id)]"\n') == 'export N="a[\\$(id)]"\n'


async def test_code_in_the_file_of_a_session_does_not_run(tmp_path: Path) -> None:
    folder, witness = tmp_path / "home/cache/shells", tmp_path / "witness"
    folder.mkdir(parents=True)
    state = folder / hashlib.sha256(b"s").hexdigest()[:32]
    state.write_bytes(f"{tmp_path}\0id > {witness}\n".encode())
    state.chmod(0o600)
    backend = local_backend(home=tmp_path / "home", environ={}, workspace=tmp_path)
    result = await backend.run(Command(text="pwd", session="s", timeout=20), lambda text: None)
    assert result.output.strip() == str(tmp_path) and not witness.exists()
    told = f"printf '{tmp_path}\\n\\0id > {witness}\\n\\0\\0' >&251; exec true"
    await backend.run(Command(text=told, session="s", timeout=20), lambda text: None)
    await backend.run(Command(text="true", session="s", timeout=20), lambda text: None)
    assert not witness.exists()
    await backend.close()


async def test_a_file_of_somebody_else_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await ShellStates(tmp_path, start="/").put("s", ShellState(cwd="/usr", exports='export A="1"\n'))
    monkeypatch.setattr("hermes.execution.commands.shell_states.os.geteuid", lambda: 12345)
    assert await ShellStates(tmp_path, start="/").get("s") == ShellState(cwd="/")


async def test_a_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    await ShellStates(tmp_path, start="/").put("s", ShellState(cwd="/usr", exports='export A="1"\n'))
    assert await ShellStates(tmp_path, start="/").get("s") == ShellState(cwd="/usr", exports='export A="1"\n')
    (path,) = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
    path.chmod(0o660)
    assert await ShellStates(tmp_path, start="/").get("s") == ShellState(cwd="/")


async def test_the_gateways_variables_count_as_they_are_now(tmp_path: Path) -> None:
    """Given anew, changed and taken away; except those that the session set itself."""

    async def seen(names: str, environ: dict[str, str], command: str = "") -> str:
        every = {"PATH": "/usr/bin:/bin", **environ}
        given = local_backend(home=tmp_path, environ=every, workspace=tmp_path, passthrough=tuple(environ))
        text = f'{command}\nfor name in {names}; do printf "%s " "${{!name-none}}"; done'
        result = await given.run(Command(text=text, session="s", timeout=20), lambda words: None)
        await given.close()
        return result.output.strip()

    first = {"proxy": "http://one", "token": "$(id) 'a'", "mine": "theirs"}
    assert await seen("proxy later", first, "export mine=own late=own") == "http://one none"
    second = {"token": "other", "mine": "changed", "later": "x y", "late": "theirs"}
    assert await seen("proxy token mine later late", second) == "none other own x y own"
    assert await seen("proxy token mine later late", first) == "http://one $(id) 'a' own none own"


async def test_names_in_the_file_of_a_session_are_no_code(tmp_path: Path) -> None:
    folder, witness = tmp_path / "cache/shells", tmp_path / "witness"
    folder.mkdir(parents=True)
    state = folder / hashlib.sha256(b"s").hexdigest()[:32]
    state.write_text(f'{tmp_path}\0export A="1"\n\0' + json.dumps({f"A; id > {witness};": "1", "A": 2}))
    state.chmod(0o600)
    backend = local_backend(home=tmp_path, environ={}, workspace=tmp_path)
    result = await backend.run(Command(text="echo $A", session="s", timeout=20), lambda text: None)
    assert result.output == "1\n" and not witness.exists()
    await backend.close()
