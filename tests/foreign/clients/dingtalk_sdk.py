"""DingTalk's own SDK uses a server as it would use DingTalk; what it saw is printed as JSON. The server's
address is in DINGTALK_OPENAPI_ENDPOINT; arguments: the client id and its secret."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

import dingtalk_stream
import requests
from dingtalk_stream import AckMessage, AIMarkdownCardInstance, ChatbotMessage

found: dict[str, object] = {"seen": []}


class Handler(dingtalk_stream.ChatbotHandler):
    def __init__(self, done: asyncio.Event) -> None:
        super().__init__()
        self.done = done

    async def process(self, callback):
        message = ChatbotMessage.from_dict(callback.data)
        words = " ".join(message.get_text_list() or [])
        found["seen"].append(
            [message.message_type, message.conversation_type, words.strip(), message.sender_staff_id]
        )
        if message.message_type == "picture":
            url = self.get_image_download_url(message.image_content.download_code)
            found["picture"] = len(requests.get(url, timeout=30).content)  # noqa: ASYNC210
        if words.strip() == "hello":
            found["replied"] = self.reply_text("hi", message)
            card = AIMarkdownCardInstance(self.dingtalk_client, message)
            card.ai_start()
            card.ai_streaming("one", append=False)
            card.ai_streaming(" two", append=True)
            card.ai_finish("one two three")
            found["card"] = bool(card.card_instance_id)
            other = AIMarkdownCardInstance(self.dingtalk_client, message)
            found["delivered"] = await other.async_create_and_deliver_card(
                other.card_template_id, {"flowStatus": "1"}
            )
        if words.strip() == "bye":
            self.done.set()
        return AckMessage.STATUS_OK, "OK"


async def main(client_id: str, secret: str) -> None:
    logging.disable(logging.ERROR)
    done = asyncio.Event()
    client = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(client_id, secret))
    client.register_callback_handler(ChatbotMessage.TOPIC, Handler(done))
    running = asyncio.create_task(client.start())
    await asyncio.wait_for(done.wait(), 300)
    await asyncio.sleep(0.5)
    wrong = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(client_id, "wrong"))
    found["wrong"] = [wrong.open_connection(), wrong.get_access_token()]
    print(json.dumps(found), flush=True)
    assert not running.done()
    os._exit(0)  # the SDK takes no cancellation: it connects again


asyncio.run(main(*sys.argv[1:3]))
