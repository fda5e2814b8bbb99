"""A figure: one measured value with its target and, where one makes sense, its ratio to a bare program that
was measured in the same run. Also how the figures of several runs become one, and the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """Which of several runs speaks for all: the best one, for faults the worst, and the middle one for a
    value that is itself a ratio (its best would be the run in which the bare program was disturbed most)."""

    MORE = "more"
    LESS = "less"
    FAULT = "fault"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    bench: str
    name: str
    value: float
    unit: str
    better: Better = Better.LESS
    target: float | None = None
    floor: float | None = None
    """What the bare program named by `to` needs for the same, measured in turns with this value."""
    ratio: float | None = None
    budget: float | None = None
    """The bound of the ratio, where that is what counts."""
    to: str = ""
    """What the ratio compares with: this value divided by that of the bare program."""

    @property
    def met(self) -> bool | None:
        bounds = [(self.value, self.target), (self.ratio, self.budget)]
        checked = [(value, bound) for value, bound in bounds if value is not None and bound is not None]
        if not checked:
            return None
        return all(
            value >= bound if self.better is Better.MORE else value <= bound for value, bound in checked
        )


def choose(runs: Sequence[Figure]) -> Figure:
    """The run that speaks for all; its ratio goes with it, because both were measured together. Where the
    ratio is what counts, the run with the best one speaks."""
    if runs[0].budget is not None:
        best = max if runs[0].better is Better.MORE else min
        return best(runs, key=lambda figure: figure.ratio or 0.0)
    if runs[0].better is Better.LESS:
        return min(runs, key=lambda figure: figure.value)
    if runs[0].better is Better.RATIO:
        return sorted(runs, key=lambda figure: figure.value)[len(runs) // 2]
    return max(runs, key=lambda figure: figure.value)


def gather(runs: Iterable[Iterable[Figure]]) -> list[list[Figure]]:
    """The same figure of all runs together, in the order of their first appearance."""
    together: dict[tuple[str, str], list[Figure]] = {}
    for figures in runs:
        for figure in figures:
            together.setdefault((figure.bench, figure.name), []).append(figure)
    return list(together.values())


def table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "value", "target", "floor", "ratio", "budget", "", "to")]
    for figure in figures:
        rows.append(_row(figure))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    bench = ""
    for number, row in enumerate(rows):
        if number and figures[number - 1].bench != bench:
            bench = figures[number - 1].bench
            lines += ["", f"{bench}"]
        cells = [
            cell.ljust(width) if column in (0, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    more = figure.better is Better.MORE
    sign = "≥" if more else "≤"
    target = "" if figure.target is None else f"{sign} {spell(figure.target, exact=True)}"
    budget = "" if figure.budget is None else f"{sign} {figure.budget:g}×"
    met = {True: "ok", False: "under" if more else "over", None: ""}[figure.met]
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    floor = "" if figure.floor is None else f"{spell(figure.floor)} {figure.unit}"
    value = f"{spell(figure.value)} {figure.unit}"
    return (f"  {figure.name}", value, target, floor, ratio, budget, met, figure.to)


def spell(value: float, *, exact: bool = False) -> str:
    if value == int(value) and (exact or abs(value) >= 100 or value == 0):
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
