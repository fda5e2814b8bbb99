"""The pictures in the docs are what the chat draws. `WRITE_DOCS=1 ./test
tests/entry/terminal/test_pictures.py` draws them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat_child import REAL_TOOLS
from tests.cli.command import ROOT
from tests.entry.terminal.glass import Glass
from tests.entry.terminal.person import at_terminal

IMAGES = ROOT / "docs" / "images"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    answer = """To sort people by **age**, give `sorted()` a key:

```python
def by_age(people: list[Person]) -> list[Person]:
    return sorted(people, key=lambda person: person.age)
```

| Function | In place | Returns |
|---|:-:|---|
| `sorted` | no | a new list |
| `list.sort` | yes | `None` |
"""
    (folder / "answer.md").write_text(answer)
    return folder


def _programs(folder: Path) -> Path:
    """The greeting counts tools, and some of them are there where these programs are."""
    folder.mkdir()
    for name in ("chromium", "espeak-ng"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


Scene = Callable[[Glass, Path], None]
DARK, LIGHT = "1616/1818/1d1d", "ffff/ffff/ffff"


def first_run(glass: Glass, home: Path) -> None:
    glass.until("/help", "❯")


def chat(glass: Glass, home: Path) -> None:
    glass.person.type("show me how to sort")
    glass.until("list.sort", gone="⚕ ❯")
    glass.person.type("run git push --force origin main")
    glass.until("the number, or the", "⚠ ❯")


def streaming(glass: Glass, home: Path) -> None:
    (home / "hold").touch()
    glass.person.type("run echo compiled")
    glass.until("The tool said:", gone="⚕ ❯")
    glass.person.type("count to thirty")
    glass.until("9 10", "⚕ ❯")


def clarify(glass: Glass, home: Path) -> None:
    glass.person.type("choose")
    glass.until("Which colour?", "? ❯")


def interrupt(glass: Glass, home: Path) -> None:
    (home / "hold").touch()
    glass.person.type("count to thirty")
    glass.until("9 10")
    glass.person.keys("\x1b")
    glass.until("— stopped", gone="⚕ ❯")
    glass.person.type("show me how to sort")
    glass.until("list.sort", gone="⚕ ❯")


def paste(glass: Glass, home: Path) -> None:
    glass.person.keys("Why does this fail? ")
    glass.person.paste("\n".join(f"line {number} of a log" for number in range(240)))
    glass.until("[pasted #1: 240 lines]")


def resume(glass: Glass, home: Path) -> None:
    for title in ("Tax return", "Holiday in Norway", "Flaky test"):
        glass.person.type(f"about the {title.lower()}")
        glass.until(f"You said: about the {title.lower()}")
        glass.person.type(f"/new {title}")
        glass.until(f"“{title}”" if "“" in glass.text else title, gone="⚕ ❯")
    glass.person.type("/clear")
    glass.until("❯", gone="You said")
    glass.person.type("/resume")
    glass.until("type to search")


SCENES: dict[str, tuple[Scene, int, int, dict[str, str]]] = {
    "first-run": (first_run, 80, 24, {}),
    "chat": (chat, 80, 36, {}),
    "chat-light": (chat, 80, 36, {}),
    "chat-narrow": (chat, 44, 44, {}),
    "chat-no-colour": (chat, 80, 36, {"NO_COLOR": "1"}),
    "streaming": (streaming, 80, 24, {}),
    "clarify": (clarify, 80, 24, {}),
    "interrupt": (interrupt, 80, 36, {}),
    "paste": (paste, 80, 24, {}),
    "resume": (resume, 80, 24, {}),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_pictures_show_the_chat(home: Path, name: str) -> None:
    play, columns, rows, variables = SCENES[name]
    light = name == "chat-light"
    variables = {
        REAL_TOOLS: "1",
        "PATH": f"{_programs(home.parent / 'bin')}:{os.environ['PATH']}",
        **variables,
    }
    with at_terminal(home, rich=True, **variables) as person:
        glass = Glass(person, columns=columns, rows=rows, background=LIGHT if light else DARK)
        glass.until("/help", "❯")
        glass.rest()
        play(glass, home)
        glass.look(0.6)
        glass.still()
        drawn = glass.picture(light=light)
        person.kill()
    file = IMAGES / f"{name}.svg"
    if os.environ.get("WRITE_DOCS"):
        IMAGES.mkdir(exist_ok=True)
        file.write_text(drawn)
    assert file.read_text() == drawn
