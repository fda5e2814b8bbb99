"""Feishu's own SDK uses a server as it would use Feishu; what it saw is printed as JSON. Arguments: the
server's address, the app's id and secret, and a call of the fake's (encrypted body and signature) as JSON."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time

import lark_oapi as lark
from lark_oapi.api.im.v1 import (
    CreateFileRequest,
    CreateFileRequestBody,
    CreateImageRequest,
    CreateImageRequestBody,
    CreateMessageRequest,
    CreateMessageRequestBody,
    DeleteMessageRequest,
    GetMessageRequest,
    GetMessageResourceRequest,
    PatchMessageRequest,
    PatchMessageRequestBody,
    ReplyMessageRequest,
    ReplyMessageRequestBody,
)
from lark_oapi.core.model import RawRequest

url, app, secret, call = sys.argv[1:5]
found: dict[str, object] = {"seen": []}
done = threading.Event()


def on_message(told) -> None:
    message = told.event.message
    found["seen"].append(
        [message.message_type, message.chat_type, message.content, told.event.sender.sender_id.open_id]
    )
    if "bye" in message.content:
        done.set()


def on_press(told):
    found["pressed"] = [told.event.action.value, told.event.operator.open_id, told.event.context.open_chat_id]


def on_recall(told) -> None:
    found["recalled"] = told.event.message_id


def handler(key: str = "", token: str = ""):
    build = lark.EventDispatcherHandler.builder(key, token)
    build = build.register_p2_im_message_receive_v1(on_message).register_p2_im_message_recalled_v1(on_recall)
    return build.register_p2_card_action_trigger(on_press).build()


def listen() -> None:
    lark.ws.Client(app, secret, event_handler=handler(), domain=url, log_level=lark.LogLevel.CRITICAL).start()


def told(response) -> list[object]:
    return [response.code, response.success()]


def use(client) -> None:
    messages = client.im.v1.message
    card = json.dumps(
        {
            "schema": "2.0",
            "config": {"update_multi": True},
            "body": {"elements": [{"tag": "markdown", "content": "hi"}]},
        }
    )

    def create(**more):
        body = {"msg_type": "interactive", "content": card, "receive_id": "oc_private000000000001", **more}
        build = CreateMessageRequestBody.builder()
        for name, value in body.items():
            build = getattr(build, name)(value)
        return messages.create(
            CreateMessageRequest.builder().receive_id_type("chat_id").request_body(build.build()).build()
        )

    first, again = create(uuid="u1"), create(uuid="u1")
    number = first.data.message_id
    found["created"] = [*told(first), number == again.data.message_id]
    reply = (
        ReplyMessageRequestBody.builder().msg_type("interactive").content(card).reply_in_thread(True).build()
    )
    found["replied"] = told(
        messages.reply(ReplyMessageRequest.builder().message_id(number).request_body(reply).build())
    )
    body = PatchMessageRequestBody.builder().content(card.replace("hi", "ho")).build()
    found["patched"] = told(
        messages.patch(PatchMessageRequest.builder().message_id(number).request_body(body).build())
    )
    got = messages.get(GetMessageRequest.builder().message_id(number).build())
    found["got"] = [got.data.items[0].msg_type, got.data.items[0].sender.sender_type]
    picture = CreateImageRequestBody.builder().image_type("message").image(io.BytesIO(b"png")).build()
    key = client.im.v1.image.create(CreateImageRequest.builder().request_body(picture).build()).data.image_key
    file = (
        CreateFileRequestBody.builder()
        .file_type("stream")
        .file_name("a.bin")
        .file(io.BytesIO(b"bin"))
        .build()
    )
    other = client.im.v1.file.create(CreateFileRequest.builder().request_body(file).build()).data.file_key
    found["uploaded"] = [
        told(create(msg_type="image", content=json.dumps({"image_key": key}))),
        told(create(msg_type="file", content=json.dumps({"file_key": other}))),
    ]
    resource = GetMessageResourceRequest.builder().message_id(number).file_key(other).type("file").build()
    found["fetched"] = client.im.v1.message_resource.get(resource).file.read().decode()
    found["deleted"] = told(messages.delete(DeleteMessageRequest.builder().message_id(number).build()))
    found["errors"] = [
        messages.patch(PatchMessageRequest.builder().message_id(number).request_body(body).build()).code,
        create(content=card.replace("true", "false")).code,
        create(content=card.replace("hi", "x" * 40_000)).code,
    ]


def called() -> list[object]:
    """What the SDK makes of an encrypted call of the fake's."""
    told = json.loads(call)
    answers = []
    for key, token in ((told["key"], told["token"]), ("another", told["token"]), (told["key"], "another")):
        request = RawRequest()
        request.uri, request.body, request.headers = "/", told["body"].encode(), told["headers"]
        answers.append(handler(key, token).do(request).status_code)
    return answers


found["called"] = called()
found["seen"].clear()
threading.Thread(target=listen, daemon=True).start()
use(
    lark.Client.builder().app_id(app).app_secret(secret).domain(url).log_level(lark.LogLevel.CRITICAL).build()
)
wrong = lark.Client.builder().app_id("cli_other").app_secret("wrong").domain(url).build()
try:
    wrong.im.v1.message.delete(DeleteMessageRequest.builder().message_id("om_12345678").build())
except Exception as error:  # whatever the SDK raises for a secret that is not right
    found["wrong"] = str(error)
done.wait(300)
time.sleep(0.5)
print(json.dumps(found), flush=True)
os._exit(0)
