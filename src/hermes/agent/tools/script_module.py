"""What a script of `execute_code` is started with: a module with a function for each tool, and the few lines
that load it. Nothing of it is written into a file."""

from __future__ import annotations

import json
import keyword
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from hermes.domain.text import one_line
from hermes.domain.tools.tool import Tool

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"}
_TYPES["object"] = "dict"
_LONGEST_WORDS = 400
_FUNCTION = """

def {name}({parameters}):
    {words!r}
    return _call({tool!r}, {{{values}}}, more)
"""
_START = """import sys
sys.path[:] = [place for place in sys.path if place]
import json, os, types
replies = os.fdopen(os.dup(0), "rb")
given = json.loads(replies.readline())
module = sys.modules["hermes_tools"] = types.ModuleType("hermes_tools")
exec(compile(given["module"], "hermes_tools.py", "exec"), module.__dict__)
module._run(replies, given)"""
_ACTIVE = (
    'p=${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/}python3; command -v "$p" >/dev/null || p=python3; exec "$p" -u -c '
)
_SYSTEM = "/usr/local/bin:/usr/bin:/bin"
_OWN = f'exec env -i PATH="{_SYSTEM}:$PATH" HOME="$HOME" LANG=C.UTF-8 python3 -I -u -c '


def start_command(mode: str) -> str:
    """The command line of a script: in the session's folder with its variables, or with none (`strict`)."""
    return (_OWN if mode == "strict" else _ACTIVE) + shlex.quote(_START)


def first_line(code: str, mode: str, tools: Iterable[Tool]) -> bytes:
    """What a script is given before anything else."""
    module = _fixed_part() + "".join(_functions(tools))
    return json.dumps({"code": code, "mode": mode, "module": module}).encode() + b"\n"


@cache
def _fixed_part() -> str:
    return Path(__file__).with_name("script_side.py").read_text("utf-8")


def _functions(tools: Iterable[Tool]) -> Iterable[str]:
    taken: set[str] = {"ToolError", "json_parse", "shell_quote", "retry", "TYPE_CHECKING"}
    for tool in tools:
        name = _identifier(tool.name, taken)
        taken.add(name)
        yield _function(name, tool)


def _function(name: str, tool: Tool) -> str:
    properties = tool.parameters.get("properties")
    given: Mapping[str, object] = properties if isinstance(properties, dict) else {}
    listed = tool.parameters.get("required")
    required = [key for key in listed if key in given] if isinstance(listed, list) else []
    names: dict[str, str] = {}
    for key in (*required, *(key for key in given if key not in required)):
        names[key] = _identifier(key, {*names.values(), "more"})
    parameters = [
        f"{names[key]}: {_type(given[key])}{'' if key in required else ' | None = None'}" for key in names
    ]
    return _FUNCTION.format(
        name=name,
        tool=tool.name,
        parameters=", ".join([*parameters, "**more: object"]),
        words=one_line(tool.description, _LONGEST_WORDS),
        values=", ".join(f"{key!r}: {name}" for key, name in names.items()),
    )


def _type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return _TYPES.get(kind, "object") if isinstance(kind, str) else "object"


def _identifier(name: str, taken: Collection[str]) -> str:
    """The name as Python can write it, and as nothing else is called."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "tool"
    plain = f"tool_{plain}" if plain[0].isdigit() else plain
    plain = f"{plain}_" if keyword.iskeyword(plain) else plain
    free, count = plain, 1
    while free in taken:
        count += 1
        free = f"{plain}_{count}"
    return free
