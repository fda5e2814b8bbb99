"""Two accounts of one platform in one gateway: whatever is decided, kept or sent is the account's own."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.control.outbound.sending import OutboundMessage
from hermes.control.people.pairing import approve
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.pairing import Account
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.testing.api import ApiWorld
from hermes.testing.harness import PATIENCE
from hermes.testing.model import ScriptedModel, echo
from hermes.testing.platform import fake_platform
from hermes.testing.world import World

CONFIG = """
agents: {shop: {}}
routes: [{match: {platform: fake, account: work}, agent: shop}]
platforms:
  fake: {allowed_users: [ann, boss], home_channel: hall}
  fake@work: {allowed_users: [boss], home_channel: desk, allow_admin_from: [boss], require_mention: true}
"""


@dataclass
class Two:
    """A gateway, and the services of its two accounts."""

    api: ApiWorld
    plain: World
    work: World

    async def until(self, world: World, chat: str, text: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while not (found := [seen for seen in world.seen(chat) if text in seen]):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return found[-1]

    async def asks(
        self, world: World, words: str, answer: str, *, chat: str = "1", user: str = "boss"
    ) -> str:
        """Somebody writes, and sees an answer with these words in it."""
        world.write(words, chat=chat, user=user)
        return await self.until(world, chat, answer)


@contextlib.asynccontextmanager
async def two(
    home: Path, config: str = CONFIG, worlds: tuple[World, World] | None = None
) -> AsyncIterator[Two]:
    plain, work = worlds or (World(), World())
    accounts = {
        "fake": fake_platform("edits", plain),
        "fake@work": fake_platform("edits", work, "fake@work"),
    }
    model = ScriptedModel(echo)
    async with ApiWorld(home=home, config=config, provider=model, accounts=accounts) as api:
        yield Two(api=api, plain=plain, work=work)


async def test_one_person_has_two_conversations_with_two_agents(tmp_path: Path) -> None:
    async with two(tmp_path / "home") as both:
        here = await both.asks(both.plain, "/whoami", "Session key")
        there = await both.asks(both.work, "/whoami", "Session key")
        assert "Session key: agent:main:fake:private:1" in here
        assert "Session key: agent:shop:fake@work:private:1" in there
        assert "Here: fake@work:1 (private)" in there and "on the list of fake@work" in there
        assert "Tier: admin, because fake@work.allow_admin_from names you" in there
        assert "Tier: everybody, because fake.allow_admin_from names no admins" in here
        await both.asks(both.plain, "alpha", "You said: alpha")
        await both.asks(both.work, "beta", "You said: beta")
        assert not [seen for seen in both.plain.seen() if "beta" in seen]
        assert not [seen for seen in both.work.seen() if "alpha" in seen]


async def test_who_may_write_and_when_is_asked_of_the_account(tmp_path: Path) -> None:
    async with two(tmp_path / "home") as both:
        both.work.write("let me in", chat="2", user="ann")
        both.work.write("no mention", chat="3", user="boss", kind="group")
        await both.asks(both.plain, "me too", "You said: me too", chat="2", user="ann")
        await both.asks(both.work, "last", "You said: last")
        assert both.work.seen("2") == [], "on the list of the other account"
        assert both.work.seen("3") == [], "it must be mentioned there"
        both.plain.write("no mention", chat="3", user="boss", kind="group")
        await both.until(both.plain, "3", "no mention")


async def test_pairing_counts_for_one_account(tmp_path: Path) -> None:
    config = "platforms: {fake: {}, fake@work: {}}\n"
    work = Account(platform="fake", name="work")
    async with two(tmp_path / "home", config) as both:
        told = await both.asks(both.work, "hello", "hermes pairing approve fake@work", user="eve")
        found = re.search(r"fake@work ([A-Z0-9]{8})", told)
        assert found is not None
        gateway, now = both.api.app.gateway, both.api.app._given.clock.now()

        async def approved(account: Account) -> bool:
            done = await both.api.app.store.write(lambda tx: approve(tx, account, found[1], "owner", now))
            if done.place is not None:
                gateway.delivery.ring(done.place)
            return done.paired is not None

        assert not await approved(Account(platform="fake", name="default"))
        assert await approved(work)
        await both.asks(both.work, "again", "You said: again", user="eve")
        await both.asks(both.plain, "and here?", "hermes pairing approve fake ", user="eve")


async def test_places_and_reports_are_the_accounts_own(tmp_path: Path) -> None:
    async with two(tmp_path / "home") as both:
        courier = both.api.app.gateway.courier
        answer = await both.asks(both.plain, "/platform list", "fake@work: ")
        assert "- fake: connected" in answer and "- fake@work: connected" in answer
        for target, world, chat in (
            ("fake", both.plain, "hall"),
            ("fake@work", both.work, "desk"),
            ("fake@work:77", both.work, "77"),
        ):
            letter = OutboundMessage(key=f"to {target}", target=target, body=Body(text=f"for {target}"))
            await courier.post(MAIN_AGENT, letter)
            await both.until(world, chat, f"for {target}")
        await both.asks(both.work, "/sethome", "home channel of fake@work", chat="9")
        homes = (await courier.known(MAIN_AGENT)).homes
        assert homes["fake"] == Address(platform="fake", chat="hall")
        assert homes["fake@work"] == Address(platform="fake", account="work", chat="9")
        there = {name: Address.parse(f"{name}:1") for name in ("fake", "fake@work", "fake@nobody")}
        assert [name for name, to in there.items() if both.api.app.gateway.accounts.knows(to)] == [
            "fake",
            "fake@work",
        ]
        with pytest.raises(UserError, match="There is no platform “fake@nobody”"):
            await courier.resolve("fake@nobody:1")


async def test_one_account_rests_and_the_other_goes_on(tmp_path: Path) -> None:
    worlds = World(), World()
    async with two(tmp_path / "home", worlds=worlds) as both:
        await both.asks(both.plain, "/platform pause fake@work", "fake@work is paused")
        await both.asks(both.plain, "hello", "You said: hello")
        both.work.write("anybody?", chat="1", user="boss")
    async with two(tmp_path / "home", worlds=worlds) as both:
        await both.asks(both.plain, "still there?", "You said: still there?")
        assert both.work.seen("1") == [], "what rests answers nobody, after a restart too"
        await both.asks(both.plain, "/platform resume fake@work", "fake@work is resumed")
        await both.until(both.work, "1", "You said: anybody?")


async def test_an_invitation_names_an_account_there_is(tmp_path: Path) -> None:
    async with two(tmp_path / "home") as both:
        await both.asks(both.plain, "/pair fake@work", "Pairing code for fake@work")
        await both.asks(both.plain, "/pair fake@nobody", "There is no platform “fake@nobody” here.")
