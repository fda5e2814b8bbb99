"""Conversations by mail through a whole gateway, which is stopped before and after each of its writes: each
mail is one turn, and its answer goes out once, in its thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.clock import QuickClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo
from hermes.testing.platform_suite import Fault, until
from tests.journeys.cut import MOST_WRITES, SAMPLED, one_life, stops
from tests.platforms.email.bed import ApartBed, written

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
SETTINGS = open_settings(platforms={"email": PlatformSettings(allow_all_users=True)})


def journey(bed: ApartBed, folder: Path) -> Journey:
    return Journey(
        folder=folder,
        account="email",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=echo,
        clock=QuickClock(),
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [None, Fault.RESET], ids=["calm", "answer lost"])
async def test_killed_at_any_write(tmp_path: Path, full: bool, fault: Fault | None, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"mail {fault} {after}")[:: 1 if full else 2]:
        folder = tmp_path / str(number)
        folder.mkdir()
        if not await _told(folder, fault, number, after):
            assert number > SAMPLED, "the story was never cut off"
            return
    raise AssertionError("the story never came to its end")


async def _told(folder: Path, fault: Fault | None, stop_at: int, after: bool) -> bool:
    async with ApartBed() as bed:
        # Somebody has looked into the mailbox before: what comes from now on is no history.
        async with journey(bed, folder):
            await until(lambda: bool(bed.listened), "nobody looks into the mailbox")
        mails = [written(bed.chat.chat, text, subject="Lunch") for text in ("m1", "m2")]
        if fault is not None:
            bed.fail(fault, done=True)

        async def live(chat: Journey) -> None:
            # In each life again: a copy of a mail counts as the mail.
            for number, mail in enumerate(mails, 1):
                await bed.put(mail)
                await until(lambda: len(bed.shown()) >= number, lambda: f"people see {bed.shown()}")  # noqa: B023
            await chat.until_idle()

        chat = journey(bed, folder)
        cut = await one_life(chat, live, stop_at=stop_at, after=after)
        if cut:
            await one_life(replace(chat, wrap_store=lambda store: store), live)
        _check(folder, bed, mails)
        return cut


def _check(folder: Path, bed: ApartBed, mails: Sequence[EmailMessage]) -> None:
    shown = bed.shown()
    told = f"{folder.name}: people see {shown}"
    assert len(shown) == 2 and len({one.ref for one in shown}) == 2, told
    for mail, answer, text in zip(mails, shown, ("m1", "m2"), strict=True):
        assert text in answer.text and answer.reply_to == str(mail["Message-ID"]), told
    with sqlite3.connect(folder / "state.db") as database:
        states = [state for (state,) in database.execute("select state from turns order by rowid")]
    database.close()
    assert states == ["done", "done"], f"{folder.name}: {states}"


async def test_without_copies_a_repeat_is_marked(tmp_path: Path) -> None:
    """The answer of the mail server is lost, and nobody can tell whether the mail left."""
    async with ApartBed() as bed:
        bed.said["EMAIL_SELF_COPY"] = "false"
        async with journey(bed, tmp_path) as chat:
            await until(lambda: bool(bed.listened), "nobody looks into the mailbox")
            bed.fail(Fault.RESET, done=True)
            await bed.put(written(bed.chat.chat, "m1"))
            await until(lambda: len(bed.shown()) == 2, lambda: f"people see {bed.shown()}")
            await chat.until_idle()
        first, second = bed.shown()
        assert REPEAT_MARK not in first.text and REPEAT_MARK in second.text
