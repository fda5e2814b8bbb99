"""A gateway of one adapter, which dies at a message: `python -m … folder node output dies_at`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes.entry.platforms.whatsapp.api import Bridge


async def main(folder: Path, node: str, output: Path, dies_at: str) -> None:
    said = {"WHATSAPP_ENABLED": "true", "WHATSAPP_MODE": "bot"}

    async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
        for item in items:
            if item.text == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            with output.open("a") as file:
                file.write(f"{item.delivery} {item.text}\n")

    while True:
        adapter = WhatsAppAdapter(
            AdapterContext(
                settings=PlatformSettings(),
                find=lambda name: Secret(said[name]) if name in said else None,
                folder=folder,
            )
        )

        async def make() -> Bridge:
            return Bridge(node, Path(__file__).with_name("fake_socket.mjs"), folder)

        adapter.make_bridge = make  # type: ignore[method-assign]
        try:
            await adapter.run(accept, None)
        except Unreachable:
            await asyncio.sleep(0.05)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
