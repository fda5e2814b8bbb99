"""The pins of MCP servers: a file for each in the agent's home. Everything here looks at the disk: call it
off the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from hermes.domain.errors import UserError
from hermes.domain.tools.mcp import McpPins
from hermes.state.home.textfile import sole_writer
from hermes.state.home.wholefile import write_whole

MCP_FOLDER = "mcp"
_MOST_BYTES = 16 << 20


class McpPinFile:
    """The pins of one server. Without a file nothing was seen yet; an unreadable one accepts nothing."""

    def __init__(self, home: Path, server: str) -> None:
        self.path = home / MCP_FOLDER / f"{server}.json"

    def read(self) -> McpPins | None:
        try:
            data = self.path.read_bytes()
            if len(data) > _MOST_BYTES:
                raise ValueError("it is too large")
            return msgspec.json.decode(data, type=McpPins)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(
                f"{self.path} cannot be read, so no tool of this server counts as accepted.",
                hint="Mend it, or remove it to accept what the server offers now.",
            ) from error

    def change(self, work: Callable[[McpPins], McpPins]) -> McpPins:
        """Change what stands there now; others who do so wait."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with sole_writer(self.path.parent):
            before = self.read()
            after = work(before or McpPins())
            if after != before:
                write_whole(self.path, msgspec.json.format(msgspec.json.encode(after), indent=1))
        return after

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
