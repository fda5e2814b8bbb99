"""What people call a place, and which addresses are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.outbound.targets import (
    KnownTargets,
    home_channel,
    home_channels,
    named_targets,
    resolve_targets,
    with_aliases,
)
from hermes.domain.chats.address import Address
from hermes.domain.chats.channels import Channel
from hermes.domain.errors import UserError
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace
from hermes.state.store.writer import SqliteStore


def channel(address: str, name: str, guild: str = "") -> Channel:
    return Channel(address=Address.parse(address), name=name, guild=guild)


CHANNELS = (
    channel("telegram:-100:7", "Ops"),
    channel("telegram:-100", "Ops"),
    channel("telegram:42", "Ann"),
    channel("slack:C01", "dev-ops"),
    channel("slack:C02", "dev-web"),
    channel("slack:C03", "general", "Acme"),
    channel("slack:C04", "general", "Umbrella"),
    channel("matrix:!room%3Aserver.org", "Lounge"),
    channel("telegram@work:9", "Ann"),
)
KNOWN = KnownTargets(
    accounts=("telegram", "telegram@work", "slack", "matrix", "irc"),
    homes={"telegram": Address.parse("telegram:1"), "slack": Address.parse("slack:C99:55.1")},
    channels=CHANNELS,
    origin=Address.parse("slack:C02:171.5"),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("origin", ["slack:C02:171.5"]),
        ("local", []),
        ("LOCAL, Origin", ["slack:C02:171.5"]),
        ("telegram", ["telegram:1"]),
        ("Telegram", ["telegram:1"]),
        ("all", ["telegram:1", "slack:C99:55.1"]),
        ("telegram:-100", ["telegram:-100"]),
        ("telegram:-100:7", ["telegram:-100:7"]),
        ("telegram:-200:8", ["telegram:-200:8"]),
        ("telegram:555", ["telegram:555"]),
        ("telegram:Ops", ["telegram:-100"]),
        ("telegram:ops:12", ["telegram:-100:12"]),
        ("telegram:#ann", ["telegram:42"]),
        ("telegram:555:Daily news", ["telegram:555:Daily news"]),
        ("telegram:Ann:Daily news", ["telegram:42:Daily news"]),
        ("telegram@work:Ann", ["telegram@work:9"]),
        ("slack:#DEV-web", ["slack:C02"]),
        ("slack:dev-w", ["slack:C02"]),
        ("slack:acme/general", ["slack:C03"]),
        ("slack:c01x", ["slack:c01x"]),
        ("matrix:!room:server.org", ["matrix:!room%3Aserver.org"]),
        ("matrix:lounge", ["matrix:!room%3Aserver.org"]),
        ("telegram, slack:#dev-web, telegram:1", ["telegram:1", "slack:C02"]),
    ],
)
def test_a_target_is_found(text: str, found: list[str]) -> None:
    assert [str(address) for address in resolve_targets(text, KNOWN)] == found


@pytest.mark.parametrize(
    ("text", "sentence", "names"),
    [
        ("", "No target was named.", "origin, slack"),
        (" , ", "No target was named.", "telegram"),
        ("telegramm", "There is no platform “telegramm” in use.", "telegram"),
        ("fax:12", "There is no platform “fax” in use.", "slack:chat"),
        ("matrix", "matrix has no home channel.", "/sethome"),
        ("slack:general", "“general” fits 2 chats of slack.", "slack:C04"),
        ("slack:dev", "“dev” fits 2 chats of slack.", "dev-ops (slack:C01)"),
        ("slack:#nowhere", "slack has no chat called “#nowhere”.", "dev-ops"),
        ("telegram:Bob", "telegram has no chat called “Bob”.", "Ann (telegram:42)"),
        ("telegram:-1 00", "telegram has no chat called", "channel_aliases.json"),
        ("telegram:", "“telegram:” names no chat.", "telegram:chat"),
        ("telegram:1:2:3", "is not an address", "platform:chat"),
        ("webhook:deploys", "There is no platform “webhook” in use.", "telegram"),
        ("x" * 300, "at most 256 characters", ""),
    ],
)
def test_an_unknown_target_is_one_sentence_that_names_what_there_is(
    text: str, sentence: str, names: str
) -> None:
    with pytest.raises(UserError) as caught:
        resolve_targets(text, KNOWN)
    assert sentence in caught.value.message
    assert names in str(caught.value)


def test_nothing_is_known_at_first() -> None:
    for text in ("origin", "all"):
        with pytest.raises(UserError):
            resolve_targets(text, KnownTargets(accounts=("telegram",)))
    assert resolve_targets("telegram:5", KnownTargets(accounts=("telegram",))) == (
        Address.parse("telegram:5"),
    )


def test_a_file_names_chats_over_what_was_seen() -> None:
    aliases = {"telegram": {"42": "Boss", "77": "Cellar"}, "ntfy": {"alerts": "alerts"}}
    known = replace(KNOWN, channels=with_aliases(CHANNELS, aliases), accounts=(*KNOWN.accounts, "ntfy"))
    assert resolve_targets("telegram:boss,telegram:cellar,ntfy:alerts", known) == (
        Address.parse("telegram:42"),
        Address.parse("telegram:77"),
        Address.parse("ntfy:alerts"),
    )
    with pytest.raises(UserError):
        resolve_targets("telegram:ann", known)


async def test_the_home_channel_of_each_account(tmp_path: Path) -> None:
    settings = Settings(
        platforms={
            "telegram": PlatformSettings(home_channel="1"),
            "telegram@work": PlatformSettings(home_channel="2", home_thread="7"),
            "matrix@work": PlatformSettings(home_channel="!room:example.org"),
            "slack@work": PlatformSettings(home_channel="telegram@work:9"),
        }
    )
    async with SqliteStore(tmp_path / "state.db") as store:
        homes = await store.read(lambda tx: home_channels(tx, settings))
        near = Address(platform="matrix", account="other", chat="x")
        assert await store.read(lambda tx: home_channel(tx, settings, near)) is None
        near = replace(near, platform="telegram")
        assert await store.read(lambda tx: home_channel(tx, settings, near)) == homes["telegram"]
    assert {name: str(home) for name, home in homes.items()} == {
        "telegram": "telegram:1",
        "telegram@work": "telegram@work:2:7",
        "matrix@work": "matrix@work:!room%3Aexample.org",
        "slack@work": "telegram@work:9",
    }


async def test_a_job_may_name_an_account_of_which_only_the_token_was_told(tmp_path: Path) -> None:
    targets = named_targets(dict, ("telegram", "telegram@work"))
    async with SqliteStore(tmp_path / "state.db") as store:
        found = await store.read(lambda tx: targets(tx, "telegram@work:7", None, Settings()))
        assert [str(to) for to in found] == ["telegram@work:7"]
        with pytest.raises(UserError, match="There is no platform “telegram@shop”"):
            await store.read(lambda tx: targets(tx, "telegram@shop:7", None, Settings()))
