"""The whole product to be measured: the app on a home of its own as a user has it (default prompt and tools,
journal with FULL sync, session logs), asking the bench's model server by the real provider. The door is the
narrowest there is: `Gateway.submit` and `Gateway.watch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.model import Direct, surroundings
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.gateway import Gateway
from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.tools.tool import Tool
from hermes.domain.turns.event import Entry, Finished, Snapshot, TextDelta
from hermes.domain.turns.turn import TurnInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A running gateway, and a bare program beside it."""

    gateway: Gateway
    direct: Direct

    async def ask(
        self, chat: str, text: str, out: asyncio.StreamWriter | None = None, agent: AgentId = MAIN_AGENT
    ) -> int:
        """One turn, watched to its end; how many characters were heard. `out` is shown every word."""
        source = Source(address=Address(platform="api", chat=chat), kind=SourceKind.API, user="bench")
        words = Submission(agent=agent, source=source, input=TurnInput(text=text))
        turn = await self.gateway.submit(words)
        heard, ended = 0, None
        async for seen in self.gateway.watch(agent, turn.id):
            if isinstance(seen, TextDelta | Snapshot):
                heard += len(seen.text)
                if out is not None:
                    out.write(seen.text.encode())
                    await out.drain()
            elif isinstance(seen, Entry):
                ended = seen.record
        if not isinstance(ended, Finished):
            raise RuntimeError(f"the turn ended with {ended}")
        return heard


@asynccontextmanager
async def whole(
    home: Path, url: str, tools: Sequence[Tool] | None = None, more: str = ""
) -> AsyncIterator[Whole]:
    prepare(home, url, more)
    app = App(home, surroundings(home), AppOverrides(platforms={}, tools=tools))
    connector = aiohttp.TCPConnector(limit=0)
    async with app.running(), aiohttp.ClientSession(connector=connector) as session:
        yield Whole(gateway=app.gateway, direct=Direct(url, session))


def prepare(home: Path, url: str, more: str = "") -> None:
    """A home with this model, and `more` settings."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = f"model:\n  default: fake-model\n  base_url: {url}\n{more}"
    (home / "config.yaml").write_text(text, encoding="utf-8")
