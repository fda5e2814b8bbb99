"""`hermes --gateway URL`: a conversation with a gateway on another machine, over its API's port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hermes.domain.word import replace
from hermes.entry.terminal.elsewhere import read_address

if TYPE_CHECKING:
    from hermes.admin.commands.chat import ChatProcess

_KEY = "HERMES_GATEWAY_KEY"


def reach(process: ChatProcess, url: str) -> int:
    from hermes.admin.commands.conversation import converse

    command = process.command
    address = read_address(url, _key(process, url))
    console = replace(command.console, hermes=f"hermes --gateway {address.url}")
    process = replace(process, command=replace(command, console=console), url=address.url)
    return asyncio.run(converse(process, lambda: address, process.words()))


def _key(process: ChatProcess, url: str) -> str:
    """From the environment, the home's `.env`, or whoever sits there."""
    from hermes.state.settings.loader import load_settings

    command = process.command
    key = command.environ.get(_KEY, "")
    if not key:
        key = load_settings(command.home, command.environ).secrets.reveal(_KEY)
    if not key and process.is_conversation:
        key = command.console.ask(f"Key of {url} (its API_SERVER_KEY):", secret=True)
    return key
