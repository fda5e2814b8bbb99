"""A tool call as one line: its icon, the argument that says most, and its state.

This is the one place that decides how tool progress looks in chats."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

from msgspec import Struct

from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ToolFinished


class ProgressLevel(StrEnum):
    """How much of the tools' work a chat shows: nothing, each change of tool, each call, or each
    call with its arguments."""

    OFF = "off"
    NEW = "new"
    ALL = "all"
    VERBOSE = "verbose"


class ToolState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "outcome unknown"


class ToolLine(Struct, frozen=True, kw_only=True):
    """One call of the turn; a later record of the same call changes its state, never its place. `below` are
    the last steps of children that work for it."""

    seq: int
    call: ToolCall
    state: ToolState
    below: tuple[str, ...] = ()


_EMOJI = {
    "browser": "🌐",
    "clarify": "❓",
    "cronjob": "⏰",
    "delegate": "🔀",
    "execute": "💻",
    "image": "🎨",
    "memory": "🧠",
    "patch": "🔧",
    "read": "📖",
    "search": "🔎",
    "send": "📨",
    "session": "🔎",
    "skill": "📚",
    "terminal": "💻",
    "text": "🔊",
    "todo": "📋",
    "web": "🌐",
    "write": "✏️",
}
_TELLING = (
    "command",
    "path",
    "file_path",
    "query",
    "url",
    "pattern",
    "code",
    "prompt",
    "text",
    "goal",
    "name",
)
_MOST_LINES = 6
_TYPED = "browser_type"
"""What it types may be a password: it is shown nowhere."""


def is_internal(tool: str) -> bool:
    """Tools named with a leading underscore are the agent's own business and are shown nowhere."""
    return tool.startswith("_")


def emoji(tool: str) -> str:
    return _EMOJI.get(tool.partition("_")[0], "⚙️")


def preview(arguments: str, limit: int = 48) -> str:
    """The most telling argument of a call on one short line; the arguments may be any text."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return one_line(arguments, limit)
    if not isinstance(given, dict):
        return one_line(arguments, limit)
    telling = (given[key] for key in _TELLING if isinstance(given.get(key), str) and given[key].strip())
    others = (value for value in given.values() if isinstance(value, str) and value.strip())
    return one_line(next(telling, None) or next(others, ""), limit)


def shown_arguments(call: ToolCall) -> str:
    """The arguments of a call without what is typed into a page; what cannot be read is not shown at all."""
    if call.name != _TYPED:
        return call.arguments
    try:
        return json.dumps({"ref": str(json.loads(call.arguments)["ref"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return "{}"


def plain_line(call: ToolCall) -> str:
    """`read_file notes.txt`, for doors without markup."""
    return f"{call.name} {preview(shown_arguments(call))}".rstrip()


def tool_state(finished: ToolFinished) -> ToolState:
    if finished.unknown:
        return ToolState.UNKNOWN
    return ToolState.FAILED if finished.failed else ToolState.DONE


def chat_line(tool: ToolLine, progress: ProgressLevel, length: int = 0) -> str:
    """How one call looks in a chat, as markdown, with so much of its arguments (0: as is usual). This is the
    one place that decides it."""
    name, arguments = tool.call.name, shown_arguments(tool.call)
    whole = progress is ProgressLevel.VERBOSE
    shown = one_line(arguments, length or 200) if whole else preview(arguments, length or 48)
    words = f"{name} {shown}".rstrip().replace("`", "'")
    state = "" if tool.state is ToolState.RUNNING else f" {tool.state.value}"
    below = "".join(f"\n↳ `{one_line(step, 80)}`" for step in tool.below).replace("``", "'")
    return f"{emoji(name)} `{words}` …{state}{below}"


def chat_lines(tools: Iterable[ToolLine], progress: ProgressLevel, length: int = 0) -> str:
    """Neighbouring calls as one paragraph; of a long row only the latest are shown."""
    row = [tool for tool in tools if not is_internal(tool.call.name)]
    if progress is ProgressLevel.OFF:
        return ""
    if progress is ProgressLevel.NEW:
        row = [next(same) for _, same in groupby(row, key=lambda tool: tool.call.name)]
    lines = [chat_line(tool, progress, length) for tool in row[-_MOST_LINES:]]
    if len(row) > _MOST_LINES:
        lines.insert(0, f"… {len(row) - _MOST_LINES} earlier")
    return "\n".join(lines)
