"""`patch`: change a part of a file, found by its text, or several files by a patch.

When a call is repeated after a crash, what it did before is recognised and not done again."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes.agent.tools.approval_text import action_digest, shown_lines
from hermes.agent.tools.difference import difference_of
from hermes.agent.tools.files import (
    alone_with,
    check_hidden,
    check_target,
    note_written,
    place_of_new,
    resolve_path,
    syntax_note,
    write_question,
)
from hermes.agent.tools.patch_format import ChangeKind, FileChange, change_text, read_patch
from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, tool
from hermes.agent.tools.replacing import apply_patch
from hermes.domain.errors import UserError
from hermes.domain.ports.world import Backend, Command, FileView
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.tools.tool import ApprovalPrompt, Effect

_LARGEST = 4 << 20
_MODE = 0o777


async def _approval_check(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _ask(case, arguments, case.scope.write_fault)


async def _ask_after_outside(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _ask(case, arguments, case.scope.prompt_fault)


def _ask(
    case: ApprovalCase, arguments: Mapping[str, Any], fault_of: Callable[[str], str]
) -> ApprovalPrompt | None:
    if arguments.get("patch"):
        return _ask_for_all(case, str(arguments["patch"]), fault_of)
    if not arguments.get("path"):
        return None  # it is refused
    path = resolve_path(case.scope, str(arguments["path"]))
    fault = fault_of(path)
    if not fault:
        return None
    old, new = str(arguments.get("old") or ""), str(arguments.get("new") or "")
    every = bool(arguments.get("replace_all"))
    change = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    where = "[everywhere]\n" if every else ""
    return ApprovalPrompt(
        text=f"{write_question(path, fault)}\n{where}{shown_lines(change)}",
        digest=action_digest("patch", path, old, new, every),
        to_model=True,
    )


def _ask_for_all(case: ApprovalCase, text: str, fault_of: Callable[[str], str]) -> ApprovalPrompt | None:
    """One question about every file of a patch that has to be asked for."""
    try:
        paths = [resolve_path(case.scope, path) for change in read_patch(text) for path in change.paths]
    except UserError:
        return None
    asked = [write_question(path, fault) for path in paths if (fault := fault_of(path))]
    if not asked:
        return None
    shown = shown_lines(text.splitlines())
    return ApprovalPrompt(
        text="\n".join([*asked, shown]), digest=action_digest("patch", *paths, text), to_model=True
    )


@tool("file", Effect.KEYED, needs=Backend, approval_check=_approval_check, after_outside=_ask_after_outside)
async def patch(
    invocation: ToolInvocation,
    path: str = "",
    old: str = "",
    new: str = "",
    replace_all: bool = False,
    patch: str = "",
) -> str:
    """Replace text in a file. old must name one place: add lines around it if needed.

    old: as it is in the file, without line numbers
    patch: or several files: *** Update|Add|Delete File: …, or a unified diff
    """
    if patch:
        changes = read_patch(patch)
        paths = [path for change in changes for path in change.paths]
        async with alone_with(*[(await check_target(invocation, path, writing=True))[1] for path in paths]):
            return await _patch_all(invocation, changes)
    if not path:
        raise UserError("patch needs a path, or a patch.")
    found, real = await check_target(invocation, path, writing=True)
    if found is None:
        raise UserError(f"There is no {path}.", hint="Use write_file for a new file.")
    async with alone_with(real):
        return await _replace(invocation, path, real, old, new, replace_all)


async def _replace(invocation: ToolInvocation, path: str, real: str, old: str, new: str, every: bool) -> str:
    before = _decoded(path, await _bytes_of(invocation, path, real))
    if "\r\n" in before and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    if STAND_IN in old and STAND_IN not in before:
        raise UserError(
            f"{path} has something else where you write {STAND_IN}: it was hidden from you.",
            hint="Name the lines around it, and change those alone.",
        )
    repeated = invocation.context.repeated
    after = await asyncio.to_thread(apply_patch, before, old, new, every=every, repeated=repeated)
    check_hidden(path, before, after)
    if after == before:
        return f"{path} has this change already; nothing was written."
    await invocation.backend.files.write(invocation.session, real, after.encode(), follow=False)
    await note_written(invocation, path, real)
    difference = await asyncio.to_thread(difference_of, before, after)
    return f"Patched {path}.{await syntax_note(path, after)}\n{difference}"


async def _bytes_of(invocation: ToolInvocation, path: str, real: str) -> bytes:
    data = await invocation.backend.files.read(invocation.session, real, limit=_LARGEST + 1, follow=False)
    if len(data) > _LARGEST:
        raise UserError(f"{path} is too large to be patched.", hint="Use sed or rm in terminal.")
    return data


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None


class _Write(Struct, frozen=True, kw_only=True):
    """A file as a patch leaves it, as it was before (None: not there), and what is told of it."""

    path: str
    real: str
    before: bytes | None
    after: bytes | None
    mode: int = 0
    report: str = ""


async def _patch_all(invocation: ToolInvocation, changes: Sequence[FileChange]) -> str:
    """All of it is worked out before anything is written. What an earlier try has done is recognised."""
    targets: dict[str, str] = {}
    writes = [write for change in changes for write in await _writes_of(invocation, change, targets)]
    files, session = invocation.backend.files, invocation.session
    done: list[_Write] = []
    try:
        for write in sorted(writes, key=lambda write: write.after is None):
            await files.write(session, write.real, write.after, follow=False, mode=write.mode)
            done.append(write)
            if write.after is not None:
                await note_written(invocation, write.path, write.real)
    except UserError as error:
        await _put_back(invocation, done, error)
        raise
    reports = [write.report for write in writes if write.report]
    for change in changes:
        if change.mode and change.kind is ChangeKind.UPDATE:
            reports.append(await _set_mode(invocation, change))
    return "\n".join(reports) or "All of it is there already; nothing was written."


async def _set_mode(invocation: ToolInvocation, change: FileChange) -> str:
    path = change.paths[-1]
    _, real = await check_target(invocation, path, writing=True)
    text = f"chmod {change.mode:o} -- {shlex.quote(real)}"
    result = await invocation.backend.run(Command(text=text, session=invocation.session), lambda words: None)
    return f"The mode of {path} is {change.mode:o}." if not result.code else f"{text}: {result.output}"


async def _put_back(invocation: ToolInvocation, done: list[_Write], why: UserError) -> None:
    """As the files were before, since the rest could not be written."""
    files, session = invocation.backend.files, invocation.session
    left: list[str] = []
    for write in reversed(done):
        try:
            await files.write(session, write.real, write.before, follow=False, mode=write.mode)
        except UserError:
            left.append(write.path)
    if left:
        raise UserError(f"{why} What was changed before could not be put back: {', '.join(left)}.") from why


async def _target(
    invocation: ToolInvocation, path: str, targets: dict[str, str]
) -> tuple[FileView | None, str]:
    """Like `check_target`, for a file that no other part of the patch names."""
    found, real = await check_target(invocation, path, writing=True)
    if real in targets:
        raise UserError(
            f"{targets[real]} and {path} are the same file.", hint="Put all of a file's changes together."
        )
    targets[real] = path
    return found, real


async def _refuse_link(invocation: ToolInvocation, path: str, real: str) -> None:
    """A link cannot be deleted or moved by a patch: it would be the file that it leads to."""
    if await place_of_new(invocation, resolve_path(await invocation.scope(), path)) != real:
        raise UserError(f"{path} is a link to {real}.", hint="Name that file, or use rm or mv in terminal.")


async def _writes_of(invocation: ToolInvocation, change: FileChange, targets: dict[str, str]) -> list[_Write]:
    path = change.path
    found, real = await _target(invocation, path, targets)
    if change.kind is ChangeKind.ADD:
        if found is None:
            report = f"Added {path}.{await syntax_note(path, change.added)}"
            added = change.added.encode()
            return [_Write(path=path, real=real, before=None, after=added, mode=change.mode, report=report)]
        if _decoded(path, await _bytes_of(invocation, path, real)) != change.added:
            raise UserError(f"{path} is there already.", hint="Use *** Update File.")
        return []
    if found is not None and (change.kind is ChangeKind.DELETE or change.move_to):
        await _refuse_link(invocation, path, real)
    if change.kind is ChangeKind.UPDATE:
        return await _update(invocation, change, targets, found, real)
    if found is None:
        return []
    before = await _bytes_of(invocation, path, real)
    mode, report = found.mode & _MODE, f"Deleted {path}."
    return [_Write(path=path, real=real, before=before, after=None, mode=mode, report=report)]


async def _update(
    invocation: ToolInvocation,
    change: FileChange,
    targets: dict[str, str],
    view: FileView | None,
    real: str,
) -> list[_Write]:
    path, target, there, moved = change.path, change.move_to or change.path, real, None
    repeated = invocation.context.repeated
    if change.move_to:
        moved, there = await _target(invocation, target, targets)
        if view is None and repeated:
            view, real, moved = moved, there, None
    if view is None:
        raise UserError(f"There is no {path}.", hint="Use *** Add File for a new one.")
    data, mode = await _bytes_of(invocation, path, real), view.mode & _MODE
    after, note, difference = data, "", ""
    if change.hunks:
        before = _decoded(path, data)
        text = await asyncio.to_thread(change_text, path, before, change.hunks, repeated=repeated)
        check_hidden(path, before, text)
        after, note = text.encode(), await syntax_note(target, text)
        difference = await asyncio.to_thread(difference_of, before, text)
    if after == data and there == real:
        return []
    verb = f"Patched {path}" if target == path else f"Moved {path} to {target}"
    report = f"{verb}.{note}\n{difference}".rstrip()
    if there == real:
        return [_Write(path=path, real=real, before=data, after=after, mode=mode, report=report)]
    gone = _Write(path=path, real=real, before=data, after=None, mode=mode, report=report)
    if moved is None:
        return [_Write(path=target, real=there, before=None, after=after, mode=mode), gone]
    if await _bytes_of(invocation, target, there) == after:
        return [gone]  # a crash came between the two
    raise UserError(f"{target} is there already.", hint="Delete it first, or choose another name.")
