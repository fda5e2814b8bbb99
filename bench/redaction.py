"""Redaction: how fast a text is rid of secrets, with some or many that were loaded, and what a piece of a
stream costs."""

from __future__ import annotations

import random
import string
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.text import _seconds as seconds_of
from hermes.state.settings.secrets import Secrets

_TARGET = 20.0
_SIZE = 1_000_000
_figure = partial(Figure, bench="redaction", better=Better.MORE, unit="MB/s", target=_TARGET)


def measure(folder: Path, quick: bool) -> list[Figure]:
    text, rng = ordinary_text(), random.Random(15)
    size, times = len(text) / 1e6, 1 if quick else 5
    figures: list[Figure] = []
    for count in (30, 200):
        values = {f"K{n}": "sk-" + "".join(rng.choices(string.ascii_letters, k=40)) for n in range(count)}
        secrets = Secrets(values, patterns=True)
        for name, work in (("all", secrets.redact), ("loaded alone", secrets.conceal)):
            rate = size / seconds_of(partial(work, text), times)
            figures.append(_figure(name=f"{name}, {count} loaded", value=rate))
    named = "".join(f"key={n} the token is: word-{n % 97}\n" for n in range(30_000))
    rate = len(named) / 1e6 / seconds_of(partial(secrets.redact, named), times)
    figures.append(_figure(name="names like those of secrets", value=rate))
    words = text[:40_000].split(" ")

    def stream() -> None:
        pieces = secrets.stream()
        for word in words:
            pieces.take(f"{word} ")
        pieces.close()

    each = seconds_of(stream, times) / len(words) * 1e6
    figures.append(Figure(bench="redaction", name="a piece of a stream", value=each, unit="µs"))
    return figures


def ordinary_text() -> str:
    """Code, prose and log lines of this project, a third each."""
    root, rng = Path(__file__).parents[1], random.Random(15)
    lines = (
        f"2026-11-18 00:{n % 60:02}:12,{n % 1000:03} INFO hermes.turn turn.done id={rng.randbytes(8).hex()}"
        f" seconds={rng.random():.2f} tools={n % 9}\n"
        for n in range(4000)
    )
    code = (path.read_text("utf-8") for path in sorted((root / "src/hermes/control").rglob("*.py")))
    prose = (path.read_text("utf-8") for path in sorted((root / "docs").rglob("*.md")))
    return "".join("".join(part)[: _SIZE // 3] for part in (code, prose, lines))
