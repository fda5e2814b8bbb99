"""Patches of several files as text: the format with `*** Update File:` that models know, and unified diffs.
What they say, and what becomes of a file's text by it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, field

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = "*** Move to: "
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FRAMES = (_BEGIN, _END, "*** End of File")
_NUMBERS = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORD = re.compile(r"[^\W\d]\w*")
_NOWHERE = "/dev/null"


class ChangeKind(StrEnum):
    ADD = "Add"
    UPDATE = "Update"
    DELETE = "Delete"


class Hunk(Struct, kw_only=True):
    """Lines that stand together, before and after. `below` is a line above them, `line` about where they
    are (0: not known), and `new_line` where they are afterwards."""

    below: str = ""
    line: int = 0
    new_line: int = 0
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


class FileChange(Struct, kw_only=True):
    kind: ChangeKind
    path: str
    move_to: str = ""
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [self.path, self.move_to] if self.move_to else [self.path]

    @property
    def added(self) -> str:
        """The text of a file that is added."""
        lines = [line for hunk in self.hunks for line in hunk.new]
        return "".join(f"{line}\n" for line in lines)


def read_patch(text: str) -> list[FileChange]:
    """A `UserError` says what is wrong with it."""
    lines = text.replace("\r\n", "\n").split("\n")
    if _BEGIN in lines:  # what is around it is the shell or the Markdown that a model thinks of
        lines = lines[lines.index(_BEGIN) :]
        lines = lines[: lines.index(_END) + 1] if _END in lines else lines
    unified = not any(map(_SECTION.match, lines)) and any(line.startswith("+++ ") for line in lines)
    changes = _read_unified(lines) if unified else _read_sections(lines)
    if not changes:
        raise UserError(
            "The patch names no file.", hint="Begin each with *** Update File: path, Add or Delete."
        )
    for change in changes:
        if change.kind is ChangeKind.UPDATE and not change.hunks and not change.move_to:
            raise UserError(f"The patch says nothing about {change.path}.")
    paths = [path for change in changes for path in change.paths]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise UserError(f"The patch names {twice} twice.", hint="Put all of a file's changes together.")
    return changes


def _read_sections(lines: Sequence[str]) -> list[FileChange]:
    changes: list[FileChange] = []
    for number, line in enumerate(lines, 1):
        if section := _SECTION.fullmatch(line.rstrip()):
            changes.append(FileChange(kind=ChangeKind(section[1]), path=section[2].strip()))
        elif line.rstrip() in _FRAMES or (not changes and not line.strip()):
            continue
        elif not changes:
            raise UserError(f"Line {number} of the patch, “{one_line(line, 60)}”, belongs to no file.")
        elif line.startswith(_MOVE):
            changes[-1].move_to = line.removeprefix(_MOVE).strip()
        elif numbers := _NUMBERS.match(line):
            changes[-1].hunks.append(Hunk(line=int(numbers[1]), new_line=int(numbers[2])))
        elif line.startswith("@@"):
            changes[-1].hunks.append(Hunk(below=line.strip("@ ")))
        else:
            _take_line(changes[-1], line, number, last=number == len(lines))
    return changes


def _read_unified(lines: Sequence[str]) -> list[FileChange]:
    changes: list[FileChange] = []
    before, left = "", False
    for number, line in enumerate(lines, 1):
        if line.startswith("--- ") and (number < len(lines) and lines[number].startswith("+++ ")):
            before, left = _name(line), False
        elif line.startswith("+++ ") and before:
            after = _name(line)
            kind = ChangeKind.ADD if before == _NOWHERE else ChangeKind.UPDATE
            kind = ChangeKind.DELETE if after == _NOWHERE else kind
            path = after if kind is ChangeKind.ADD else before
            moved = after if kind is ChangeKind.UPDATE and after != before else ""
            changes.append(FileChange(kind=kind, path=path, move_to=moved))
            before, left = "", True
        elif changes and (numbers := _NUMBERS.match(line)):
            changes[-1].hunks.append(Hunk(line=int(numbers[1]), new_line=int(numbers[2])))
        elif left and line.startswith("@@"):
            changes[-1].hunks.append(Hunk())
        elif left and changes[-1].hunks and not line.startswith(("\\", "diff ", "index ", "```")):
            _take_line(changes[-1], line, number, last=number == len(lines))
    return changes


def _name(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    return name if name == _NOWHERE else re.sub(r"^[ab]/", "", name)


def _take_line(change: FileChange, line: str, number: int, *, last: bool) -> None:
    if not change.hunks:
        change.hunks.append(Hunk())
    hunk, sign = change.hunks[-1], line[:1]
    if sign == "+":
        hunk.new.append(line[1:])
    elif sign == "-" and change.kind is not ChangeKind.ADD:
        hunk.old.append(line[1:])
    elif sign == " " or (not line and not last):
        hunk.old.append(line[1:])
        hunk.new.append(line[1:])
    elif line:
        raise UserError(
            f"Line {number} of the patch, “{one_line(line, 60)}”, begins with none of “+”, “-” and a blank."
        )


# --- what becomes of a text ---


def change_text(path: str, text: str, hunks: Iterable[Hunk]) -> str:
    """The text with all hunks; the text itself if they are there already. A `UserError` names the one whose
    place is not found, or not the only one."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""  # it belongs to no line
    text = text.removeprefix(mark)
    windows = "\r\n" in text and text.count("\n") == text.count("\r\n")
    lines = (text.replace("\r\n", "\n") if windows else text).split("\n")
    cursor, moved = 0, 0
    for number, hunk in enumerate(hunks, 1):
        start, length, fresh = _place(path, lines, hunk, cursor, moved, number)
        lines[start : start + length] = fresh
        moved += len(fresh) - length
        cursor = start + len(fresh)
    return mark + ("\r\n" if windows else "\n").join(lines)


def _place(
    path: str, lines: list[str], hunk: Hunk, cursor: int, moved: int, number: int
) -> tuple[int, int, list[str]]:
    """Where a hunk begins, how many lines it replaces, and by which."""
    where = f"Change {number} of {path}"
    if hunk.below:
        cursor = _header(lines, hunk.below, cursor, where)
    if not hunk.old:
        end = len(lines) - (lines[-1] == "")
        at = cursor if hunk.below else min(max(hunk.line + moved, 0), end) if hunk.line else end
        done = (
            lines[max(at - len(hunk.new), 0) : at] == hunk.new or lines[at : at + len(hunk.new)] == hunk.new
        )
        return (at, 0, []) if done else (at, 0, hunk.new)
    above = cursor if hunk.below else 0
    for alike in (_same, str.rstrip, _bare):
        found = _find(lines, hunk.old, cursor, alike) or _find(lines, hunk.old, above, alike)
        if not found:
            continue
        start = min(found, key=lambda place: abs(place - hunk.line + 1 - moved)) if hunk.line else found[0]
        if len(found) > 1 and not (hunk.line or hunk.below):
            told = ", ".join(str(place + 1) for place in found[:10])
            raise UserError(f"{where} fits {len(found)} places (lines {told}).", hint="Add lines around it.")
        there = lines[start : start + len(hunk.old)]
        if _is_done(lines, start, hunk):
            return start, len(hunk.old), there
        return start, len(hunk.old), hunk.new if alike is _same else _kept(hunk, there)
    if (already := _already(lines, hunk, above)) is not None:
        return already, len(hunk.new), hunk.new
    raise UserError(
        f"{where} has no place: “{one_line(hunk.old[0], 60)}” and what follows is not there.",
        hint="Read the file again; nothing was written.",
    )


def _already(lines: list[str], hunk: Hunk, above: int) -> int | None:
    """Where a hunk stands that was applied before. Its new lines alone might stand anywhere: what is around
    them has to say so, too."""
    places = _find(lines, hunk.new, above, _same) if hunk.new else []
    if not places:
        return None
    if hunk.new_line - 1 in places:
        return hunk.new_line - 1
    is_whole = len(hunk.new) == len(lines) - (lines[-1] == "")
    if is_whole or (hunk.below and places[0] == above):
        return places[0]
    keeps = any(line.strip() and line in hunk.new for line in hunk.old)
    is_known = keeps or share_words("\n".join(hunk.old), "\n".join(hunk.new))
    return places[0] if is_known and (hunk.below or len(places) == 1) else None


def share_words(old: str, new: str) -> bool:
    """Whether something of what is replaced stays."""
    return not set(_WORD.findall(old)).isdisjoint(_WORD.findall(new))


def _is_done(lines: list[str], start: int, hunk: Hunk) -> bool:
    """Whether this place of what is old is a part of what is new and stands there already."""
    old, new = hunk.old, hunk.new
    places = [at for at in range(len(new) - len(old) + 1) if new[at : at + len(old)] == old]
    return new != old and any(
        start >= at and lines[start - at : start - at + len(new)] == new for at in places
    )


def _header(lines: list[str], header: str, cursor: int, where: str) -> int:
    for first in (cursor, 0):
        for place in range(first, len(lines)):
            if lines[place].strip() == header.strip():
                return place + 1
    raise UserError(f"{where} stands below “{one_line(header, 60)}”, which is not in the file.")


def _same(line: str) -> str:
    return line


def _bare(line: str) -> str:
    return " ".join(line.split())


def _find(lines: list[str], wanted: list[str], first: int, alike: Callable[[str], str]) -> list[int]:
    there, block = [alike(line) for line in lines], [alike(line) for line in wanted]
    ends = range(first, len(lines) - len(block) + 1)
    return [at for at in ends if there[at] == block[0] and there[at : at + len(block)] == block]


def _kept(hunk: Hunk, there: list[str]) -> list[str]:
    """What is new, with lines that stay as they are in the file."""
    kept: dict[str, list[str]] = {}
    for said, line in zip(hunk.old, there, strict=True):
        kept.setdefault(said, []).append(line)
    return [kept[line].pop(0) if kept.get(line) else line for line in hunk.new]
