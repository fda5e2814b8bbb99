"""A platform plugin: chats as files. A file `inbox/<person>-<anything>.txt` is a message, and the answers are
files in `outbox/`. A message is removed only after it was stored, so nothing is lost; an answer's file is
named by its key, so that sending it again writes the same file."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities, Manifest, SettingField
from hermes.domain.chats.message import Body, Inbound, Receipt
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import DeliveryId
from hermes.domain.ports.platform import Accept

HERMES_API = 1
MANIFEST = Manifest(
    name="folder",
    title="Folder",
    adapter="hermes_example_platform:FolderAdapter",
    capabilities=Capabilities(max_text=100_000, dedupe_seconds=float("inf")),
    settings=(SettingField(env="FOLDER_PATH", title="Folder", hint="A folder that only you can write to."),),
    people="the first part of a file's name, up to the “-”",
    person=r"[a-z]+",
)
LOOK_EVERY = 0.2


class FolderAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._account = context.account
        self._inbox = Path(context.setting("FOLDER_PATH")) / "inbox"
        self._outbox = Path(context.setting("FOLDER_PATH")) / "outbox"

    async def run(self, accept: Accept, cursor: str | None) -> None:
        """Stored first, removed afterwards: a crash in between delivers a message again, and the gateway
        knows it by its delivery id."""
        await asyncio.to_thread(self._make_folders)
        while True:
            messages = await asyncio.to_thread(self._read)
            await accept([self._inbound(*message) for message in messages], None)
            for file, _, _ in messages:
                await asyncio.to_thread(file.unlink, missing_ok=True)
            await asyncio.sleep(LOOK_EVERY)

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        if not to.chat.isalpha():
            raise Refused(f"“{to.chat}” is not a person's name")
        name = f"{to.chat}-{key.replace('/', '_')}.txt"
        try:
            await asyncio.to_thread(self._write, name, body.text)
        except OSError as error:
            raise Unreachable(f"the folder cannot be written: {error.strerror}") from error
        return Receipt(to=to, ref=name)

    def _make_folders(self) -> None:
        for folder in (self._inbox, self._outbox):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _read(self) -> list[tuple[Path, int, str]]:
        files = sorted(file for file in self._inbox.glob("*.txt") if "-" in file.name)
        return [
            (file, file.stat().st_mtime_ns, file.read_text(encoding="utf-8", errors="replace"))
            for file in files[:100]
        ]

    def _inbound(self, file: Path, written: int, text: str) -> Inbound:
        person = file.name.partition("-")[0]
        address = Address(platform=MANIFEST.name, account=self._account, chat=person)
        return Inbound(
            delivery=DeliveryId(f"{file.name}:{written}"),
            source=Source(address=address, kind=SourceKind.PRIVATE, user=person),
            at=datetime.now(UTC),
            ref=file.name,
            text=text,
        )

    def _write(self, name: str, text: str) -> None:
        """A reader sees the whole file or none."""
        half = self._outbox / f".{name}"
        half.write_text(text, encoding="utf-8")
        os.replace(half, self._outbox / name)
