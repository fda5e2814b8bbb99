"""What a chat shows of tools at work, as `display.tool_progress` says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hermes.domain.ids import CallId
from hermes.domain.settings.manner import PlatformDisplay
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.tools.tool import ToolCall
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say


@pytest.mark.parametrize(
    ("progress", "lines"),
    [("off", 0), ("new", 1), ("all", 2), ("verbose", 2)],
)
async def test_drafts_show_as_much_of_tools_as_is_wanted(tmp_path: Path, progress: str, lines: int) -> None:
    go = asyncio.Event()
    calls = tuple(
        ToolCall(id=f"c{number}", name="read", arguments=f'{{"token": "t{number}"}}')  # type: ignore[arg-type]
        for number in range(2)
    )
    script = [Say(text="Let me look.", calls=calls), Say(text="It is", hold=go)]
    settings = open_settings(display=DisplaySettings(tool_progress=progress))
    async with Journey(folder=tmp_path, script=script, settings=settings) as chat:
        chat.world.write("look")
        await chat.until_seen("It is")
        (shown,) = chat.world.seen()
        assert shown.count("read") == lines, shown
        assert ('"token"' in shown) == (progress == "verbose")
        go.set()
        await chat.until_idle()


@pytest.mark.parametrize(
    ("display", "there", "gone"),
    [
        (DisplaySettings(), ["Let me look.", "tttttttttttttttttttt"], "t" * 60),
        (DisplaySettings(interim_assistant_messages=False), ["tttttttttttttttttttt"], "Let me look."),
        (DisplaySettings(tool_preview_length=12), ["Let me look.", "tttttttt"], "t" * 20),
        (DisplaySettings(platforms={"fake": PlatformDisplay(tool_preview_length=80)}), ["t" * 60], "t" * 90),
    ],
)
async def test_what_is_said_between_calls_and_how_much_of_them_is_shown(
    tmp_path: Path, display: DisplaySettings, there: list[str], gone: str
) -> None:
    go = asyncio.Event()
    call = ToolCall(id=CallId("c1"), name="read", arguments=json.dumps({"token": "t" * 200}))
    script = [Say(text="Let me look.", calls=(call,)), Say(text="It is", hold=go)]
    async with Journey(folder=tmp_path, script=script, settings=open_settings(display=display)) as chat:
        chat.world.write("look")
        await chat.until_seen("It is")
        (shown,) = chat.world.seen()
        assert all(words in shown for words in there) and gone not in shown, shown
        go.set()
        await chat.until_idle()
