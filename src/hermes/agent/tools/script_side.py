"""The module `hermes_tools` in a script of `execute_code`: how it calls, and how it is run. The functions of
the turn's tools are added behind it (`script_module.py`). It is sent to where commands run, so it needs only
the standard library, of Python 3.9 or later. Its answers come on what was the standard input."""

from __future__ import annotations

import contextlib as _contextlib
import itertools as _itertools
import json as _json
import linecache as _linecache
import os as _os
import queue as _queue
import shlex as _shlex
import shutil as _shutil
import signal as _signal
import sys as _sys
import tempfile as _tempfile
import threading as _threading
import time as _time
import traceback as _traceback
import types as _types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from typing import Any as _Any
    from typing import BinaryIO as _BinaryIO

_FILE = "script.py"
_ERROR_BYTES = 10_000
_END_SECONDS = 0.5
_calls = 247
_lock = _threading.Lock()
_numbers = _itertools.count(1)
_waiting: dict[int, _queue.SimpleQueue[dict[str, _Any]]] = {}


class ToolError(Exception):
    """A tool that did not do what it was called for; the text says why."""


def json_parse(text: str) -> object:
    """JSON that may hold line breaks within its texts."""
    return _json.loads(text, strict=False)


def shell_quote(text: str) -> str:
    return _shlex.quote(text)


def retry(work: _Callable[[], _Any], attempts: int = 3, delay: float = 1.0) -> _Any:
    """What the function gives; after an exception it is called again, each time after a longer wait."""
    for attempt in range(1, attempts):
        try:
            return work()
        except Exception:
            _time.sleep(delay * attempt)
    return work()


def _call(name: str, given: dict[str, object], more: dict[str, object]) -> _Any:
    number = next(_numbers)
    answers: _queue.SimpleQueue[dict[str, _Any]] = _queue.SimpleQueue()
    arguments = {key: value for key, value in (given | more).items() if value is not None}
    line = _json.dumps({"id": number, "name": name, "arguments": arguments}, default=str).encode() + b"\n"
    _waiting[number] = answers
    _write(line)
    answer = answers.get()
    if "error" in answer:
        raise ToolError(answer["error"])
    return answer["result"]


def _write(line: bytes) -> None:
    with _lock:
        while line:
            line = line[_os.write(_calls, line) :]


def _listen(replies: _BinaryIO) -> None:
    for line in replies:
        answer = _json.loads(line)
        _waiting.pop(answer["id"]).put(answer)
    for answers in list(_waiting.values()):
        answers.put({"error": "The gateway is gone."})


def _keep_errors() -> _Callable[[], None]:
    """Keep the end of what is written to the standard error, and tell it when the script is over."""
    ours, theirs = _os.pipe()
    _os.dup2(theirs, 2)
    _os.close(theirs)
    kept = bytearray()

    def read() -> None:
        while data := _os.read(ours, 65536):
            kept.extend(data)
            del kept[:-_ERROR_BYTES]

    reader = _threading.Thread(target=read, daemon=True)
    reader.start()

    def tell() -> None:
        with _contextlib.suppress(Exception):
            _sys.stderr.flush()
            _os.dup2(0, 2)
            reader.join(_END_SECONDS)
            _write(_json.dumps({"stderr": kept.decode("utf-8", "replace")}).encode() + b"\n")

    return tell


def _run(replies: _BinaryIO, given: dict[str, str]) -> None:
    _os.set_inheritable(_calls, False)
    null = _os.open(_os.devnull, _os.O_RDWR)
    _os.dup2(null, 0)
    tell_errors = _keep_errors()
    _threading.Thread(target=_listen, args=(replies,), daemon=True).start()
    _signal.signal(_signal.SIGTERM, lambda *_: _sys.exit(143))
    folder = _tempfile.mkdtemp(prefix="script-") if given["mode"] == "strict" else ""
    if folder:
        _os.chdir(folder)
    _sys.path.append(_os.getcwd())  # behind everything else: no file there takes the place of a library
    _linecache.cache[_FILE] = (len(given["code"]), None, given["code"].splitlines(True), _FILE)
    main = _sys.modules["__main__"] = _types.ModuleType("__main__")
    try:
        exec(compile(given["code"], _FILE, "exec"), main.__dict__)
    except SystemExit as ending:
        if isinstance(ending.code, (int, type(None))):
            raise
        print(ending.code, file=_sys.stderr)
        _sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        trace = error.__traceback__
        _traceback.print_exception(type(error), error, trace and trace.tb_next)
        _sys.exit(1)
    finally:
        tell_errors()
        if folder:
            _shutil.rmtree(folder, ignore_errors=True)
