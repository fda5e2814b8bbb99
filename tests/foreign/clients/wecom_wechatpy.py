"""wechatpy, which we did not write, uses a server as it would use WeCom, and opens what that seals; what it
saw is printed as JSON. Arguments: the server's address, and what else it has to know, as JSON."""

from __future__ import annotations

import io
import json
import sys

from wechatpy.enterprise import WeChatClient, parse_message
from wechatpy.enterprise.crypto import WeChatCrypto

base, told = sys.argv[1], json.loads(sys.argv[2])
found: dict[str, object] = {}


class Client(WeChatClient):
    API_BASE_URL = f"{base}/cgi-bin/"

    def fetch_access_token(self):
        params = {"corpid": self.corp_id, "corpsecret": self.secret}
        return self._fetch_access_token(url=f"{self.API_BASE_URL}gettoken", params=params)


def attempt(work) -> object:
    try:
        return work()
    except Exception as error:  # whatever wechatpy raises
        return str(error)


crypto = WeChatCrypto(told["token"], told["aes_key"], told["corp"])
asked = told["call"]
message = parse_message(
    crypto.decrypt_message(asked["body"], asked["msg_signature"], asked["timestamp"], asked["nonce"])
)
found["opened"] = [message.type, message.content, message.source, message.agent]
found["forged"] = attempt(
    lambda: crypto.decrypt_message(asked["body"], "0" * 40, asked["timestamp"], asked["nonce"])
)
found["sealed"] = crypto.encrypt_message("<xml><a>hello</a></xml>", "n1", "1793000000")

client = Client(told["corp"], told["secret"])
sent = client.message.send_text(told["agent"], told["person"], "hello")
found["sent"] = [sent["errcode"], sent["invaliduser"]]
found["long"] = attempt(lambda: client.message.send_text(told["agent"], told["person"], "x" * 2_049))
uploaded = client.media.upload("image", ("a.png", io.BytesIO(b"png"), "image/png"))
found["uploaded"] = [
    uploaded["type"],
    client.message.send_image(told["agent"], told["person"], uploaded["media_id"])["errcode"],
]
found["wrong"] = attempt(
    lambda: Client(told["corp"], "wrong").message.send_text(told["agent"], told["person"], "x")
)
print(json.dumps(found))
