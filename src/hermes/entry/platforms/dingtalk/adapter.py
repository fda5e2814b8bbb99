"""The DingTalk adapter: the robot of one app, through Stream mode and the robot interface.

DingTalk calls nobody: we open a WebSocket, and each message there is acknowledged once it is stored; one that
is not comes again within a minute. There is no history, so what DingTalk could not deliver in that time is
gone, and people see that the bot is away. A connection that DingTalk wants to end is left when the next one
is open. Answers that grow are AI cards; everything else is a plain message."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import aiohttp

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, trouble_told
from hermes.domain.word import replace
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.payload import Recent, as_dict, as_dicts, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.dingtalk import convert
from hermes.entry.platforms.dingtalk.api import API, WAIT, DingTalkApi
from hermes.entry.platforms.dingtalk.manifest import MANIFEST, MOST_PARAM

log = logging.getLogger("hermes.dingtalk")
ID, SECRET, TEMPLATE = "DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET", "DINGTALK_CARD_TEMPLATE"
SDK_TEMPLATE = "382e4302-551d-4880-bf29-a30acfab2e71.schema"
"""The AI card that DingTalk's own SDK uses (`AIMarkdownCardInstance` of dingtalk-stream 0.24.3)."""
_SDK_KEY = "msgContent"
_WORKING, _WRITING, _DONE = "1", "2", "3"
"""What a card's `flowStatus` may be; the SDK's names are PROCESSING, INPUTING, FINISHED."""
_CARD = "card:"
_HEARTBEAT = 30.0
_STEADY_SECONDS = 5.0
_TOPICS = [{"type": "CALLBACK", "topic": convert.MESSAGES}]
_ENDED = (
    aiohttp.WSMsgType.CLOSE,
    aiohttp.WSMsgType.CLOSING,
    aiohttp.WSMsgType.CLOSED,
    aiohttp.WSMsgType.ERROR,
)


class DingTalkAdapter:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        client_id, secret = context.setting(ID), context.setting(SECRET)
        if not (client_id.isascii() and client_id.isalnum()):
            raise NeedsLogin(f"{ID} is no client id; one looks like dingabc123")
        if not secret:
            raise NeedsLogin(f"{SECRET} is missing; it stands beside the client id")
        url = context.setting("DINGTALK_API_URL", API).rstrip("/")
        self.api = DingTalkApi(context, client_id, secret, url, proxy_for(context, "DINGTALK_PROXY", url))
        template = context.setting(TEMPLATE)
        self._template = SDK_TEMPLATE if not template else "" if template.lower() == "off" else template
        own = self._template != SDK_TEMPLATE
        self._card_key = context.setting("DINGTALK_CARD_KEY", "content") if own else _SDK_KEY
        self._made: Recent[str, str] = Recent(500)
        """Cards that stand in a chat, by the key they were sent with: a second attempt fills them."""
        self._finished: Recent[str, str] = Recent(500)
        """What cards say that were finished, though they may still look as if they were not."""
        self._recalled: Recent[str, bool] = Recent(500)
        self.capabilities = MANIFEST.capabilities
        if not self._template:
            self.capabilities = replace(self.capabilities, edit_interval=None, edits_drafts_only=False)

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        clock = self._context.clock
        try:
            socket = await self._open()
            while True:
                began = clock.monotonic()
                await accept((), None)
                try:
                    await self._listen(socket, accept)
                    if clock.monotonic() - began < _STEADY_SECONDS:
                        raise Unreachable("DingTalk ends the connection again and again")
                    # It tells this one nothing any more, and would tell nobody meanwhile.
                    following = await self._open()
                finally:
                    await socket.close()
                socket = following
        except Refused as error:
            # DingTalk's own SDK tries again whatever it was told (dingtalk-stream 0.24.3, stream.py).
            raise Unreachable(str(error)) from error
        finally:
            await self.api.close()

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        url = await self.api.open_stream(_TOPICS)
        return await self.api.connect(url, heartbeat=_HEARTBEAT, shows_pongs=True)

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse, accept: Accept) -> None:
        """Store and acknowledge what comes, until DingTalk wants another connection."""
        while True:
            message = await socket.receive()
            if message.type in _ENDED:
                raise Unreachable("DingTalk closed the connection")
            if message.type is aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            # An answer to a ping of ours is an empty frame here: a sign of life.
            frame = as_dict(read_json(message.data) if message.type is aiohttp.WSMsgType.TEXT else None)
            topic = dig(frame, "headers", "topic")
            if frame.get("type") == "SYSTEM" and topic == "disconnect":
                log.info("dingtalk.renewed why=%s", one_line(as_text(frame.get("data")), 80))
                return
            await accept(convert.to_inbounds(frame, self._context.account), None)
            await self._acknowledge(socket, frame)

    async def _acknowledge(self, socket: aiohttp.ClientWebSocketResponse, frame: dict[str, Any]) -> None:
        number = dig(frame, "headers", "messageId")
        if not isinstance(number, str):
            return
        # A ping wants its own data back; a callback the answer of whoever handled it, which is none.
        data = frame.get("data") if frame.get("type") == "SYSTEM" else json.dumps({"response": {}})
        told = {
            "code": 200,
            "headers": {"contentType": "application/json", "messageId": number},
            "message": "OK",
            "data": data,
        }
        try:
            await socket.send_str(json.dumps(told))
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            raise Unreachable(f"DingTalk closed the connection ({trouble_told(error)})") from None

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        """The robot interface cannot quote: `reply_to` adds nothing."""
        if body.growing and self._template:
            return await self._send_card(to, body, key)
        if body.attachments:
            template, param = await self._file(body.attachments[0])
        else:
            template, param = "sampleMarkdown", _markdown(body.text)
        return Receipt(to=to, ref=await self._post(to, template, param))

    async def _post(self, to: Address, template: str, param: str) -> str:
        """The key of a message, with which it can be recalled."""
        chat, group = convert.place(to)
        asked: dict[str, Any] = {"robotCode": self.api.robot, "msgKey": template, "msgParam": param}
        if group:
            answer = await self.api.call(
                "POST", "/v1.0/robot/groupMessages/send", {**asked, "openConversationId": chat}
            )
        else:
            answer = await self.api.call(
                "POST", "/v1.0/robot/oToMessages/batchSend", {**asked, "userIds": [chat]}
            )
            # It says yes, and in passing who gets nothing.
            if chat in (dig(answer, "invalidStaffIdList") or ()):
                raise Refused("DingTalk knows no such person for the bot")
            if chat in (dig(answer, "flowControlledStaffIdList") or ()):
                raise Unreachable("DingTalk lets this person have no more messages for now", after=WAIT)
        number = as_text(dig(answer, "processQueryKey"))
        if not number:
            raise Unreachable("DingTalk does not say which message it took", maybe_done=True)
        return number

    async def _file(self, file: Attachment) -> tuple[str, str]:
        data, name = await read_file(self._context, file), file_name(file)
        image = file.kind is MediaKind.IMAGE
        number = await self.api.upload("image" if image else "file", name, data, file.mime)
        if image:
            return "sampleImageMsg", json.dumps({"photoURL": number})
        ending = name.rpartition(".")[2] if "." in name else "bin"
        param = {"mediaId": number, "fileName": name, "fileType": ending}
        return "sampleFile", json.dumps(param, ensure_ascii=False)

    # --- cards ---

    async def _send_card(self, to: Address, body: Body, key: str) -> Receipt:
        """Made and put into the chat by one call, filled by another: with the text in it at once, a card
        stays empty. A second attempt with the same key fills the card that is there."""
        track = hashlib.sha256(f"{to}\n{key}".encode()).hexdigest()[:32]
        carrier = self._made.get(track)
        if carrier is None:
            carrier = self._made[track] = await self._deliver(to, track)
        receipt = Receipt(to=to, ref=f"{_CARD}{track}:{carrier}")
        try:
            if self._is_sdks:
                await self._show(track, body.text, _WRITING)
            else:
                await self._stream(track, body.text)
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, maybe_done=error.after is None) from error
        return receipt

    async def _deliver(self, to: Address, track: str) -> str:
        chat, group = convert.place(to)
        space = f"dtv1.card//IM_{'GROUP' if group else 'ROBOT'}.{chat}"
        model = (
            {"imGroupOpenDeliverModel": {"robotCode": self.api.robot}}
            if group
            else {"imRobotOpenDeliverModel": {"spaceType": "IM_ROBOT"}}
        )
        asked = {
            "cardTemplateId": self._template,
            "outTrackId": track,
            "cardData": {"cardParamMap": {"flowStatus": _WORKING} if self._is_sdks else {}},
            "callbackType": "STREAM",
            "imGroupOpenSpaceModel": {"supportForward": True},
            "imRobotOpenSpaceModel": {"supportForward": True},
            "userIdType": 1,
            "openSpaceId": space,
            **model,
        }
        answer = await self.api.call("POST", "/v1.0/card/instances/createAndDeliver", asked)
        for result in as_dicts(dig(answer, "result", "deliverResults")):
            if result.get("success") is False:
                why = one_line(as_text(result.get("errorMsg")), 120)
                raise Refused(f"DingTalk does not show the card ({why})")
            return as_text(result.get("carrierId"))
        return ""

    @property
    def _is_sdks(self) -> bool:
        return self._template == SDK_TEMPLATE

    async def _stream(self, track: str, text: str, *, done: bool = False) -> None:
        asked = {
            "outTrackId": track,
            "guid": str(uuid4()),
            "key": self._card_key,
            "content": convert.hard_breaks(text),
            "isFull": True,
            "isFinalize": done,
            "isError": False,
        }
        await self.api.call("PUT", "/v1.0/card/streaming", asked)

    async def _show(self, track: str, text: str, status: str) -> None:
        """The SDK's card does not know by itself whether it is done."""
        param = {
            "flowStatus": status,
            _SDK_KEY: convert.hard_breaks(text),
            "staticMsgContent": "",
            "sys_full_json_obj": json.dumps({"order": [_SDK_KEY]}),
            "config": json.dumps({"autoLayout": True}),
        }
        asked = {"outTrackId": track, "cardData": {"cardParamMap": param}}
        await self.api.call("PUT", "/v1.0/card/instances", asked)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        track, _ = _card(receipt)
        if track in self._recalled:
            raise Refused("that card was recalled")
        if body.growing:
            await self._stream(track, body.text)
            return
        if self._finished.get(track) != body.text:
            await self._stream(track, body.text, done=True)
            self._finished[track] = body.text
        if self._is_sdks:
            await self._show(track, body.text, _DONE)

    async def delete(self, receipt: Receipt) -> None:
        chat, group = convert.place(receipt.to)
        number = receipt.ref
        if number.startswith(_CARD):
            track, number = _card(receipt)
            self._recalled[track] = True
        if not number:
            raise Refused("DingTalk did not say how this card is recalled")
        asked: dict[str, Any] = {"robotCode": self.api.robot, "processQueryKeys": [number]}
        path = "/v1.0/robot/otoMessages/batchRecall"
        if group:
            path, asked["openConversationId"] = "/v1.0/robot/groupMessages/recall", chat
        answer = await self.api.call("POST", path, asked)
        if number not in (dig(answer, "successResult") or ()):
            why = one_line(str(as_dict(dig(answer, "failedResult")).get(number, "it is gone")), 120)
            raise Refused(f"DingTalk does not recall it ({why})")

    async def fetch(self, ref: str, sink: Sink) -> None:
        await self.api.fetch(ref, sink)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            await self.api.token.get()
            findings = [good("DingTalk takes the app's credentials.")]
            socket = await self._open()
            await socket.close()
            findings.append(good("Stream mode can be opened."))
        finally:
            await self.api.close()
        if not self._template:
            return [*findings, good("Answers are sent once, when they are whole (no card).")]
        hint = "It needs the permissions Card.Streaming.Write and Card.Instance.Write."
        return [*findings, good("Answers grow in an AI card.", hint)]


def _markdown(text: str) -> str:
    """The parameters of a message; where hard breaks make it too long, lines stay as they are."""
    title = convert.title_of(text)
    broken, soft = (
        json.dumps({"title": title, "text": words}, ensure_ascii=False)
        for words in (convert.hard_breaks(text), text)
    )
    return broken if len(broken.encode()) <= MOST_PARAM else soft


def _card(receipt: Receipt) -> tuple[str, str]:
    """The id of a card, and that of the message that shows it."""
    if not receipt.ref.startswith(_CARD):
        raise Refused("DingTalk lets nobody edit a message that is no card")
    track, _, carrier = receipt.ref.removeprefix(_CARD).partition(":")
    return track, carrier
