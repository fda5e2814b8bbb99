"""The line under the input: who answers, with what, in which sandbox, and how full and how dear it is."""

from __future__ import annotations

from msgspec import Struct

from hermes.domain.text import one_line, width
from hermes.domain.turns.event import ModelSaid
from hermes.entry.terminal.chat.theme import Theme, paint

_BAR = 8
_PRESSED, _FULL = 0.6, 0.85


class StatusLine(Struct, kw_only=True):
    """`used` of `window` tokens are what the next call begins with; `prompt` and `cached` are sums."""

    agent: str = ""
    model: str = ""
    sandbox: str = ""
    window: int = 0
    used: int = 0
    prompt: int = 0
    cached: int = 0
    cost: float | None = None
    queued: int = 0
    background: int = 0
    yolo: bool = False
    shown: bool = True
    with_cost: bool = True
    note: str = ""
    """Stands in place of everything else."""

    def add(self, reply: ModelSaid) -> None:
        usage = reply.usage
        self.model = reply.model or self.model
        self.prompt += usage.prompt
        self.cached += usage.cached
        if usage.prompt:
            self.used = usage.prompt + usage.completion
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def begin(self) -> None:
        """Another session is shown."""
        self.used = self.prompt = self.cached = 0
        self.cost = None

    def rows(self, columns: int, theme: Theme, colour: bool) -> list[str]:
        if not self.shown:
            return []
        if self.note:
            return [paint(one_line(self.note, max(columns, 1)), theme.dim, colour)]
        parts = [part for part in self._parts() if part]
        line = ""
        for part in parts:
            longer = f"{line} · {part}" if line else part
            if width(longer) <= columns:
                line = longer
        style = theme.dim
        if self.window and self.used / self.window >= _PRESSED:
            style = theme.bad if self.used / self.window >= _FULL else theme.warn
        return [paint(line, style, colour)]

    def _parts(self) -> list[str]:
        """The most important first; what has no room is left out."""
        agent = self.agent if self.agent not in ("", "main") else ""
        return [
            agent,
            one_line(self.model, 40),
            self._context(),
            "yolo" if self.yolo else "",
            f"{self.queued} waiting" if self.queued else "",
            f"{self.background} in background" if self.background else "",
            self.sandbox,
            f"cache {self.cached / self.prompt:.0%}" if self.cached and self.prompt else "",
            f"${self.cost:.4f}" if self.cost and self.with_cost else "",
        ]

    def _context(self) -> str:
        if not self.used:
            return ""
        if not self.window:
            return f"{_short(self.used)} tokens"
        part = min(self.used / self.window, 1.0)
        filled = round(part * _BAR)
        return f"{'▰' * filled}{'▱' * (_BAR - filled)} {part:.0%} of {_short(self.window)}"


def _short(tokens: int) -> str:
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k".replace(".0k", "k") if tokens < 1_000_000 else f"{tokens / 1e6:.1f}M"
