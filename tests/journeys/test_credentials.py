"""Keys, logins and fallback models in a whole gateway: what answers, what is stored, what a restart finds."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.models.login.services import LOGINS
from hermes.app.agents.credentials import CredentialStore
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import Submission
from hermes.domain.clock import SystemClock
from hermes.domain.errors import FaultKind, ModelFault, NeedsLogin, Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.credential import Credential, CredentialKind
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import Entry, Failed, ModelSaid, Notice
from hermes.domain.turns.turn import TurnInput
from hermes.domain.word import replace
from hermes.state.home.credentials import AUTH_FILE, CredentialFile
from hermes.state.settings.loader import load_settings
from hermes.state.settings.secrets import Secrets
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey
from hermes.testing.login_server import FakeLoginServer
from hermes.testing.model import Say
from hermes.testing.model_script import Cut, Pace, Reply, RetryAfter, Said, failure
from hermes.testing.model_script import ModelRequest as Asked
from hermes.testing.model_server import FakeModelServer
from tests.agent.test_routes import CLIENT
from tests.control.test_settings_apply import Running

QUIET = {"HERMES_NO_PROBE": "1"}


def key(id: str, provider: str = "openrouter", **more: Any) -> Credential:
    return Credential(id=id, provider=provider, label=f"{id}-key", key=Secret(f"sk-or-{id}-secret"), **more)


def config(home: Path, server: FakeModelServer, more: str = "", provider: str = "openrouter") -> None:
    place = f"model: {{default: big, provider: {provider}, base_url: '{server.base_url}'}}\n"
    (home / "config.yaml").write_text(place + "auxiliary: {title_generation: {enabled: false}}\n" + more)


@asynccontextmanager
async def gateway(home: Path, clock: FakeClock | None = None, **variables: str) -> AsyncIterator[Running]:
    given = AppOverrides(platforms={}, tools=())
    app = Running(home, QUIET | variables, given if clock is None else replace(given, clock=clock))
    async with asyncio.timeout(60), app.running():
        yield app


async def say(app: App, text: str = "hello", agent: AgentId = MAIN_AGENT) -> list[Any]:
    turn = await app.gateway.submit(Submission(agent=agent, source=CLIENT, input=TurnInput(text=text)))
    seen = [item async for item in app.gateway.watch(agent, turn.id)]
    return [item.record if isinstance(item, Entry) else item for item in seen]


def answer(items: list[Any]) -> ModelSaid:
    said = [item for item in items if isinstance(item, ModelSaid)]
    assert said, items
    return said[-1]


def used_key(request: Asked) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


class Service:
    """A model's service that refuses some keys."""

    def __init__(self, **refusals: Said) -> None:
        self.refusals = {f"sk-or-{name}-secret": reply for name, reply in refusals.items()}
        self.keys: list[str] = []

    def __call__(self, request: Asked) -> Said:
        self.keys.append(used_key(request))
        return self.refusals.get(self.keys[-1]) or Reply(text=f"by {self.keys[-1]}")


NO_CREDIT = failure(402, "Insufficient credits")


async def test_a_pool_rotates_and_its_cooldowns_survive_a_restart(tmp_path: Path) -> None:
    service = Service(a=NO_CREDIT)
    async with FakeModelServer(service) as server:
        config(tmp_path, server)
        for name in "ab":
            CredentialFile(tmp_path).add(key(name))
        async with gateway(tmp_path) as app:
            said = answer(await say(app))
            assert (said.text, said.via) == ("by ‹secret›", "#b-key"), "a key is shown to nobody"
        async with gateway(tmp_path) as app:
            await say(app)
        assert service.keys == ["sk-or-a-secret", "sk-or-b-secret", "sk-or-b-secret"]
        stored = json.loads((tmp_path / AUTH_FILE).read_text())
        assert stored["cooldowns"]["a"]["kind"] == "no_credit"


async def test_the_key_of_the_environment_comes_first_and_is_not_copied(tmp_path: Path) -> None:
    service = Service(env=failure(401, "No"))
    async with FakeModelServer(service) as server:
        config(tmp_path, server)
        CredentialFile(tmp_path).add(key("a"))
        async with gateway(tmp_path, OPENROUTER_API_KEY="sk-or-env-secret") as app:
            await say(app)
            await say(app)
    assert service.keys == ["sk-or-env-secret", "sk-or-a-secret", "sk-or-a-secret"]
    assert "sk-or-env-secret" not in (tmp_path / AUTH_FILE).read_text()


async def test_an_agent_has_credentials_of_its_own(tmp_path: Path) -> None:
    service = Service()
    async with FakeModelServer(service) as server:
        config(tmp_path, server, "agents: {bee: {}, ant: {}}\n")
        (tmp_path / "agents/bee").mkdir(parents=True)
        CredentialFile(tmp_path).add(key("main"))
        CredentialFile(tmp_path / "agents/bee").add(key("bee"))
        async with gateway(tmp_path) as app:
            for name in ("bee", "ant", "main"):
                await say(app, agent=AgentId(name))
    assert service.keys == ["sk-or-bee-secret", "sk-or-main-secret", "sk-or-main-secret"]
    loaded = load_settings(tmp_path, {})
    assert "bee-secret" not in loaded.secrets.redact("it is sk-or-bee-secret, I think")


async def test_a_credential_that_is_added_counts_without_a_restart(tmp_path: Path) -> None:
    service = Service()
    async with FakeModelServer(service, key="sk-or-late-secret") as server:
        config(tmp_path, server)
        async with gateway(tmp_path) as app:
            assert isinstance((await say(app))[-1], Failed), "there is no key yet"
            CredentialFile(tmp_path).add(key("late"))
            assert (await app.generations.apply()).changed == (AUTH_FILE,)
            await say(app)
            assert (await app.generations.apply()).changed == (), "a cooldown or a token is no other setting"
    assert service.keys == ["sk-or-late-secret"]


# --- fallback ---


async def test_a_fallback_answers_is_said_once_and_goes_when_it_may(tmp_path: Path) -> None:
    clock = FakeClock()
    main_replies: list[Said] = [NO_CREDIT, Reply(text="back")]
    async with (
        FakeModelServer(main_replies) as main,
        FakeModelServer(lambda asked: Reply(text=f"spare {asked.model}"), key="sk-spare-key") as spare,
    ):
        place = f"base_url: '{spare.base_url}', key_env: SPARE_KEY"
        chain = f"fallback_providers: [{{provider: custom, model: small, {place}}}]\n"
        config(tmp_path, main, chain)
        variables = {"OPENROUTER_API_KEY": "sk-or-x-secret", "SPARE_KEY": "sk-spare-key"}
        async with gateway(tmp_path, clock, **variables) as app:
            first = await say(app)
            second = await say(app)
            await clock.advance(61)
            third = await say(app)
        texts = [answer(items).text for items in (first, second, third)]
        assert texts == ["spare small", "spare small", "back"]
        assert [answer(items).via for items in (first, second, third)] == ["custom", "custom", ""]
        assert len([item for item in first if isinstance(item, Notice)]) == 1
        bodies = [
            request.body["messages"][0] for request in (*main.requests, *spare.requests) if request.body
        ]
        assert len({json.dumps(body) for body in bodies}) == 1, "the prompt's prefix stays as it is"


async def test_a_fallback_goes_on_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    broken = Reply(text="one two three four", pace=Pace(sizes=(4,)), cut=Cut(after=rb"two [^\n]*\n\n"))
    script: list[Said] = [broken, *[failure(500, "down")] * 4]
    async with (
        FakeModelServer(script) as main,
        FakeModelServer([Reply(text="three four")]) as spare,
    ):
        chain = f"fallback_model: {{provider: custom, model: small, base_url: '{spare.base_url}'}}\n"
        config(tmp_path, main, f"agent: {{api_max_retries: 0}}\n{chain}")
        async with gateway(tmp_path, OPENROUTER_API_KEY="sk-or-x-secret") as app:
            said = answer(await say(app, "count"))
    assert (said.text, said.via) == ("one two three four", "custom")


async def test_what_cannot_be_used_is_no_part_of_the_chain(tmp_path: Path) -> None:
    async with FakeModelServer([NO_CREDIT]) as main:
        chain = (
            f"fallback_providers:\n- {{provider: openrouter, model: big, base_url: '{main.base_url}'}}\n"
            "- {provider: anthropic, model: claude}\n"
        )
        config(tmp_path, main, chain)
        async with gateway(tmp_path, OPENROUTER_API_KEY="sk-or-x-secret") as app:
            assert isinstance((await say(app))[-1], Failed)
        assert len([request for request in main.requests if request.method == "POST"]) == 1


def test_mistakes_in_a_chain_are_told_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "fallback_providers:\n- {provider: openai}\n- {provider: openai, model: m, key_evn: X}\n"
        "- {provider: openai, model: m}\n"
        "credential_pool_strategies: {openrouter: round_robbin, openai: random}\n"
    )
    loaded = load_settings(tmp_path, {})
    assert [problem.line for problem in loaded.problems] == [2, 3, 5]
    assert [entry.model for entry in loaded.settings.fallback_providers] == ["m"]
    assert loaded.settings.credential_pool_strategies["openai"].strategy == "random"


async def test_a_time_that_the_service_named_is_kept_over_a_restart(tmp_path: Path) -> None:
    limited = failure(429, "Rate limit", after=RetryAfter(seconds=3000))
    async with FakeModelServer([limited]) as server:
        config(tmp_path, server)
        CredentialFile(tmp_path).add(key("a"))
        for _ in range(2):
            async with gateway(tmp_path) as app:
                end = (await say(app))[-1]
                assert isinstance(end, Failed) and "UTC" in end.reason, "it says until when"
        assert len([request for request in server.requests if request.method == "POST"]) == 1


async def test_a_chat_is_told_that_it_waits(tmp_path: Path) -> None:
    limited = ModelFault("limited", kind=FaultKind.LIMITED_UNTIL, after=40.0)
    script, clock = [Say(error=limited), Say(text="here I am")], FakeClock()
    async with Journey(folder=tmp_path, script=script, clock=clock) as chat:
        chat.world.write("hello")
        await clock.advance(2)
        await chat.until_seen("⏳ The model's service asks to wait 40 seconds.")
        await clock.advance(41)
        await chat.until_seen("here I am")


# --- logins ---


def logged_in(home: Path, server: FakeLoginServer, seconds: float) -> None:
    tokens = server.tokens()
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    login = key("n", "nous", kind=CredentialKind.OAUTH, source="device_code", expires_at=ends)
    login = replace(login, key=Secret(tokens["access_token"]), refresh=Secret(tokens["refresh_token"]))
    CredentialFile(home).add(login)


@pytest.fixture
async def logins(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLoginServer]:
    async with FakeLoginServer() as server:
        monkeypatch.setitem(LOGINS, "nous", server.login("nous", header="x-refresh"))
        yield server


async def test_a_login_is_renewed_and_used(tmp_path: Path, logins: FakeLoginServer) -> None:
    service = Service()
    async with FakeModelServer(service) as server:
        config(tmp_path, server, provider="nous")
        logged_in(tmp_path, logins, seconds=30)
        async with gateway(tmp_path) as app:
            said = await asyncio.gather(*(say(app, str(number)) for number in range(5)))
    assert all(answer(items).text for items in said)
    assert {*service.keys} == {"access-2"} and logins.refreshes == 1, "one refresh for all turns"
    (stored,) = CredentialFile(tmp_path).read().credentials
    assert (stored.key.reveal(), stored.refresh.reveal()) == ("access-2", "refresh-2")


async def test_a_login_that_is_over_says_what_to_do(tmp_path: Path, logins: FakeLoginServer) -> None:
    async with FakeModelServer(Service()) as server:
        config(tmp_path, server, provider="nous")
        logged_in(tmp_path, logins, seconds=-1)
        logins.good = set()
        async with gateway(tmp_path) as app:
            for _ in range(2):
                end = (await say(app))[-1]
                assert isinstance(end, Failed) and "hermes login nous" in end.reason
    assert logins.refreshes == 1, "what is dead is not asked again"
    assert CredentialFile(tmp_path).read().credentials[0].dead


def _store(home: Path) -> CredentialStore:
    return CredentialStore(home, Secrets(), SystemClock())


async def test_a_refresh_without_a_new_refresh_token_keeps_the_old(
    tmp_path: Path, logins: FakeLoginServer
) -> None:
    logins.rotates = False
    logged_in(tmp_path, logins, seconds=-1)
    for _ in range(2):
        (now,) = await _store(tmp_path).read("nous")
        await _store(tmp_path).renew(now)
    (stored,) = CredentialFile(tmp_path).read().credentials
    assert (stored.key.reveal(), stored.refresh.reveal()) == ("access-3", "refresh-1")


async def test_a_server_in_trouble_costs_no_token(tmp_path: Path, logins: FakeLoginServer) -> None:
    logged_in(tmp_path, logins, seconds=-1)
    logins.fails = [503, 429]
    store = _store(tmp_path)
    (now,) = await store.read("nous")
    for _ in range(2):
        with pytest.raises(Unreachable):
            await store.renew(now)
    assert CredentialFile(tmp_path).read().credentials == (now,)
    assert (await store.renew(now)).refresh.reveal() == "refresh-2"


async def test_a_token_that_cannot_be_written_is_not_lost(
    tmp_path: Path, logins: FakeLoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged_in(tmp_path, logins, seconds=-1)
    store = _store(tmp_path)
    (now,) = await store.read("nous")
    with monkeypatch.context() as full:

        def no_space(*given: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr("hermes.state.home.credentials.write_whole", no_space)
        renewed = await store.renew(now)
        assert renewed.refresh.reveal() == "refresh-2"
        assert (await store.renew(renewed)).refresh.reveal() == "refresh-3", "the one in memory is used"
    assert CredentialFile(tmp_path).read().credentials == (now,)
    await store.close()
    assert CredentialFile(tmp_path).read().credentials[0].refresh.reveal() == "refresh-3"


async def test_whoever_stops_waiting_does_not_lose_the_token(tmp_path: Path, logins: FakeLoginServer) -> None:
    logins.slow = 0.2
    logged_in(tmp_path, logins, seconds=-1)
    store = _store(tmp_path)
    (now,) = await store.read("nous")
    waiting = asyncio.create_task(store.renew(now))
    await logins.refreshing.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    await store.close()
    assert CredentialFile(tmp_path).read().credentials[0].refresh.reveal() == "refresh-2"


def _renew_elsewhere(home: Path, url: str, all_have_read: Barrier) -> None:
    async def renew() -> str:
        server = FakeLoginServer(url=url)
        LOGINS["nous"] = server.login("nous", header="x-refresh")
        store = _store(home)
        (now,) = await store.read("nous")
        await asyncio.to_thread(all_have_read.wait, 60)
        return (await store.renew(now)).key.reveal()

    assert asyncio.run(renew()) == "access-2"


async def test_two_processes_refresh_once(tmp_path: Path, logins: FakeLoginServer) -> None:
    logins.slow = 0.3
    logged_in(tmp_path, logins, seconds=-1)
    context = multiprocessing.get_context("spawn")
    all_have_read = context.Barrier(3)
    given = (tmp_path, logins.url, all_have_read)
    workers = [context.Process(target=_renew_elsewhere, args=given) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
        assert worker.exitcode == 0
    assert logins.refreshes == 1
    assert CredentialFile(tmp_path).read().credentials[0].refresh.reveal() == "refresh-2"


async def test_a_refresh_token_used_twice_ends_the_login(tmp_path: Path, logins: FakeLoginServer) -> None:
    logged_in(tmp_path, logins, seconds=-1)
    store = _store(tmp_path)
    (now,) = await store.read("nous")
    logins.used.add("refresh-1")
    with pytest.raises(NeedsLogin, match="refresh_token_reused"):
        await store.renew(now)
    assert "hermes login nous" in CredentialFile(tmp_path).read().credentials[0].dead
