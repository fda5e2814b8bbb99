"""An OpenAI-compatible API, asked for pictures and speech instead of a conversation.

Its address is the operator's, and every request goes through the egress client. What goes wrong is a
`ModelFault`, as with conversations; nothing is tried again here, because each try may be billed."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct, field

from hermes.agent.models.faults import fault_for, read_error
from hermes.domain.errors import FaultKind, HermesError, ModelFault
from hermes.domain.models.model_facts import MediaRole, ModelFacts
from hermes.domain.models.usage import Usage, priced
from hermes.domain.ports.world import Egress, FetchedPage, WebRequest
from hermes.domain.settings.declaring import Secret

MOST_HEARD = 25 * 1024 * 1024
"""What is taken for one transcript: platform.openai.com/docs/guides/speech-to-text."""
MOST_SPOKEN = 4096
"""Characters of one request for speech: platform.openai.com/docs/api-reference/audio/createSpeech."""
_MOST_ANSWER = 64 * 1024 * 1024
# platform.openai.com/docs/api-reference/images/create;
# openrouter.ai/docs/features/multimodal/image-generation
SHAPES = {
    "landscape": ("1536x1024", "3:2"),
    "portrait": ("1024x1536", "2:3"),
    "square": ("1024x1024", "1:1"),
}
Picture = tuple[str, bytes]
"""The type of a picture, and its bytes."""


class MediaService(Struct, frozen=True, kw_only=True):
    base_url: str
    model: str
    egress: Egress
    key: Secret = field(default_factory=lambda: Secret(""))
    facts: ModelFacts = ModelFacts()
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 120.0

    async def paint(self, prompt: str, shape: str, seen: Sequence[Picture]) -> tuple[bytes, Usage]:
        """A picture; made after others, if some are given."""
        fields = {"model": self.model, "prompt": prompt, "size": SHAPES[shape][0]}
        if seen:
            files = [("image[]", f"picture{n}", *picture) for n, picture in enumerate(seen)]
            page = await self._upload("/images/edits", fields, files)
        else:
            page = await self._post("/images/generations", {**fields, "n": 1})
        answer = self._read(page)
        made = _first(answer.get("data"))
        data = made.get("b64_json")
        if isinstance(data, str):
            return self._decoded(data), self._usage(answer, MediaRole.IMAGE_GEN)
        return await self._fetched(made.get("url")), self._usage(answer, MediaRole.IMAGE_GEN)

    async def paint_in_chat(self, prompt: str, shape: str, seen: Sequence[Picture]) -> tuple[bytes, Usage]:
        """The same of a model that puts pictures into its answers."""
        content: list[object] = [{"type": "text", "text": prompt}]
        for mime, data in seen:
            url = f"data:{mime};base64,{b64encode(data).decode('ascii')}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "modalities": ["image", "text"],
            "image_config": {"aspect_ratio": SHAPES[shape][1]},
        }
        answer = self._read(await self._post("/chat/completions", body))
        message = _first(answer.get("choices")).get("message")
        made = _first(message.get("images") if isinstance(message, dict) else None).get("image_url")
        return (
            await self._fetched(made.get("url") if isinstance(made, dict) else None),
            self._usage(answer, MediaRole.IMAGE_GEN),
        )

    async def speak(self, text: str, voice: str) -> tuple[bytes, Usage]:
        body = {"model": self.model, "input": text[:MOST_SPOKEN], "voice": voice, "response_format": "opus"}
        page = await self._post("/audio/speech", body)
        if not page.data:
            raise self._broken("it sent no sound")
        return page.data, self._usage({}, MediaRole.TTS)

    async def hear(self, name: str, mime: str, data: bytes) -> tuple[str, Usage]:
        """The words that are spoken in a file."""
        if len(data) > MOST_HEARD:
            raise self._broken(f"it takes up to {MOST_HEARD // 1_048_576} MiB")
        fields = {"model": self.model, "response_format": "json"}
        answer = self._read(await self._upload("/audio/transcriptions", fields, [("file", name, mime, data)]))
        text = answer.get("text")
        if not isinstance(text, str):
            raise self._broken("it sent no words")
        return text.strip(), self._usage(answer, MediaRole.STT)

    # --- requests

    async def _post(self, path: str, body: Mapping[str, object]) -> FetchedPage:
        return await self._send(path, "application/json", json.dumps(body).encode())

    async def _upload(
        self, path: str, fields: Mapping[str, str], files: Sequence[tuple[str, str, str, bytes]]
    ) -> FetchedPage:
        mark = uuid4().hex
        head = f'--{mark}\r\nContent-Disposition: form-data; name="'
        parts = [f'{head}{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
        for field_name, name, mime, data in files:
            about = f'{head}{field_name}"; filename="{name}"\r\nContent-Type: {mime}\r\n\r\n'
            parts += [about.encode(), data, b"\r\n"]
        body = b"".join([*parts, f"--{mark}--\r\n".encode()])
        return await self._send(path, f"multipart/form-data; boundary={mark}", body)

    async def _send(self, path: str, mime: str, body: bytes) -> FetchedPage:
        key = self.key.reveal().strip()
        shown = {"Authorization": f"Bearer {key}"} if key else {}
        request = WebRequest(
            url=self.base_url.rstrip("/") + path,
            method="POST",
            headers={"Content-Type": mime, "User-Agent": "hermes", **self.headers, **shown},
            body=body,
            limit=_MOST_ANSWER,
            seconds=self.seconds,
            private=True,
        )
        try:
            page = await self.egress.request(request)
        except HermesError as error:
            raise self._broken(str(error).rstrip(".")) from error
        if not 200 <= page.status < 300:
            details = read_error(page.status, page.headers, page.data, secret=key)
            raise fault_for(details, model=self.model, place=self._place)
        return page

    async def _fetched(self, url: object) -> bytes:
        """A picture at an address that the service gave: its own host, or one of the open network."""
        if not isinstance(url, str):
            raise self._broken("it sent no picture")
        if url.startswith("data:"):
            return self._decoded(url.partition(",")[2])
        own = urlsplit(url)[:2] == urlsplit(self.base_url)[:2]
        try:
            page = await self.egress.request(
                WebRequest(url=url, limit=_MOST_ANSWER, private=own, redirects=3)
            )
        except HermesError as error:
            raise self._broken(f"its picture could not be fetched: {error}".rstrip(".")) from error
        if page.status != 200:
            raise self._broken(f"its picture could not be fetched: {page.status}")
        return page.data

    # --- answers

    def _read(self, page: FetchedPage) -> dict[str, Any]:
        try:
            answer = json.loads(page.data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._broken("its answer cannot be read")
        return answer

    def _decoded(self, data: str) -> bytes:
        try:
            return b64decode(data, validate=True)
        except ValueError:
            raise self._broken("its picture cannot be read") from None

    def _usage(self, answer: Mapping[str, Any], role: MediaRole) -> Usage:
        counts = answer.get("usage")
        counts = counts if isinstance(counts, dict) else {}
        cost = counts.get("cost")
        used = Usage(
            prompt=_count(counts, "input_tokens", "prompt_tokens"),
            completion=_count(counts, "output_tokens", "completion_tokens"),
            cost=float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
            model=self.model,
            role=role,
        )
        return priced(used, self.facts)

    @property
    def _place(self) -> str:
        return self.base_url.partition("?")[0].rpartition("@")[2]

    def _broken(self, why: str) -> ModelFault:
        return ModelFault(f"{self.model} at {self._place} gave nothing: {why}.", kind=FaultKind.BROKEN)


def _first(items: object) -> dict[str, Any]:
    first = items[0] if isinstance(items, list) and items else None
    return first if isinstance(first, dict) else {}


def _count(counts: Mapping[str, Any], *names: str) -> int:
    return next((count for name in names if isinstance(count := counts.get(name), int) and count > 0), 0)
