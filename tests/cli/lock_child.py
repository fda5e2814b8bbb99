"""A real gateway process with one platform that needs a token: `lock_child.py <home> <port>`. Its adapter
holds a connection to the test's server for as long as it is connected, so the test sees at every moment who
is."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import hermes.plugins
from hermes.admin.process.run import GatewayProcess
from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities, Manifest, SettingField
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.ports.platform import Accept

MANIFEST = Manifest(
    name="telegram",
    title="Witness",
    adapter=f"{__name__}:Witness",
    capabilities=Capabilities(),
    settings=(SettingField(env="TELEGRAM_BOT_TOKEN", title="a token", secret=True),),
)


class Witness:
    def __init__(self, context: AdapterContext) -> None:
        self.capabilities = MANIFEST.capabilities

    async def run(self, accept: Accept, cursor: str | None) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
        try:
            writer.write(f"{os.getpid()}\n".encode())
            await reader.read()
        finally:
            writer.close()

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        raise NotImplementedError


if __name__ == "__main__":
    hermes.plugins.platform_manifests = lambda: (MANIFEST,)  # type: ignore[assignment]
    process = GatewayProcess(
        home=Path(sys.argv[1]),
        environ=os.environ,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    sys.exit(process.run())
