"""`patch`: change a part of a file, found by its text.

Whitespace may differ from the file's, as long as only one place matches. A change that is already there is
recognised, so that repeating a patch after a crash changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hermes.agent.tools.approval_text import action_digest, shown_lines
from hermes.agent.tools.files import (
    check_hidden,
    check_target,
    note_written,
    resolve_path,
    syntax_note,
    write_question,
)
from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.ports.world import Backend
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.tool import Approval, ApprovalPrompt, Effect

_LARGEST = 4 << 20
_LONGEST_DIFF = 4000
_NEAR_LINES = 4000
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})


class TextEdit(Struct, frozen=True):
    """Characters of a text, and what goes in their place."""

    start: int
    end: int
    new: str


async def _approval_check(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    path = resolve_path(case.scope, str(arguments["path"]))
    fault = case.scope.write_fault(path)
    if not fault:
        return None
    old, new = str(arguments["old"]), str(arguments["new"])
    every = bool(arguments.get("replace_all"))
    change = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    where = "[everywhere]\n" if every else ""
    return ApprovalPrompt(
        text=f"{write_question(path, fault)}\n{where}{shown_lines(change)}",
        digest=action_digest("patch", path, old, new, every),
        to_model=True,
    )


@tool("file", Effect.KEYED, needs=Backend, approval_check=_approval_check, after_outside=Approval.NEVER)
async def patch(invocation: ToolInvocation, path: str, old: str, new: str, replace_all: bool = False) -> str:
    """Replace text in a file. old must name one place: include a few lines around it if needed.

    old: text as it is in the file, without line numbers
    """
    found, real = await check_target(invocation, path, writing=True)
    if found is None:
        raise UserError(f"There is no {path}.", hint="Use write_file for a new file.")
    data = await invocation.backend.files.read(invocation.session, real, limit=_LARGEST + 1, follow=False)
    if len(data) > _LARGEST:
        raise UserError(f"{path} is too large to be patched.", hint="Use sed in terminal.")
    try:
        before = data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None
    if "\r\n" in before and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    if STAND_IN in old and STAND_IN not in before:
        raise UserError(
            f"{path} has something else where you write {STAND_IN}: it was hidden from you.",
            hint="Name the lines around it, and change those alone.",
        )
    after = apply_patch(before, old, new, every=replace_all)
    check_hidden(path, before, after)
    if after == before:
        return f"{path} has this change already; nothing was written."
    await invocation.backend.files.write(invocation.session, real, after.encode(), follow=False)
    await note_written(invocation, path, real)
    return f"Patched {path}.{syntax_note(path, after)}\n{_difference(before, after)}"


def apply_patch(text: str, old: str, new: str, *, every: bool = False) -> str:
    """The text with the change; the text itself if the change is there already."""
    if not old:
        raise UserError("old is empty.", hint="Name the text to replace, or use write_file.")
    if old == new:
        raise UserError("old and new are the same.")
    exact = (TextEdit(place.start(), place.end(), new) for place in re.finditer(re.escape(old), text))
    spans = [span for span in exact if not _is_done(text, span, old, new)]
    if not spans and new and new in text:
        return text
    if not spans:
        spans = _loose(text, old, new)
    if not spans:
        raise UserError("old was not found.", hint=_nearest(text, old))
    if len(spans) > 1 and not every:
        places = ", ".join(str(text.count("\n", 0, span.start) + 1) for span in spans[:10])
        raise UserError(
            f"old was found {len(spans)} times (lines {places}).",
            hint="Add lines around it, or set replace_all.",
        )
    for span in reversed(spans):
        text = text[: span.start] + span.new + text[span.end :]
    return text


def _is_done(text: str, span: TextEdit, old: str, new: str) -> bool:
    """Whether this place of `old` is a part of `new` that stands there already."""
    inside = new.find(old)
    while inside >= 0:
        if text.startswith(new, span.start - inside) and span.start >= inside:
            return True
        inside = new.find(old, inside + 1)
    return False


def _loose(text: str, old: str, new: str) -> list[TextEdit]:
    """Places whose lines are the same but for blanks and curly quotes; `new` takes their indentation."""
    lines = text.splitlines(keepends=True)
    wanted = [_bare(line) for line in old.strip("\r\n").splitlines()]
    if not any(wanted):
        return []
    bare = [_bare(line) for line in lines]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans: list[TextEdit] = []
    for i in range(len(lines) - len(wanted) + 1):
        if bare[i : i + len(wanted)] == wanted:
            end = i + len(wanted)
            block = "".join(lines[i:end])
            ending = "\n" if block.endswith("\n") and new else ""
            shifted = _shift(new.strip("\r\n"), _indent(old), _indent(block)) + ending
            spans.append(TextEdit(starts[i], starts[end], shifted))
    return spans


def _bare(line: str) -> str:
    return " ".join(line.translate(_QUOTES).split())


def _indent(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]


def _shift(text: str, given: str, actual: str) -> str:
    if given == actual:
        return text
    lines = text.split("\n")
    return "\n".join(actual + line.removeprefix(given) if line.strip() else line for line in lines)


def _nearest(text: str, old: str) -> str:
    """The place that is most like what was looked for, with its line numbers."""
    from difflib import SequenceMatcher

    lines = text.splitlines()[:_NEAR_LINES]
    wanted = old.strip("\n").splitlines()
    anchor = max(wanted, key=lambda line: len(line.strip()), default="").strip()
    matcher = SequenceMatcher(b=anchor, autojunk=False)
    best, score = 0, 0.0
    for i, line in enumerate(lines):
        matcher.set_seq1(line.strip())
        if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score and matcher.ratio() > score:
            best, score = i, matcher.ratio()
    if score < 0.5:
        return "Nothing in the file is like it: read it again."
    offset = next((i for i, line in enumerate(wanted) if line.strip() == anchor), 0)
    first = max(best - offset, 0)
    shown = [f"{i + 1}|{lines[i]}" for i in range(first, min(first + len(wanted), len(lines), first + 12))]
    return "The nearest place is:\n" + "\n".join(shown)


def _difference(before: str, after: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    text = "\n".join(list(lines)[2:])
    return text if len(text) <= _LONGEST_DIFF else f"{text[:_LONGEST_DIFF]}\n[… diff cut]"
