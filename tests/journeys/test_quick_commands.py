"""Slash commands that the settings add: other names for commands, and shell commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hermes.domain.ids import SessionId
from hermes.domain.settings.settings import QuickCommand
from hermes.domain.tools.tool import ApprovalPrompt, Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import Deed, World

SETTINGS = open_settings(
    quick_commands={
        "disk": QuickCommand(type="exec", command="df"),
        "wipe": QuickCommand(type="exec", command="rm -r build"),
        "name": QuickCommand(type="alias", target="/title My"),
        "circle": QuickCommand(type="alias", target="/circle"),
        "lost": QuickCommand(type="alias", target="/nowhere"),
        "again": QuickCommand(type="alias", target="retry"),
        "status": QuickCommand(type="alias", target="/stop"),
    }
)


def terminal(world: World) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        await world.effect("terminal", context.key, str(arguments["command"]))
        return ToolResult(text=f"output of {arguments['command']}")

    async def ask(session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
        command = str(arguments["command"])
        return ApprovalPrompt(text=f"Run: {command}", digest=command) if command.startswith("rm") else None

    return Tool(
        name="terminal", description="A shell.", parameters={}, run=run, effect=Effect.ONCE, approval=ask
    )


def journey(folder: Path, world: World) -> Journey:
    return Journey(folder=folder, world=world, settings=SETTINGS, tools=[terminal(world)], kind="plain")


async def test_an_alias_is_the_command_it_stands_for(tmp_path: Path) -> None:
    async with journey(tmp_path, World()) as chat:
        chat.world.write("/name plan")
        await chat.until_seen("This session is now called “My plan”.")
        chat.world.write("/help name")
        await chat.until_seen("/name: the same as /title My")
        chat.world.write("/circle")
        await chat.until_seen("/circle leads to “/circle”, which is no command.")
        chat.world.write("/lost")
        await chat.until_seen(
            "/lost leads to “/nowhere”, which is no command. Mend quick_commands.lost.target."
        )


async def test_a_name_of_a_built_in_command_stays_its_own(tmp_path: Path) -> None:
    async with journey(tmp_path, World()) as chat:
        chat.world.write("/status")
        await chat.until_seen("Idle.")


async def test_a_shell_command_runs_without_the_model(tmp_path: Path) -> None:
    async with journey(tmp_path, World()) as chat:
        chat.world.write("/disk")
        await chat.until_seen("output of df")
        await chat.until_idle()
        assert chat.model.requests == []
        chat.world.write("/disk now")
        await chat.until_seen("/disk takes no arguments.")
        chat.world.write("what did you see?")
        await chat.until_seen("You said: what did you see?")
        told = [entry.record for entry in chat.model.requests[-1].entries]
        assert any(isinstance(record, ToolFinished) and "output of df" in record.text for record in told)


async def test_a_dangerous_one_is_asked_first_and_survives_a_crash(tmp_path: Path) -> None:
    chat = journey(tmp_path, World())
    async with chat:
        chat.world.write("/wipe")
        await chat.until_seen("Run: rm -r build")
        chat.world.write("/again")
        await chat.until_seen("/retry does not work while a turn runs.")
        await chat.abandon()
    async with journey(tmp_path, chat.world) as again:
        assert not again.world.did(Deed.EFFECT)
        again.world.write("/approve", user="eve")
        await again.until_seen("Only the person who was asked")
        again.world.write("yes")
        await again.until_seen("output of rm -r build")
        assert len(again.world.did(Deed.EFFECT)) == 1
