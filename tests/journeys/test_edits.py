"""Messages that people edit: the new words count as long as nobody has begun to answer the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.control.hooks.dispatch import Hooks
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import DisplaySettings, GatewaySettings
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_busy import Held
from tests.journeys.test_hooks import home_with, hooks_of, told

QUEUE = open_settings(
    display=DisplaySettings(busy_input_mode=BusyMode.QUEUE), gateway=GatewaySettings(gather_seconds=0.0)
)

EDITED, WITH_ITS_MESSAGE = "edit", "edit: taken with its message"


async def ends(chat: Journey, ref: str) -> list[str | None]:
    """How the rows of a message and its edits ended, in the order they came."""
    rows = await chat.database.read(lambda tx: tx.inbox.find(ref))
    return [row.outcome for row in reversed(rows)]


async def behind_another(chat: Journey, script: Held) -> None:
    chat.world.write("first")
    await chat.until_seen("a long answer to first")
    assert not script.go.is_set()


async def test_a_message_that_waits_gets_its_new_words_and_one_that_is_answered_does_not(
    tmp_path: Path,
) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=QUEUE) as chat:
        await behind_another(chat, script)
        waiting = chat.world.write("tow")
        await chat.until_taken()
        for text in ("twoo", "two"):
            chat.world.write(text, edits=waiting.delivery)
            await chat.until_taken()
        chat.world.write("not first", edits="d1")
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("You said: two")
        chat.world.write("three", edits=waiting.delivery)
        await chat.until_idle()
        assert [text.split()[-1] for text in chat.world.seen()] == ["first", "two"]
        assert await ends(chat, waiting.delivery) == [
            "turn", EDITED, EDITED, "ignored: edit, its turn has begun",
        ]  # fmt: skip
        assert await ends(chat, "d1") == ["turn", "ignored: edit, its turn has begun"]


@pytest.mark.parametrize("also", [(), ("hi there",)])
async def test_an_edit_makes_no_command_of_a_message_that_was_none(
    tmp_path: Path, also: tuple[str, ...]
) -> None:
    """Also if both wait together: what was said is said, as its last words that are no command have it."""
    async with Journey(folder=tmp_path, settings=QUEUE) as chat:
        await chat.disconnect()
        message = chat.world.write("hello there")
        for text in ("/yolo", *also, "/title Mine"):
            chat.world.write(text, edits=message.delivery)
        chat.connect()
        await chat.until_seen(f"You said: {also[0] if also else 'hello there'}")
        await chat.until_idle()
        assert len(chat.world.seen()) == 1
        session = (await chat.database.read(lambda tx: tx.sessions.find("")))[0]
        assert not session.yolo and session.title is None


async def test_a_command_is_taken_as_its_last_edit_has_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=QUEUE) as chat:
        await chat.disconnect()
        message = chat.world.write("/tilte Mine")
        chat.world.write("/title Mine", edits=message.delivery)
        chat.connect()
        await chat.until_seen("now called “Mine”")
        await chat.until_idle()


async def test_what_was_edited_while_nobody_was_there_is_read_as_it_is_now(tmp_path: Path) -> None:
    chat = Journey(folder=tmp_path, settings=QUEUE)
    typo = chat.world.write("helo")
    command = chat.world.write("/titel Plan")
    chat.world.write("hullo", edits=typo.delivery)
    chat.world.write("hello", edits=typo.delivery)
    chat.world.write("/title Plan", edits=command.delivery)
    async with chat:
        await chat.until_seen("You said: hello", "now called “Plan”")
        await chat.until_idle()
        assert len(chat.world.seen()) == 2
        assert await ends(chat, typo.delivery) == ["turn", WITH_ITS_MESSAGE, WITH_ITS_MESSAGE]
        chat.world.repeat(chat.world.updates[3])
        await chat.until_idle()
        assert len(chat.model.requests) == 1


@pytest.mark.parametrize(
    ("text", "more", "end"),
    [
        ("/new", {}, "ignored: edit, a message does not become a command"),
        ("mine", {"user": "u2"}, "ignored: edit of something that is no message to the agent"),
        ("there", {"chat": "2"}, "ignored: edit of something that is no message to the agent"),
        ("  ", {}, "ignored: empty"),
        ("x" * 50, {}, "refused: too long"),
    ],
)
async def test_edits_that_change_nothing(tmp_path: Path, text: str, more: dict[str, str], end: str) -> None:
    settings = open_settings(
        display=DisplaySettings(busy_input_mode=BusyMode.QUEUE), gateway=GatewaySettings(max_message_chars=40)
    )
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=settings) as chat:
        await behind_another(chat, script)
        waiting = chat.world.write("second")
        await chat.until_taken()
        chat.world.write(text, edits=waiting.delivery, **more)  # type: ignore[arg-type]
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("You said: second")
        assert await ends(chat, waiting.delivery) == ["turn", end]


async def test_the_caption_of_an_album_and_a_message_among_pieces(tmp_path: Path) -> None:
    script = Held("first")
    async with Journey(folder=tmp_path, script=script, settings=QUEUE) as chat:
        await behind_another(chat, script)
        pieces = [chat.world.write(text, group="g", uploads=(chat.world.photo(b"x"),)) for text in ("a", "")]
        await chat.until_taken()
        chat.world.write("A", edits=pieces[0].delivery)
        chat.world.write("B", edits=pieces[1].delivery)
        await chat.until_taken()
        script.go.set()
        await chat.until_seen("You said: A\nB")


async def test_a_stranger_and_a_mention_taken_back(tmp_path: Path) -> None:
    settings = open_settings(platforms={"fake": PlatformSettings(allow_all_users=True, require_mention=True)})
    chat = Journey(folder=tmp_path, settings=settings)
    for number, (before, after) in enumerate([(True, False), (False, True)], start=1):
        said = chat.world.write(f"m{number}", kind="group", mentions_us=before)
        chat.world.write(f"e{number}", kind="group", mentions_us=after, edits=said.delivery)
    async with chat:
        await chat.until_seen("You said: e2")
        await chat.until_idle()
        assert len(chat.model.requests) == 1


async def test_a_hook_is_asked_about_the_new_words(tmp_path: Path) -> None:
    """What was allowed were other words."""
    code = """
import os, time
def handle(event, context):
    with open("told", "a") as file:
        file.write('["x", {"message": "' + context["message"] + '"}]\\n')
    while context["message"] == "good" and not os.path.exists("go"):
        time.sleep(0.01)
    if context["message"] == "evil":
        return {"decision": "deny", "message": "Not that."}
"""
    home = home_with(tmp_path, gate=("'gate:turn'", code))
    hooks: Hooks = hooks_of(home)
    async with Journey(folder=tmp_path, hooks=hooks) as chat:
        said = chat.world.write("good")
        await chat.until(lambda: len(told(home, "gate")) == 1)
        chat.world.write("evil", edits=said.delivery)
        await chat.until_taken()
        (home / "hooks" / "gate" / "go").touch()
        await chat.until_seen("Not that.")
        assert [context["message"] for _, context in told(home, "gate")] == ["good", "evil"]
        assert chat.model.requests == []
        await hooks.close()


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    def make(folder: Path) -> Journey:
        script = Held("first")
        chat = Journey(folder=folder, script=script, settings=QUEUE)
        chat.world.write("frist")
        chat.world.write("first", edits="d1")
        return chat

    await cut_everywhere(tmp_path, make, story, after=after, full=full)


async def story(chat: Journey) -> None:
    """A message is edited before anybody has looked at it, and another one while it waits its turn."""
    script = chat.script
    assert isinstance(script, Held)
    await chat.until_seen("a long answer to first")
    write_once(chat, "tow", lambda: chat.world.write("tow"))
    await chat.until_taken()
    write_once(chat, "two", lambda: chat.world.write("two", edits="d3"))
    await chat.until_taken()
    script.go.set()
    await chat.until_seen("You said: two")
    await chat.until_idle()
    assert [text.split()[-1] for text in chat.world.seen()] == ["first", "two"]
    assert await ends(chat, "d1") == ["turn", WITH_ITS_MESSAGE]
    assert await ends(chat, "d3") == ["turn", EDITED]


def write_once(chat: Journey, text: str, write: Callable[[], object]) -> None:
    if all(update.text != text for update in chat.world.updates):
        write()
