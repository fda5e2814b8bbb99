"""Crash journeys: each conversation is stopped before and after each of its writes, and then goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.world import Deed, World
from tests.journeys.cut import one_life, stops

MOST_WRITES = 60


def by_words(request: ModelRequest) -> Say:
    """A model that answers by what was said last and what was done since, so that any life says the same."""
    words = last_words(request)
    place = max(n for n, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    results = [entry.record for entry in request.entries[place:] if isinstance(entry.record, ToolFinished)]
    if words.startswith("use ") and len(results) < len(words.split()) - 1:
        tool = words.split()[1:][len(results)]
        return call(tool, '{"token": "t"}', id=f"{tool}{len(results)}")
    if words.startswith("ask") and not results:
        return call("clarify", '{"question": "Which one?"}')
    heard = f" and heard {results[-1].text!r}" if results else ""
    return say(f"answer to {words!r}{heard}", pieces=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What people write, what they do when they see something, and what they must see in the end."""

    writes: tuple[str, ...]
    reactions: tuple[tuple[str, str], ...] = ()
    sees: tuple[str, ...]
    once_effects: int = 0
    busy: BusyMode = BusyMode.QUEUE


STORIES = {
    "plain": Story(writes=("hello",), sees=("answer to 'hello'",)),
    "two messages": Story(writes=("one", "two"), sees=("answer to 'one'", "answer to 'two'")),
    "tools": Story(writes=("use read keyed",), sees=("answer to 'use read keyed'",)),
    "once": Story(writes=("use once",), sees=("answer to 'use once'",), once_effects=1),
    "approval": Story(
        writes=("use danger",),
        reactions=(("May I do t?", "yes"),),
        sees=("answer to 'use danger'",),
        once_effects=1,
    ),
    "clarify": Story(
        writes=("ask me",), reactions=(("Which one?", "the blue one"),), sees=("heard 'the blue one'",)
    ),
    "undo": Story(
        writes=("one",), reactions=(("answer to 'one'", "/undo"),), sees=("Undone: the last turn.",)
    ),
    "title": Story(writes=("one", "/title Plan"), sees=("answer to 'one'", "now called “Plan”")),
    "new": Story(writes=("one", "/new Fresh", "two"), sees=("New session “Fresh”", "answer to 'two'")),
    "background": Story(
        writes=("/bg look", "two"), sees=("Working on it as bg_", "answer to 'look'", "answer to 'two'")
    ),
    "resume": Story(
        writes=("/title Plan", "one", "/new"),
        reactions=(("New session", "/resume Plan"), ("Back in", "two")),
        sees=("Back in “Plan”", "answer to 'two'"),
    ),
    "always": Story(
        writes=("use danger danger",),
        reactions=(("May I do t?", "/approve always"),),
        sees=("answer to 'use danger danger'",),
        once_effects=2,
    ),
    "stop": Story(writes=("/stop",), sees=("Nothing is running.",)),
    "interrupt": Story(writes=("one", "two"), sees=("answer to 'two'",), busy=BusyMode.INTERRUPT),
    "steer": Story(writes=("use read", "go on"), sees=("answer to 'go on'",), busy=BusyMode.STEER),
}


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("kind", ["edits", "plain"])
@pytest.mark.parametrize("name", STORIES)
async def test_stopped_at_each_write(tmp_path: Path, full: bool, name: str, kind: str, after: bool) -> None:
    story = STORIES[name]
    for number in stops(full, MOST_WRITES, f"{name} {kind} {after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()
        telling = partial(tell, story=story)
        crashed = await one_life(journey(folder, world, story, kind), telling, stop_at=number, after=after)
        if crashed:
            await one_life(journey(folder, world, story, kind), telling)
        judge(world, story, kind, f"{name}, stopped {'after' if after else 'before'} write {number}")
        if not crashed:
            return
    pytest.fail("the story never came to its end")


def journey(folder: Path, world: World, story: Story, kind: str) -> Journey:
    settings = open_settings(display=DisplaySettings(busy_input_mode=story.busy))
    return Journey(folder=folder, world=world, script=by_words, kind=kind, settings=settings)


async def tell(chat: Journey, story: Story) -> None:
    """Write, react to what is seen, as people do, and wait for the end of the story."""
    said = {update.text for update in chat.world.updates}
    for text in story.writes:
        if text not in said:
            chat.world.write(text)
    for cue, reaction in story.reactions:
        await chat.until_seen(cue)
        if not any(update.text == reaction for update in chat.world.updates):
            chat.world.write(reaction)
    await chat.until_seen(*story.sees)
    await chat.until_idle()


def judge(world: World, story: Story, kind: str, where: str) -> None:
    once = [entry for entry in world.did(Deed.EFFECT) if entry.chat in ("once", "danger")]
    assert len(once) <= story.once_effects, f"{where}: a once effect happened {len(once)} times"
    seen = world.seen()
    for text in story.sees:
        unmarked = [one for one in seen if text in one and REPEAT_MARK not in one]
        assert len(unmarked) <= 1, f"{where}: “{text}” stands {len(unmarked)} times in {seen}"
    assert not any("▉" in text for text in seen), f"{where}: a draft was left in {seen}"
    keep_order(world, where)


def keep_order(world: World, where: str) -> None:
    order: Callable[[str], int] = lambda text: 0 if "'one'" in text else 1  # noqa: E731
    answers = [text for text in world.seen() if text.startswith("answer to 'one'") or "'two'" in text]
    assert answers == sorted(answers, key=order), f"{where}: out of order: {answers}"
