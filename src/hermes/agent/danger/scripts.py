"""Scripts that a command runs. The judge opens nothing: it says which files it would have to see, and those
that the agent itself wrote are given to it as texts and judged as if they stood in the command."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hermes.agent.danger import names
from hermes.agent.danger.inline import LONGEST as LONGEST

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

ROUNDS = 3
"""Scripts run scripts: so often what a command runs is looked up again."""
_SUFFIXES = names.by_name(
    {"py": "python3", "sh bash": "bash", "js mjs cjs": "node", "rb": "ruby", "pl": "perl", "php": "php"}
)
_SHEBANG = re.compile(r"#!\s*(?:[^\s/]*/)*([\w.+-]+)(?:[ \t]+(?:-S[ \t]+)?([\w.+-]+))?")
_MAKE_NAMES = ("GNUmakefile", "makefile", "Makefile")
_MAKE_VARIABLE = re.compile(r"^(?:export\s+)?([A-Za-z_]\w*)\s*[:?+]?=\s*(.*)$")
_MAKE_USE = re.compile(r"\$[({]([A-Za-z_]\w*)[)}]")
_MAKE_SHELL = re.compile(r"\$\(shell\s([^()]{0,2000})\)")


def text_of(data: bytes) -> str | None:
    """A script as the judge takes it; None if it is too long or no text."""
    if len(data) > LONGEST or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def look(call: ShellCall, path: str, language: str = "") -> None:
    """A file that is run, by the interpreter of this name or as it says itself."""
    place, judge = call.judge.path(path), call.judge
    if place is None or place in judge.followed:
        return
    judge.scripts[place] = None
    texts = dict(judge.place.scripts)
    if place not in texts:
        folder = place.rpartition("/")[0]
        if folder in ("/tmp", "/var/tmp", "/dev/shm") and place not in judge.written:
            call.find("run.unknown")
        return
    judge.followed.add(place)
    text = texts[place]
    language = language or _language(place, text or "")
    if text is None or not language:
        call.find("run.fresh")
    elif language in names.SHELLS:
        judge.read(text)
    else:
        call.judge_code(text, language)


def _language(path: str, text: str) -> str:
    shebang = _SHEBANG.match(text)
    if shebang:
        program = shebang[2] if shebang[1] == "env" and shebang[2] else shebang[1]
        return names.program_name(program)
    return _SUFFIXES.get(path.rpartition(".")[2], "")


def make(call: ShellCall) -> None:
    """The recipes of a Makefile, all of them: which are run is not worked out."""
    folder = next(iter(call.values_of("-C", "--directory")), ".")
    named = call.values_of("-f", "--file", "--makefile")
    for name in named or _MAKE_NAMES:
        text = _known(call, f"{folder}/{name}")
        if text is not None:
            call.judge.read(_recipes(text))


def _known(call: ShellCall, path: str) -> str | None:
    """The text of a file that was given; one that could not be is asked for."""
    place = call.judge.path(path)
    if place is None or place in call.judge.followed:
        return None
    call.judge.scripts[place] = None
    texts = dict(call.judge.place.scripts)
    if place not in texts:
        return None
    call.judge.followed.add(place)
    if texts[place] is None:
        call.find("run.fresh")
    return texts[place]


def _recipes(text: str) -> str:
    lines: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        variable = _MAKE_VARIABLE.match(line)
        lines += (f"({command})" for command in _MAKE_SHELL.findall(line) if not line.startswith("\t"))
        if line.startswith("\t"):
            command = _MAKE_SHELL.sub(r"$(\1)", line.strip().lstrip("@-+"))
            lines.append(_MAKE_USE.sub(r"${\1}", command).replace("$$", "$"))
        elif variable and "$(" not in variable[2]:
            lines.append(f"{variable[1]}='{variable[2].replace(chr(39), '')}'")
    return "\n".join(lines)


def package_scripts(call: ShellCall) -> None:
    """`npm run x`, with what runs before and after it."""
    words = [word for word in call.plain_args if not word.startswith("-")]
    wanted = words[1] if words[:1] in (["run"], ["run-script"]) and len(words) > 1 else "".join(words[:1])
    folder = next(iter(call.values_of("--prefix", "-C", "--dir", "--cwd")), ".")
    text = _known(call, f"{folder}/package.json") if wanted else None
    if text is None:
        return
    try:
        scripts = json.loads(text)["scripts"]
        commands = [scripts[name] for name in (f"pre{wanted}", wanted, f"post{wanted}") if name in scripts]
    except (ValueError, KeyError, TypeError):
        return
    for command in commands:
        call.judge.read(str(command))
