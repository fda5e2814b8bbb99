"""How far a plain message travels: the control modules whose functions run between its acceptance and the
moment its answer is sent. A reader who follows a message has to open each of them, so there are few."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import hermes.control
from hermes.testing.harness import Journey

MOST_MODULES = 18
_CONTROL = Path(hermes.control.__file__).parent
_EVENTS = str(_CONTROL / "events.py")


class Trail:
    """The control modules in which a function was called, in any thread, while it is `on`. Who listens to
    events stands beside the path: nothing of the message waits for them."""

    def __init__(self) -> None:
        self.on = False
        self.modules: set[str] = set()

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not self.on or not frame.f_code.co_filename.startswith(f"{_CONTROL}/"):
            return
        above = frame.f_back
        while above is not None and above.f_code.co_filename != _EVENTS:
            above = above.f_back
        if above is None or frame.f_code.co_filename == _EVENTS:
            self.modules.add(str(Path(frame.f_code.co_filename).relative_to(_CONTROL)))


@contextmanager
def followed() -> Iterator[Trail]:
    """Threads that begin meanwhile are followed too: the store writes in its own."""
    trail = Trail()
    threading.setprofile(trail.note)
    sys.setprofile(trail.note)
    try:
        yield trail
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["plain", "edits"])
async def test_a_plain_message_crosses_few_modules(tmp_path: Path, kind: str) -> None:
    with followed() as trail:
        async with Journey(folder=tmp_path, kind=kind) as chat:
            chat.world.write("hello")
            await chat.until_seen("You said: hello")
            await chat.until_idle()
            trail.on = True
            chat.world.write("and again")
            await chat.until_seen("You said: hello", "You said: and again")
            await chat.until_idle()
            trail.on = False
    crossed = sorted(trail.modules)
    assert {"gateway.py", "inbound/intake.py", "turn/actor.py", "outbound/lane.py"} <= trail.modules
    assert len(crossed) <= MOST_MODULES, f"{len(crossed)} modules: {', '.join(crossed)}"
