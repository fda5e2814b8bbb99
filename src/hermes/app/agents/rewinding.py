"""When checkpoints are made and gone back to: before the first call of a turn that may change files, at the
end of that turn, and in the turns of `/undo` and `/rollback`.

A rewind is a turn like any other: it is written down before it begins, what it starts from is a checkpoint
too, and each file is looked at before it is changed. So it can be repeated from anywhere after a crash."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import posixpath
import shlex
import stat
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.app.agents.checkpoints import CheckpointStores
from hermes.control.turn.claim import undone_words
from hermes.domain.chats.address import Source
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import TurnId
from hermes.domain.ports.agent import Agent, Run
from hermes.domain.ports.world import Backend, Command, World
from hermes.domain.text import one_line
from hermes.domain.tools.checkpoint import (
    CHANGING,
    Changes,
    Checkpoint,
    CheckpointView,
    FileVersion,
    RewindPlan,
    may_change_files,
)
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.turns.event import AgentEvent, Asked, Failed, Finished, Undone
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import user_turns
from hermes.domain.turns.turn import Turn, TurnAction
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.execution.checkpoints.shadow import ShadowStore
    from hermes.execution.checkpoints.walk import LeftOut

log = logging.getLogger("hermes.checkpoints")
_MOST_TURNS = 1000
_SHOWN = 10
_NO_FOLDER = "The workspace is no folder of this machine."


class AgentCheckpoints:
    """Those of one agent. `backend` is the one of sessions in which a turn runs, `backend_of` that of a turn
    and the folder of its session, `place_of` where commands from a source run."""

    def __init__(
        self,
        stores: CheckpointStores,
        backend: Backend,
        backend_of: Callable[[Turn, str | None], Backend],
        place_of: Callable[[Source, Session], Coroutine[None, None, World]],
    ) -> None:
        self._stores = stores
        self._backend = backend
        self._backend_of = backend_of
        self._place_of = place_of
        self._turns: dict[TurnId, None] = {}
        """Turns that work on files now, and need no further state before their next call."""
        self._announced: set[str] = set()

    # --- making ---

    def dress(self, tools: Iterable[Tool]) -> list[Tool]:
        return [
            self._guarded(tool) if isinstance(tool, Tool) and tool.name in CHANGING else tool
            for tool in tools
        ]

    def _guarded(self, tool: Tool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
            note = await self._before(context, tool.name, arguments)
            result = await tool.run(context, arguments)
            return replace(result, note=f"{result.note}\n{note}".strip()) if note else result

        return replace(tool, run=run)

    async def _before(self, context: ToolContext, tool: str, arguments: Mapping[str, object]) -> str:
        """Keep the state of the workspace, if this may be the turn's first change of it; what the person has
        to know."""
        wanted = context.source is not None and context.source.checkpoints
        if context.turn in self._turns or not may_change_files(tool, arguments):
            return ""
        if not (wanted or self._stores.settings().enabled):
            return ""
        while len(self._turns) >= _MOST_TURNS:
            self._turns.pop(next(iter(self._turns)))
        self._turns[context.turn] = None
        try:
            root = _root(await self._backend.place(context.session))
            label = f"{tool} {one_line(str(arguments.get('path') or ''), 60)}".strip()
            await self._stores.take(context.session, context.turn, root, label)
        except HermesError as error:
            return self._tell_once(str(error))
        return ""

    def _tell_once(self, why: str) -> str:
        if why in self._announced:
            return ""
        self._announced.add(why)
        log.warning("checkpoints.none why=%s", why)
        return f"There is no checkpoint to go back to: {why}"

    async def settle(self, turn: TurnId, cut_off: datetime | None = None) -> None:
        """A turn stops working, or goes on after it was cut off: what others do from now on is theirs."""
        if turn in self._turns or cut_off is not None:
            self._turns.pop(turn, None)
            try:
                await self._stores.settle(turn, cut_off)
            except HermesError as error:
                log.warning("checkpoints.unsettled turn=%s why=%s", turn, error)

    # --- looking ---

    async def find(self, source: Source, session: Session) -> list[Checkpoint]:
        return await self._stores.find(_root(await self._place_of(source, session)))

    async def diff(self, checkpoint: Checkpoint) -> str:
        """What that turn changed, if it is known."""
        shadow = self._stores.shadow(checkpoint.root)
        if not checkpoint.stretches[-1].after:
            raise UserError("How that turn left the files was not written down.")
        return await asyncio.to_thread(shadow.diff, checkpoint.before, checkpoint.stretches[-1].after)

    async def tend(self, action: str) -> list[CheckpointView]:
        return await self._stores.tend(action)

    # --- going back ---

    async def rewind(self, run: Run) -> str:
        """Do to files what a turn asks for; what is said of it."""
        turn, undone = run.turn, _undone(run)
        words = ""
        if turn.input.action is TurnAction.UNDO:
            kept = {row.turn for row in await self._stores.of_turns(list(undone))}
            words = undone_words(len(undone), run.transcript, undone.keys() - kept)
        try:
            backend = self._backend_of(turn, run.session.workspace)
            world = await backend.place()
            root = _root(world)
            undone |= dict.fromkeys(await self._stores.turns_for(run.transcript, undone))
            turns = {entry.turn for entry in run.transcript}
            ours = turns.union(await self._stores.turns_for(run.transcript, turns))
            wanted = await self._wanted(turn, list(undone), root)
            label = f"/{turn.input.action.value}"
            now = await self._stores.take(run.session.id, turn.id, root, label)
            shadow = self._stores.shadow(root)
            others = [row for row in await self._stores.find(root) if row.turn not in ours]
            plan = await asyncio.to_thread(_plan, shadow, turn, now.before, wanted, others)
            if turn.input.text and not plan.targets:
                raise UserError(f"nothing of it has changed since, or it is not kept: {turn.input.text}.")
            largest = self._stores.settings().max_file_size_mb << 20
            restoring = _Restoring(backend=backend, world=world, shadow=shadow, plan=plan, largest=largest)
            report = await restoring.run()
        except HermesError as error:
            return f"{words} The files are as they were: {error}".strip()
        return f"{words} {report}".strip()

    async def _wanted(self, turn: Turn, undone: list[TurnId], root: str) -> list[Checkpoint]:
        if turn.input.action is TurnAction.UNDO:
            found = [row for row in await self._stores.of_turns(undone) if row.root == root]
        else:
            found = [row for row in await self._stores.find(root) if str(row.id) == turn.input.command]
        if not found:
            raise UserError("that checkpoint is gone.")
        return found


class RewindingAgent:
    """An agent that can take back what it did to files."""

    def __init__(self, agent: Agent, checkpoints: AgentCheckpoints) -> None:
        self._agent = agent
        self._checkpoints = checkpoints

    async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        if run.turn.input.action in (TurnAction.UNDO, TurnAction.ROLLBACK):
            yield (Finished(note=await _to_its_end(self._checkpoints.rewind(run))),)
            return
        if run.turn.attempt > 1:
            last = [entry.at for entry in run.transcript if entry.turn == run.turn.id][-1:]
            await self._checkpoints.settle(run.turn.id, last[0] if last else run.turn.created_at)
        try:
            async for event in self._agent.run(run):
                if isinstance(event, tuple) and isinstance(event[-1], Finished | Failed | Asked):
                    # Before anybody sees it: what people change from now on is not the turn's.
                    await self._checkpoints.settle(run.turn.id)
                yield event
        finally:
            # Also when somebody stops it.
            await asyncio.shield(self._checkpoints.settle(run.turn.id))


def able_to_rewind(agent: Agent, checkpoints: AgentCheckpoints | None) -> Agent:
    return agent if checkpoints is None else RewindingAgent(agent, checkpoints)


class _Restoring(Struct, kw_only=True):
    """Brings files to their targets through the backend, so that nothing outside its world is reached. What
    is removed goes first: a file may be needed where a folder stands."""

    backend: Backend
    world: World
    shadow: ShadowStore
    plan: RewindPlan
    largest: int
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)

    async def run(self) -> str:
        targets = sorted(self.plan.targets.items())
        await self._bring_all(each for each in targets if not each[1][1])
        folders = sorted({path.rpartition("/")[0] for path in self.removed} - {""})
        await self._shell([f"rmdir -p -- {shlex.quote(f'./{folder}')} 2>/dev/null" for folder in folders])
        await self._bring_all(each for each in targets if each[1][1])
        await self._shell(self.modes)
        parts = (("restored", self.restored), ("removed", self.removed))
        done = "; ".join(f"{verb} {_listed(paths)}" for verb, paths in parts if paths)
        text = f"Files: {done}." if done else "No file was changed."
        if self.removed:
            text += " /rollback 1 brings back what was removed."
        if self.plan.spared:
            text += f" Kept, because they may hold what is in no checkpoint: {_listed(self.plan.spared)}."
        if self.plan.left_out:
            text += f" Changed, but in no checkpoint: {_listed(self.plan.left_out)}."
        if self.plan.unknown:
            text += " How an interrupted part of it left the files was not written down, so they stay."
        kept = sorted(self.plan.kept)
        return f"{text} Kept as they are, because they were changed since: {_listed(kept)}." if kept else text

    async def _bring_all(self, targets: Iterable[tuple[str, FileVersion]]) -> None:
        for path, (mode, object_id) in targets:
            try:
                await self._bring(path, mode, object_id)
            except UserError as error:
                log.warning("checkpoints.kept path=%s why=%s", path, error)
                self.plan.kept.add(path)

    async def _bring(self, path: str, mode: str, object_id: str) -> None:
        full, files = f"{self.world.workspace.rstrip('/')}/{path}", self.backend.files
        found = await files.stat("", full)
        if found is not None and found.size > self.largest:
            raise UserError("It is larger than anything that is kept.")
        live = (
            "" if found is None else _blob_id(await files.read("", full, limit=found.size + 1, follow=False))
        )
        if live not in (object_id, self.plan.expected[path][1]):
            self.plan.kept.add(path)
            return
        fresh = (0o755 if mode == "100755" else 0o644) & (~0o077 if path in self.plan.private else ~0)
        if live != object_id:
            data = await asyncio.to_thread(self.shadow.read, object_id) if object_id else None
            await files.write("", full, data, follow=False, mode=fresh)
        (self.restored if object_id else self.removed).append(path)
        if object_id and found is not None and (fresh ^ found.mode) & 0o100:
            self.modes.append(f"chmod {'+x' if mode == '100755' else '-x'} -- {shlex.quote(f'./{path}')}")

    async def _shell(self, lines: Sequence[str]) -> None:
        if lines:
            text = "\n".join([*lines, "true"])
            await self.backend.run(Command(text=text, cwd=self.world.workspace), lambda words: None)


def _plan(
    shadow: ShadowStore, turn: Turn, now: str, wanted: Sequence[Checkpoint], others: Sequence[Checkpoint]
) -> RewindPlan:
    plan = RewindPlan()
    if turn.input.action is TurnAction.UNDO:
        _take_back(plan, shadow, now, wanted)
        _leave_to_others(plan, shadow, wanted, others)
        _spare(plan, shadow, [stretch.before for row in wanted for stretch in row.stretches], now)
        return plan
    changes, only = shadow.changes(wanted[0].before, now), turn.input.text
    if only:
        only = posixpath.normpath(only)
        changes = {path: each for path, each in changes.items() if f"{path}/".startswith(f"{only}/")}
    plan.take_back(changes, ())
    _spare(plan, shadow, [wanted[0].before], now)
    return plan


def _take_back(plan: RewindPlan, shadow: ShadowStore, now: str, wanted: Sequence[Checkpoint]) -> None:
    """Stretch by stretch, the newest first. What changed between two of them is somebody else's; of two that
    overlap, as those of children do, what either of them changed is theirs."""
    stretches = sorted(
        (stretch for row in wanted for stretch in row.stretches), key=lambda each: -shadow.moment(each.before)
    )
    changes = {each: shadow.changes(each.before, each.after) for each in stretches if each.after}
    ours = {path for each in changes.values() for path in each}
    later = shadow.moment(now)
    for stretch in stretches:
        if stretch not in changes:
            plan.unknown = True
            plan.kept.update(shadow.changes(stretch.before, now))
        else:
            between: Changes = {} if stretch.after == now else shadow.changes(stretch.after, now)
            overlaps = shadow.moment(stretch.after) > later
            plan.take_back(changes[stretch], between.keys() - ours if overlaps else between)
        now, later = stretch.before, shadow.moment(stretch.before)


def _leave_to_others(
    plan: RewindPlan, shadow: ShadowStore, wanted: Sequence[Checkpoint], others: Sequence[Checkpoint]
) -> None:
    """What other turns did in this folder meanwhile stays."""
    began = min(shadow.moment(row.before) for row in wanted)
    for row in others:
        for stretch in row.stretches:
            if stretch.after and shadow.moment(stretch.after) > began:
                for path in shadow.changes(stretch.before, stretch.after).keys() & plan.targets.keys():
                    plan.targets.pop(path)
                    plan.kept.add(path)


def _spare(plan: RewindPlan, shadow: ShadowStore, states: Sequence[str], now: str) -> None:
    """Leave alone what may be a file that was left out of the states before, and was moved or replaced."""
    left: dict[str, LeftOut] = {}
    for state in sorted(states, key=shadow.moment, reverse=True):
        notes = shadow.notes(state)
        left |= notes.left
        plan.private.update(notes.private)
    there = shadow.notes(now).left
    both = left | there
    plan.left_out = sorted({_outermost(path, both) for path in both if left.get(path) != there.get(path)})
    gone = {path: note for path, note in left.items() if there.get(path, (0, 0, 0))[0] != note[0]}
    files = {note[:2] for note in gone.values() if note[2]}
    # Where one is there again it was written anew, and another file soon has the inode that this set free.
    outer = {path: note for path, note in gone.items() if posixpath.dirname(path) not in left}
    lost = [note for path, note in outer.items() if path not in there]
    sizes = {note[1] for note in lost if note[1]}
    moved = {(note[0], False) for note in lost if note[2]}
    moved |= {(note[0], True) for note in outer.values() if not note[2]}
    for path, (_, object_id) in sorted(plan.targets.items()):
        names = path.split("/")
        ways = [os.path.join(shadow.root, *names[: count + 1]) for count in range(len(names))]
        try:
            infos = [os.lstat(way) for way in ways]
        except OSError:
            continue
        is_moved = (infos[-1].st_ino, infos[-1].st_size) in files
        if not object_id:
            is_moved |= path in left or infos[-1].st_size in sizes
            is_moved |= any((info.st_ino, stat.S_ISDIR(info.st_mode)) in moved for info in infos)
        if is_moved:
            plan.targets.pop(path)
            plan.spared.append(path)


def _outermost(path: str, noted: Mapping[str, object]) -> str:
    """The folder that is left out with all in it, or the file itself."""
    ends = [place for place, letter in enumerate(path) if letter == "/"]
    return next((path[:end] for end in ends if path[:end] in noted), path)


def _undone(run: Run) -> dict[TurnId, None]:
    """The turns that this one undoes."""
    for place, entry in enumerate(run.transcript):
        if isinstance(entry.record, Undone) and entry.turn == run.turn.id:
            since = entry.record.since
            left = (one for one in user_turns(run.transcript[:place]) if one.seq >= since)
            return dict.fromkeys(one.turn for one in left)
    return {}


def _root(world: World) -> str:
    if not world.host_folder:
        raise UserError(_NO_FOLDER)
    return world.host_folder


def _blob_id(data: bytes) -> str:
    """As git names a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(one_line(path, 120) for path in paths[:_SHOWN]) + more


async def _to_its_end(work: Coroutine[None, None, str]) -> str:
    """Half a rewind helps nobody: who interrupts it waits until it is done."""
    task = asyncio.create_task(work, name="rewind")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
