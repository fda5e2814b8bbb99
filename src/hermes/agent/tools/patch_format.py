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
_NUMBERS = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NAMES = re.compile(r'diff --git (?:(a/(.+)) b/\2|("(?:\\.|[^"\\])*"|\S+) ("(?:\\.|[^"\\])*"|\S+))')
_MODE = re.compile(r"(new file|deleted file|new) mode (\d{6})")
_UNABLE = re.compile(r"copy from |GIT binary patch|Binary files .* differ")
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WORD = re.compile(r"[^\W\d]\w*")
_NOWHERE = "/dev/null"


class ChangeKind(StrEnum):
    ADD = "Add"
    UPDATE = "Update"
    DELETE = "Delete"


class Hunk(Struct, kw_only=True):
    """Lines that stand together, before and after. `below` is a line above them, `line` about where they
    are (0: not known), and `new_line` where they are afterwards. One that is `last` is at the end of the
    file, and says whether a newline ends that (`ended`)."""

    below: str = ""
    line: int = 0
    new_line: int = 0
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    last: bool = False
    ended: bool = True


class FileChange(Struct, kw_only=True):
    """`mode` is what the file gets, 0 if nothing is said of it."""

    kind: ChangeKind
    path: str
    move_to: str = ""
    mode: int = 0
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [self.path, self.move_to] if self.move_to else [self.path]

    @property
    def added(self) -> str:
        """The text of a file that is added."""
        lines = [line for hunk in self.hunks for line in hunk.new]
        text = "".join(f"{line}\n" for line in lines)
        return text if all(hunk.ended for hunk in self.hunks) else text[:-1]


def read_patch(text: str) -> list[FileChange]:
    """A `UserError` says what is wrong with it."""
    lines = text.replace("\r\n", "\n").split("\n")
    if _BEGIN in lines:  # what is around it is the shell or the Markdown that a model thinks of
        lines = lines[lines.index(_BEGIN) :]
        lines = lines[: lines.index(_END) + 1] if _END in lines else lines
    unified = not any(map(_SECTION.match, lines)) and any(
        line.startswith(("+++ ", "diff --git ")) for line in lines
    )
    changes = _read_unified(lines) if unified else _read_sections(lines)
    if not changes:
        raise UserError(
            "The patch names no file.", hint="Begin each with *** Update File: path, Add or Delete."
        )
    for change in changes:
        says_nothing = not (change.hunks or change.move_to or change.mode)
        if change.kind is ChangeKind.UPDATE and says_nothing:
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
            changes[-1].hunks.append(Hunk(line=int(numbers[1]), new_line=int(numbers[3])))
        elif line.startswith("@@"):
            changes[-1].hunks.append(Hunk(below=line.strip("@ ")))
        else:
            _take_line(changes[-1], line, number, last=number == len(lines))
    return changes


def _read_unified(lines: Sequence[str]) -> list[FileChange]:
    """As `git apply` reads it. What is between the parts of it is left out."""
    changes: list[FileChange] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if _begins_file(lines, at):
            _name_file(changes, _name(line[4:]), _name(lines[at + 1][4:]))
            at += 2
        elif changes and line.startswith("@@"):
            at = _take_hunk(changes[-1], lines, at)
        else:
            _take_header(changes, line)
            at += 1
    return changes


def _begins_file(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _name_file(changes: list[FileChange], before: str, after: str) -> None:
    """Of the file that was named last, or of another one."""
    kind = ChangeKind.ADD if before == _NOWHERE else ChangeKind.UPDATE
    kind = ChangeKind.DELETE if after == _NOWHERE else kind
    path = after if kind is ChangeKind.ADD else before
    if not changes or changes[-1].hunks or changes[-1].path not in (before, after):
        changes.append(FileChange(kind=kind, path=path))
    change = changes[-1]
    change.kind, change.path = kind, path
    change.move_to = after if kind is ChangeKind.UPDATE and after != before else ""


def _take_header(changes: list[FileChange], line: str) -> None:
    """What git says of a file above its hunks, or in their place."""
    if names := _NAMES.fullmatch(line):
        changes.append(FileChange(kind=ChangeKind.UPDATE, path=_name(names[1] or names[4])))
    elif not changes or changes[-1].hunks:
        return
    elif line.startswith("rename from "):
        changes[-1].path = _unquoted(line[12:])
    elif line.startswith("rename to "):
        changes[-1].move_to = _unquoted(line[10:])
    elif mode := _MODE.fullmatch(line):
        change, is_file = changes[-1], mode[2].startswith("100")
        if mode[1] != "new":
            change.kind = ChangeKind.ADD if mode[1] == "new file" else ChangeKind.DELETE
        change.mode = int(mode[2], 8) & 0o777 if is_file else 0
        if not is_file and change.kind is not ChangeKind.DELETE:
            raise _unable(change, line)
    elif _UNABLE.match(line):
        raise _unable(changes[-1], line)


def _unable(change: FileChange, line: str) -> UserError:
    return UserError(
        f"The patch changes {change.path} in a way that is not possible here: “{one_line(line, 60)}”.",
        hint="Leave it out, or use git apply in terminal.",
    )


def _take_hunk(change: FileChange, lines: Sequence[str], at: int) -> int:
    """Where what follows it begins: behind as many lines as its numbers say. Models count badly, so lines
    that can be nothing else belong to it, too."""
    numbers = _NUMBERS.match(lines[at])
    hunk = Hunk(line=int(numbers[1]), new_line=int(numbers[3])) if numbers else Hunk()
    change.hunks.append(hunk)
    old, new = (int(numbers[2] or 1), int(numbers[4] or 1)) if numbers else (0, 0)
    for place in range(at + 1, len(lines)):
        line = lines[place]
        if line.startswith("\\"):
            _mark_end(hunk, lines[place - 1][:1])
            continue
        if _begins_file(lines, place) and not _is_within(lines, place, old, new):
            return place
        if line.startswith(("@@", "diff ", "index ", "```")):
            return place
        over = not (old or new)
        if over and ((numbers and line.rstrip() == "--") or (not line and not _goes_on(lines, place))):
            return place
        _take_line(change, line, place + 1, last=place == len(lines) - 1)
        old, new = max(old - (line[:1] != "+"), 0), max(new - (line[:1] != "-"), 0)
    return len(lines)


def _is_within(lines: Sequence[str], at: int, old: int, new: int) -> bool:
    """Whether what looks like the names of another file is a line that goes and one that comes, of so many
    that are still due."""
    begins_hunk = at + 2 < len(lines) and lines[at + 2].startswith("@@")
    own = (old, new) == (1, 1) and not lines[at].startswith(("--- a/", f"--- {_NOWHERE}"))
    return old > 0 and new > 0 and (own or not begins_hunk)


def _goes_on(lines: Sequence[str], at: int) -> bool:
    """Whether lines of a hunk follow behind empty ones."""
    while at < len(lines) and not lines[at]:
        at += 1
    return at < len(lines) and lines[at].startswith(("+", "-", " ")) and not _begins_file(lines, at)


def _mark_end(hunk: Hunk, sign: str) -> None:
    hunk.last, hunk.ended = True, sign == "-"


def _name(text: str) -> str:
    name = _unquoted(text.partition("\t")[0].strip())
    return name if name == _NOWHERE else re.sub(r"^[ab]/", "", name)


def _unquoted(name: str) -> str:
    """Without the quotes and the spelled bytes that git puts around and in place of what is not ASCII."""
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name
    parts = _ESCAPED.split(name[1:-1])
    data = [part.encode() for part in parts]
    data[1::2] = [
        bytes([int(part, 8)]) if part[0] in "01234567" else _MEANT.get(part, part).encode()
        for part in parts[1::2]
    ]
    return b"".join(data).decode("utf-8", "replace")


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


def change_text(path: str, text: str, hunks: Iterable[Hunk], *, repeated: bool = False) -> str:
    """The text with all hunks. In a call that is `repeated` they may be there already: then it is the text
    itself. A `UserError` names the one whose place is not found, or not the only one."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""  # it belongs to no line
    text = text.removeprefix(mark)
    windows = "\r\n" in text and text.count("\n") == text.count("\r\n")
    lines = (text.replace("\r\n", "\n") if windows else text).split("\n")
    cursor, moved = 0, 0
    for number, hunk in enumerate(hunks, 1):
        start, length, fresh = _place(path, lines, hunk, cursor, moved, number, repeated)
        lines[start : start + length] = fresh
        if hunk.last:
            end = len(lines) - (lines[-1:] == [""] and start + len(fresh) < len(lines))
            lines[end:] = [""] if hunk.ended else []
        moved += len(fresh) - length
        cursor = start + len(fresh)
    return mark + ("\r\n" if windows else "\n").join(lines)


def _place(
    path: str, lines: list[str], hunk: Hunk, cursor: int, moved: int, number: int, repeated: bool
) -> tuple[int, int, list[str]]:
    """Where a hunk begins, how many lines it replaces, and by which."""
    where = f"Change {number} of {path}"
    if hunk.below:
        cursor = _header(lines, hunk.below, cursor, where)
    if not hunk.old:
        end = _end(lines)
        at = cursor if hunk.below else min(max(hunk.line + moved, 0), end) if hunk.new_line else end
        done = (
            lines[max(at - len(hunk.new), 0) : at] == hunk.new or lines[at : at + len(hunk.new)] == hunk.new
        )
        return (at, 0, []) if done and repeated else (at, 0, hunk.new)
    above = cursor if hunk.below else 0
    for alike in (_same, str.rstrip, _bare):
        found = _find(lines, hunk.old, cursor, alike) or _find(lines, hunk.old, above, alike)
        if hunk.last:
            found = [place for place in found if place + len(hunk.old) == _end(lines)]
        if not found:
            continue
        start = min(found, key=lambda place: abs(place - hunk.line + 1 - moved)) if hunk.line else found[0]
        if len(found) > 1 and not (hunk.line or hunk.below):
            told = ", ".join(str(place + 1) for place in found[:10])
            raise UserError(f"{where} fits {len(found)} places (lines {told}).", hint="Add lines around it.")
        there = lines[start : start + len(hunk.old)]
        if repeated and _is_done(lines, start, hunk):
            return start, len(hunk.old), there
        return start, len(hunk.old), hunk.new if alike is _same else _kept(hunk, there)
    if repeated and not hunk.new:
        return cursor, 0, []
    if repeated and (already := _already(lines, hunk, above)) is not None:
        return already, len(hunk.new), hunk.new
    raise UserError(
        f"{where} has no place: “{one_line(hunk.old[0], 60)}” and what follows is not there.",
        hint="Read the file again; nothing was written.",
    )


def _end(lines: list[str]) -> int:
    """How many lines there are, without what is behind the last newline if that is nothing."""
    return len(lines) - (lines[-1:] == [""])


def _already(lines: list[str], hunk: Hunk, above: int) -> int | None:
    """Where a hunk stands that was applied before. Its new lines alone might stand anywhere: what is around
    them has to say so, too."""
    places = _find(lines, hunk.new, above, _same) if hunk.new else []
    if not places:
        return None
    if hunk.new_line - 1 in places:
        return hunk.new_line - 1
    is_whole = len(hunk.new) == _end(lines)
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
