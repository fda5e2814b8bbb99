"""Pictures that come inside a request. They are checked and stored before the turn is made, so that a turn
only names them; addresses on the web are passed on as they are. One that leads to this machine or its network
is refused: the model's server may stand there, and would fetch it."""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace

from hermes.domain.hosts import leads_inside
from hermes.domain.ids import AgentId
from hermes.domain.message import Attachment
from hermes.entry.http.ask.messages import ConversationInput
from hermes.entry.http.site.call import HttpCall
from hermes.entry.http.site.errors import ApiError, bad_request

MOST_BYTES = 5_000_000
_DATA = re.compile(r"data:(image/[a-z0-9.+-]{1,40})((?:;[a-z0-9=_-]{1,40})*);base64,", re.IGNORECASE)
_LARGE = 100_000
_OPENINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_SAME = {"image/jpg": "image/jpeg"}


async def keep_pictures(call: HttpCall, agent: AgentId, conversation: ConversationInput) -> ConversationInput:
    """The same conversation with its pictures stored."""
    history = [
        replace(earlier, attachments=await _keep(call, agent, earlier.attachments))
        for earlier in conversation.history
    ]
    images = await _keep(call, agent, conversation.images)
    return replace(conversation, history=tuple(history), images=images)


async def _keep(call: HttpCall, agent: AgentId, images: Sequence[Attachment]) -> tuple[Attachment, ...]:
    kept: list[Attachment] = []
    for image in images:
        if not image.ref.startswith("data:"):
            if not call.site.options.private_images and leads_inside(image.ref):
                raise _wrong("A picture's address may not lead into a private network; send it as data.")
            kept.append(image)
            continue
        # A large picture takes milliseconds to decode, which nobody else's stream should wait for.
        read = asyncio.to_thread(read_picture, image.ref) if len(image.ref) > _LARGE else None
        mime, data = read_picture(image.ref) if read is None else await read
        kept.append(await call.gateway.keep_media(agent, data, mime))
    return tuple(kept)


def read_picture(address: str) -> tuple[str, bytes]:
    """The type and the bytes of a `data:` address; a complaint if they are not what they say."""
    head = _DATA.match(address)
    if head is None:
        raise _wrong("A picture's data address looks like this: data:image/png;base64,…")
    mime = head[1].lower()
    mime = _SAME.get(mime, mime)
    if mime not in _OPENINGS:
        raise _wrong("Pictures may be PNG, JPEG, GIF or WebP.")
    if (len(address) - head.end()) // 4 * 3 > MOST_BYTES + 2:
        raise ApiError(400, "image_too_large", f"A picture has at most {MOST_BYTES:,} bytes.")
    try:
        data = b64decode(address[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise _wrong("The picture's data is not base64.") from None
    if not data.startswith(_OPENINGS[mime]):
        raise _wrong(f"The picture's data is not {mime.partition('/')[2].upper()}.")
    if len(data) > MOST_BYTES:
        raise ApiError(400, "image_too_large", f"A picture has at most {MOST_BYTES:,} bytes.")
    return mime, data


def _wrong(message: str) -> ApiError:
    return bad_request(message, code="invalid_image")
