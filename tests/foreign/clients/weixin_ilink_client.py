"""weixin-ilink, which we did not write, uses a server as it would use Weixin; what it saw is printed as JSON.
Arguments: the server's address, that of its files, and the bot's token."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from weixin_ilink.auth import login_with_qr
from weixin_ilink.client import ILinkClient

url, cdn, token = sys.argv[1:4]
client = ILinkClient(url, token, cdn_base_url=cdn)
found: dict[str, object] = {"seen": []}
while len(found["seen"]) < 3:
    for message in client.poll()["msgs"]:
        found["seen"].append([message["message_id"], client.extract_text(message), message["from_user_id"]])
        person, context = message["from_user_id"], message["context_token"]
        for item in message["item_list"]:
            if item["type"] != 1:
                found["file"] = client.download_media_item(item).hex()
client.send_text(person, "hi", context)
client.send_typing(person, context)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "a.png"
    path.write_bytes(b"png")
    client.send_image(person, path, context)
    client.send_file(person, path, context)
found["wrong"] = {key: value for key, value in ILinkClient(url, "wrong").poll().items() if key != "errmsg"}
shown: list[str] = []
login = login_with_qr(shown.append, base_url=url)
found["login"] = [login.bot_token, login.account_id, bool(shown)]
print(json.dumps(found))
