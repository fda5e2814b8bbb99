"""The first thing somebody sees: a panel with the version, the model, the folder and what to do next."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from hermes.domain.text import one_line, width
from hermes.entry.terminal.chat.theme import Theme, paint

_WIDEST, _NARROWEST = 76, 34
_MOST_ROWS = 3
_EMBLEM = "⚕"


def banner_rows(
    title: str,
    facts: Sequence[tuple[str, str]],
    tips: Sequence[str],
    columns: int,
    theme: Theme,
    colour: bool,
) -> list[str]:
    """Drawn by hand: Rich would take longer to load than everything else before the prompt."""
    name = max((len(key) for key, _ in facts), default=0)
    if columns < _NARROWEST:
        lines = [f"{_EMBLEM} {title}", *(f"{key}: {value}" for key, value in facts), *tips]
        return [paint(one_line(line, max(columns - 1, 1)), theme.dim, colour) for line in lines]
    inner = min(columns - 1, _WIDEST) - 4
    head = f" {one_line(f'{_EMBLEM} {title}', inner - 2)} "

    def edge(text: str) -> str:
        return paint(text, theme.dim, colour)

    rows = [edge("╭─") + paint(head, theme.accent, colour) + edge("─" * (inner + 1 - width(head)) + "╮")]
    for key, value in facts:
        for number, shown in enumerate(textwrap.wrap(value, inner - name - 2)[:_MOST_ROWS] or [""]):
            label = f"{key if number == 0 else '':<{name}}"
            body = paint(label, theme.dim, colour) + f"  {shown}"
            rows.append(edge("│ ") + body + " " * (inner - name - 2 - width(shown)) + edge(" │"))
    if tips:
        rows.append(edge("│ ") + " " * inner + edge(" │"))
    for shown in (row for tip in tips for row in textwrap.wrap(tip, inner)):
        rows.append(edge("│ ") + paint(shown, theme.dim, colour) + " " * (inner - width(shown)) + edge(" │"))
    return [*rows, edge(f"╰{'─' * (inner + 2)}╯")]
