"""A command plugin: `/quote` answers with a line of `quotes.txt` in the agent's home. Reading a file takes
time, so `prepare` does it, outside the transaction; the command itself only decides, inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command
from hermes.domain.errors import UserError

HERMES_API = 1


async def read_quotes(request: CommandRequest) -> Sequence[str]:
    """May run more than once: after a crash, or if what it saw has changed by the time the command runs."""
    return await asyncio.to_thread(_read, request.runtime.profile.home / "quotes.txt")


@command("quote", "say something wise", usage="[n]", prepare=read_quotes)
def quote(call: CommandCall) -> CommandReply:
    quotes: Sequence[str] = call.prepared
    number = call.number(len(quotes), default="1")
    if number is None:
        raise UserError(f"There are {len(quotes)} quotes.", hint="/quote 1")
    return CommandReply(text=quotes[number - 1])


def _read(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    quotes = [line.strip() for line in lines if line.strip()]
    if not quotes:
        raise UserError("There are no quotes yet.", hint=f"Write some into {file.name}, one a line.")
    return quotes
