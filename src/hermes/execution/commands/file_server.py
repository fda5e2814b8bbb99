"""The files of a sandbox, served from inside it: so they are what commands see, and no link that a command
makes leads out. It imports nothing but the standard library until something is searched for.

Each piece of work has a connection of its own, handed over at a door; one byte says that it was taken. Then
comes ASK, for a write followed by WRITE frames and CLOSE_STDIN. The answer is DATA frames, and TOLD or
FAILED."""

from __future__ import annotations

import os
import select

from hermes.execution.commands import frames
from hermes.execution.commands.handover import take_connection
from hermes.execution.commands.supervisor import FrameLink
from hermes.execution.files import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    import threading
    from collections.abc import Iterator
    from typing import Any, BinaryIO
ASK, DATA, TOLD, FAILED = b"q", b"d", b"j", b"n"
_PIECE = 1 << 20
_MOST_AT_ONCE = 32


def serve_files(door: _socket.socket) -> None:
    """Until the gateway lets go of the door."""
    import threading  # in the process that needs it

    places = threading.Semaphore(_MOST_AT_ONCE)
    while True:
        places.acquire()
        connection = take_connection(door)
        if connection is None:
            return
        threading.Thread(target=_serve, args=(connection, places), daemon=True).start()


def _serve(descriptor: int, places: threading.Semaphore) -> None:
    try:
        os.write(descriptor, b"!")
        _answer(FrameLink(descriptor, descriptor))
    except (OSError, EOFError, ValueError):
        pass  # whoever asked is gone
    finally:
        os.close(descriptor)
        places.release()


def _answer(link: FrameLink) -> None:
    import json

    arriving = _arriving(link)
    _, words = next(arriving)
    asked = json.loads(words)
    data = _data(arriving)
    try:
        told = _do(link, asked, data)
    except (OSError, ValueError) as error:
        told = {"refused": [work.why_not(asked["verb"], asked["path"], error), ""]}
    refused = told.pop("refused", None)
    if asked["work"] == "write":
        for _ in data:  # it is all sent before the answer is looked at
            pass
    link.send((FAILED, json.dumps(refused).encode()) if refused else (TOLD, json.dumps(told).encode()))


def _arriving(link: FrameLink) -> Iterator[frames.Frame]:
    while True:
        yield from link.receive()


def _data(arriving: Iterator[frames.Frame]) -> Iterator[bytes]:
    for letter, payload in arriving:
        if letter == frames.CLOSE_STDIN:
            return
        yield payload


def _do(link: FrameLink, asked: dict[str, Any], data: Iterator[bytes]) -> dict[str, Any]:
    """What is told of it; what cannot be done is raised, or `refused` in words."""
    path = asked["path"]
    match asked["work"]:
        case "read":
            content = work.read_file(path, asked["start"], asked["limit"], asked["follow"])
            for at in range(0, len(content), _PIECE):
                link.send((DATA, content[at : at + _PIECE]))
            return {}
        case "write":
            work.write_file(path, lambda file: _fill(file, data), asked["follow"], asked["mode"])
            return {}
        case "remove":
            work.remove_file(path, asked["follow"])
            return {}
        case "stat":
            found = work.find_file(path)
            return {"found_files": [] if found is None else [found]}
        case "list":
            return {"found_files": work.list_folder(path)}
        case _:
            return _search(link, path, asked["search"])


def _fill(file: BinaryIO, data: Iterator[bytes]) -> None:
    for piece in data:
        file.write(piece)


def _search(link: FrameLink, path: str, words: dict[str, Any]) -> dict[str, Any]:
    from msgspec.structs import asdict

    from hermes.domain.errors import UserError
    from hermes.domain.ports.world import FileSearch
    from hermes.execution.files.search import search_tree

    if not os.path.exists(path):
        raise FileNotFoundError
    try:
        found = search_tree(path, FileSearch(**words), lambda: _is_gone(link))
    except UserError as error:
        return {"refused": [error.message, error.hint]}
    return {"matches": [*map(asdict, found.matches)], "more": found.more, "files": found.files}


def _is_gone(link: FrameLink) -> bool:
    """Whether who asked does not wait for the answer any more: nothing else comes after the question."""
    return bool(select.select((link.reading,), (), (), 0)[0])
