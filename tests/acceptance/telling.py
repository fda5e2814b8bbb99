"""What the scenarios share: people who say a thing once however often the gateway dies, and what they see."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.word import replace
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.world import Deed, Update, World

KINDS = ("edits", "plain", "keyed")


def write(world: World, text: str, **who: str) -> None:
    """Somebody writes it, unless they did so in an earlier life of the gateway."""
    if not any(_is(update, text, who) for update in world.updates):
        world.write(text, **who)  # type: ignore[arg-type]


def _is(update: Update, text: str, who: dict[str, str]) -> bool:
    return update.text == text and all(getattr(update, name) == value for name, value in who.items())


def counted(world: World, text: str, chat: str | None = None) -> int:
    """How often it stands there without being marked as a possible repeat."""
    return sum(text in seen and REPEAT_MARK not in seen for seen in world.seen(chat))


def seen_once(world: World, *texts: str, chat: str | None = None) -> None:
    """Each is there, and at most one of them unmarked; no draft was left as it was."""
    for text in texts:
        assert any(text in seen for seen in world.seen(chat)), f"“{text}” is missing in {world.seen(chat)}"
        assert counted(world, text, chat) <= 1, f"“{text}” came twice: {world.seen(chat)}"
    assert not any("▉" in seen for seen in world.seen()), f"a draft was left in {world.seen()}"


def deeds(world: World) -> list[str]:
    """What tools did to the world, by their tokens."""
    return sorted(entry.text for entry in world.did(Deed.EFFECT))


def button(world: World, prompt: str, option: str) -> str:
    """The button under a prompt."""
    asked = next(one for one in world.messages.values() if prompt in one.text and one.buttons)
    return next(value for value in asked.buttons if value.endswith(f":{option}"))


def obeys(request: ModelRequest) -> Say:
    """Does what it is told to with `do <token>`, which needs an approval, and answers."""
    words = last_words(request)
    place = max(n for n, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    done = [entry.record for entry in request.entries[place:] if isinstance(entry.record, ToolFinished)]
    if words.startswith("do ") and not done:
        asking = call("danger", f'{{"token": "{words[3:]}"}}', id=f"c{len(request.entries)}")
        return replace(asking, text=f"For that I would do {words[3:]}.", pieces=3)
    return say(f"answer to {words}", pieces=3)


async def comes(what: Callable[[], Awaitable[bool]], patience: float = 40.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + patience
    while not await what():
        assert time.monotonic() < end, "it did not come to it"
        await asyncio.sleep(0.01)


def find_test(path: str) -> None:
    """That a test which is named as a proof is still there, and run."""
    module, _, name = path.rpartition(".")
    test = getattr(importlib.import_module(module), name, None)
    assert name.startswith("test_") and callable(test), f"there is no {path}"
    marks = {mark.name for mark in getattr(test, "pytestmark", ())}
    assert not marks & {"skip", "xfail"}, f"{path} is not run"
