"""Command tiers as a table: who may use which command where."""

from __future__ import annotations

import pytest

from hermes.control.commands.registry import COMMANDS, tier_of, usable
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.settings.platforms import PlatformSettings as Block
from hermes.domain.settings.settings import Settings
from hermes.plugins import load_commands

ALL = "all"
OWNER = "all, and those of admins"
LEAST = {"help", "whoami"}


def source(
    user: str | None = "42", kind: SourceKind = SourceKind.PRIVATE, platform: str = "telegram"
) -> Source:
    return Source(address=Address(platform=platform, chat="1"), kind=kind, user=user)


@pytest.mark.parametrize(
    ("who", "block", "tier", "commands"),
    [
        (source(), Block(), "everybody", ALL),
        (source(), Block(allowed_users=("42",)), "everybody", OWNER),
        (source(), Block(allow_admin_from=("42",)), "admin", OWNER),
        (source(), Block(allow_admin_from=("*",)), "admin", OWNER),
        (source("42@evil.example"), Block(allow_admin_from=("42",)), "user", LEAST),
        (source("42@evil.example"), Block(allowed_users=("42",)), "everybody", ALL),
        (source(), Block(allow_admin_from=("43",)), "user", LEAST),
        (source(None), Block(allow_admin_from=("*",)), "user", LEAST),
        (source(), Block(allow_admin_from=("(none)",)), "user", LEAST),
        (source(), Block(allow_admin_from=("43",), user_allowed_commands=("status",)), "user", {"status"}),
        (source(), Block(allow_admin_from=("43",), user_allowed_commands=("/Reset",)), "user", {"new"}),
        (source(), Block(allow_admin_from=("43",), user_allowed_commands=("pair",)), "user", LEAST),
        (source(), Block(allow_admin_from=("43",), group_user_allowed_commands=("stop",)), "user", {"stop"}),
        (
            source(),
            Block(
                allow_admin_from=("43",),
                user_allowed_commands=("new",),
                group_user_allowed_commands=("stop",),
            ),
            "user",
            {"new"},
        ),
        (source(kind=SourceKind.GROUP), Block(allow_admin_from=("43",)), "user", LEAST),
        (source(kind=SourceKind.GROUP), Block(allow_admin_from=("42",)), "admin", OWNER),
        (
            source(kind=SourceKind.GROUP),
            Block(allow_admin_from=("42",), group_allow_admin_from=("43",)),
            "user",
            LEAST,
        ),
        (source(kind=SourceKind.GROUP), Block(allow_admin_from=("(none)",)), "user", LEAST),
        (source(), Block(allow_admin_from=("43",), group_allow_admin_from=("42",)), "user", LEAST),
        (source(), Block(group_allow_admin_from=("42",)), "admin", OWNER),
        (source(kind=SourceKind.GROUP), Block(group_allow_admin_from=("43",)), "user", LEAST),
        (source(kind=SourceKind.THREAD), Block(group_allow_admin_from=("42",)), "admin", OWNER),
        (
            source(kind=SourceKind.GROUP),
            Block(group_allow_admin_from=("43",), user_allowed_commands=("new",)),
            "user",
            LEAST,
        ),
        (source(), Block(group_allow_admin_from=("43",)), "user", LEAST),
        (source(platform="slack"), Block(allow_admin_from=("43",)), "everybody", ALL),
        (source(platform="terminal", user=None), Block(), "admin", OWNER),
    ],
)
def test_each_row(who: Source, block: Block, tier: str, commands: str | set[str]) -> None:
    load_commands()
    settings = Settings(platforms={"telegram": block})
    found = tier_of(who, settings)
    names = {known.name for known in usable(who, settings)}
    here = [one for one in COMMANDS.values() if who.address.platform == "terminal" or not one.terminal]
    assert found.name == tier and found.reason
    if commands == ALL:
        assert names == {one.name for one in here if not one.admin} and not found.owner
    elif commands == OWNER:
        assert names == {one.name for one in here} >= {"pair", "sethome", "restart"} and found.owner
    else:
        assert names == LEAST | set(commands) and not found.owner
