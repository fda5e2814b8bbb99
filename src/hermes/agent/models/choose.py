"""Which model answers, and why, in one line: what was configured, else a model server that runs on this
machine, else the demo model. All of it is pure; `servers.py` looks around."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from hermes.agent.models.formats import FORMATS
from hermes.domain.models.providers import (
    ANTHROPIC_MESSAGES,
    CHAT_COMPLETIONS,
    CODEX_RESPONSES,
    CUSTOM,
    LOCAL,
    PROVIDERS,
    ProviderAuth,
    ProviderSpec,
    find_provider,
    provider_at,
)
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.providers import NO_ENDPOINT_OPTIONS, EndpointOptions
from hermes.domain.settings.settings import AUTO, ModelSettings
from hermes.domain.text import closest, one_line
from hermes.domain.word import replace

DEMO = "demo"
_UNNAMED = "default"
_OPENAI_URL = PROVIDERS["openai"].base_url
LOCAL_SERVERS = frozenset(spec.id for spec in PROVIDERS.values() if spec.is_local)


class ModelAccess(StrEnum):
    HTTP = "http"
    GIVEN = "given"
    PLUGIN = "plugin"
    FILE = "file"
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
    options: EndpointOptions = NO_ENDPOINT_OPTIONS
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
            case ModelAccess.FILE:
                return f"{self.model}, run on this machine: {self.why}"
            case ModelAccess.HTTP:
                return f"{self.model} by {self.title} at {shown_url(self.base_url)}: {self.why}"


def choose(
    settings: ModelSettings,
    *,
    servers: Sequence[LocalServer] = (),
    plugins: Collection[str] = (),
    stored: Collection[str] = (),
    looked: bool = True,
) -> ModelChoice:
    """The one place where it is decided which model answers. `servers` were found here, if anybody `looked`;
    `plugins` are the names of providers that plugins bring, `stored` those with a stored credential."""
    provider = settings.provider.strip().lower() or AUTO
    if provider == DEMO:
        return _demo("model.provider says so")
    if provider in plugins:
        return _plugin(settings, provider, "model.provider says so")
    if provider == LOCAL and settings.path:
        name = settings.default or settings.path.rpartition("/")[2].removesuffix(".gguf")
        why = f"model.path is {one_line(settings.path, 200)}"
        return ModelChoice(way=ModelAccess.FILE, model=name, provider=LOCAL, title="this machine", why=why)
    if provider != AUTO:
        return _named(settings, provider, stored)
    if settings.base_url:
        spec = provider_at(settings.base_url) or PROVIDERS[CUSTOM]
        return _serviced(settings, spec, "an address is set (model.base_url or OPENAI_BASE_URL)")
    key = settings.api_key.reveal()
    if key:
        name = "openrouter" if key.startswith("sk-or-") else "openai"
        return _serviced(settings, PROVIDERS[name], "a key is set")
    if len(plugins) == 1:
        (only,) = plugins
        return _plugin(settings, only, "it is the only provider that is installed")
    for spec in PROVIDERS.values():
        if spec.id in stored:
            return _serviced(settings, spec, "a credential for it is stored", stored)
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
    # The format and the headers were those of another place.
    return replace(
        settings,
        provider="auto",
        base_url=base_url,
        api_key=Secret(key),
        api_mode="",
        options=NO_ENDPOINT_OPTIONS,
    )


def _usual_url(settings: ModelSettings) -> str:
    spec = find_provider(settings.provider)
    return spec.base_url if spec is not None and spec.base_url else _OPENAI_URL


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_settled(settings: ModelSettings, plugins: Collection[str] = (), stored: Collection[str] = ()) -> bool:
    """Whether the settings alone decide, so that nobody needs to look for servers: would one change it?"""
    here = LocalServer(kind="ollama", base_url="found", models=(settings.default or "any",))
    return choose(settings, plugins=plugins, stored=stored, servers=(here,)).base_url != here.base_url


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


def _named(settings: ModelSettings, provider: str, stored: Collection[str]) -> ModelChoice:
    why = f"model.provider is {provider}"
    spec = find_provider(provider)
    if spec is not None and (spec.base_url or settings.base_url):
        return _serviced(settings, spec, why, stored)
    if settings.options.problem:
        return _none(f"{why}, but {settings.options.problem}", settings.options.hint, provider=provider)
    if settings.base_url:
        at_host = provider_at(settings.base_url) or PROVIDERS[CUSTOM]
        title = provider.removeprefix(f"{CUSTOM}:")
        own = PROVIDERS[CUSTOM] if provider == LOCAL else replace(at_host, id=provider, title=title, model="")
        return _serviced(settings, replace(own, auth=ProviderAuth.NONE), why, stored)
    if provider in (CUSTOM, LOCAL):
        hint = "hermes config set model.base_url http://…/v1"
        hint += ", or for a file: hermes model ./some.gguf" * (provider == LOCAL)
        return _none(f"{why}, and no address is set", hint, provider=provider)
    return _none(
        f"the provider “{one_line(provider, 40)}” is not known",
        unknown_provider_hint(provider),
        provider=provider,
        wrong="provider",
    )


def unknown_provider_hint(name: str, own: Collection[str] = ()) -> str:
    """What may have been meant by a provider that there is not; `own` are endpoints of the settings."""
    words = {one.removeprefix(f"{CUSTOM}:"): one for one in (*PROVIDERS, *own, DEMO)}
    near = words.get(closest(name.removeprefix(f"{CUSTOM}:"), words))
    meant = f"Did you mean {near}? " if near else ""
    return f"{meant}Known: {AUTO}, {', '.join([*PROVIDERS, *own, DEMO])}; any other needs model.base_url."


def _serviced(
    settings: ModelSettings, spec: ProviderSpec, why: str, stored: Collection[str] = ()
) -> ModelChoice:
    options = settings.options
    if options.problem:
        return _none(f"{why}, but {options.problem}", options.hint, provider=spec.id)
    usual = options.usual_url or spec.base_url
    base_url = settings.base_url or usual
    keyless = spec.auth is ProviderAuth.NONE or base_url != usual or spec.id in stored
    if not settings.api_key and not keyless:
        return _keyless(spec, why, settings.default)
    model = settings.default or spec.model or _UNNAMED
    wire = settings.api_mode or wire_format(spec, base_url, model)
    if wire not in FORMATS:
        hint = f"Known: {', '.join(FORMATS)}."
        why = f"the wire format “{one_line(wire, 40)}” of model.api_mode is not known"
        return _none(why, hint, provider=spec.id, wrong="api_mode")
    if wire == ANTHROPIC_MESSAGES:  # the format adds it
        base_url = base_url.rstrip("/").removesuffix("/v1")
    if not settings.default and spec.model:
        why = f"{why}; no model is named, so its usual one is asked for"
    return ModelChoice(
        way=ModelAccess.HTTP,
        model=model,
        provider=spec.id,
        title=spec.title,
        base_url=base_url,
        key=settings.api_key,
        format=wire,
        options=with_quirks(options, spec),
        why=why,
    )


def _keyless(spec: ProviderSpec, why: str, model: str) -> ModelChoice:
    if spec.auth is ProviderAuth.OAUTH_DEVICE_CODE:
        also = f", or hermes config set {spec.keys[0]} …" if spec.keys else ""
        hint = f"hermes auth login {spec.id}{also}"
        return _none(f"{why}, and nobody is logged in there", hint, provider=spec.id, model=model)
    hint = f"hermes config set {spec.keys[0]} …"
    return _none(f"{why}, and {spec.keys[0]} is not set", hint, provider=spec.id, model=model)


def with_quirks(options: EndpointOptions, spec: ProviderSpec) -> EndpointOptions:
    """The options of an endpoint with what is peculiar to its provider."""
    return replace(
        options,
        headers=(*((name, Secret(text)) for name, text in spec.headers), *options.headers),
        token_limit=spec.token_limit,
        reasoning=spec.reasoning,
        caching=spec.caching,
        defers=spec.defers,
    )


def wire_format(spec: ProviderSpec, base_url: str, model: str) -> str:
    """The format that an address is asked in if nobody names one: the provider's, else as its host or the end
    of its path suggests. OpenAI's newer models want Responses."""
    bare = model.rpartition("/")[2].lower()
    if spec.responses and bare.startswith(spec.responses) and CODEX_RESPONSES in FORMATS:
        return CODEX_RESPONSES
    if spec.id == CUSTOM or spec.id not in PROVIDERS:
        path = urlsplit(base_url).path.rstrip("/") if _host(base_url) else ""
        if path.removesuffix("/v1").endswith("/anthropic"):
            return ANTHROPIC_MESSAGES
    return spec.api_mode


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
            title=PROVIDERS[server.kind].title,
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
