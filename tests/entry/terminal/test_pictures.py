"""The pictures in the docs are what the chat draws. `WRITE_DOCS=1 ./test
tests/entry/terminal/test_pictures.py` draws them again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.chat_child import REAL_TOOLS
from tests.cli.command import ROOT
from tests.entry.terminal.glass import READY, Glass
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


@pytest.mark.parametrize("name", ["chat", "chat-light"])
def test_the_pictures_show_the_chat(home: Path, name: str) -> None:
    light = name.endswith("light")
    with at_terminal(home, rich=True, **{REAL_TOOLS: "1"}) as person:
        glass = Glass(person, rows=36, background="ffff/ffff/ffff" if light else "1616/1818/1d1d")
        glass.until("/help", "❯")
        glass.rest()
        person.type("show me how to sort")
        glass.until("list.sort", gone="⚕ ❯")
        person.type("run git push --force origin main")
        glass.until(READY, "⚠ ❯")
        glass.rest()
        drawn = glass.picture(light=light)
        person.kill()
    file = IMAGES / f"{name}.svg"
    if os.environ.get("WRITE_DOCS"):
        IMAGES.mkdir(exist_ok=True)
        file.write_text(drawn)
    assert file.read_text() == drawn
