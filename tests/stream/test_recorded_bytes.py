"""Every face writes what it wrote when these feeds were recorded, byte for byte."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.domain.turns.event import Entry, FeedItem
from hermes.stream.faces.chat_chunks import ChatChunks
from hermes.stream.faces.console import Console, QuietConsole
from hermes.stream.faces.responses.fold import ResponseFold
from hermes.stream.faces.responses.numbers import ResponseEvents
from hermes.stream.faces.responses.shape import ResponseObject
from hermes.stream.faces.run_events import RunEvents, last_event
from hermes.stream.faces.session_events import SessionEvents
from hermes.stream.fold.tool_lines import ProgressLevel
from hermes.stream.fold.turn_fold import Fold
from hermes.stream.wire.socket import decode_seen

_FILE = gzip.decompress(Path(__file__).with_name("recorded.jsonl.gz").read_bytes())
RECORDED = [json.loads(line) for line in _FILE.splitlines()]


def clock() -> Callable[[], float]:
    ticks = itertools.count()
    return lambda: 1000.0 + next(ticks) * 0.5


def chat(feed: list[FeedItem], after: int, *, apart: bool) -> bytes:
    face = ChatChunks(id="c", model="m", created=9, after=after, about={"run": "r"}, usage_apart=apart)
    return b"".join([*map(face.see, feed), face.end("stop", trouble={"completed": False})])


def responses(feed: list[FeedItem], part: int) -> bytes:
    blank = ResponseObject(id="resp_x", created_at=1, model="m")
    face = ResponseEvents(ResponseFold(blank, run="r", session="s", part=part))
    return face.start() + b"".join(map(face.see, feed))


def draft(feed: list[FeedItem]) -> str:
    view = Fold()
    drafts = []
    for item in feed:
        view.see(item)
        drafts.append(view.draft(ProgressLevel.ALL))
    return "\n---\n".join(text for text, _ in itertools.groupby(drafts))


def without_states(draft: str) -> str:
    """The draft of the recording, which had the turn's state before each version."""
    versions = (version.partition(" ")[2] for version in draft.split("\n---\n"))
    return "\n---\n".join(text for text, _ in itertools.groupby(versions))


def faces(feed: list[FeedItem], after: int) -> dict[str, str]:
    """What each face writes; `after` is the record up to which somebody who comes back knows the turn."""
    past = [item for item in feed if isinstance(item, Entry) and item.seq <= after]
    rest = [item for item in feed if not isinstance(item, Entry) or item.seq > after]
    session = SessionEvents(session="s", run="r", now=clock())
    console = Console(40, colour=True, show_thoughts=True)
    quiet = QuietConsole()
    written: dict[str, str | bytes] = {
        "console": "".join(map(Console().see, feed)),
        "painted console": "".join(map(console.see, feed)),
        "quiet console": "".join(map(quiet.see, feed)) + quiet.failure,
        "chat": chat(feed, -1, apart=False),
        "chat continued": chat([*past, *rest], after, apart=True),
        "run": b"".join(map(RunEvents("r", now=clock()).see, feed)),
        "run continued": b"".join(map(RunEvents("r", now=clock(), after=after).see, [*past, *rest])),
        "session": session.start("hi") + b"".join(map(session.see, feed)),
        "responses": responses(feed, 1),
        "responses, second part": responses(feed, 2),
        "draft": draft(feed),
        "last event": str(last_event([item for item in feed if isinstance(item, Entry)])),
    }
    return {name: text if isinstance(text, str) else text.decode() for name, text in written.items()}


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["seed"]))
def test_every_face_writes_the_recorded_bytes(recorded: dict[str, object]) -> None:
    feed = [decode_seen(json.dumps(item)) for item in recorded["feed"]]  # type: ignore[attr-defined]
    expected: dict[str, str] = recorded["faces"]  # type: ignore[assignment]
    assert faces(feed, recorded["after"]) == {  # type: ignore[arg-type]
        **expected,
        "draft": without_states(expected["draft"]),
    }
