"""Matrix on a real homeserver: the suite, and what only a real one can tell."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from hermes.testing.platform_suite.whole import (
    check_many_replies_under_faults,
    check_one_chat_does_not_delay_another,
)
from tests.platforms.matrix import upgrades
from tests.platforms.matrix.judge import EXPECTED, heard, judged
from tests.platforms.matrix.synapse import LimitedBed, ManyRooms, Remote, SynapseBed, synapse

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("synapse")]
ELSEWHERE = {
    "check_malformed_payloads_are_left_out",
    "check_drafts_keep_the_pace",
}
"""What needs no server, or nothing of it that the fake has not."""

MANY = (check_many_replies_under_faults, check_one_chat_does_not_delay_another)


@pytest.fixture(scope="module")
def homeserver() -> Iterator[str]:
    with synapse() as url:
        SynapseBed.url = url
        yield url


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    with synapse(limits=True) as url:
        LimitedBed.url = url
        yield url


@pytest.mark.parametrize(
    "check",
    # Many answers at once take as long as the limits say: that is no promise of ours.
    [one for one in CHECKS if one not in MANY and one.__name__ != "check_malformed_payloads_are_left_out"],
    ids=lambda check: check.__name__,
)
async def test_matrix_conforms_on_a_synapse_with_its_default_limits(check: Check, strict: str) -> None:
    await conform(check, LimitedBed)


@pytest.mark.parametrize(
    "check",
    [one for one in CHECKS if one.__name__ not in ELSEWHERE],
    ids=lambda check: check.__name__,
)
async def test_matrix_conforms_on_synapse(check: Check, homeserver: str) -> None:
    await conform(check, ManyRooms if check in MANY else SynapseBed)


async def test_matrix_nio_sees_here_what_it_sees_on_the_fake(homeserver: str) -> None:
    assert await judged(SynapseBed(), SynapseBed.password) == EXPECTED


async def test_rooms_that_are_upgraded(homeserver: str, tmp_path: Path) -> None:
    await upgrades.the_conversation_goes_on_in_the_new_room(SynapseBed(), tmp_path)
    (tmp_path / "due").mkdir()
    await upgrades.what_is_due_waits_for_the_invitation(SynapseBed(), tmp_path / "due")
    await upgrades.it_follows_into_a_room_that_is_open(SynapseBed())


async def test_encrypted_rooms(homeserver: str, tmp_path: Path) -> None:
    """matrix-nio as a person and our adapter, in an environment that has it."""
    remote = Remote(homeserver)
    tail = secrets.token_hex(4)
    ann, bot = [(await remote.register(f"{name}-{tail}")).token for name in ("ann", "hermes")]
    await remote.close()
    assert await heard("matrix_encrypted.py", homeserver, ann, bot, str(tmp_path)) == {
        "heard": ["hello in secret", "private", True],
        "sent once": True,
        "read": ["so secret", "<b>so</b> secret", True],
        "reply": True,
        "edited": ["more secret", True],
        "file out": [True, True],
        "pressed": ["button", "q_1:yes"],
        "file in": True,
        "plain room": "the room is not encrypted, and MATRIX_ENCRYPTION is required",
        "after a restart": 1,
        "again": True,
        "withheld": True,
        "known by": True,
        "keys of another program": "NeedsLogin",
        "on the server": ["m.reaction", "m.room.encrypted"],
        "killed": [True, True],
        "not lost": ["before you die", True],
    }


async def test_an_account_vouches_for_the_bots_device(homeserver: str, tmp_path: Path) -> None:
    """The account is set up, and the signature judged, by libraries that we did not write; and Synapse takes
    none that does not fit."""
    remote = Remote(homeserver)
    tail = secrets.token_hex(4)
    ann, bot = [await remote.register(f"{name}-{tail}") for name in ("ann", "hermes")]
    await remote.close()
    made = await heard("matrix_recovery.py", "make", homeserver, bot.token, environment="synapse")
    judge = ("matrix_recovery.py", "judge", homeserver, ann.token, bot.id)
    adapter = ("matrix_cross_signing.py", homeserver, bot.token, str(tmp_path))
    assert await heard(*adapter, made["recovery"], made["other"]) == {
        "checked": [True, "Its account will vouch for the device from the next start on."],
        "checked wrong": [False, "MATRIX_RECOVERY_KEY is not that of the account's secret storage."],
        "checked none": [False, "MATRIX_RECOVERY_KEY is no recovery key, or has a slip of the pen."],
        "wrong": [True, False, False],
        "without": [True, False, True],
        "right": [False, True, "Its account vouches for the device."],
        "later": [False, True, "Its account vouches for the device."],
    }
    assert list((await heard(*judge, environment="synapse")).values()) == [True]
