"""Which model answers, and why, in one line: what was configured, else a model server that runs on this
machine, else the demo model. `choose` is pure; `find_servers` looks at the default ports of well-known
servers on loopback and nowhere else, and sends no key there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from hermes.agent.models.formats import CHAT_COMPLETIONS, FORMATS
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.word import replace

if TYPE_CHECKING:
    import aiohttp

HOST = "127.0.0.1"
PROBE_SECONDS = 0.3
NO_PROBE = "HERMES_NO_PROBE"
DEMO = "demo"
OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
_UNNAMED = "default"
_MOST_BYTES = 1 << 20


class ModelService(Struct, frozen=True, kw_only=True):
    """A service by its usual name: its address, and the model that is asked for if none is named."""

    title: str
    base_url: str
    model: str = ""
    needs_key: str = ""
    format: str = CHAT_COMPLETIONS


SERVICES: Mapping[str, ModelService] = {
    "openai": ModelService(
        title="OpenAI", base_url=OPENAI_URL, model="gpt-4.1-mini", needs_key="OPENAI_API_KEY"
    ),
    "openrouter": ModelService(
        title="OpenRouter", base_url=OPENROUTER_URL, model="openrouter/auto", needs_key="OPENROUTER_API_KEY"
    ),
    "ollama": ModelService(title="Ollama", base_url=f"http://{HOST}:11434/v1"),
    "lmstudio": ModelService(title="LM Studio", base_url=f"http://{HOST}:1234/v1"),
    "llamacpp": ModelService(title="llama.cpp", base_url=f"http://{HOST}:8080/v1"),
    "vllm": ModelService(title="vLLM", base_url=f"http://{HOST}:8000/v1"),
}
PORTS = (11434, 1234, 8080, 8000)
# What a server of that kind, and no other, answers: a path, and a key of the JSON object that is there.
_SIGNS = {
    "ollama": ("/api/tags", "models"),
    "lmstudio": ("/api/v0/models", "data"),
    "llamacpp": ("/props", "default_generation_settings"),
    "vllm": ("/version", "version"),
}
LOCAL_SERVERS = frozenset(_SIGNS)


class ModelAccess(StrEnum):
    HTTP = "http"
    GIVEN = "given"
    PLUGIN = "plugin"
    DEMO = "demo"
    NONE = "none"


class LocalServer(Struct, frozen=True, kw_only=True):
    kind: str
    base_url: str
    models: tuple[str, ...]


class ModelChoice(Struct, frozen=True, kw_only=True):
    """The model that answers. `why` is a reason a person understands; no key is ever in a text of it."""

    way: ModelAccess
    model: str = ""
    provider: str = ""
    title: str = ""
    base_url: str = ""
    key: Secret = field(default_factory=lambda: Secret(""))
    format: str = CHAT_COMPLETIONS
    why: str = ""
    hint: str = ""
    wrong: str = ""
    """The setting that names something which does not exist."""

    @classmethod
    def given(cls, model: str) -> ModelChoice:
        """For a provider that an embedding program brings along."""
        return cls(way=ModelAccess.GIVEN, model=model, why="given by the program that runs Hermes")

    @property
    def line(self) -> str:
        """One line: which model, by whom, where, and why."""
        match self.way:
            case ModelAccess.DEMO:
                return f"demo, the offline demo model, which is not an AI: {self.why}"
            case ModelAccess.NONE:
                return f"none: {self.why}"
            case ModelAccess.GIVEN:
                return f"{self.model or 'a model'}, {self.why}"
            case ModelAccess.PLUGIN:
                return f"{self.model or 'its own choice'} by the plugin {self.provider}: {self.why}"
            case ModelAccess.HTTP:
                return f"{self.model} by {self.title} at {shown_url(self.base_url)}: {self.why}"


def choose(
    settings: ModelSettings,
    *,
    servers: Sequence[LocalServer] = (),
    plugins: Collection[str] = (),
    looked: bool = True,
) -> ModelChoice:
    """The one place where it is decided which model answers. `servers` were found here, if anybody `looked`;
    `plugins` are the names of providers that plugins bring."""
    provider = settings.provider.strip().lower() or "auto"
    if provider == DEMO:
        return _demo("model.provider says so")
    if provider in plugins:
        return _plugin(settings, provider, "model.provider says so")
    if provider != "auto":
        return _named(settings, provider)
    if settings.base_url:
        return _custom(settings, "an address is set (model.base_url or OPENAI_BASE_URL)")
    key = settings.api_key.reveal()
    if key:
        name = "openrouter" if key.startswith("sk-or-") else "openai"
        return _serviced(settings, name, SERVICES[name], "a key is set")
    if len(plugins) == 1:
        (only,) = plugins
        return _plugin(settings, only, "it is the only provider that is installed")
    if settings.default.strip().lower() == DEMO:
        return _demo("the model demo is set")
    return _local(settings, servers, looked)


def stand_in(choice: ModelChoice, settings: ModelSettings, before: ModelChoice | None) -> ModelChoice:
    """The choice where a real model answered `before`: the demo model takes its place only if it was asked
    for by name. A server of this machine may come up later; a key that is gone must be set again."""
    wanted = DEMO in (settings.provider.strip().lower(), settings.default.strip().lower())
    if choice.way is not ModelAccess.DEMO or wanted or before is None:
        return choice
    if before.provider in LOCAL_SERVERS and before.base_url:
        return replace(before, why=f"it answered here before, and {choice.why}")
    return _none(
        f"{before.model} by {before.title} answered here before, but {choice.why}",
        "Set the key or the address again; for the demo model: hermes config set model demo",
        provider=before.provider,
        model=before.model,
    )


def with_endpoint(settings: ModelSettings, base_url: str, key: str) -> ModelSettings:
    """The settings with an address or a key that somebody gives for one use. A stored key goes along only
    to the place that it was stored for."""
    if key and not base_url:
        named = "openrouter" if key.startswith("sk-or-") else settings.provider
        return replace(settings, provider=named, api_key=Secret(key))
    if not base_url:
        return settings
    if not key and _host(base_url) == _host(settings.base_url or _usual_url(settings)):
        return replace(settings, base_url=base_url)
    return replace(settings, provider="auto", base_url=base_url, api_key=Secret(key))


def _usual_url(settings: ModelSettings) -> str:
    service = SERVICES.get(settings.provider.strip().lower())
    return service.base_url if service is not None else OPENAI_URL


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_settled(settings: ModelSettings, plugins: Collection[str] = ()) -> bool:
    """Whether the settings alone decide, so that nobody needs to look for servers: would one change it?"""
    here = LocalServer(kind="ollama", base_url="found", models=(settings.default or "any",))
    return choose(settings, plugins=plugins, servers=(here,)).base_url != here.base_url


def is_unnamed(choice: ModelChoice) -> bool:
    """Whether no model is named, so that the server should be asked what it has."""
    return choice.way is ModelAccess.HTTP and choice.model == _UNNAMED


def shown_url(url: str) -> str:
    """An address without the credentials some people write into it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        netloc = f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, netloc, parts.path, "", "")) or url


def _plugin(settings: ModelSettings, name: str, why: str) -> ModelChoice:
    return ModelChoice(way=ModelAccess.PLUGIN, model=settings.default, provider=name, title=name, why=why)


def _demo(why: str) -> ModelChoice:
    return ModelChoice(way=ModelAccess.DEMO, model=DEMO, provider=DEMO, why=why)


def _none(why: str, hint: str, *, provider: str = "", model: str = "", wrong: str = "") -> ModelChoice:
    return ModelChoice(way=ModelAccess.NONE, model=model, provider=provider, why=why, hint=hint, wrong=wrong)


def _named(settings: ModelSettings, provider: str) -> ModelChoice:
    why = f"model.provider is {provider}"
    service = SERVICES.get(provider)
    if service is not None:
        return _serviced(settings, provider, service, why)
    if settings.base_url:
        return _custom(settings, why, provider)
    if provider in ("custom", "local") or provider.startswith("custom:"):
        hint = "hermes config set model.base_url http://…/v1"
        return _none(f"{why}, and no address is set", hint, provider=provider)
    hint = f"Known: auto, {', '.join(SERVICES)}, custom, {DEMO}; any other needs model.base_url."
    return _none(f"the provider “{provider}” is not known", hint, provider=provider, wrong="provider")


def _serviced(settings: ModelSettings, name: str, service: ModelService, why: str) -> ModelChoice:
    base_url = settings.base_url or service.base_url
    if service.needs_key and base_url == service.base_url and not settings.api_key:
        hint = f"hermes config set {service.needs_key} …"
        return _none(f"{why}, and {service.needs_key} is not set", hint, provider=name)
    wire = settings.api_mode or service.format
    if wire not in FORMATS:
        hint = f"Known: {', '.join(FORMATS)}."
        why = f"the wire format “{wire}” of model.api_mode is not known"
        return _none(why, hint, provider=name, wrong="api_mode")
    model = settings.default or service.model or _UNNAMED
    if not settings.default and service.model:
        why = f"{why}; no model is named, so its usual one is asked for"
    return ModelChoice(
        way=ModelAccess.HTTP,
        model=model,
        provider=name,
        title=service.title,
        base_url=base_url,
        key=settings.api_key,
        format=wire,
        why=why,
    )


def _custom(settings: ModelSettings, why: str, provider: str = "custom") -> ModelChoice:
    title = "an OpenAI-compatible service" if provider == "custom" else provider
    return _serviced(settings, provider, ModelService(title=title, base_url=settings.base_url), why)


def _local(settings: ModelSettings, servers: Sequence[LocalServer], looked: bool) -> ModelChoice:
    """Nothing but perhaps a name is set. A server that was found never gets a stored key."""
    wanted = settings.default
    for server in servers:
        model = wanted if wanted in server.models else first_usable(server.models)
        if wanted and model != wanted:
            continue
        why = "it has the model that is set" if wanted else "no model is configured, and it runs here"
        return ModelChoice(
            way=ModelAccess.HTTP,
            model=model,
            provider=server.kind,
            title=SERVICES[server.kind].title,
            base_url=server.base_url,
            why=why,
        )
    if wanted:
        return _none(
            f"the model {wanted} is set, but no key and no address, and no server here has it",
            "Set OPENAI_API_KEY, OPENROUTER_API_KEY or model.base_url; the model `demo` needs none.",
            model=wanted,
        )
    around = "no model server runs here" if looked else "nobody looked for a model server here"
    return _demo(f"no key and no address is set, and {around}")


def is_local(url: str) -> bool:
    """Whether a server runs on this machine, where an answer may take its time."""
    return _host(url) in ("127.0.0.1", "localhost", "::1")


def first_usable(models: Sequence[str]) -> str:
    """The first model that can talk."""
    return next((name for name in models if "embed" not in name.lower()), "")


# --- looking around --------------------------------------------------------------------------------


async def find_servers(ports: Sequence[int] = PORTS) -> list[LocalServer]:
    """The model servers that run on this machine, in the order of the ports. Takes a second at most."""
    open_ports = await asyncio.gather(*(_is_open(port) for port in ports))
    listening = [port for port, is_open in zip(ports, open_ports, strict=True) if is_open]
    if not listening:
        return []
    async with _session() as session:
        found = await asyncio.gather(*(_look(session, port) for port in listening))
    return [server for server in found if server is not None]


async def ask_models(base_url: str, key: Secret, seconds: float = 1.0) -> tuple[str, ...]:
    """What a configured service offers; its own key is sent along."""
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    async with _session(seconds) as session:
        return _names(await _get(session, f"{base_url.rstrip('/')}/models", headers)) or ()


async def _is_open(port: int) -> bool:
    """Closed ports refuse at once, so that usually nothing more has to be loaded or waited for."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _session(seconds: float = PROBE_SECONDS) -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=seconds), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    )


async def _look(session: aiohttp.ClientSession, port: int) -> LocalServer | None:
    place = f"http://{HOST}:{port}"
    names = _names(await _get(session, f"{place}/v1/models"))
    if not names or not first_usable(names):
        return None
    kind = await _kind(session, place)
    return None if kind is None else LocalServer(kind=kind, base_url=f"{place}/v1", models=names)


async def _kind(session: aiohttp.ClientSession, place: str) -> str | None:
    """Ports belong to many programs: only a server that shows a sign of its kind is believed."""
    answers = await asyncio.gather(*(_get(session, f"{place}{path}") for path, _ in _SIGNS.values()))
    for (kind, (_, key)), answer in zip(_SIGNS.items(), answers, strict=True):
        if isinstance(answer, dict) and key in answer:
            return kind
    return None


async def _get(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None) -> Any:
    import json

    import aiohttp

    try:
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                return None
            data = b""
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > _MOST_BYTES:
                    return None
            return json.loads(data)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


def _names(answer: Any) -> tuple[str, ...]:
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return ()
    names = (item.get("id") for item in listed if isinstance(item, dict))
    return tuple(name for name in names if isinstance(name, str) and name)
