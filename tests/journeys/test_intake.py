"""Intake under pressure: no row falls between two tasks, a broken row holds up nobody."""

from __future__ import annotations

from pathlib import Path

from hermes.domain.chats.message import Inbound
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.history import check_history
from hermes.testing.model import obedient


async def test_rows_that_come_one_by_one_are_all_taken_in_order(tmp_path: Path, full: bool) -> None:
    many = 300 if full else 90
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    async with Journey(folder=tmp_path, script=obedient, kind="plain", settings=settings) as chat:
        for number in range(1, many + 1):
            chat.world.write(f"m{number}", chat="1")
            if number % 3:
                await chat.until(lambda: chat.world.all_acked)
        await chat.until(lambda: len(chat.world.seen()) == many)
        await chat.until_idle()
        assert check_history(chat.world) == []


async def test_a_row_that_breaks_holds_up_neither_its_chat_nor_others(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        intake = chat.gateway.intake
        assert intake is not None

        async def select(message: Inbound) -> str | None:
            if message.text == "bad":
                raise ValueError("a hook of bad manners")
            return None

        intake.select = select
        for text in ("bad", "good"):
            chat.world.write(text, chat="1")
        chat.world.write("other", chat="2", user="u2")
        await chat.until_seen("You said: good", "You said: other")
