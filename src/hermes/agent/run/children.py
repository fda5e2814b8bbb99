"""Tasks for children, as a run gives them and hears of them: which tools a child may have, and what comes of
a call once all of its children have ended."""

from __future__ import annotations

from hermes.agent.run.toolbox import TurnTools
from hermes.domain.errors import UserError
from hermes.domain.ports.agent import Run
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ChildTask, Tool
from hermes.domain.tools.toolsets import EXACTLY, check_names, is_chosen
from hermes.domain.turns.event import Answered, Asked, ToolFinished, Verdict
from hermes.domain.turns.transcript import CallState
from hermes.domain.word import replace

NOT_FINISHED = "The task was not finished."
TOO_LATE = "It took longer than delegation.child_timeout_seconds allows and was stopped."
TOO_DEEP = "Not begun: this task is itself a child, and children may not have any here."
_LABEL = 100


def child_of(run: Run, bench: TurnTools, tool: Tool, task: ChildTask) -> ChildTask:
    """The task with the name of each tool that the child may have: never one that the turn itself has not."""
    parent = run.turn.input.guidance.parent
    depth = 1 if parent is None else parent.depth + 1
    if depth > max(task.depth, 1):
        raise UserError(TOO_DEEP, hint="Whoever runs this gateway can raise delegation.max_spawn_depth.")
    usable = {name: one for name, one in bench.now().items() if name not in bench.client}
    check_names(task.toolsets, {*usable, *(one.toolset for one in usable.values())})
    away = set(task.without)
    if not (task.orchestrator and depth < task.depth):
        away.add(tool.name)
    chosen = [
        name
        for name, one in usable.items()
        if name not in away and is_chosen(task.toolsets, name, one.toolset)
    ]
    return replace(task, toolsets=tuple(f"{EXACTLY}{name}" for name in chosen))


def children_result(state: CallState) -> ToolFinished:
    """What the children of a call brought, in the order they were asked for."""
    pairs = [(asked, state.answers[asked.question]) for asked in state.children]
    told = [_told(asked, given) for asked, given in pairs]
    if len(told) > 1:
        places = [
            f"[{n}/{len(told)}] {one_line(asked.text, _LABEL)}" for n, (asked, _) in enumerate(pairs, 1)
        ]
        told = [f"{place}\n{words}" for place, words in zip(places, told, strict=True)]
    return ToolFinished(
        call=state.call.id,
        text="\n\n".join(told),
        failed=all(given.verdict is not Verdict.REPLY for _, given in pairs),
        outside=any(given.outside for _, given in pairs),
    )


def _told(asked: Asked, given: Answered) -> str:
    if given.verdict is Verdict.REPLY:
        return given.text
    late = TOO_LATE if given.verdict is Verdict.EXPIRED else ""
    return " ".join(filter(None, (NOT_FINISHED, late, given.text)))
