"""What is sent to the far end of a stream: the supervisor as one text for Python, or the script for worlds
that have none. A survey first tells which, and what else is there."""

from __future__ import annotations

import base64
import shlex
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from msgspec import Struct

from hermes.domain.errors import UserError

_ROOT = "hermes"
_MODULES = (
    "execution.commands.frames",
    "execution.process_tree",
    "execution.commands.output_capture",
    "execution.commands.askpass",
    "execution.commands.supervisor",
    "execution.far.stream",
)
_LOADER = """
import base64, sys, types, zlib
def load(name, text):
    for at in range(name.count(".")):
        package = name.rsplit(".", at + 1)[0]
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = []
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    folder, _, last = name.rpartition(".")
    setattr(sys.modules[folder], last, module)
    return module
text = zlib.decompress(base64.b85decode("%s")).decode()
for part in text.split("\\0"):
    name, _, code = part.partition("\\n")
    module = load(name, code)
module.main()
"""
_PYTHON_CHECK = (
    "import sys, ctypes, select, signal, subprocess, tempfile, zlib; sys.exit(sys.version_info < (3, 9))"
)
_SURVEY = f"""\
shell=$(command -v bash 2>/dev/null || command -v sh)
python=
for name in python3 python; do
  if "$name" -I -S -c {shlex.quote(_PYTHON_CHECK)} 2>/dev/null; then python=$(command -v "$name"); break; fi
done
printf '%s\\n' HERMES "$(uname -srm)" "$shell" "$python" "$HOME" "$(id -un 2>/dev/null || id -u)" "$PATH"
"""


class FarFacts(Struct, frozen=True, kw_only=True):
    """What a survey has found; without `python` the stream is served by a script."""

    system: str
    shell: str
    python: str
    home: str
    user: str
    path: str


def survey_argv() -> list[str]:
    return ["sh", "-c", _SURVEY]


def read_survey(output: bytes) -> FarFacts:
    """A `UserError` if nobody there has answered the survey."""
    _, found, told = output.decode("utf-8", "replace").partition("HERMES\n")
    lines = told.split("\n")
    if not found or len(lines) < 6 or not lines[1].startswith("/"):
        raise UserError("There is no POSIX shell in it, so no command can run.", hint="Choose another image.")
    return FarFacts(
        system=lines[0], shell=lines[1], python=lines[2], home=lines[3], user=lines[4], path=lines[5]
    )


def server_argv(facts: FarFacts, *, alone: bool) -> list[str]:
    """The command line that serves a stream. `alone` = every process of that world is a command's."""
    if facts.python:
        return [facts.python, "-I", "-S", "-c", _python_text(), facts.shell]
    return ["sh", "-c", _script_text(), "hermes", facts.shell, "alone" if alone else ""]


def quoted(argv: Sequence[str]) -> str:
    """As one line for the shell of another machine, whichever that is."""
    return shlex.join(argv)


@cache
def _python_text() -> str:
    parts = []
    for name in _MODULES:
        *folders, file = name.split(".")
        text = resources.files(_ROOT).joinpath(*folders, f"{file}.py").read_text("utf-8")
        parts.append(f"{_ROOT}.{name}\n{text}")
    packed = base64.b85encode(zlib.compress("\0".join(parts).encode(), 9)).decode()
    return _LOADER % packed


@cache
def _script_text() -> str:
    return resources.files(_ROOT).joinpath("execution", "far", "helper.sh").read_text("utf-8")
