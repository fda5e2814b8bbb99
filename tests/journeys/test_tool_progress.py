"""What a chat shows of tools at work, as `display.tool_progress` says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.tool import ToolCall
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
