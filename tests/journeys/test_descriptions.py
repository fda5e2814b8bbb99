"""Pictures for a model that sees none: another describes them, once, and that is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.chats.message import Attachment
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Tx
from hermes.domain.settings.budgets import Budget
from hermes.domain.turns.event import UserSaid
from hermes.testing.harness import Journey, open_settings
from tests.journeys.cut import cut_everywhere

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
BLIND, SEEING = ModelFacts(images=False), ModelFacts(images=True)


class Eyes:
    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.seen: list[Attachment] = []

    async def __call__(self, picture: Attachment) -> tuple[str, Usage]:
        self.seen.append(picture)
        if self.fault is not None:
            raise self.fault
        return "A red house with the number 7.", Usage(prompt=900, completion=9, model="eyes")


async def show(chat: Journey) -> None:
    chat.world.write("what is it?", uploads=(chat.world.photo(PNG, "house.png"),))
    await chat.until_seen("You said: what is it?")
    await chat.until_idle()


def picture_of(chat: Journey) -> Attachment:
    (picture,) = (
        file
        for entry in chat.model.requests[-1].entries
        if isinstance(entry.record, UserSaid)
        for file in entry.record.attachments
    )
    return picture


async def roles(chat: Journey) -> dict[str, int]:
    def count(tx: Tx) -> dict[str, int]:
        (session,) = tx.sessions.find("")
        return {group.key[1]: group.used.calls for group in tx.usage.of_session(session.id)}

    return await chat.database.read(count)


async def test_a_picture_is_described_once_and_counted(tmp_path: Path) -> None:
    eyes = Eyes()
    async with Journey(folder=tmp_path, describe=eyes, facts=BLIND) as chat:
        await show(chat)
        assert picture_of(chat).text == "A red house with the number 7."
        assert chat.model.requests[-1].images is None
        chat.world.write("and now?")
        await chat.until_seen("You said: and now?")
        await chat.until_idle()
        assert picture_of(chat).text and len(eyes.seen) == 1
        assert await roles(chat) == {"main": 2, "vision": 1}


async def test_a_model_that_sees_needs_nobody(tmp_path: Path) -> None:
    eyes = Eyes()
    async with Journey(folder=tmp_path, describe=eyes, facts=SEEING) as chat:
        await show(chat)
        assert not eyes.seen and not picture_of(chat).text and chat.model.requests[-1].images


async def test_what_cannot_be_described_is_said(tmp_path: Path) -> None:
    eyes = Eyes(ModelFault("no key", kind=FaultKind.BAD_KEY))
    async with Journey(folder=tmp_path, describe=eyes, facts=BLIND) as chat:
        await show(chat)
        assert picture_of(chat).note == "it could not be described: no key"
        assert await roles(chat) == {"main": 1}


async def test_a_description_counts_in_a_budget(tmp_path: Path) -> None:
    chosen = open_settings(budgets={"all": Budget(calls=2)})
    async with Journey(folder=tmp_path, describe=Eyes(), facts=BLIND, settings=chosen) as chat:
        await show(chat)
        chat.world.write("more")
        await chat.until_seen("is spent: 2 of 2 model calls")


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_however_it_is_stopped_one_description_is_kept(tmp_path: Path, full: bool, after: bool) -> None:
    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("what is it?", uploads=(chat.world.photo(PNG, "house.png"),))
        await chat.until_seen("You said: what is it?")
        await chat.until_idle()
        assert await roles(chat) == {"main": 1, "vision": 1}

    def make(folder: Path) -> Journey:
        return Journey(folder=folder, describe=Eyes(), facts=BLIND)

    await cut_everywhere(tmp_path, make, live, after=after, full=full)
