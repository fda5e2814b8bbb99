"""`terminal` and `process`: commands in the session's shell, and what runs in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from hermes.agent.danger.scope import CommandScope, is_within
from hermes.agent.tools.approval_text import action_digest, visible, visible_line
from hermes.agent.tools.files import resolve_path
from hermes.agent.tools.registry import (
    ApprovalCase,
    CommandRules,
    ProcessNews,
    SudoPassword,
    ToolInvocation,
    scope_of,
    tool,
)
from hermes.domain.errors import UserError
from hermes.domain.ports.world import Backend, Boundary, Command, CommandResult, FileSearch, ProcessView
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import ApprovalPrompt, Effect, ToolResult
from hermes.domain.word import replace

if TYPE_CHECKING:
    # The judge is loaded with the first command: most starts and conversations have none.
    from hermes.agent.danger.rules import DangerVerdict

_LONGEST_WAIT = 600
_PREVIEW = 20_000
_MOST_LINES = 2000
_LONGEST_LINE = 300
_MOST_PATTERNS = 10
_LONGEST_PATTERN = 200
_MOST_LOOKED_AT = 20_000
_ANSI = late_pattern(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
_NOTHING_HOLDS = "No sandbox holds commands here, so each is asked for."
_READS_PASSWORD = late_pattern(r"(^|\s)(-[A-Za-z]*[SA]|--stdin|--askpass)")
_UNASKED = late_pattern(r"sudo: a (terminal|password) is required")
_CANNOT_ASK = (
    "a password cannot be given to it this way. Write sudo as a plain word in the command itself; on a"
    " machine without Python it has to work without a password."
)
_UNSEEN = late_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


async def ask_for_command(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    """Bound to the exact command and folder. What is never run is not asked for: `terminal` refuses it."""
    from hermes.agent.danger.judge import digest

    command = arguments["command"]
    folder = resolve_path(case.scope, arguments.get("workdir", ""))
    verdict, scope = await _judge(case.services, case.session, command, replace(case.scope, cwd=folder))
    verdict = await _with_ignored(case, verdict)
    if verdict.never or not (verdict.needs_approval or case.scope.ask_all):
        return None
    why = f"It {verdict.reasons}." if verdict.needs_approval else _NOTHING_HOLDS
    where = "" if folder == case.scope.workspace else f" in {visible_line(folder)}"
    return ApprovalPrompt(
        text=f"Run{where}: {visible(command)}\n{why}",
        digest=digest(command, folder, scope.scripts),
        locked=verdict.locked,
        to_model=not case.scope.ask_all,
    )


async def _with_ignored(case: ApprovalCase, verdict: DangerVerdict) -> DangerVerdict:
    """Together with the files that `.agentignore` keeps and that lie in folders which are read whole."""
    from hermes.agent.danger.rules import DangerFinding

    places = [await _first_ignored(case, folder) for folder in verdict.taken]
    inside = tuple(DangerFinding(rule="ignored.inside", what=place) for place in places if place)
    return replace(verdict, findings=(*verdict.findings, *inside)) if inside else verdict


async def _first_ignored(case: ApprovalCase, folder: str) -> str:
    """A file below a folder that is kept from agents; the folder itself if it holds too much to be sure."""
    scope = case.scope
    under = scope.workspace if is_within(scope.workspace, folder) else folder
    if not is_within(under, scope.workspace):
        return ""
    search = FileSearch(pattern="*", under=under, session=case.session, names=True, limit=_MOST_LOOKED_AT)
    try:
        found = await case.services.get(Backend).files.search(
            replace(search, closed=scope.homes.closed, unhidden=True)
        )
    except UserError:
        return ""  # there is no such folder
    paths = (match.path for match in found.matches)
    first = await asyncio.to_thread(next, filter(partial(_is_kept, scope), paths), "")
    return first or (folder if found.more else "")


def _is_kept(scope: CommandScope, path: str) -> bool:
    from hermes.agent.danger.ignored import is_ignored

    return is_ignored(path, scope.workspace, scope.ignored)


async def _judge(
    services: ToolServices, session: str, command: str, scope: CommandScope
) -> tuple[DangerVerdict, CommandScope]:
    """What is thought of a command, with the scripts in view that it runs and the agent wrote."""
    from hermes.agent.danger import scripts
    from hermes.agent.danger.judge import judge_command

    backend, trail = services.get(Backend), services.get(CommandRules).trail
    for _ in range(scripts.ROUNDS):
        verdict = judge_command(command, scope)
        known = dict(scope.scripts)
        unknown = [path for path in verdict.scripts if path not in known]
        wanted = [path for path in unknown if await trail.wrote(session, path)]
        if not wanted:
            return verdict, scope
        for path in wanted:
            try:
                data = await backend.files.read(session, path, limit=scripts.LONGEST + 1)
                known[path] = scripts.text_of(data)
            except UserError:
                known[path] = None
        scope = replace(scope, scripts=tuple(known.items()))
    return judge_command(command, scope), scope


async def ask_after_outside(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    """A command that names a host or writes orders for later, or a line for a process that does: somebody
    else may have put it there."""
    from hermes.agent.danger.destinations import UNTOLD, destinations, own_services
    from hermes.agent.danger.rules import RULES

    command = str(arguments.get("command") or arguments.get("text") or "")
    if not command:
        return None
    place = replace(case.scope, cwd=resolve_path(case.scope, arguments.get("workdir", "")))
    verdict, place = await _judge(case.services, case.session, command, place)
    orders = [path for path in verdict.written if place.prompt_fault(path)]
    hosts: tuple[str, ...] = ()
    if place.network_open:
        hosts = destinations(command, place.cwd, place.scripts)
        services = own_services(command, place.cwd, place.scripts)
        if services and not await _serves_itself(case, command):
            hosts += services
    if not hosts and not orders:
        return None
    told = [f"It {RULES['write.prompt'].reason}: {', '.join(map(visible_line, orders))}."] if orders else []
    if hosts:
        named = ("a host that cannot be told" if host == UNTOLD else host for host in hosts)
        told.append(f"It reaches {', '.join(named)}.")
    process, folder = str(arguments.get("id", "")), resolve_path(case.scope, arguments.get("workdir", ""))
    return ApprovalPrompt(
        text=f"{f'Send to {visible_line(process)}' if process else 'Run'}: {visible(command)}\n"
        + "\n".join(told),
        digest=action_digest("reach", command, folder, process),
        hosts=() if orders else hosts,
    )


async def _serves_itself(case: ApprovalCase, command: str) -> bool:
    """Whether what listens on this machine may be the session's own: something that it left running."""
    if _LEFT_RUNNING.search(command):
        return True
    views = await case.services.get(Backend).processes.list(case.session)
    return any(view.running for view in views)


_LEFT_RUNNING = late_pattern(r"(?<![&>])&(?![&>])")


@tool(
    "terminal",
    Effect.ONCE,
    needs=(Backend, ProcessNews),
    approval_check=ask_for_command,
    after_outside=ask_after_outside,
)
async def terminal(
    invocation: ToolInvocation,
    command: str,
    workdir: str = "",
    timeout: int = 0,
    background: bool = False,
    pty: bool = False,
    notify: bool = False,
    watch_patterns: list[str] | None = None,
) -> ToolResult:
    """Run a bash command. cd and export last for the session; stdin is closed. Dangerous ones are asked for.
    Long-lived ones: background=true, then process.

    workdir: for this command only
    timeout: seconds, at most 600
    pty: run it on a terminal
    notify: be told when it ends
    watch_patterns: be told lines with these
    """
    verdict = await judge_now(invocation, command, workdir)
    from hermes.agent.danger.destinations import reaches_out

    wanted = timeout if timeout > 0 else invocation.services.get(CommandRules).seconds()
    seconds = 0.0 if background else float(min(wanted, _LONGEST_WAIT))
    order = Command(text=command, session=invocation.session, cwd=workdir or None, timeout=seconds, pty=pty)
    sudo = await _sudo(invocation, verdict)
    if sudo is not None:
        order = replace(order, password=sudo.ask)
    if background:
        return await _start(invocation, order, notify, watch_patterns or [])
    if watch_patterns:
        raise UserError("watch_patterns are for what runs in the background.", hint="Set background=true.")
    result = await invocation.backend.run(order, invocation.context.output)
    outside = bool(clean(result.output).strip()) and reaches_out(command)
    text = _report(result, seconds) + ("" if sudo is None else sudo.note(result))
    data = {"output": clean(result.output), "exit_code": result.code}
    ended_badly = bool(result.code) and not result.timed_out
    return ToolResult(text=text, data=data, failed=result.timed_out, outside=outside, ended_badly=ended_badly)


async def _start(
    invocation: ToolInvocation, order: Command, notify: bool, patterns: Sequence[str]
) -> ToolResult:
    """In the background; who wants to hear of it is told, with `notify` of its end alone."""
    from hermes.agent.danger.destinations import reaches_out

    news, context = invocation.services.get(ProcessNews), invocation.context
    if not notify and not patterns:
        view = await invocation.backend.start(order, lambda view: None)
        return ToolResult(text=f"Started {view.id} in {view.cwd}. Use process to look at it.")
    news.check(context)
    _check_patterns(patterns)
    outside = reaches_out(order.text)
    told = " You will be told when it ends."
    if notify:
        told += " watch_patterns count only without notify." if patterns else ""
    else:
        told = " You will be told of lines with what you watch for."

        def wrote(view: ProcessView, lines: tuple[str, ...]) -> None:
            news.wrote(context, view, tuple(clean(line)[:_LONGEST_LINE] for line in lines), outside)

        order = replace(order, watch=tuple(patterns), wrote=wrote)
    view = await invocation.backend.start(order, lambda view: news.ended(context, view, notify))
    await news.expect(context, view, notify)
    return ToolResult(text=f"Started {view.id} in {view.cwd}. Use process to look at it.{told}")


def _check_patterns(patterns: Sequence[str]) -> None:
    """They are plain texts, so nothing takes long to look for."""
    if len(patterns) > _MOST_PATTERNS:
        raise UserError(f"{len(patterns)} watch_patterns are too many: give at most {_MOST_PATTERNS}.")
    for text in patterns:
        if not text or not text.isprintable() or len(text) > _LONGEST_PATTERN:
            raise UserError(
                f"“{visible_line(text)[:60]}” cannot be watched for.",
                hint=f"Give plain texts of one line, of 1 to {_LONGEST_PATTERN} characters.",
            )


async def judge_now(invocation: ToolInvocation, command: str, workdir: str = "") -> DangerVerdict:
    """Refuse what is never run, and note what it writes."""
    scope = await invocation.scope()
    scope = replace(scope, cwd=resolve_path(scope, workdir))
    verdict, _ = await _judge(invocation.services, invocation.session, command, scope)
    _refuse_never(verdict)
    await invocation.services.get(CommandRules).trail.note_written(invocation.session, verdict.written)
    return verdict


async def _sudo(invocation: ToolInvocation, verdict: DangerVerdict) -> _SudoCall | None:
    """Only for a command that really runs sudo, and never in a sandbox."""
    if not verdict.sudo:
        return None
    world = await invocation.backend.place(invocation.session)
    if world.sandbox or world.boundary is not Boundary.NONE:
        raise UserError("There is no sudo in this sandbox: nothing of the system can be changed from here.")
    if any(_READS_PASSWORD.search(options) for options in verdict.sudo):
        raise UserError(
            "sudo gets its password from the gateway, not from a command, where it would be written down.",
            hint="Leave out -S and -A.",
        )
    return _SudoCall(invocation) if invocation.services.has((SudoPassword,)) else None


class _SudoCall:
    """What one command asks for, and why it did not get it."""

    def __init__(self, invocation: ToolInvocation) -> None:
        self._invocation = invocation
        self._why = ""

    async def ask(self, wrong: int) -> str:
        try:
            return await self._invocation.services.get(SudoPassword)(self._invocation.context, wrong)
        except UserError as error:
            self._why = str(error)
            return ""

    def note(self, result: CommandResult) -> str:
        why = self._why
        if not why and result.code and _UNASKED.search(result.output):
            why = _CANNOT_ASK
        return f"\n[sudo: {why}]" if why else ""


def _refuse_never(verdict: DangerVerdict) -> None:
    """Some things are not run, whoever allowed them."""
    if verdict.never:
        raise UserError(f"Refused, whoever asks: it {verdict.reasons}.", hint="Find another way.")


def _report(result: CommandResult, seconds: float) -> str:
    notes = []
    if result.timed_out:
        notes.append(f"stopped after {seconds:g} s with everything it had started")
    elif result.code:
        notes.append(f"exit code {result.code}")
    if result.saved:
        notes.append(f"the output is saved in {result.saved}")
    if result.left:
        notes.append(f"it left processes running as {result.left}")
    text = clean(result.output).rstrip("\n")
    return "\n".join([*([text] if text else []), *(f"[{note}]" for note in notes)]) or "[no output]"


async def _judge_line(
    services: ToolServices, session: str, process: str, text: str
) -> tuple[str, DangerVerdict]:
    """The command that a process was started with, and what is thought of a line for it."""
    from hermes.agent.danger.judge import judge_input

    scope = await scope_of(services, session)
    views = {view.id: view for view in await services.get(Backend).processes.list(session)}
    view = views.get(process)
    command, cwd = (view.command, view.cwd) if view else ("", scope.workspace)
    return command, judge_input(text, command, replace(scope, cwd=cwd))


async def _approval_to_send(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    """Bound to the exact line and the process: another one of the same command is asked for anew."""
    if arguments["action"] != "write":
        return None
    process, text = str(arguments.get("id", "")), str(arguments.get("text", ""))
    command, verdict = await _judge_line(case.services, case.session, process, text)
    if verdict.never or not (verdict.needs_approval or case.scope.ask_all):
        return None
    why = f"It {verdict.reasons}." if verdict.needs_approval else _NOTHING_HOLDS
    to = f"{visible_line(process)} ({visible_line(command)[:200]})"
    return ApprovalPrompt(
        text=f"Send to {to}: {visible(text)}\n{why}",
        digest=action_digest("input", process, command, text),
        locked=verdict.locked,
        to_model=not case.scope.ask_all,
    )


@tool(
    "terminal",
    Effect.ONCE,
    needs=Backend,
    approval_check=_approval_to_send,
    after_outside=ask_after_outside,
)
async def process(
    invocation: ToolInvocation,
    action: Literal["list", "poll", "log", "wait", "kill", "write", "close"],
    id: str = "",
    text: str = "",
    seconds: int = 30,
    offset: int = 0,
    limit: int = 200,
) -> str | ToolResult:
    """Background processes: poll gives new output, log the last lines or those from offset, write sends
    a line, close ends the input.
    """
    from hermes.agent.danger.destinations import reaches_out

    processes = invocation.backend.processes
    if action == "list":
        return "\n".join(_line(view) for view in await processes.list(invocation.session)) or "No processes."
    if not id:
        raise UserError(f"{action} needs the id of a process.")
    if action == "write":
        _, verdict = await _judge_line(invocation.services, invocation.session, id, text)
        _refuse_never(verdict)
        trail = invocation.services.get(CommandRules).trail
        await trail.note_written(invocation.session, verdict.written)
        await processes.write(invocation.session, id, (text + "\n").encode())
        return f"Sent to {id}."
    if action == "close":
        await processes.write(invocation.session, id, b"", close=True)
        return f"The input of {id} has ended."
    if action == "log":
        view = await processes.poll(invocation.session, id, whole=True)
        return ToolResult(text=_log(view, offset, limit), outside=reaches_out(view.command))
    if action == "kill":
        view = await processes.kill(invocation.session, id)
    elif action == "wait":
        view = await processes.wait(invocation.session, id, float(min(max(seconds, 0), _LONGEST_WAIT)))
    else:
        view = await processes.poll(invocation.session, id)
    return ToolResult(text=_described(view), outside=reaches_out(view.command))


def _line(view: ProcessView) -> str:
    state = "running" if view.running else f"ended with {view.code}"
    return f"{view.id} {state} after {view.seconds:.0f} s: {view.command[:200]}"


def _described(view: ProcessView) -> str:
    text = clean(view.output)
    if len(text) > _PREVIEW:
        text = f"[… {len(text) - _PREVIEW} characters left out …]\n{text[-_PREVIEW:]}"
    dropped = f"[… {view.dropped} earlier bytes were not kept …]\n" if view.dropped else ""
    saved = f"\n[the output is saved in {view.saved}]" if view.saved else ""
    return f"{_line(view)}\n{dropped}{text or '[no new output]'}{saved}"


def _log(view: ProcessView, offset: int, limit: int) -> str:
    """Some of the lines that are kept: the last ones, or those from one on."""
    lines, limit = clean(view.output).splitlines(), min(max(limit, 1), _MOST_LINES)
    first = max(offset, 1) if offset else max(len(lines) - limit + 1, 1)
    shown = lines[first - 1 : first - 1 + limit]
    dropped = f" after {view.dropped} bytes that were not kept" if view.dropped else ""
    of = f"of {len(lines)} lines{dropped}"
    told = f"[{first} to {first + len(shown) - 1} {of}]" if shown else f"[nothing from {first} on, {of}]"
    saved = f"\n[the output is saved in {view.saved}]" if view.saved else ""
    return "\n".join([_line(view), *shown, told]) + saved


def clean(text: str) -> str:
    """Output as a reader sees it in the end: without colours, and only the last state of each line."""
    plain = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" in plain:
        plain = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))
    return _UNSEEN.sub("", plain)
