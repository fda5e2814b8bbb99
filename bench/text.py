"""Text: what reading, splitting and printing markdown costs, for a short message and for a long document.

The bare program is the markdown parser alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from markdown_it import MarkdownIt

from bench.figure import Figure
from bench.stopwatch import Stopwatch, without_gc
from hermes.domain.chats.capabilities import Flavour, TextUnit
from hermes.stream.text.markdown import parse
from hermes.stream.text.print import print_markdown
from hermes.stream.text.split import split

_SHORT = "The next train leaves at nine and costs twelve; the one after it is slower but half the price."
_STYLED = "The **next** train leaves at `9:00` and costs [twelve](https://example.org/fare); _bring_ a coat."
_SECTION = """\
## Part {n}: what was found

The report has **three** findings, and the _second_ one matters most; see [the notes](https://example.org/{n}).

- first: the `config` was read twice
- second: a much longer point that goes on for a while so that it has to be wrapped by whoever reads it
  - with a detail below it

```python
def part_{n}(values: list[int]) -> int:
    return sum(value * {n} for value in values)
```

| name | value |
|---|---|
| one | {n} |

"""
_SIZE = 100_000


def measure(folder: Path, quick: bool) -> list[Figure]:
    long = "".join(_SECTION.format(n=n) for n in range(_SIZE // len(_SECTION) + 20))[:_SIZE]
    short_times, long_times = (300, 1) if quick else (3_000, 3)
    bare = MarkdownIt("commonmark").enable("table")
    figures: list[Figure] = []
    for name, text in (("short plain message", _SHORT), ("short styled message", _STYLED)):
        base = _seconds(partial(bare.parse, text), short_times)
        for what, work in _works(text):
            seconds = _seconds(work, short_times)
            figures.append(_figure(f"{name}: {what}", seconds * 1e6, "µs", seconds / base))
    base = _seconds(partial(bare.parse, long), long_times)
    for what, work in _works(long):
        seconds = _seconds(work, long_times)
        figures.append(_figure(f"100 KB: {what}", seconds * 1e3, "ms", seconds / base))
    return figures


def _works(text: str) -> list[tuple[str, Callable[[], object]]]:
    document = parse(text)
    return [
        ("parse", lambda: parse(text)),
        ("print for Telegram", lambda: print_markdown(document, Flavour.TELEGRAM_HTML)),
        ("split, plain", lambda: split(text, limit=4096, unit=TextUnit.CHARS, flavour=Flavour.PLAIN)),
        (
            "split, Telegram",
            lambda: split(text, limit=4096, unit=TextUnit.UTF16, flavour=Flavour.TELEGRAM_HTML),
        ),
    ]


def _seconds(work: Callable[[], object], times: int) -> float:
    """CPU seconds of one call, after a call that warms up; the best of three rounds."""
    work()
    best = float("inf")
    with without_gc():
        for _ in range(3):
            with Stopwatch() as watch:
                for _ in range(times):
                    work()
            best = min(best, watch.cpu)
    return best / times


def _figure(name: str, value: float, unit: str, ratio: float) -> Figure:
    return Figure(bench="text", name=name, value=value, unit=unit, ratio=ratio, to="bare markdown-it parse")
