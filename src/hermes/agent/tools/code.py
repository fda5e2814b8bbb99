"""`execute_code`: a Python script where commands run, whose tool calls come back to the gateway over the
command's own stream. Each passes the dispatcher as a call of the model does; the script itself is judged as
the same code in a command would be."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from hermes.agent.tools.approval_text import visible
from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, tool
from hermes.agent.tools.script_module import first_line, start_command
from hermes.agent.tools.terminal import ask_after_outside, ask_for_command, clean, judge_now
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ports.world import Backend, Command, CommandResult
from hermes.domain.settings.tool_limits import CodeExecution
from hermes.domain.tools.deferral import BRIDGE
from hermes.domain.tools.tool import ApprovalPrompt, Effect, ToolContext, ToolResult
from hermes.domain.word import replace

NAME = "execute_code"
NO_PYTHON = "There is no Python 3 in the place of the commands, so no script can run. Use the other tools."
ENDED = "The script was ended: it called tools too often, or in no way that could be read."
TOO_MANY = (
    "{name} was not called: a script makes at most {most} calls. Print what there is, and go on from it."
)
TOO_LONG = "The result of {name} is too long for a script ({size} bytes). Ask for less."
ITSELF = f"{NAME} is not called inside itself."
NOTIFY = "notify"
BY_THE_MODEL = f"{NOTIFY} is not called inside {NAME}: nothing would be delivered. Call it yourself."
"""What a job tells people is read from the calls that the model makes."""
_REFUSALS = 100
_LONGEST_ANSWER = 4 << 20
_NOT_FOUND = 127


class CodeRules(Struct, frozen=True, kw_only=True):
    """How scripts run, by the settings of now."""

    now: Callable[[], CodeExecution]


def _as_command(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {"command": f"python3 -c {shlex.quote(arguments['code'])}"}


def _told(prompt: ApprovalPrompt | None, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    """The prompt about the command, with the code as the model wrote it."""
    if prompt is None:
        return None
    shown = visible(_as_command(arguments)["command"])
    return replace(prompt, text=prompt.text.replace(shown, f"Python\n{visible(arguments['code'])}", 1))


async def _approval_check(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _told(await ask_for_command(case, _as_command(arguments)), arguments)


async def _after_outside(case: ApprovalCase, arguments: Mapping[str, Any]) -> ApprovalPrompt | None:
    return _told(await ask_after_outside(case, _as_command(arguments)), arguments)


@tool(
    "code_execution",
    Effect.ONCE,
    needs=(Backend, CodeRules),
    approval_check=_approval_check,
    after_outside=_after_outside,
)
async def execute_code(invocation: ToolInvocation, code: str) -> ToolResult:
    """Run a Python script where commands run. Only what it prints comes back. `import hermes_tools`: every
    tool is a function there, with its own arguments; it gives JSON data or text, or raises ToolError.
    help(hermes_tools) lists them. For many calls in a row, and for results too long to read."""
    from hermes.agent.danger.destinations import reaches_out

    rules, command = invocation.services.get(CodeRules).now(), _as_command({"code": code})["command"]
    await judge_now(invocation, command)
    tools = [each for name, each in invocation.context.tools().items() if name not in (*BRIDGE, NAME, NOTIFY)]
    calls, began = _ScriptCalls(invocation.context, rules.max_tool_calls), time.monotonic()
    order = Command(
        text=start_command(rules.mode),
        session=invocation.session,
        timeout=rules.timeout,
        hear=calls.hear,
        given=first_line(code, rules.mode, tools),
    )
    try:
        result = await invocation.backend.run(order, invocation.context.output)
    finally:
        calls.over = True
    if result.left:
        await invocation.backend.processes.kill(invocation.session, result.left)
    if result.code == _NOT_FOUND and not calls.heard:
        raise UserError(NO_PYTHON)
    outside = bool(result.output.strip()) and reaches_out(command)
    return replace(_report(result, calls, rules, time.monotonic() - began), outside=outside)


class _ScriptCalls:
    """The calls of one script: how many were made, and what it complained of."""

    def __init__(self, context: ToolContext, most: int) -> None:
        self._context = context
        self._most = most
        self._left = most + _REFUSALS
        self.made = 0
        self.errors = ""
        self.heard = self.over = self.broken = False

    def hear(self, line: bytes) -> Callable[[], Awaitable[bytes]] | None:
        self.heard = True
        try:
            message = json.loads(line)
            if "stderr" in message:
                self.errors = str(message["stderr"])[-10_000:]
                return None
            number, name, given = int(message["id"]), str(message["name"]), dict(message["arguments"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._give_up() from None
        self._left -= 1
        if self._left < 0 or self.over:
            raise self._give_up()
        return partial(self._answer, number, name, given)

    def _give_up(self) -> ValueError:
        self.broken = not self.over
        return ValueError("the script is not listened to any more")

    async def _answer(self, number: int, name: str, given: Mapping[str, object]) -> bytes:
        try:
            answer = json.dumps({"id": number, "result": await self._call(name, given)})
            if len(answer) > _LONGEST_ANSWER:
                raise UserError(TOO_LONG.format(name=name, size=len(answer)))
        except HermesError as error:
            answer = json.dumps({"id": number, "error": str(error)})
        return answer.encode()

    async def _call(self, name: str, given: Mapping[str, object]) -> object:
        if name == NAME:
            raise UserError(ITSELF)
        if name == NOTIFY:
            raise UserError(BY_THE_MODEL)
        if self.made >= self._most:
            raise UserError(TOO_MANY.format(name=name, most=self._most))
        self.made += 1
        result = await self._context.call(name, given)
        if result.failed:
            raise UserError(result.text)
        return result.text if result.data is None else _plain(result.data, result.text)


def _plain(data: object, text: str) -> object:
    """The data, if JSON can tell it; else the text."""
    try:
        json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        return text
    return data


def _report(result: CommandResult, calls: _ScriptCalls, rules: CodeExecution, seconds: float) -> ToolResult:
    status = "timeout" if result.timed_out else "error" if result.code or calls.broken else "success"
    output, error = clean(result.output).rstrip("\n"), ""
    if status != "success":
        error = clean(calls.errors).strip() or (ENDED if calls.broken else f"exit code {result.code}")
    data: dict[str, object] = {"status": status, "output": output, "error": error}
    data |= {"tool_calls_made": calls.made, "duration_seconds": round(seconds, 2)}
    after = f" after {rules.timeout:g} s, with everything it had started" if result.timed_out else ""
    notes = [f"[{status}{after}; {calls.made} tool calls; {seconds:.2f} s]"]
    if result.saved:
        notes.append(f"[the output is saved in {result.saved}]")
    text = "\n".join([*filter(None, (output, error)), *notes])
    return ToolResult(text=text, data=data, failed=status != "success")
