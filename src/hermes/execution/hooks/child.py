"""The process of one hook: loads its `handler.py` and answers what it is asked, line by line.

It imports nothing but the standard library and two modules of ours. What the hook prints goes to its error
output, so that it can never be taken for an answer. Calls run beside each other, so one that hangs keeps no
other waiting; when the gateway is gone, so is this process, with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, cast

from hermes.domain.system.process_mark import HOOK, step_down
from hermes.execution.process_tree import become_reaper, descendants, send_signal

HANDLER = "handler.py"


def main() -> None:
    """Argument: the hook's folder."""
    step_down(HOOK)
    folder = sys.argv[1]
    become_reaper()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    saying = threading.Lock()

    def say(**words: Any) -> None:
        data = json.dumps(words, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        with saying:
            answers.write(data)
            answers.flush()

    calls = _Calls(folder, say)

    def listen() -> None:
        for line in asked:
            threading.Thread(target=calls.answer, args=(json.loads(line),), daemon=True).start()
        for pid in descendants():
            send_signal(pid, signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)

    # Loading may take long or hang: the end of the gateway must be noticed all the same.
    listening = threading.Thread(target=listen)
    listening.start()
    calls.load()
    listening.join()


class _Calls:
    def __init__(self, folder: str, say: Callable[..., None]) -> None:
        self._folder = folder
        self._say = say
        self._loaded = threading.Event()
        self._handle: Callable[[str, dict[str, Any]], Any] | None = None
        self._fault = ""
        self._loop = asyncio.new_event_loop()

    def load(self) -> None:
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        try:
            self._handle = _load(self._folder)
        except BaseException as error:
            traceback.print_exc()
            self._fault = _place(error, self._folder)
        self._loaded.set()
        self._say(ready=True)

    def answer(self, asked: dict[str, Any]) -> None:
        self._loaded.wait()
        number = asked["id"]
        if self._handle is None:
            self._say(id=number, error=f"it cannot be loaded: {self._fault}")
            return
        result, fault = None, ""
        try:
            result = self._handle(asked["event"], asked["context"])
            if inspect.isawaitable(result):
                result = asyncio.run_coroutine_threadsafe(_awaited(result), self._loop).result()
        except BaseException as error:  # whatever the hook raises is an answer, SystemExit too
            traceback.print_exc()
            fault = _place(error, self._folder)
        # What it printed is there before its answer is.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if fault:
            self._say(id=number, error=fault)
            return
        try:
            self._say(id=number, answer=result)
        except (TypeError, ValueError, RecursionError):
            self._say(id=number, error=f"it returned a {type(result).__name__} that JSON cannot tell")


def _load(folder: str) -> Callable[[str, dict[str, Any]], Any]:
    os.chdir(folder)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("handler", os.path.join(folder, HANDLER))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["handler"] = module
    spec.loader.exec_module(module)
    handle = getattr(module, "handle", None)
    if not callable(handle):
        raise AttributeError("handler.py has no function handle(event_type, context)")
    return cast(Callable[[str, dict[str, Any]], Any], handle)


async def _awaited(result: Any) -> Any:
    return await result


def _place(error: BaseException, folder: str) -> str:
    """Which error, and the line of the hook's own files it came from; never what it said, which may hold
    people's words."""
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(folder):
        return f"{type(error).__name__} in {os.path.basename(error.filename)}, line {error.lineno}"
    lines = [step for step in traceback.extract_tb(error.__traceback__) if step.filename.startswith(folder)]
    where = f" in {os.path.basename(lines[-1].filename)}, line {lines[-1].lineno}" if lines else ""
    said = f" ({error})" if isinstance(error, AttributeError) and not lines else ""
    return f"{type(error).__name__}{where}{said}"
