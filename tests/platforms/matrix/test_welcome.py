"""Whose invitations an account accepts is decided by access, with what the operator said and whom the store
knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.app.accounts import DeclaredAccount, welcome
from hermes.control.people.access import AccessRequest, decide
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.pairing import Account, PairedUser
from hermes.domain.clock import SystemClock
from hermes.entry.platforms.matrix.convert import Room, to_inbounds
from hermes.entry.platforms.matrix.manifest import MANIFEST
from hermes.state.settings.loader import load_settings
from hermes.state.store.writer import SqliteStore
from tests.platforms.matrix.samples import EVENTS, ME

ANN, BOB = "@ann:localhost", "@bob:localhost"


def asking(user: str, kind: SourceKind) -> Source:
    return Source(address=Address(platform="matrix", chat="!new:localhost"), kind=kind, user=user)


@pytest.mark.parametrize(
    ("block", "welcome_to"),
    [
        (f"allowed_users: ['{ANN}'], unauthorized_dm_behavior: ignore", {(ANN, "private"), (ANN, "group")}),
        ("unauthorized_dm_behavior: pair", {(ANN, "private"), (BOB, "private")}),
        ("unauthorized_dm_behavior: ignore", set()),
        (f"allowed_users: ['{ANN}'], group_policy: disabled, dm_policy: allowlist", {(ANN, "private")}),
        (
            f"allowed_users: ['{ANN}'], allowed_chats: ['!other:localhost'], dm_policy: allowlist",
            {(ANN, "private")},
        ),
        ("allow_all_users: true", {(one, kind) for one in (ANN, BOB) for kind in ("private", "group")}),
    ],
)
async def test_access_decides(tmp_path: Path, block: str, welcome_to: set[tuple[str, str]]) -> None:
    (tmp_path / "config.yaml").write_text(f"platforms: {{matrix: {{{block}}}}}\n")
    loaded = load_settings(tmp_path, {})
    assert not loaded.problems
    async with SqliteStore(tmp_path / "state.db") as store:
        welcomes = welcome(store, DeclaredAccount(manifest=MANIFEST, loaded=loaded))
        cases = [(one, kind) for one in (ANN, BOB) for kind in (SourceKind.PRIVATE, SourceKind.GROUP)]
        found = {(one, kind.value) for one, kind in cases if await welcomes(asking(one, kind))}
        assert found == welcome_to


async def test_who_was_paired_may_ask_it_into_rooms(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("platforms: {matrix: {unauthorized_dm_behavior: ignore}}\n")
    async with SqliteStore(tmp_path / "state.db") as store:
        welcomes = welcome(store, DeclaredAccount(manifest=MANIFEST, loaded=load_settings(tmp_path, {})))
        assert not await welcomes(asking(ANN, SourceKind.GROUP))
        now, account = SystemClock().now(), Account(platform="matrix", name="default")
        paired = PairedUser(account=account, user=ANN, name="Ann", approved_at=now, by="owner")
        await store.write(lambda tx: tx.pairings.add(paired))
        assert await welcomes(asking(ANN, SourceKind.GROUP))
        assert not await welcomes(asking(BOB, SourceKind.GROUP))


@pytest.mark.parametrize(
    ("said", "room", "answered"),
    [
        ({}, "!a:localhost", False),
        ({"MATRIX_REQUIRE_MENTION": "false"}, "!a:localhost", True),
        ({"MATRIX_FREE_RESPONSE_ROOMS": "!a:localhost,!b:localhost"}, "!a:localhost", True),
        ({"MATRIX_FREE_RESPONSE_ROOMS": "!b:localhost"}, "!a:localhost", False),
        ({"MATRIX_REQUIRE_MENTION": "false", "MATRIX_ALLOWED_ROOMS": "!b:localhost"}, "!a:localhost", False),
        # Upgraded: the old room's name is the conversation's, and the lists may say the new one's.
        ({"MATRIX_REQUIRE_MENTION": "false", "MATRIX_ALLOWED_ROOMS": "!new:localhost"}, "!a:localhost", True),
    ],
)
def test_where_it_answers(tmp_path: Path, said: dict[str, str], room: str, answered: bool) -> None:
    loaded = load_settings(tmp_path, {**said, "MATRIX_ALLOWED_USERS": ANN})
    place = Room(id="!new:localhost", first=room, members={ME.id: "Hermes", ANN: "Ann", BOB: "Bob"})
    (item,) = to_inbounds(EVENTS["text"], place, ME, {})
    assert item.source.address.chat == room
    knock = AccessRequest(source=item.source, text=item.text, able=MANIFEST.capabilities)
    assert decide(knock, loaded.settings).allowed is answered
