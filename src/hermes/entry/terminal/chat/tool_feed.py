"""A tool call as a line of the feed, `┊ 📖 read      notes.txt  0.2s`, and the change of a file under it."""

from __future__ import annotations

import json
import re

from hermes.domain.text import one_line, showable, width
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import ToolFinished
from hermes.entry.terminal.chat.theme import Theme, paint
from hermes.stream.fold.tool_lines import ToolState, emoji, preview, shown_arguments, tool_state

_VERBS = {
    "terminal": "$", "process": "proc", "execute_code": "exec", "read_file": "read", "write_file": "write",
    "patch": "patch", "search_files": "grep", "web_search": "search", "web_extract": "fetch",
    "browser_navigate": "navigate", "browser_snapshot": "snapshot", "browser_click": "click",
    "browser_type": "type", "browser_scroll": "scroll", "browser_press": "press", "todo": "plan",
    "session_search": "recall", "memory": "memory", "skills_list": "skills", "skill_view": "skill",
    "skill_manage": "create", "text_to_speech": "speak", "vision_analyze": "vision",
    "image_generate": "create", "send_message": "send", "cronjob": "cron", "delegate_task": "delegate",
    "clarify": "ask",
}  # fmt: skip
_OF_SURE_WIDTH = {"⚙️": "🔨", "✏️": "📝"}
"""Terminals do not agree how wide signs are that are text by themselves."""
_VERB_WIDTH = 9
_DIFF_LINES = 80
_WRITING = ("patch", "write_file")
_EXIT = re.compile(r"exit code (-?\d+)\]?\s*\Z")


def tool_line(call: ToolCall, columns: int, suffix: str) -> str:
    """The line without colours; the detail gives way where it is narrow."""
    verb = _VERBS.get(call.name, call.name)
    sign = emoji(call.name)
    head = f"┊ {_OF_SURE_WIDTH.get(sign, sign)} {verb:<{_VERB_WIDTH}}"
    room = columns - width(head) - width(suffix) - 3
    detail = preview(shown_arguments(call), max(room, 8))
    return f"{head} {detail}  {suffix}".rstrip()


def finished_line(
    call: ToolCall, result: ToolFinished, seconds: float | None, columns: int, theme: Theme, colour: bool
) -> str:
    took, trouble = told_seconds(seconds), _trouble(result)
    line = tool_line(call, columns, f"{took} {trouble}".strip())
    if not trouble:
        return paint(line, theme.dim, colour)
    return paint(line.removesuffix(trouble), theme.dim, colour) + paint(trouble, theme.bad, colour)


def _trouble(result: ToolFinished) -> str:
    """What went wrong, in brackets; a command that ends with a code has not failed by itself."""
    state, code = tool_state(result), _EXIT.search(result.text)
    if code is not None and code[1] != "0":
        return f"[exit {code[1]}]"
    if state is ToolState.FAILED:
        return "[denied]" if result.text.startswith("Denied") else "[error]"
    return f"[{state.value}]" if state is ToolState.UNKNOWN else ""


def told_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{int(seconds) // 60}m {int(seconds) % 60:02d}s"


def change_rows(call: ToolCall, result: ToolFinished, columns: int, theme: Theme, colour: bool) -> list[str]:
    """What a file lost and gained."""
    if call.name not in _WRITING or result.failed:
        return []
    lines = result.text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), None)
    if first is None:
        written = _new_file(call) if result.text.startswith("Wrote ") else ""
        lines, first = [f"+{line}" for line in written.splitlines()], 0
    shown = "\n".join(line for line in lines[first:] if line[:1] in "+-@ ").rstrip().splitlines()
    rows = [diff_row(line, columns, theme, colour) for line in shown[:_DIFF_LINES]]
    left = len(shown) - _DIFF_LINES
    return [*rows, paint(f"  … {left} more lines", theme.dim, colour)] if left > 0 else rows


def _new_file(call: ToolCall) -> str:
    """What was written into a file that was not there; the result does not repeat it."""
    try:
        return str(json.loads(call.arguments)["content"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def diff_row(line: str, columns: int, theme: Theme, colour: bool) -> str:
    text = showable(line).expandtabs(4)
    return _diff_part(line, text if len(text) <= columns - 3 else one_line(text, columns - 3), theme, colour)


def whole_rows(line: str, columns: int, theme: Theme, colour: bool) -> list[str]:
    """A line that somebody decides about: nothing of it is left out, and no blank is lost. A sentence is
    broken after a word."""
    room, rows, text = max(columns - 3, 8), [""], showable(line).expandtabs(4)
    is_sentence = "  " not in text and text[:1] not in tuple(" +-@")
    for char in text:
        if width(rows[-1]) + width(char) > room:
            at = rows[-1].rfind(" ") + 1 if is_sentence and char != " " else 0
            at = at or len(rows[-1])
            rows[-1], rest = rows[-1][:at], rows[-1][at:]
            rows.append(rest)
        rows[-1] += char
    return [_diff_part(line, row, theme, colour) for row in rows]


def _diff_part(line: str, text: str, theme: Theme, colour: bool) -> str:
    style = {"+": theme.good, "-": theme.bad, "@": theme.dim}.get(line[:1], "")
    return "  " + paint(text, style, colour)
