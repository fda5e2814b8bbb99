"""Plain conversations: a message in, an answer out, drafts, tools, several chats."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing.harness import Journey
from hermes.testing.model import call, say


@pytest.mark.parametrize("kind", ["edits", "plain", "keyed"])
async def test_a_message_is_answered(tmp_path: Path, kind: str) -> None:
    async with Journey(folder=tmp_path, kind=kind) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        assert chat.world.seen() == ["You said: hello"]


async def test_tools_run_and_their_results_reach_the_model(tmp_path: Path) -> None:
    script = [call("read", '{"token": "a"}'), call("once", '{"token": "b"}'), say("done with both")]
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("do it")
        await chat.until_seen("done with both")
        await chat.until_idle()
        assert chat.world.seen() == ["done with both"]
