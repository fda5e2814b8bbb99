"""Models behind OpenAI's chat-completions API, which most services and all local servers speak.

One call is one request. Retrying, and going on after a break, is the loop's business: here everything that
goes wrong becomes an error that says what to do about it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cached_property

from yarl import URL

from hermes.agent.models.client import Deadlines, ModelClient, ModelHttpResponse
from hermes.agent.models.faults import MOST_ERROR_BYTES, error_for, read_error
from hermes.agent.models.formats.chat_completions.reply import ReplyAssembler, ReplyBody
from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ports.agent import ModelPiece, ModelRequest
from hermes.domain.settings.declaring import Secret

_LAST_WORDS = 3.0
# Where an answer ends that would not: characters of words, thoughts and arguments together, calls, and bytes.
MOST_TEXT = 4 * 1024 * 1024
MOST_CALLS = 128
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Where the model is and how to speak to it. `written_calls`: a call that it writes as text instead of
    making it counts."""

    base_url: str
    key: Secret = field(default_factory=lambda: Secret(""))
    max_tokens: int | None = None
    stream: bool = True
    written_calls: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)


class OpenAIProvider:
    """The provider port. Providers of one process are given the same client."""

    def __init__(self, endpoint: ModelEndpoint, client: ModelClient | None = None) -> None:
        self._endpoint = endpoint
        self._client = client or ModelClient()

    async def close(self) -> None:
        """Close the client; whoever shares it does this once, at the end."""
        await self._client.close()

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        endpoint = self._endpoint
        reply = ReplyAssembler(
            most_text=max(0, MOST_TEXT - len(request.spoken)),
            most_calls=MOST_CALLS,
            model=request.model,
            place=self._place,
            secret=endpoint.key.reveal(),
            tools=self._callable(request),
        )
        body = ReplyBody(reply, text=MOST_TEXT, wire=MOST_BYTES)
        sent = encode_request(request, self._options)
        answer = await self._client.send(
            self._url, self._headers, sent, place=self._place, deadlines=endpoint.deadlines
        )
        try:
            await self._check(answer, request)
            while not reply.done:
                data = await answer.read() if reply.finish is None else await _last_words(answer)
                if not data:
                    break
                for piece in body.feed(data):
                    yield piece
            for piece in body.close():
                yield piece
            yield reply.end()
            await _last_words(answer)  # so that the connection can be used again
        finally:
            answer.close()

    async def _check(self, answer: ModelHttpResponse, request: ModelRequest) -> None:
        if 200 <= answer.status < 300:
            return
        try:
            body = await answer.read_all(MOST_ERROR_BYTES)
        except Unreachable:
            body = b""
        secret = self._endpoint.key.reveal()
        fault = read_error(answer.status, answer.headers, body, secret=secret)
        raise error_for(fault, model=request.model, place=self._place)

    def _callable(self, request: ModelRequest) -> list[str]:
        """The tools that may be called in writing. A reply that is continued began as words, and stays so."""
        if not self._endpoint.written_calls or request.spoken:
            return []
        return [tool.name for tool in request.tools]

    # --- the request ---

    @cached_property
    def _options(self) -> dict[str, object]:
        endpoint = self._endpoint
        options: dict[str, object] = {}
        if endpoint.max_tokens is not None:
            options["max_tokens"] = endpoint.max_tokens
        if endpoint.stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        return options

    @cached_property
    def _url(self) -> URL:
        url = URL(self._endpoint.base_url.rstrip("/") + "/chat/completions")
        return url.with_user(None) if url.host and self._endpoint.key.reveal() else url

    @cached_property
    def _place(self) -> str:
        """The address without the credentials some people write into it."""
        url = URL(self._endpoint.base_url)
        return str(url.with_user(None).with_query(None)) if url.host else self._endpoint.base_url

    @cached_property
    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "hermes",
        }
        key = self._endpoint.key.reveal().strip()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return headers


async def _last_words(answer: ModelHttpResponse) -> bytes:
    """What follows the end of a reply. It is whole, even if its stream is not ended properly."""
    answer.hurry(_LAST_WORDS)
    try:
        return await answer.read()
    except (Unreachable, Refused):
        return b""
