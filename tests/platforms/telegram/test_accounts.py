"""Two bots in one gateway: two lists of who may write, two conversations of one person, each answered by the
bot that was written to, also after a kill; one credential, one port and one folder each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.entry.host import HostState
from hermes.state.settings.names import with_account
from hermes.testing.api import ApiWorld
from hermes.testing.model_script import ModelRequest, Pace, Reply, message_text
from hermes.testing.model_server import FakeModelServer
from hermes.testing.platform_suite import until
from tests.cli.command import Running, gateway, hermes
from tests.platforms.telegram.bed import TelegramBed, WebhookBed

ANN, BOB, EVE = 501, 502, 503
CONFIG = """
streaming: {enabled: false}
telegram: {allowed_users: [501, 502]}
telegram@work: {allowed_users: [501, 503], home_channel: "501"}
"""


class Counting:
    """A model that tells how often somebody spoke in a conversation, and the last word."""

    hangs = False

    def __call__(self, request: ModelRequest) -> Reply:
        said = [message_text(one).split()[-1] for one in request.messages if one.get("role") == "user"]
        return Reply(text=f"{len(said)}: {said[-1]}", pace=Pace(first_byte=600.0 if self.hangs else 0.0))


@contextlib.asynccontextmanager
async def two_bots(kind: type[TelegramBed] = TelegramBed) -> AsyncIterator[tuple[TelegramBed, TelegramBed]]:
    first, second = kind(), kind()
    second.server.token = "987654321:AAF-the_fake_bot_of_the_shop_at_work"
    async with first, second:
        for bed in (first, second):
            bed.server.chat(BOB)
            bed.server.chat(EVE)
        yield first, second


def told(first: TelegramBed, second: TelegramBed) -> dict[str, str]:
    """What an operator sets for both."""
    one, other = {**first.variables(), **first.said}, {**second.variables(), **second.said}
    return one | {with_account(name, "work"): value for name, value in other.items()}


def texts(bed: TelegramBed) -> list[tuple[str, str]]:
    return [(one.chat, re.sub(r"<[^>]+>", "", one.text)) for one in bed.shown()]


async def run(home: Path, *words: str, **more: str) -> str:
    said = await asyncio.to_thread(hermes, home, *words, **more)
    assert said.code == 0, said.err
    return said.out


@contextlib.asynccontextmanager
async def life(home: Path, environ: dict[str, str]) -> AsyncIterator[Running]:
    manager = gateway(home, **environ)
    running = await asyncio.to_thread(manager.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def test_one_person_and_two_bots_across_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    counting = Counting()
    async with two_bots() as (plain, work), FakeModelServer(counting) as model:
        environ = told(plain, work) | {
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "sk-of-the-fake-model",
            "HERMES_MODEL": "fake-model",
        }
        (home / "config.yaml").write_text(CONFIG)

        def see(bed: TelegramBed, chat: int, text: str) -> bool:
            return any(place == str(chat) and said.endswith(text) for place, said in texts(bed))

        async with life(home, environ) as first:
            plain.server.say(ANN, "alpha")
            work.server.say(ANN, "beta")
            await until(lambda: see(plain, ANN, "1: alpha"), lambda: f"{texts(plain)} {first.err}")
            await until(lambda: see(work, ANN, "1: beta"), lambda: f"{texts(work)} {first.err}")
            # Each has its own list, and who is on the other bot's is a stranger here.
            plain.server.say(EVE, "hello")
            work.server.say(BOB, "hello")
            plain.server.say(BOB, "gamma")
            work.server.say(EVE, "delta")
            await until(lambda: see(plain, BOB, "1: gamma"), lambda: f"people see {texts(plain)}")
            await until(lambda: see(work, EVE, "1: delta"), lambda: f"people see {texts(work)}")
            counting.hangs, before = True, len(model.requests)
            work.server.say(ANN, "slow")
            await until(lambda: len(model.requests) > before, "the model was not asked")
            first.process.kill()
            await asyncio.to_thread(first.process.wait)
        counting.hangs = False
        async with life(home, environ) as second:
            await until(lambda: see(work, ANN, "2: slow"), lambda: f"{texts(work)} {second.err}")
            plain.server.say(ANN, "epsilon")
            await until(lambda: see(plain, ANN, "2: epsilon"), lambda: f"people see {texts(plain)}")
            await run(home, "send", "-t", "telegram@work", "the report")
            await until(lambda: see(work, ANN, "the report"), lambda: f"people see {texts(work)}")
            status = await run(home, "status", **environ)
            assert "telegram@work" in status and "connected" in status
            listed = json.loads(await run(home, "platforms", "list", "--json", **environ))
        names = {one["name"]: one for one in listed if one["name"].startswith("telegram")}
        assert names.keys() == {"telegram", "telegram@work"}
        assert all(one["enabled"] and not one["missing"] for one in names.values())
        answers = {bed: [said for _, said in texts(bed)] for bed in (plain, work)}
        assert [said for said in answers[work] if "slow" in said] == ["2: slow"], "once, by its own bot"
        assert not [said for said in answers[plain] if "slow" in said or "report" in said]
        assert not [place for place, _ in texts(plain) if place == str(EVE)], "a stranger was answered"
        assert not [place for place, _ in texts(work) if place == str(BOB)], "a stranger was answered"


async def test_a_credential_is_used_by_one_account(tmp_path: Path) -> None:
    async with two_bots() as (plain, _):
        environ = plain.variables() | {with_account(n, "work"): v for n, v in plain.variables().items()}
        async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
            await until(
                lambda: api.platforms.get("telegram@work", ("",))[0] is HostState.PARKED, "not parked"
            )
            told = "telegram@work has the same credential as telegram. Each account needs one of its own."
            assert api.platforms["telegram@work"][1] == told
            await until(lambda: "telegram" in api.platforms, "the first one never began")
            assert api.platforms["telegram"][0] in (HostState.CONNECTING, HostState.CONNECTED)


async def test_two_accounts_on_one_port(tmp_path: Path) -> None:
    async with two_bots(WebhookBed) as (plain, work):
        work.said["TELEGRAM_WEBHOOK_PORT"] = plain.said["TELEGRAM_WEBHOOK_PORT"]
        async with ApiWorld(home=tmp_path / "home", environ=told(plain, work)) as api:

            def shut_out() -> list[str]:
                return [name for name, told in api.platforms.items() if told[0] is HostState.RETRYING]

            await until(lambda: bool(shut_out()), lambda: f"{api.platforms}")
            (name,) = shut_out()
            variable = with_account("TELEGRAM_WEBHOOK_PORT", name.partition("@")[2] or "default")
            wanted = f"another account or program has it; set {variable} to a port of its own"
            assert wanted in api.platforms[name][1]


async def test_wrong_credentials_are_told_by_the_accounts_own_name(tmp_path: Path) -> None:
    async with two_bots() as (plain, work):
        environ = told(plain, work) | {"TELEGRAM_BOT_TOKEN__WORK": "no token at all"}
        async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
            await until(
                lambda: api.platforms.get("telegram@work", ("",))[0] is HostState.PARKED, "not parked"
            )
            assert api.platforms["telegram@work"][1].startswith("TELEGRAM_BOT_TOKEN__WORK is no bot token")
            assert api.platforms.get("telegram", ("",))[0] is not HostState.PARKED
        tested = await asyncio.to_thread(
            hermes, tmp_path / "home", "platforms", "test", "telegram@work", **environ
        )
        assert tested.code == 1 and "TELEGRAM_BOT_TOKEN__WORK is no bot token" in tested.out
