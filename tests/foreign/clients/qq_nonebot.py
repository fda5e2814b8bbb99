"""nonebot-adapter-qq, which we did not write, uses a server as it would use QQ; what it saw is printed as
JSON. Arguments: the server's address, the bot's id and secret."""

from __future__ import annotations

import json
import os
import sys

import nonebot
from nonebot.adapters.qq import Adapter, Bot, MessageSegment
from nonebot.adapters.qq.event import C2CMessageCreateEvent, GroupAtMessageCreateEvent, QQMessageEvent

url, app, secret = sys.argv[1:4]
found: dict[str, object] = {"seen": []}
nonebot.init(
    driver="~httpx+~websockets",
    log_level="CRITICAL",
    qq_api_base=url,
    qq_auth_base=f"{url}/app/getAppAccessToken",
    qq_bots=[{"id": app, "secret": secret, "intent": {"c2c_group_at_messages": True}}],
)
nonebot.get_driver().register_adapter(Adapter)


async def attempt(work) -> object:
    try:
        await work
    except Exception as error:  # whatever the adapter raises
        return [type(error).__name__, getattr(error, "code", None)]
    return "ok"


@nonebot.on_message().handle()
async def heard(bot: Bot, event: QQMessageEvent) -> None:
    group = isinstance(event, GroupAtMessageCreateEvent)
    files = [one.content_type for one in event.attachments or []]
    found["seen"].append([type(event).__name__, event.content.strip(), event.get_user_id(), files])
    if event.content == "hello" and isinstance(event, C2CMessageCreateEvent):
        sent = await bot.send(event, "hi")
        found["sent"] = bool(sent.id)
        found["picture"] = await attempt(bot.send(event, MessageSegment.file_image(b"png")))
        person = event.author.user_openid
        again = {"openid": person, "message": "again", "msg_id": event.id}
        found["again"] = await attempt(bot.send_to_c2c(**again, msg_seq=1))
        found["more"] = [await attempt(bot.send_to_c2c(**again, msg_seq=number)) for number in (7, 8, 9, 10)]
        found["unasked"] = await attempt(bot.send_to_c2c(openid=person, message="unasked"))
    if group:
        found["group"] = await attempt(bot.send(event, "in the group"))
    if event.content == "bye":
        print(json.dumps(found), flush=True)
        os._exit(0)


nonebot.run()
