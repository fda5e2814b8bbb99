"""What model servers say of themselves: which run on this machine, which models one offers, how much they
read, and whether it takes our key. A server that was found here, and not named, is never sent a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from hermes.agent.models.choose import LocalServer, ModelChoice, first_usable, is_local
from hermes.agent.models.formats import FORMATS, load_format
from hermes.domain.models.providers import ANTHROPIC_MESSAGES, PROVIDERS, find_provider

if TYPE_CHECKING:
    import aiohttp

HOST = "127.0.0.1"
PROBE_SECONDS = 0.3
NO_PROBE = "HERMES_NO_PROBE"
_SIGNS = {spec.id: spec.sign for spec in PROVIDERS.values() if spec.is_local}
PORTS = tuple(urlsplit(PROVIDERS[kind].base_url).port or 0 for kind in _SIGNS)
_MOST_BYTES = 8 << 20
_LEAST_WINDOW = 256


class OfferedModel(Struct, frozen=True, kw_only=True):
    """A model that a server lists, and how much it reads there, if the server says so."""

    name: str
    window: int | None = None


class ModelListing(Struct, frozen=True, kw_only=True):
    """What a server answered when it was asked for its models. Status 0: it could not be reached."""

    models: tuple[OfferedModel, ...] = ()
    status: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.models)

    @property
    def fault(self) -> str:
        """What is wrong, in a few words; empty if nothing is."""
        if not self.status:
            return "it cannot be reached"
        if self.status in (401, 403):
            return "it refuses the key"
        if self.status >= 500 or self.status == 429:
            return f"it is out of order (status {self.status})"
        return ""


async def find_servers(ports: Sequence[int] = PORTS) -> list[LocalServer]:
    """The model servers that run on this machine, in the order of the ports. Takes a second at most."""
    open_ports = await asyncio.gather(*(_is_open(port) for port in ports))
    listening = [port for port, is_open in zip(ports, open_ports, strict=True) if is_open]
    if not listening:
        return []
    async with _session(PROBE_SECONDS) as session:
        found = await asyncio.gather(*(_look(session, port) for port in listening))
    return [server for server in found if server is not None]


async def list_models(choice: ModelChoice, seconds: float = 1.0) -> ModelListing:
    """What the service behind a choice offers; its own key is sent along."""
    options, spec = choice.options, find_provider(choice.provider)
    named = tuple(OfferedModel(name=name) for name in options.models)
    url = "" if spec is None or choice.base_url not in (spec.base_url, options.usual_url) else spec.models_url
    if url == "-" or not options.discover:
        return ModelListing(models=named, status=404)
    if not url:
        inner = "/v1/models" if choice.format == ANTHROPIC_MESSAGES else "/models"
        parts = urlsplit(choice.base_url)
        url = urlunsplit(parts._replace(path=parts.path.rstrip("/") + inner))
    key = choice.key.reveal().strip()
    headers = dict(load_format(choice.format).headers(key)) if choice.format in FORMATS else {}
    headers |= {name: text.reveal() for name, text in options.headers}
    async with _session(seconds, choice) as session:
        status, answer = await _get(session, url, headers)
        offered = _read_models(answer)
        if is_local(choice.base_url) and offered:
            offered = await _probe(session, choice, offered)
    listed = {model.name for model in offered}
    return ModelListing(models=(*offered, *(one for one in named if one.name not in listed)), status=status)


async def fetch_json(url: str, seconds: float) -> Any:
    """What is at a public address, if it is JSON; else None."""
    async with _session(seconds) as session:
        return (await _get(session, url))[1]


def _read_models(answer: Any) -> tuple[OfferedModel, ...]:
    """A list as OpenAI, OpenRouter (`context_length`), vLLM (`max_model_len`), Groq (`context_window`) and
    Anthropic (`max_input_tokens`) write it."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    fields = ("context_length", "max_model_len", "context_window", "max_input_tokens")
    return tuple(
        OfferedModel(name=name, window=_window(*(item.get(field) for field in fields)))
        for item in items
        if isinstance(name := item.get("id"), str) and name
    )


def _window(*values: object) -> int | None:
    sizes = (value for value in values if isinstance(value, int) and not isinstance(value, bool))
    return next((size for size in sizes if size >= _LEAST_WINDOW), None)


async def _probe(
    session: aiohttp.ClientSession, choice: ModelChoice, offered: tuple[OfferedModel, ...]
) -> tuple[OfferedModel, ...]:
    """How much a server of this machine reads as it was started, asked in the way of its kind: llama.cpp
    (`/props`), LM Studio (`/api/v0/models`, loaded ones), Ollama (`/api/ps`, loaded ones)."""
    place = choice.base_url.rstrip("/").removesuffix("/v1")
    paths = ("/props", "/api/v0/models", "/api/ps")
    answers = await asyncio.gather(*(_get(session, place + path) for path in paths))
    props, studio, ollama = (answer if isinstance(answer, dict) else {} for _, answer in answers)
    begun = props.get("default_generation_settings")
    everywhere = _window(begun.get("n_ctx")) if isinstance(begun, dict) else None
    loaded = {
        str(item.get("id")): _window(item.get("loaded_context_length")) for item in _dicts(studio, "data")
    }
    loaded |= {
        str(item.get("name")): _window(item.get("context_length")) for item in _dicts(ollama, "models")
    }
    return tuple(
        OfferedModel(name=one.name, window=loaded.get(one.name) or everywhere or one.window)
        for one in offered
    )


def _dicts(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed = answer.get(name)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


async def _is_open(port: int) -> bool:
    """Closed ports refuse at once, so that usually nothing more has to be loaded or waited for."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _session(seconds: float, choice: ModelChoice | None = None) -> aiohttp.ClientSession:
    import aiohttp

    from hermes.agent.models.client import tls_of

    connector = None
    if choice is not None and choice.options.ssl_ca_cert + "0" * (not choice.options.ssl_verify):
        connector = aiohttp.TCPConnector(ssl=tls_of(choice.options))
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def _look(session: aiohttp.ClientSession, port: int) -> LocalServer | None:
    place = f"http://{HOST}:{port}"
    _, answer = await _get(session, f"{place}/v1/models")
    names = tuple(model.name for model in _read_models(answer))
    if not names or not first_usable(names):
        return None
    kind = await _kind(session, place)
    return None if kind is None else LocalServer(kind=kind, base_url=f"{place}/v1", models=names)


async def _kind(session: aiohttp.ClientSession, place: str) -> str | None:
    """Ports belong to many programs: only a server that shows a sign of its kind is believed."""
    answers = await asyncio.gather(*(_get(session, f"{place}{path}") for path, _ in _SIGNS.values()))
    for (kind, (_, key)), (_, answer) in zip(_SIGNS.items(), answers, strict=True):
        if isinstance(answer, dict) and key in answer:
            return kind
    return None


async def _get(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """The status, 0 if there was no proper answer, and the JSON of a good one."""
    import aiohttp

    try:
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                return response.status, None
            data = bytearray()
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > _MOST_BYTES:
                    return 0, None
            return response.status, json.loads(data)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError):
        return 0, None
