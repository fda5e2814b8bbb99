"""The system prompt: what it says, in which order, and how little of it there is."""

from __future__ import annotations

from datetime import date

from hermes.agent.context.project_files import ProjectFile
from hermes.agent.context.prompt import MOST_BLOCK, build_prompt, describe_world
from hermes.agent.tools.registry import TOOLS
from hermes.domain.ports.world import World

DEFAULT_TOOLS = tuple(TOOLS)
TODAY = date(2026, 5, 9)
WORLD = World(
    workspace="/home/somebody/projects/some-project",
    home="/home/somebody",
    system="Linux 6.8.0-100-generic (x86_64)",
    shell="bash",
)


def test_it_leaves_room_for_the_schemas() -> None:
    prompt = build_prompt(
        today=TODAY,
        tools=DEFAULT_TOOLS,
        environment=describe_world(WORLD),
        model="provider/some-model-name",
    )
    assert len(str(prompt).encode()) <= 3_000


def test_what_is_given_is_there_and_what_changes_stands_last() -> None:
    tiers = build_prompt(
        today=TODAY,
        identity="You are Marvin.\n",
        tools=["terminal"],
        environment={"system": "Linux", "shell": ""},
        files=[ProjectFile(name="AGENTS.md", text="Use tabs.")],
        instructions="Call the user Boss.",
        memory={"Memory": "likes blue", "User": " "},
        model="m",
    )
    prompt = str(tiers)
    places = [
        prompt.index(words)
        for words in (
            "You are Marvin.",
            "# How you work",
            "Call the user Boss.",
            "# Where you are\n- system: Linux\n\n",
            "# What AGENTS.md says\nUse tabs.",
            "# Memory\nlikes blue",
            "Today is Saturday, 2026-05-09. You run on the model m.",
        )
    ]
    assert places == sorted(places)
    assert "Hermes" not in prompt and "# User" not in prompt and "todo" not in prompt


def test_without_tools_nothing_is_said_about_them() -> None:
    prompt = str(build_prompt(today=TODAY))
    assert prompt.startswith("You are Hermes") and "tool" not in prompt


def test_a_huge_soul_is_cut() -> None:
    prompt = str(build_prompt(today=TODAY, identity="x" * 10 * MOST_BLOCK))
    assert len(prompt) < MOST_BLOCK + 1_000 and "characters of SOUL.md are left out" in prompt
