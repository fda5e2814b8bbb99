"""Messages of WeCom's as its documents show them (developer.work.weixin.qq.com/document/path/90239), one of
each kind; and the vendor's example of an encrypted call. Names and numbers are made up."""

from __future__ import annotations

CORP, ANN = "wx5823bf96d3bd56c7", "ann.smith"
TOKEN, AES_KEY = "QDG6eK", "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
ECHO = "P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ=="
SEALED = (
    "RypEvHKD8QQKFhvQ6QleEB4J58tiPdvo+rtK1I9qca6aM/wvqnLSV5zEPeusUiX5L5X/0lWfrf0QADHHhGd3QczcdCUpj911L3vg3W/s"
    "YYvuJTs3TUUkSUXxaccAS0qhxchrRYt66wiSpGLYL42aM6A8dTT+6k4aSknmPj48kzJs8qLjvd4Xgpue06DOdnLxAUHzM6+kDZ+HMZfJ"
    "YuR+LtwGc2hgf5gsijff0ekUNXZiqATP7PF5mZxZ3Izoun1s4zG4LUMnvw2r+KqCKIw+3IQH03v+BCA9nMELNqbSf6tiWSrXJB3LAVGU"
    "callcrw8V2t9EL4EhzJWrQUax5wLVMNS0+rUPA3k22Ncx4XXZS9o0MBH27Bo6BpNelZpS+/uh9KsNlY6bHCmJU9p8g7m3fVKn28H3KDY"
    "A5Pl/T8Z1ptDAVe0lXdQ2YoyyH2uyPIGHBZZIs2pDBS8R07+qN+E7Q=="
)


def xml(number: str, kind: str, person: str = ANN, stamp: int = 1793000000, **more: str) -> str:
    fields = {"ToUserName": CORP, "FromUserName": person, "MsgType": kind, **more}
    words = "".join(f"<{name}><![CDATA[{value}]]></{name}>" for name, value in fields.items())
    return f"<xml>{words}<CreateTime>{stamp}</CreateTime><MsgId>{number}</MsgId><AgentID>218</AgentID></xml>"


MESSAGES: dict[str, str] = {
    "text": xml("4561255354251345929", "text", Content="hello 😀 & <b>"),
    "command": xml("2", "text", Content="/status now"),
    "picture": xml(
        "3", "image", PicUrl="https://example.com/p", MediaId="1Yv-zXfHjSjU-7LH-GwtYqDGS-zz6w22KmWAT5"
    ),
    "voice": xml("4", "voice", MediaId="media_voice", Format="amr"),
    "video": xml("5", "video", MediaId="media_video", ThumbMediaId="thumb"),
    # Not in the documents; the vendor's plugin for OpenClaw reads it (@wecom/wecom-openclaw-plugin 2026.7.2).
    "file": xml("9", "file", MediaId="media_file", FileName="报告 1.pdf"),
    "location": xml("6", "location", Location_X="23.134521", Location_Y="113.358803", Label="Somewhere"),
    "link": xml("7", "link", Title="this", Description="that", Url="https://example.com"),
    "entered": xml("8", "event", Event="enter_agent").replace("<MsgId>8</MsgId>", ""),
}
