"""A text in the place of another one, found as a model remembers it: whitespace and quotes may differ, and
numbers of lines or backslashes of JSON may have come along, as long as only one place matches. No I/O."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

from msgspec import Struct

from hermes.agent.tools.patch_format import share_words
from hermes.domain.errors import UserError

_NEAR_LINES = 4000
_NEAR_CHARS = 200
_NEAR_SECONDS = 0.1
_LONGEST_SHOWN = 500
_ESCAPED = re.compile(r"""\\([nt"'\\])""")
_MEANT = {"n": "\n", "t": "\t"}
_NUMBERED = re.compile(r"^ {0,6}\d{1,6}\|", re.MULTILINE)
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})


class TextEdit(Struct, frozen=True):
    """Characters of a text, and what goes in their place. If it is `done`, they look like a part of it."""

    start: int
    end: int
    new: str
    done: bool = False


def apply_patch(text: str, old: str, new: str, *, every: bool = False, repeated: bool = False) -> str:
    """The text with the change. In a call that is `repeated` the change may be there already: then it is the
    text itself."""
    if not old:
        raise UserError("old is empty.", hint="Name the text to replace, or use write_file.")
    if old == new:
        raise UserError("old and new are the same.")
    places = [
        TextEdit(place.start(), place.end(), new, done=repeated and _is_done(text, place, new))
        for place in re.finditer(re.escape(old), text)
    ]
    places = places or _loose(text, old, new)
    if repeated and (all(each.done for each in places) if places else _stands(text, old, new, every=every)):
        return text
    if not places:
        for meant in _as_meant(old, new):
            with contextlib.suppress(UserError):
                return apply_patch(text, *meant, every=every, repeated=repeated)
        raise UserError("old was not found.", hint=_nearest(text, old))
    spans = [each for each in places if text[each.start : each.end] != each.new]
    if len(spans) > 1 and not every:
        lines = ", ".join(str(text.count("\n", 0, span.start) + 1) for span in spans[:10])
        raise UserError(
            f"old was found {len(spans)} times (lines {lines}).",
            hint="Add lines around it, or set replace_all.",
        )
    parts: list[str] = []
    at = 0
    for span in spans:
        if span.start >= at:
            parts += (text[at : span.start], span.new)
            at = span.end
    return "".join((*parts, text[at:]))


def _as_meant(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Both without what a model may have added to them: backslashes of JSON, or the numbers of lines."""
    if _ESCAPED.search(old):
        yield _unescaped(old), _unescaped(new)
    if all(map(_NUMBERED.match, old.splitlines())):
        yield _NUMBERED.sub("", old), _NUMBERED.sub("", new)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _MEANT.get(match[1], match[1]), text)


def _is_done(text: str, place: re.Match[str], new: str) -> bool:
    """Whether this place of `old` is a part of `new` that stands there already."""
    return text.find(new, max(place.end() - len(new), 0), place.start() + len(new)) >= 0


def _stands(text: str, old: str, new: str, *, every: bool) -> bool:
    """Whether the change was made before: the lines of `new` are there whole, in one place, and something of
    `old` is left in them. Else they may be others."""
    wanted = [_bare(line) for line in new.strip("\r\n").splitlines()]
    if not share_words(old, new):
        return False
    places = _blocks([_bare(line) for line in text.splitlines()], wanted)
    return len(places) == 1 or (every and bool(places))


def _blocks(lines: list[str], wanted: list[str]) -> list[int]:
    """Where these lines stand together; places do not overlap."""
    text, block = ("\n".join(("", *some, "")) for some in (lines, wanted))
    places: list[int] = []
    line = at = 0
    while (found := text.find(block, at)) >= 0:
        line += text.count("\n", at, found)
        places.append(line)
        line, at = line + len(wanted), found + len(block) - 1
    return places


def _loose(text: str, old: str, new: str) -> list[TextEdit]:
    """Places whose lines are the same but for blanks and curly quotes; `new` takes their indentation."""
    lines = text.splitlines(keepends=True)
    wanted = [_bare(line) for line in old.strip("\r\n").splitlines()]
    if not any(wanted):
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans: list[TextEdit] = []
    fresh = new.strip("\r\n")
    inside = _blocks([_bare(line) for line in fresh.splitlines()], wanted)
    for i in _blocks([_bare(line) for line in lines], wanted):
        end = i + len(wanted)
        block = "".join(lines[i:end])
        shifted = _shift(fresh, _indent(old), _indent(block))
        done = any(at <= i and _begins(lines[i - at :], fresh, shifted) for at in inside)
        ending = "\n" if block.endswith("\n") and new else ""
        spans.append(TextEdit(starts[i], starts[end], shifted + ending, done=done))
    return spans


def _begins(lines: list[str], *texts: str) -> bool:
    return any(
        [line.rstrip("\r\n") for line in lines[: len(block)]] == block for block in map(str.splitlines, texts)
    )


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
    matcher = SequenceMatcher(b=anchor[:_NEAR_CHARS], autojunk=False)
    best, score, until = 0, 0.0, time.monotonic() + _NEAR_SECONDS
    for i, line in enumerate(lines):
        if time.monotonic() > until:
            break
        matcher.set_seq1(line.strip()[:_NEAR_CHARS])
        if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score and matcher.ratio() > score:
            best, score = i, matcher.ratio()
    if score < 0.5:
        return "Nothing in the file is like it: read it again."
    offset = next((i for i, line in enumerate(wanted) if line.strip() == anchor), 0)
    first = max(best - offset, 0)
    shown = [
        f"{i + 1}|{lines[i][:_LONGEST_SHOWN]}"
        for i in range(first, min(first + len(wanted), len(lines), first + 12))
    ]
    return "The nearest place is:\n" + "\n".join(shown)
