"""How an action is put to the person who must allow it: nothing in it hides, moves, or speaks for itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from hermes.domain.tools.tool import ApprovalPrompt
from hermes.domain.word import replace

_MOST_LINES = 40
_MOST_CHARS = 1200
_LONGEST_LINE = 200
_LINES_COMPARED = 1000
"""Comparing longer texts would hold everybody up."""


def visible(text: str) -> str:
    """A text as a person must see it: every line but the first is set off, so that none passes for ours."""
    return visible_line(text, keep="\n\t").replace("\n", "\n│ ")


def visible_line(text: str, *, keep: str = "") -> str:
    """As `visible`, with line breaks as codes: for what belongs on one line, like a path."""
    return "".join(char if char in keep or char.isprintable() else _code(char) for char in text)


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def action_digest(kind: str, *parts: object) -> str:
    """Of the exact action: what a person's word is bound to."""
    exact = json.dumps(parts, ensure_ascii=True)
    return f"{kind}:{hashlib.sha256(exact.encode()).hexdigest()}"


def bind_to_world(prompt: ApprovalPrompt | None, elsewhere: str) -> ApprovalPrompt | None:
    """What is allowed in one world is not allowed in another: the question names the world, and the word that
    is given counts there only. On the gateway's machine itself (empty) nothing is added."""
    if prompt is None or not elsewhere:
        return prompt
    kind = prompt.digest.partition(":")[0]
    return replace(
        prompt,
        text=f"{prompt.text}\nWhere: {visible_line(elsewhere)}",
        digest=action_digest(kind, "elsewhere", elsewhere, prompt.digest),
    )


def shown_change(before: str, after: str) -> str:
    """What a file loses and gains, cut to what a person reads."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _LINES_COMPARED:
        return f"[{len(old)} lines are replaced by {len(new)}]\n" + shown_lines(f"+{line}" for line in new)
    from difflib import unified_diff

    diff = unified_diff(old, new, lineterm="", n=1)
    lines = [line for line in list(diff)[2:] if not line.startswith("@@")]
    return shown_lines(lines) or "[nothing changes]"


def shown_lines(lines: Iterable[str]) -> str:
    every = list(lines)
    shown: list[str] = []
    size = 0
    for line in every[:_MOST_LINES]:
        text = visible_line(line, keep="\t")
        text = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}[… line cut]"
        size += len(text)
        if size > _MOST_CHARS:
            break
        shown.append(text)
    left = len(every) - len(shown)
    return "\n".join([*shown, *([f"[… {left} more lines]"] if left else [])])
