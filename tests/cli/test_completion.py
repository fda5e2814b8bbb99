"""`hermes completion`: the scripts, run by the shells themselves where they are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest

from hermes import cli
from tests.cli.command import hermes

_BASH = (
    'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _hermes; printf "%s\\n" "${COMPREPLY[@]}"'
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    made = {}
    for shell in ("bash", "zsh", "fish"):
        said = hermes(folder / "home", "completion", shell)
        assert said.code == 0 and said.clean
        made[shell] = folder / shell
        made[shell].write_text(said.out)
    return made


def bash(script: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", _BASH, "bash", script, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_commands_options_and_profiles(scripts: dict[str, Path], tmp_path: Path) -> None:
    top = bash(scripts["bash"], "hermes", "")
    assert {name.partition(" ")[0] for name in cli.COMMANDS} <= {*top}
    assert bash(scripts["bash"], "hermes", "config", "mi") == ["migrate"]
    assert "--dry-run" in bash(scripts["bash"], "hermes", "config", "migrate", "--")
    assert bash(scripts["bash"], "hermes", "-p", "work", "doctor", "--f") == ["--fix"]
    assert {"bash", "zsh", "fish"} <= {*bash(scripts["bash"], "hermes", "completion", "")}
    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "profiles" / "office").mkdir(parents=True)
        patch.setenv("HERMES_HOME", str(tmp_path))
        assert bash(scripts["bash"], "hermes", "-p", "o") == ["office"]


@pytest.mark.skipif(which("fish") is None, reason="fish is not installed")
def test_fish_completes(scripts: dict[str, Path]) -> None:
    for typed, offered in (("hermes config mi", "migrate"), ("hermes doctor --f", "--fix")):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {scripts['fish']}; complete -C '{typed}'"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith(offered) and not done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_reads_the_whole_script(scripts: dict[str, Path], shell: str) -> None:
    if which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", scripts[shell]], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr


def test_a_shell_that_there_is_not(tmp_path: Path) -> None:
    said = hermes(tmp_path / "home", "completion", "fsh")
    assert said.code == 2 and "did you mean fish?" in said.err
