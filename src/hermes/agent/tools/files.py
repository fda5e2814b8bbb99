"""`read_file`, `write_file`, `search_files`: files as the session's terminal sees them.

Places that hold secrets or run by themselves are asked for by name; a link that leads there is refused, with
the name to ask for."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal
from weakref import WeakValueDictionary

from hermes.agent.danger.rules import RULES
from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools.approval_text import action_digest, shown_change, visible_line
from hermes.agent.tools.difference import difference_of
from hermes.agent.tools.registry import ApprovalCase, CommandRules, ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.world import Backend, DocumentReader, FileSearch, FileView, Match
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.tools.tool import Approval, ApprovalPrompt, Effect, ToolResult

_MOST_LINES = 2000
_MOST_CHARS = 100_000
_LONGEST_LINE = 2000
_LARGEST_WRITE = 10 << 20
_STEP = 1 << 20
_MOST_CONTEXT = 20
_FARTHEST_MATCH = 10_000
_LARGEST_CHECKED = {".py": 64 << 10, ".json": 200 << 10, ".toml": 200 << 10}
_LARGEST_READ = 64 << 20
_LARGEST_DOCUMENT = 50_000_000
_MOST_KEPT = 4 << 20
_DOCUMENTS = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\xff\xfe", b"\xfe\xff")
"""How PDFs, office files old and new, and UTF-16 begin."""
_OTHER_WAYS = "vision_analyze looks at pictures; terminal has programs for other files."
_MARK = "\ufeff"
"""What some editors of Windows put before UTF-8."""
INCOMING = re.compile(r"/(?:media/[0-9a-f]{2}|incoming)/[^/]+$")
"""Where files that came with messages lie, in the agent's home and in a sandbox."""
_NO_MORE = Approval.NEVER
"""Files of this machine lead nowhere else, whatever was read before."""


def resolve_path(scope: CommandScope, path: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = scope.home + path[1:]
    return os.path.normpath(os.path.join(scope.cwd, path))


async def ask_to_read(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    path = resolve_path(case.scope, str(arguments.get("path") or "."))
    fault = case.scope.read_fault(path)
    if not fault or case.scope.is_sealed(path, writing=False):
        return None  # what is sealed is refused, not asked for
    text = f"Read {visible_line(path)}\nIt {RULES[fault].reason}."
    return ApprovalPrompt(text=text, digest=f"read:{path}", to_model=True)


async def ask_to_write(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _ask_to_write(case, arguments, case.scope.write_fault)


async def ask_after_outside(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _ask_to_write(case, arguments, case.scope.prompt_fault)


def _ask_to_write(
    case: ApprovalCase, arguments: Mapping[str, Any], fault_of: Callable[[str], str]
) -> ApprovalPrompt | None:
    path, content = resolve_path(case.scope, str(arguments["path"])), str(arguments["content"])
    fault = fault_of(path)
    if not fault or case.scope.is_sealed(path, writing=True):
        return None

    async def more(session: SessionId) -> str:
        return shown_change(await _text_there(case.services.get(Backend), session, path), content)

    return ApprovalPrompt(
        text=write_question(path, fault),
        digest=action_digest("write", path, content),
        more=more,
        to_model=True,
    )


def write_question(path: str, fault: str) -> str:
    return f"Write {visible_line(path)}\nIt {RULES[fault].reason}."


async def _text_there(backend: Backend, session: SessionId, path: str) -> str:
    try:
        return (await backend.files.read(session, path, limit=_STEP)).decode("utf-8", "replace")
    except UserError:
        return ""


async def check_target(
    invocation: ToolInvocation, path: str, *, writing: bool
) -> tuple[FileView | None, str]:
    """The file that a path leads to in the end, and its own path, unless asking was about another one. Who
    reads or writes it names that path and follows no link, so that it stays the one that was looked at."""
    scope = await invocation.scope()
    asked = resolve_path(scope, path)
    found = await invocation.backend.files.stat(invocation.session, asked)
    real = found.path if found else await place_of_new(invocation, asked)
    if scope.is_sealed(asked, writing=writing) or scope.is_sealed(real, writing=writing):
        raise UserError(f"{path} belongs to another agent or to the gateway, so it is out of reach here.")
    fault = scope.write_fault if writing else scope.read_fault
    if invocation.services.get(CommandRules).asks() and real != asked and fault(real):
        raise UserError(
            f"{path} leads to {real}.", hint="Name that path itself, so that it can be asked for."
        )
    return found, real


async def place_of_new(invocation: ToolInvocation, path: str) -> str:
    """Where it would be made: below the nearest folder that is there, which a link may lead to."""
    folder, below = os.path.split(path)
    while (above := await invocation.backend.files.stat(invocation.session, folder)) is None:
        if folder == os.path.dirname(folder):
            return path
        folder, name = os.path.split(folder)
        below = os.path.join(name, below)
    return os.path.join(above.path, below)


_LOCKS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@contextlib.asynccontextmanager
async def alone_with(*paths: str) -> AsyncIterator[None]:
    """Between reading these files and writing them, no other call writes them."""
    async with contextlib.AsyncExitStack() as stack:
        for path in sorted(set(paths)):
            await stack.enter_async_context(_LOCKS.setdefault(path, asyncio.Lock()))
        yield


async def note_written(invocation: ToolInvocation, path: str, real_path: str = "") -> None:
    """Its text is looked at if a command runs it, by this name or by its real one."""
    names = {resolve_path(await invocation.scope(), path), real_path}
    await invocation.services.get(CommandRules).trail.note_written(invocation.session, names - {""})


@tool("file", Effect.READ, parallel=True, needs=Backend, approval_check=ask_to_read, after_outside=_NO_MORE)
async def read_file(
    invocation: ToolInvocation, path: str, offset: int = 1, limit: int = 500
) -> str | ToolResult:
    """Read text, PDF or office files as lines N|text, or list a folder.

    limit: lines, at most 2000
    """
    found, real = await check_target(invocation, path, writing=False)
    if found is None:
        await _check_folder(invocation, path)
        raise UserError(f"There is no {path}.", hint=await _suggestion(invocation, path))
    if found.folder:
        return await _listing(invocation, path, real)
    first, count = max(offset, 1), min(max(limit, 1), _MOST_LINES)
    start = await invocation.backend.files.read(invocation.session, real, limit=_STEP, follow=False)
    if start.startswith(_DOCUMENTS) or real.endswith(".ipynb"):
        lines, more = await _document_lines(invocation, path, found, first, count)
    elif b"\0" in start[:8192]:
        raise UserError(f"{path} is a binary file of {found.size} bytes.", hint=_OTHER_WAYS)
    else:
        lines, more = await _lines(invocation, path, real, start, first, count)
    text = _numbered(lines, first, more) or "[the file is empty]"
    data = {"content": "\n".join(lines), "more": more}
    return ToolResult(text=text, data=data, outside=INCOMING.search(found.path) is not None)


async def _document_lines(
    invocation: ToolInvocation, path: str, view: FileView, first: int, count: int
) -> tuple[list[str], bool]:
    """Some lines of what a document says."""
    files, services = invocation.backend.files, invocation.services
    if view.size > _LARGEST_DOCUMENT or not services.has((DocumentReader,)):
        raise UserError(f"{path} is a binary file of {view.size} bytes.", hint=_OTHER_WAYS)
    data = await files.read(invocation.session, view.path, limit=_LARGEST_DOCUMENT, follow=False)
    try:
        read = await services.get(DocumentReader)(data)
    except UserError as error:
        raise UserError(f"{path}: {error}", hint=_OTHER_WAYS) from None
    lines = read.text.splitlines()
    wanted = lines[first - 1 : first - 1 + count]
    if not wanted and first > 1:
        raise UserError(f"{path} ends before line {first}.")
    return wanted, read.cut or len(lines) >= first + count


async def _lines(
    invocation: ToolInvocation, path: str, real: str, data: bytes, first: int, count: int
) -> tuple[list[str], bool]:
    """Some lines of a file. It is read step by step, and only what is asked for is kept of it."""
    files, at, left, kept = invocation.backend.files, len(data), first - 1, bytearray()
    while True:
        last = len(data) < _STEP
        skipped = min(left, data.count(b"\n"))
        left -= skipped
        if not left:
            kept += data.split(b"\n", skipped)[-1]
        if last or len(kept) > _MOST_KEPT or kept.count(b"\n") > count or at >= _LARGEST_READ:
            break
        data = await files.read(invocation.session, real, start=at, limit=_STEP, follow=False)
        at += len(data)
    if not kept and first > 1:
        if last:
            raise UserError(f"{path} ends before line {first}.")
        raise UserError(f"Line {first} of {path} is too far into it.", hint="Use sed -n in terminal.")
    lines = bytes(kept).split(b"\n")
    if not lines[-1] or (not last and len(lines) > 1):
        lines.pop()  # nothing, or a part of a line
    return [line.decode("utf-8", "replace") for line in lines[:count]], len(lines) > count or not last


def _numbered(lines: list[str], first: int, more: bool) -> str:
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines, first):
        text = line.rstrip("\r")
        text = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}[… line cut]"
        size += len(text) + 8
        if size > _MOST_CHARS:
            more = True
            break
        shown.append(f"{number}|{text}")
    if more:
        shown.append(f"[more follows; next offset {first + len(shown)}]")
    return "\n".join(shown)


async def _listing(invocation: ToolInvocation, path: str, real: str) -> str:
    entries = await invocation.backend.files.list(invocation.session, real)
    names = [f"{_shown(os.path.basename(one.path))}{'/' if one.folder else ''}" for one in entries[:500]]
    return "\n".join([f"{path} is a folder:", *names])


def _shown(name: str) -> str:
    """A name that could pass for several lines, or for another one, is told with its characters spelled."""
    return name if name.isprintable() else json.dumps(name)


async def _check_folder(invocation: ToolInvocation, path: str) -> None:
    """A relative path means nothing where the folder that it starts from was removed."""
    if path.startswith(("/", "~")) or await invocation.backend.files.stat(invocation.session, "."):
        return
    folder = (await invocation.scope()).cwd
    hint = "Name a full path, or use terminal, which starts in the nearest folder above."
    raise UserError(f"The folder {folder} is gone.", hint=hint)


async def _suggestion(invocation: ToolInvocation, path: str) -> str:
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        entries = await invocation.backend.files.list(invocation.session, folder or ".")
    except UserError:
        return f"There is no folder {folder} either."
    near = get_close_matches(name, [os.path.basename(one.path) for one in entries], n=3, cutoff=0.5)
    return (
        f"Near: {', '.join(_shown(os.path.join(folder, one)) for one in near)}."
        if near
        else "search_files may find it."
    )


@tool("file", Effect.KEYED, needs=Backend, approval_check=ask_to_write, after_outside=ask_after_outside)
async def write_file(invocation: ToolInvocation, path: str, content: str) -> str:
    """Write a whole file, replacing what was there; folders are made. Use patch for small changes."""
    before, real = await check_target(invocation, path, writing=True)
    there = b""
    async with alone_with(real):
        if before and not before.folder:
            limit = _LARGEST_WRITE if STAND_IN in content else _STEP
            there = await invocation.backend.files.read(invocation.session, real, limit=limit, follow=False)
            if STAND_IN in content:
                check_hidden(path, there.decode("utf-8", "replace"), content)
            content = _as_before(there, content)
        data = content.encode()
        if len(data) > _LARGEST_WRITE:
            raise UserError(
                f"{len(data)} bytes are too many for one file.", hint="Write it in parts with terminal."
            )
        await invocation.backend.files.write(invocation.session, real, data, follow=False)
    await note_written(invocation, path, real)
    verb, changed = "Replaced" if before else "Wrote", ""
    if before and len(there) == before.size:
        changed = await asyncio.to_thread(difference_of, there.decode("utf-8", "replace"), content)
    note = await syntax_note(path, content)
    return f"{verb} {path}: {len(data)} bytes, {_lines_in(content)}.{note}\n{changed}".rstrip()


def _as_before(there: bytes, content: str) -> str:
    """With the line ends, and the mark at the beginning, of the file that is replaced."""
    if b"\r\n" in there and there.count(b"\r\n") == there.count(b"\n") and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
    return _MARK + content if there.startswith(_MARK.encode()) and not content.startswith(_MARK) else content


def check_hidden(path: str, before: str, after: str) -> None:
    """Refuses a change by which what was hidden from the model would be lost."""
    if after.count(STAND_IN) > before.count(STAND_IN):
        raise UserError(
            f"Not written: {path} has something else where you write {STAND_IN}.",
            hint="That text was hidden from you and is still in the file: change the other lines with patch.",
        )


def _lines_in(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{count} line{'' if count == 1 else 's'}"


async def syntax_note(path: str, text: str) -> str:
    """A word about a file that cannot be read as what its name says. The gateway waits meanwhile, so what
    takes long is not looked at."""
    kind = os.path.splitext(path)[1]
    if len(text) > _LARGEST_CHECKED.get(kind, 0):
        return ""
    try:
        match kind:
            case ".py":
                ast.parse(text)
            case ".json":
                json.loads(text)
            case ".toml" if max(map(len, text.splitlines()), default=0) <= _LONGEST_LINE:
                import tomllib

                await asyncio.to_thread(tomllib.loads, text)  # it is all Python, and lets others run
    except (MemoryError, RecursionError):
        return " Note: it is nested too deeply to be checked."
    except (SyntaxError, ValueError) as error:
        return f" Note: {type(error).__name__}: {error}."
    return ""


@tool("file", Effect.READ, parallel=True, needs=Backend, approval_check=ask_to_read, after_outside=_NO_MORE)
async def search_files(
    invocation: ToolInvocation,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    glob: str = "",
    limit: int = 50,
    offset: int = 0,
    context: int = 0,
    output_mode: Literal["content", "files_only", "count"] = "content",
) -> ToolResult:
    """Search file contents by regular expression, or names by glob (target=files). Skips ignored and binary
    files.

    glob: like *.py
    """
    _, root = await check_target(invocation, path, writing=False)
    place = await invocation.scope()
    first, most = min(max(offset, 0), _FARTHEST_MATCH), min(max(limit, 1), 500)
    search = FileSearch(
        pattern=pattern,
        under=root,
        session=invocation.session,
        names=target == "files",
        glob=glob,
        limit=first + most,
        closed=place.homes.closed,
        context=min(max(context, 0), _MOST_CONTEXT),
        files=output_mode == "files_only",
        counted=output_mode == "count",
    )
    found = await invocation.backend.files.search(search)
    open_ones = [match for match in found.matches[first:] if not place.read_fault(match.path)]
    text = _grouped(open_ones, place.cwd)
    if not text and first and found.matches:
        text = f"There are no matches from {first} on."
    text = text or (f"Nothing found in {found.files} files." if found.files else "Nothing found.")
    if found.more and len(found.matches) == first + most:
        text += f"\n[more matches; narrow the search, or next offset {first + most}]"
    elif found.more:
        text += "\n[not all was searched; narrow the search]"
    told = ("path", "count") if search.counted else ("path", "line", "text")
    matches = [{name: getattr(match, name) for name in told} for match in open_ones]
    return ToolResult(text=text, data={"matches": matches, "more": found.more})


def _grouped(matches: list[Match], cwd: str) -> str:
    lines: list[str] = []
    for path, group in groupby(matches, key=lambda match: match.path):
        shown = _shown(os.path.relpath(path, cwd) if path.startswith(cwd + "/") else path)
        in_file = list(group)
        lines.append(f"{shown}: {in_file[0].count}" if in_file[0].count else shown)
        lines += _lines_of([match for match in in_file if match.line])
    return "\n".join(lines)


def _lines_of(matches: list[Match]) -> Iterator[str]:
    """Each line once, matches with a bar and what is around them with a dash, and a line between gaps."""
    around: dict[int, str] = {}
    for match in matches:
        around |= dict(enumerate(match.before, match.line - len(match.before)))
        around |= dict(enumerate(match.after, match.line + 1))
    own = {match.line: match.text for match in matches}
    last = 0
    for number, text in sorted((around | own).items()):
        if around and last and number > last + 1:
            yield "  --"
        yield f"  {number}{'|' if number in own else '-'}{text}"
        last = number
