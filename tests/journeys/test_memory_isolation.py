"""Notes of many people, in shared chats, with several agents: none reaches a prompt of somebody else, and
what is forgotten is nowhere. What is noted may be cut off anywhere, also while somebody edits the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.app.agents.memory import AgentMemory
from hermes.domain.clock import SystemClock
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.knowledge.memory import MemoryEntry
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Store
from hermes.domain.settings.memory import MemorySettings
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Profile
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from tests.cli.command import hermes
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_memory import Chats

CONFIG = """
platforms: {fake: {allow_all_users: true}}
agents: {other: {}}
routes: [{match: {chat_id: away0}, agent: other}, {match: {chat_id: away1}, agent: other},
  {match: {chat_id: away2}, agent: other}]
memory: {flush_min_turns: 1}
"""
PEOPLE = ("Ann", "Bob", "Cid", "Dan", "Eve")
ROOMS = {"main": ("room0", "room1", "room2"), "other": ("away0", "away1", "away2")}
_MARKER = re.compile(r"MARK-(\w+)-(\w+)-(\w+)")


def _planted(text: str) -> set[tuple[str, ...]]:
    return set(_MARKER.findall(text))


async def test_no_marker_crosses_and_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.app.agents.prompt._GOOD_FOR", 0.0)
    home = tmp_path / "home"
    places = [(agent, room, who) for agent, rooms in ROOMS.items() for room in rooms for who in PEOPLE]
    async with Chats(home, CONFIG) as chats:
        for agent, room, who in places:
            for target in ("user", "memory"):
                words = f"add {target} {target} MARK-{who}-{room}-{agent}"
                assert "Noted" in await chats.say(words, user=who, chat=room, group=True)
        for agent, room, who in places:
            await chats.say("/new", user=who, chat=room, group=True)
            await chats.say("hello", user=who, chat=room, group=True)
            own = {(who, other, agent) for other in ROOMS[agent]}
            assert _planted(chats.seen_by_model()) == own, (agent, room, who)
            found = await chats.say("search MARK", user=who, chat=room, group=True)
            assert _planted(found) == own
        for agent, rooms in ROOMS.items():
            assert "Forgotten: 6" in await chats.say("/memory forget", user="Ann", chat=rooms[0], group=True)
            await chats.say("hello", user="Ann", chat=rooms[1], group=True)
            assert not _planted(_notes_told(chats)), "also in sessions that were there before"
            await chats.say("/new", user="Ann", chat=rooms[1], group=True)
            await chats.say("hello", user="Ann", chat=rooms[1], group=True)
            assert not _planted(chats.seen_by_model())
            assert "Nothing is noted" in await chats.say("search MARK", user="Ann", chat=rooms[1], group=True)
            left = await chats.entries(AgentId(agent))
            assert len(left) == 24 and not any("MARK-Ann" in entry.text for entry in left)
    for agent in ROOMS:
        exported = hermes(home, "memory", "export", "--agent", agent)
        assert exported.code == 0 and "MARK-Bob" in exported.out and "MARK-Ann" not in exported.out
        assert len(json.loads(exported.out)) == 24


def _notes_told(chats: Chats) -> str:
    request = chats.model.requests[-1]
    return "\n".join([request.system, *request.notes.values()])


# --- cut off ---------------------------------------------------------------------------------------


def noting(request: ModelRequest) -> Say:
    if isinstance(request.entries[-1].record, ToolFinished):
        return say(f"done {last_words(request)}")
    return call("memory", json.dumps({"content": last_words(request)}), id=f"m_{last_words(request)}")


class MemoryJourney(Journey):
    """A gateway whose agent has the real memory, with its files."""

    __slots__ = ("book",)
    book: AgentMemory

    async def _runtime(self, agent: AgentId) -> Any:
        profile = Profile(agent=agent, home=self.folder, settings=self.settings)
        self.book = make_book(profile, self.store.scoped(agent))
        self.tools = [_memory_tool(self.book, self.folder / "memories" / "USER.md")]
        return await super()._runtime(agent)


def make_book(profile: Profile, store: Store) -> AgentMemory:
    return AgentMemory(profile, store, SystemClock(), lambda: profile.settings)


def _edit_by_hand(path: Path) -> None:
    """In the middle of a turn somebody saves the file."""
    if path.exists():
        path.write_text(path.read_text().replace("old", "by hand"))


def _memory_tool(book: AgentMemory, path: Path) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        if arguments["content"] == "two":
            _edit_by_hand(path)
        return await book.edit(context, "add", "user", str(arguments["content"]), "")

    return Tool(name="memory", description="Note.", parameters={}, run=run, effect=Effect.KEYED)


@pytest.mark.parametrize("by_hand", [False, True], ids=["tool", "with an edit by hand"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_notes_may_be_cut_off_anywhere(tmp_path: Path, full: bool, after: bool, by_hand: bool) -> None:
    alone = PlatformSettings(allow_all_users=True, allow_admin_from=("u1",))
    kept = open_settings(memory=MemorySettings(flush_min_turns=0), platforms={"fake": alone})

    def make(place: Path) -> Journey:
        chat = MemoryJourney(folder=place, script=noting, settings=kept)
        (place / "memories").mkdir()
        if by_hand:
            (place / "memories" / "USER.md").write_text("old\n")
        return chat

    async def live(chat: Journey) -> None:
        path = chat.folder / "memories" / "USER.md"
        if not chat.world.updates:
            chat.world.write("one")
            chat.world.write("/queue two")
        await chat.until_seen("done two")
        await chat.until_idle()
        assert isinstance(chat, MemoryJourney)
        await chat.gateway._parts.agents.get(MAIN_AGENT)
        await chat.book.read_back()

        def texts(entries: list[MemoryEntry]) -> list[str]:
            return sorted(entry.text for entry in entries)

        printed = path.read_text().split()
        noted = texts(await chat.database.read(lambda tx: tx.memory.list()))
        assert noted == (["by hand", "one", "two"] if by_hand else ["one", "two"])
        assert {"one", "two"} <= set(printed) and "old" not in printed, "the file shows it"

    await cut_everywhere(tmp_path, make, live, after=after, full=full)
