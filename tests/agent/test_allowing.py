"""What a person allowed is what happens: shown before, looked at once more when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from hermes.domain.ids import SessionId
from hermes.domain.tools.tool import ApprovalPrompt, Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import Answered, Asked, ToolFinished, ToolStarted, Verdict
from hermes.testing.model import ScriptedModel, call, say
from tests.agent.driving import Driver, loop_of


@dataclass
class Shell:
    """A tool that is asked for by the folder it stands in, except in `/free`."""

    folder: str = "/work"
    done: list[str] = field(default_factory=list)
    looked: int = 0

    async def run(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        self.done.append(self.folder)
        return ToolResult(text=f"done in {self.folder}")

    async def ask(self, session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
        async def more(session: SessionId) -> str:
            self.looked += 1
            return f"in all its length, for {session}"

        if self.folder == "/free":
            return None
        return ApprovalPrompt(text=f"Do it in {self.folder}", digest=f"do:{self.folder}", more=more)

    @property
    def tool(self) -> Tool:
        return Tool(
            name="do", description="", parameters={}, run=self.run, effect=Effect.READ, approval=self.ask
        )


async def asked(shell: Shell) -> tuple[Driver, Asked]:
    chat = Driver(
        loop_of(ScriptedModel([call("do"), say("so"), call("do", id="again"), say("so")]), shell.tool)
    )
    question = (await chat.say("do it"))[-1]
    assert isinstance(question, Asked)
    return chat, question


def result(chat: Driver) -> ToolFinished:
    return next(record for record in chat.records() if isinstance(record, ToolFinished))


async def test_more_is_looked_up_when_somebody_is_asked() -> None:
    shell = Shell()
    _, question = await asked(shell)
    assert question.text == "Do it in /work\nin all its length, for s"
    assert (question.digest, shell.looked) == ("do:/work", 1)


@pytest.mark.parametrize("verdict", [Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS])
async def test_what_was_allowed_is_done(verdict: Verdict) -> None:
    shell = Shell()
    chat, question = await asked(shell)
    chat.add(Answered(question=question.question, verdict=verdict, by="me"))
    await chat.go()
    assert (shell.done, result(chat).text) == (["/work"], "done in /work")


async def test_what_became_something_else_is_not_done() -> None:
    shell = Shell()
    chat, question = await asked(shell)
    chat.add(Answered(question=question.question, verdict=Verdict.ONCE, by="me"))
    shell.folder = "/precious"
    await chat.go()
    assert shell.done == [] and result(chat).failed and "stands elsewhere" in result(chat).text


async def test_what_became_harmless_is_done() -> None:
    shell = Shell()
    chat, question = await asked(shell)
    chat.add(Answered(question=question.question, verdict=Verdict.ONCE, by="me"))
    shell.folder = "/free"
    await chat.go()
    assert shell.done == ["/free"]


async def test_what_was_free_is_not_done_once_it_would_have_to_be_asked_for() -> None:
    shell = Shell(folder="/free")
    chat = Driver(loop_of(ScriptedModel([call("do"), say("so")]), shell.tool))
    chat.turns += 1
    records = await chat.go(commits=1)
    assert isinstance(records[-1], ToolStarted)
    shell.folder = "/precious"
    await chat.go()
    assert shell.done == []


async def test_a_session_grant_holds_for_its_digest_alone() -> None:
    shell = Shell()
    chat, question = await asked(shell)
    chat.add(Answered(question=question.question, verdict=Verdict.SESSION, by="me"))
    await chat.go()
    chat.granted = frozenset({question.digest})
    await chat.say("again")
    assert shell.done == ["/work", "/work"] and shell.looked == 1
