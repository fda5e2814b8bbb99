"""A model behind HTTP: its endpoint, and one call of it in a wire format that is given.

One call is one request, and one more for each feature that the service refuses and one can do without.
Retrying, and going on after a break, is the loop's business: here everything that goes wrong becomes a
`ModelFault`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cached_property
from typing import Protocol

from msgspec import Struct, field
from yarl import URL

from hermes.agent.models.assembly import MOST_TEXT, ReplyAssembly, ReplyBody
from hermes.agent.models.cache_misses import cache_miss
from hermes.agent.models.catalogue import published_facts
from hermes.agent.models.client import Deadlines, ModelClient, ModelHttpResponse
from hermes.agent.models.faults import MOST_ERROR_BYTES, NEW_KEY, Quirk, fault_for, quirk_of, read_error
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.providers import CacheStyle, ReasoningField
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.text import one_line
from hermes.domain.turns.event import Notice
from hermes.domain.word import replace

log = logging.getLogger("hermes.models")
_LAST_WORDS = 3.0
_MOST_MODELS = 1000
_REFUSED = "refused features"
# Seconds for which a prompt stays cached. Anthropic: 5 minutes, or an hour that is paid for; OpenAI: 30
# minutes since gpt-5.6 (…/prompt-caching of both); others say nothing definite, mostly minutes.
_LIFETIMES = {"5m": 300.0, "1h": 3600.0}
_USUAL_LIFETIME = 1800.0


class ModelEndpoint(Struct, frozen=True, kw_only=True):
    """Where the model is and how to speak to it. `written_calls`: a call that it writes as text instead of
    making it counts. `headers` and `extra_body` are added to every request as they are; `token_limit` is the
    field that limits what is written, `reasoning` and `caching` how the provider wants these asked for."""

    base_url: str
    key: Secret = field(default_factory=lambda: Secret(""))
    max_tokens: int | None = None
    stream: bool = True
    written_calls: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)
    thinking_deadlines: Deadlines | None = None
    """For models that think, if they have more time."""
    headers: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, object] = field(default_factory=dict)
    token_limit: str = "max_tokens"
    reasoning: ReasoningField = ReasoningField.NONE
    caching: CacheStyle = CacheStyle.AUTOMATIC
    defers: str = ""
    """`ProviderSpec.defers`."""
    facts: Callable[[str], ModelFacts] = published_facts
    without: frozenset[str] = frozenset()
    """Features that the service refused, by the names of `faults.QUIRKS`: requests do without them."""


class WireFormat(Protocol):
    """What one wire format adds to what all of them share."""

    name: str

    def path(self, model: str) -> str:
        """What follows the base address."""

    def headers(self, key: str) -> Mapping[str, str]:
        """How the key is shown, and what else the format wants."""

    def encode(self, request: ModelRequest, endpoint: ModelEndpoint) -> bytes:
        """The body of a request."""

    def reader(self, reply: ReplyAssembly) -> Callable[[bytes], None]:
        """What reads one event of a stream, or a whole answer, and tells it to the reply."""


class HttpProvider:
    """The provider port. Providers of one process are given the same client."""

    def __init__(self, endpoint: ModelEndpoint, wire: WireFormat, client: ModelClient | None = None) -> None:
        self._endpoint = endpoint
        self._wire = wire
        self._client = client or ModelClient()
        self._path, self._target = "", URL()
        self._features: dict[str, frozenset[str]] = {}
        """What each model refused; asked again after a restart."""

    async def close(self) -> None:
        """Close the client; whoever shares it does this once, at the end."""
        await self._client.close()

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        """One call; made once more without each feature that the service refuses, if nothing was said yet."""
        without = self._refused(request)
        while True:
            begun = False
            try:
                async for piece in self._answer(request, without):
                    begun = True
                    yield piece
                return
            except ModelFault as fault:
                quirk = None if begun else quirk_of(fault)
                if quirk is None or quirk.feature in without:
                    raise
                log.info("model.refuses feature=%s model=%s", quirk.feature, one_line(request.model))
            self._remember(request, quirk)
            without |= {quirk.feature}
            if quirk.notice:
                yield Notice(text=quirk.notice.format(model=one_line(request.model, 60)))

    def _refused(self, request: ModelRequest) -> frozenset[str]:
        """What this model, or this conversation, has to do without."""
        session = request.memory.get(_REFUSED)
        mine = self._features.get(request.model, frozenset())
        return mine | session if isinstance(session, frozenset) else mine

    def _remember(self, request: ModelRequest, quirk: Quirk) -> None:
        if quirk.of_session:
            session = request.memory.get(_REFUSED)
            known = session if isinstance(session, frozenset) else frozenset()
            request.memory[_REFUSED] = known | {quirk.feature}
        else:
            if len(self._features) >= _MOST_MODELS:
                self._features.clear()
            before = self._features.get(request.model, frozenset())
            self._features[request.model] = before | {quirk.feature}

    async def _answer(self, request: ModelRequest, without: frozenset[str]) -> AsyncIterator[ModelPiece]:
        endpoint = self._endpoint
        if without:
            endpoint = replace(endpoint, without=without, stream=endpoint.stream and "stream" not in without)
        reply = ReplyAssembly(
            most_text=max(0, MOST_TEXT - len(request.spoken)),
            model=request.model,
            place=self._place,
            secret=endpoint.key.reveal(),
            tools=self._callable(request),
        )
        body = ReplyBody(reply, self._wire.reader(reply))
        sent = self._wire.encode(request, endpoint)
        answer = await self._client.send(
            self._url(request.model),
            self._headers,
            sent,
            place=self._place,
            deadlines=self._deadlines(request),
        )
        try:
            await self._check(answer, request)
            while not reply.done:
                data = await _last_words(answer) if reply.is_over else await answer.read()
                if not data:
                    break
                for piece in body.feed(data):
                    yield piece
            for piece in body.close():
                yield piece
            yield self._traced(request, reply.end())
            await _last_words(answer)  # so that the connection can be used again
        finally:
            answer.close()

    def _deadlines(self, request: ModelRequest) -> Deadlines:
        thinks = request.options.effort != "none" and self._endpoint.facts(request.model).thinking
        return (self._endpoint.thinking_deadlines if thinks else None) or self._endpoint.deadlines

    def _traced(self, request: ModelRequest, end: ModelEnd) -> ModelEnd:
        """With why little of the prompt was cached, where a cache is known of. What is published of a model
        says nothing of a server on this machine."""
        here = self._endpoint.written_calls
        floor = None if here else self._endpoint.facts(request.model).cache_floor
        style = self._endpoint.caching
        if floor is None and style is CacheStyle.AUTOMATIC:
            return end
        lifetime = _LIFETIMES.get(request.cache_ttl if style is CacheStyle.MARKS else "", _USUAL_LIFETIME)
        place = f"{self._wire.name} {self._place}"
        miss = cache_miss(request, end.usage, place=place, floor=floor or 0, lifetime=lifetime)
        return end if miss is None else replace(end, cache_miss=miss)

    async def _check(self, answer: ModelHttpResponse, request: ModelRequest) -> None:
        if 200 <= answer.status < 300:
            return
        try:
            body = await answer.read_all(MOST_ERROR_BYTES)
        except ModelFault:
            body = b""
        secret = self._endpoint.key.reveal()
        details = read_error(answer.status, answer.headers, body, secret=secret)
        raise fault_for(details, model=request.model, place=self._place)

    def _callable(self, request: ModelRequest) -> list[str]:
        """The tools that may be called in writing. A reply that is continued began as words, and stays so."""
        if not self._endpoint.written_calls or request.spoken:
            return []
        return [tool.name for tool in request.tools]

    # --- the request ---

    @cached_property
    def _base(self) -> URL:
        url = URL(self._endpoint.base_url.rstrip("/"))
        return url.with_user(None) if url.host and self._endpoint.key.reveal() else url

    def _url(self, model: str) -> URL:
        path = self._wire.path(model)
        if path != self._path:
            # Some addresses are known with the version in them, some without.
            again = path.startswith("/v1/") and self._base.path.endswith("/v1")
            place = self._base.raw_path.rstrip("/") + (path.removeprefix("/v1") if again else path)
            self._path = path
            # A query stays behind the path, as Azure's `api-version` has to.
            self._target = self._base.with_path(place, encoded=True).with_query(self._base.query)
        return self._target

    @cached_property
    def _place(self) -> str:
        """The address without the credentials some people write into it."""
        url = URL(self._endpoint.base_url)
        return str(url.with_user(None).with_query(None)) if url.host else self._endpoint.base_url

    @cached_property
    def _headers(self) -> dict[str, str]:
        shared = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "hermes",
        }
        key = self._endpoint.key.reveal().strip()
        if not key.isascii() or not key.isprintable():
            words = f"the key for {self._place} has a line end or another character that no key has."
            raise ModelFault(words, kind=FaultKind.BAD_KEY, hint=NEW_KEY)
        return {**shared, **self._wire.headers(key), **self._endpoint.headers}


async def _last_words(answer: ModelHttpResponse) -> bytes:
    """What follows the end of a reply. It is whole, even if its stream is not ended properly."""
    answer.hurry(_LAST_WORDS)
    try:
        return await answer.read()
    except ModelFault:
        return b""
