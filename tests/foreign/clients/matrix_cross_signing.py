"""Our adapter with a recovery key: what it says with a wrong one, with the right one, and after a restart
without any. Arguments: the homeserver's address, the bot's access token, a folder, the right recovery key,
and a wrong one."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.foreign.clients.matrix_encrypted import Gateway


async def main(url: str, token: str, folder: Path, right: str, other: str) -> dict[str, object]:
    gateway, found = Gateway(url, token, folder), {}
    for name, key in (("checked", right), ("checked wrong", other), ("checked none", "EsTc")):
        gateway.said["MATRIX_RECOVERY_KEY"] = key
        found[name] = [(await gateway.made().check())[-1].good, (await gateway.made().check())[-1].text]
    gateway.said["MATRIX_RECOVERY_KEY"] = other
    found["wrong"] = await seen(gateway)
    gateway.said["MATRIX_RECOVERY_KEY"] = ""
    found["without"] = await seen(gateway)
    gateway.said["MATRIX_RECOVERY_KEY"] = right
    found["right"] = await seen(gateway)
    gateway.said["MATRIX_RECOVERY_KEY"] = ""
    found["later"] = await seen(gateway)
    return found


async def seen(gateway: Gateway) -> list[object]:
    """What status says, and what a check finds."""
    begun = asyncio.Event()

    async def accept(items, cursor) -> None:
        begun.set()

    gateway.accept = accept
    async with gateway.adapter() as adapter:
        await asyncio.wait_for(begun.wait(), 120)
        notice = adapter.notice()
    last = (await gateway.made().check())[-1]
    return [
        "MATRIX_RECOVERY_KEY" in notice,
        last.good,
        last.text if last.good else "MATRIX_RECOVERY_KEY" in last.hint,
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:]))))
