"""Which model answers: what is configured, else a server on this machine, else the demo model."""

from __future__ import annotations

import json

import pytest

from hermes.agent.models import servers as detect
from hermes.agent.models.choose import (
    LocalServer,
    ModelAccess,
    ModelChoice,
    choose,
    is_local,
    is_settled,
    shown_url,
    stand_in,
    with_endpoint,
)
from hermes.agent.models.demo import DemoProvider
from hermes.agent.models.registry import Models
from hermes.agent.models.servers import find_servers
from hermes.domain.errors import ModelFault
from hermes.domain.ports.agent import ModelEnd, ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.turns.event import TextDelta
from hermes.testing.model_script import ModelRequest as Seen
from hermes.testing.model_script import RawReply, Said
from hermes.testing.model_server import FakeModelServer, refusing_address
from hermes.testing.provider_suite import ask

KEY = "sk-secret-0123456789"
OLLAMA = LocalServer(
    kind="ollama", base_url="http://127.0.0.1:11434/v1", models=("nomic-embed-text", "qwen3")
)


def settings(key: str = "", **more: str) -> ModelSettings:
    return ModelSettings(api_key=Secret(key), **more)  # type: ignore[arg-type]


HTTP = ModelAccess.HTTP
TABLE = [
    # settings, servers, plugins → way, provider, model, host
    (settings(), (), (), ModelAccess.DEMO, "demo", "demo", ""),
    (settings(), (OLLAMA,), (), HTTP, "ollama", "qwen3", "127.0.0.1"),
    (settings(default="qwen3"), (OLLAMA,), (), HTTP, "ollama", "qwen3", "127.0.0.1"),
    (settings(default="gpt-x"), (OLLAMA,), (), ModelAccess.NONE, "", "gpt-x", ""),
    (settings(default="gpt-x"), (), (), ModelAccess.NONE, "", "gpt-x", ""),
    (settings(default="demo"), (OLLAMA,), (), ModelAccess.DEMO, "demo", "demo", ""),
    (settings(provider="demo"), (OLLAMA,), (), ModelAccess.DEMO, "demo", "demo", ""),
    (settings(KEY), (OLLAMA,), (), HTTP, "openai", "gpt-4.1-mini", "api.openai.com"),
    (settings(KEY, default="o9"), (), (), HTTP, "openai", "o9", "api.openai.com"),
    (settings("sk-or-v1-xyz"), (), (), HTTP, "openrouter", "openrouter/auto", "openrouter.ai"),
    (settings(KEY, provider="openrouter"), (), (), HTTP, "openrouter", "openrouter/auto", "router.ai"),
    (settings(provider="openrouter"), (OLLAMA,), (), ModelAccess.NONE, "openrouter", "", ""),
    (settings(provider="openai"), (), (), ModelAccess.NONE, "openai", "", ""),
    (settings(provider="OpenAI", base_url="http://x/v1"), (), (), HTTP, "openai", "gpt-4.1-mini", "x"),
    (settings(base_url="http://x/v1", default="m"), (OLLAMA,), (), HTTP, "custom", "m", "x"),
    (settings(KEY, base_url="http://x/v1"), (), (), HTTP, "custom", "default", "x"),
    (settings(provider="custom"), (), (), ModelAccess.NONE, "custom", "", ""),
    (settings(provider="ollama", default="q"), (), (), HTTP, "ollama", "q", "127.0.0.1"),
    (settings(provider="groq"), (), (), ModelAccess.NONE, "groq", "", ""),
    (settings(KEY, provider="groq", base_url="https://g"), (), (), HTTP, "groq", "openai/gpt-oss-120b", "g"),
    (settings(KEY, provider="house", base_url="https://g/v1"), (), (), HTTP, "house", "default", "g"),
    (settings(provider="nosuch"), (OLLAMA,), (), ModelAccess.NONE, "nosuch", "", ""),
    (settings(KEY, provider="grok"), (), (), HTTP, "xai", "grok-4.3", "api.x.ai"),
    (settings(provider="openai-codex"), (), (), ModelAccess.NONE, "openai-codex", "", ""),
    (settings(KEY, base_url="https://api.groq.com/v1", default="m"), (), (), HTTP, "groq", "m", "groq"),
    (settings(provider="mine"), (OLLAMA,), ("mine",), ModelAccess.PLUGIN, "mine", "", ""),
    (settings(), (OLLAMA,), ("mine",), ModelAccess.PLUGIN, "mine", "", ""),
    (settings(), (OLLAMA,), ("mine", "other"), HTTP, "ollama", "qwen3", "127.0.0.1"),
    (settings(KEY), (), ("mine",), HTTP, "openai", "gpt-4.1-mini", "api.openai.com"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "servers", "plugins", "way", "provider", "model", "host"), TABLE)
def test_the_table(
    said: ModelSettings,
    servers: tuple[LocalServer, ...],
    plugins: tuple[str, ...],
    way: ModelAccess,
    provider: str,
    model: str,
    host: str,
) -> None:
    choice = choose(said, servers=servers, plugins=plugins)
    assert (choice.way, choice.provider, choice.model) == (way, provider, model)
    assert host in choice.base_url and bool(host) is bool(choice.base_url)
    assert choice.why and "\n" not in choice.line and choice.line
    assert KEY not in choice.line + choice.hint + repr(choice) and "sk-or-v1-xyz" not in repr(choice)
    if servers and choice.base_url == servers[0].base_url and not said.base_url and said.provider == "auto":
        assert not choice.key
    if way is ModelAccess.NONE:
        assert choice.hint


def test_a_stored_key_never_goes_to_a_server_that_was_found() -> None:
    odd = settings("", default="qwen3")
    assert not choose(odd, servers=(OLLAMA,)).key


@pytest.mark.parametrize(
    ("said", "settled"),
    [
        (settings(), False),
        (settings(default="qwen3"), False),
        (settings(KEY), True),
        (settings(base_url="http://x/v1"), True),
        (settings(provider="demo"), True),
        (settings(provider="openrouter"), True),
        (settings(default="demo"), True),
    ],
)
def test_nobody_looks_around_when_the_settings_decide(said: ModelSettings, settled: bool) -> None:
    assert is_settled(said) is settled


def test_what_runs_here_may_take_its_time() -> None:
    assert is_local("http://localhost:1/v1") and is_local("http://[::1]:1/v1")
    assert not is_local("http://127.0.0.1.example/v1") and not is_local("http://[")


def test_addresses_are_shown_without_credentials() -> None:
    assert shown_url("https://me:pass@x.example:8443/v1?key=1") == "https://x.example:8443/v1"
    assert "cannot be read" in shown_url("http://[::1/v1")
    line = ModelChoice(way=HTTP, model="m", title="t", base_url="https://me:pass@x/v1", why="w").line
    assert "pass" not in line


@pytest.mark.parametrize(
    ("said", "base_url", "key", "provider", "sent"),
    [
        (settings(KEY), "", "", "auto", KEY),
        (settings(KEY), "http://x/v1", "", "auto", ""),
        (settings(KEY), "https://api.openai.com/v2", "", "auto", KEY),
        (settings(KEY, provider="openrouter"), "https://openrouter.ai/api/v1", "", "openrouter", KEY),
        (settings(KEY, provider="openrouter"), "http://x/v1", "", "auto", ""),
        (settings(KEY), "http://x/v1", "mine", "auto", "mine"),
        (settings(KEY), "", "mine", "auto", "mine"),
        (settings(KEY), "", "sk-or-mine", "openrouter", "sk-or-mine"),
        (settings(KEY, base_url="http://x/v1"), "http://x/v1", "", "auto", KEY),
        (settings(KEY, base_url="http://x/v1"), "http://[/v1", "", "auto", ""),
    ],
)
def test_a_stored_key_stays_with_its_place(
    said: ModelSettings, base_url: str, key: str, provider: str, sent: str
) -> None:
    changed = with_endpoint(said, base_url, key)
    assert (changed.provider, changed.api_key.reveal()) == (provider, sent)


# --- looking around --------------------------------------------------------------------------------


class Local(FakeModelServer):
    """A fake server with the signs of a kind."""

    signs: dict[str, object]

    def _answer(self, request: Seen) -> Said:
        if request.path in self.signs:
            return RawReply(status=200, body=json.dumps(self.signs[request.path]).encode())
        return super()._answer(request)


def local(models: tuple[str, ...] = ("qwen3",), **signs: object) -> Local:
    server = Local(models=models)
    server.signs = {f"/{path.replace('__', '/')}": body for path, body in signs.items()}
    return server


def port(server: FakeModelServer) -> int:
    return int(server.base_url.split(":")[2].split("/")[0])


@pytest.mark.parametrize(
    ("kind", "server"),
    [
        ("ollama", local(api__tags={"models": []})),
        ("lmstudio", local(api__v0__models={"data": []})),
        ("llamacpp", local(props={"default_generation_settings": {}})),
        ("vllm", local(version={"version": "0.9"})),
        (None, local()),
        (None, local(version=["0.9"])),
        (None, local(models=(), api__tags={"models": []})),
        (None, local(models=("nomic-embed-text",), api__tags={"models": []})),
        (None, local(v1__models={"data": "many"}, api__tags={"models": []})),
        (None, local(v1__models=["qwen3"], api__tags={"models": []})),
    ],
)
async def test_a_server_is_believed_by_its_signs(kind: str | None, server: Local) -> None:
    async with server:
        found = await find_servers([port(server)])
    assert [one.kind for one in found] == ([] if kind is None else [kind])
    assert all("Authorization" not in request.headers for request in server.requests)


async def test_silence_and_closed_ports_take_no_time() -> None:
    with refusing_address() as closed:
        assert await find_servers([int(closed.split(":")[2].split("/")[0])]) == []


async def test_a_model_is_chosen_from_what_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    server = local(api__tags={"models": []})
    async with server:
        monkeypatch.setattr(detect.find_servers, "__defaults__", ([port(server)],))
        models = Models()
        choice = await models.choose(settings())
        assert (
            choice.line == f"qwen3 by Ollama at {server.base_url}: no model is configured, and it runs here"
        )
        assert (await models.choose(settings())) == choice
        provider = models.provider(choice, settings())
        words = [piece async for piece in provider.call(ask("hello"))]
        assert any(isinstance(piece, TextDelta) for piece in words)
        assert "Authorization" not in server.requests[-1].headers
        await models.close()
        seen = len(server.requests)
        unasked = await Models(probe=False).choose(settings())
        assert unasked.way is ModelAccess.DEMO and "nobody looked" in unasked.why
        assert (await Models().choose(settings(KEY))).provider == "openai"
        assert len(server.requests) == seen


async def test_a_service_without_a_model_is_asked_for_its_first() -> None:
    async with FakeModelServer(key=KEY, models=("big-embed", "small")) as server:
        choice = await Models().choose(settings(KEY, base_url=server.base_url))
        assert choice.model == "small" and "its first" in choice.why
        wrong = await Models().choose(settings("other-key", base_url=server.base_url))
        assert wrong.model == "default" and "told none" in wrong.why


async def test_what_cannot_be_used_is_said_when_somebody_asks() -> None:
    models = Models()
    choice = await models.choose(settings(provider="openrouter"))
    with pytest.raises(ModelFault, match=r"OPENROUTER_API_KEY is not set\. hermes config set"):
        models.provider(choice, settings()).call(_request())
    assert isinstance(
        models.provider(await models.choose(settings(provider="demo")), settings()), DemoProvider
    )
    mine = Models({"mine": lambda settings: DemoProvider()})
    chosen = await mine.choose(settings(provider="mine"))
    pieces = [piece async for piece in mine.provider(chosen, settings()).call(_request())]
    assert isinstance(pieces[-1], ModelEnd) and pieces[-1].model == "demo"


def _request() -> ModelRequest:
    return ModelRequest(model="", system="", entries=(), tools=())


def test_a_server_of_this_machine_may_come_up_later() -> None:
    before = choose(settings(), servers=(OLLAMA,))
    now = stand_in(choose(settings()), settings(), before)
    assert (now.way, now.model, now.base_url) == (HTTP, "qwen3", OLLAMA.base_url)
    assert "no model server runs here" in now.why


def test_only_the_demo_model_that_nobody_asked_for_is_replaced() -> None:
    before = choose(settings(KEY))
    for wish in (settings(default="demo"), settings(provider="demo"), settings(KEY), settings(default="x")):
        choice = choose(wish)
        assert stand_in(choice, wish, before) is choice
    lost = stand_in(choose(settings()), settings(), before)
    assert lost.way is ModelAccess.NONE and "gpt-4.1-mini by OpenAI answered here before" in lost.why
    assert KEY not in str(lost) and "model demo" in lost.hint
    assert stand_in(choose(settings()), settings(), None).way is ModelAccess.DEMO
