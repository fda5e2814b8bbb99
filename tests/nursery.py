"""Processes of this program without the second that Python takes to load it.

Run as a script this is a nursery: a process that has loaded the program once and forks a child for each
request. `Popen` asks it for `python -m …`, `python FILE …` and `python -c …`; what else is started, or with
another locale, is started as ever. A child is a whole process, with its own memory, that a real SIGKILL ends:
only the loading is shared. Each is watched by a keeper, which tells how it ended and what it cost."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import inspect
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = str(ROOT / "src")
PROGRAMS = ("hermes.__main__", "hermes.testing.model_server", "hermes.testing.victim")
"""What is run as `python -m` must not be loaded before."""
LARGE = tuple(f"hermes.execution.mcp.{name}" for name in ("program", "web", "login"))
"""What brings a large SDK along that few children need."""
# What Python reads from its environment before the first line, and a child can no longer be told.
_EARLY = ("LANG", "LC_", "PYTHON", "MALLOC")
_HARMLESS = ("PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")

_CHILD = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
spent = 0.0
"""Seconds of CPU that the children of this test process have taken; they are nobody's in `getrusage`."""


# --- the test's side ---


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, with a child of the nursery where that makes no difference."""

    _keeper = -1

    def _execute_child(self, *arguments: Any) -> None:
        told = _CHILD.bind(self, *arguments).arguments
        words = [os.fsdecode(word) for word in told["args"]]
        environ = {os.fsdecode(n): os.fsdecode(v) for n, v in (told["env"] or os.environ).items()}
        pipes = ("p2cread", "c2pwrite", "errwrite")
        if told["pass_fds"] or not _can_bear(words, environ):
            return super()._execute_child(*arguments)  # type: ignore[misc,no-any-return]
        wish = {
            "words": words[1:],
            "environ": environ,
            "cwd": os.fsdecode(told["cwd"] or os.getcwd()),
            "session": bool(told["start_new_session"]),
        }
        streams = [told[name] if told[name] >= 0 else number for number, name in enumerate(pipes)]
        self.pid, self._keeper = _nursery().bear(wish, streams)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(told[name] for name in ends))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._keeper < 0:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._keeper], [], [], 0)[0]:
            return 0, 0
        told = _line(self._keeper)
        os.close(self._keeper)
        self._keeper = -1
        global spent
        spent += told["cpu"]
        return self.pid, told["status"]

    def _internal_poll(self, *arguments: Any, **more: Any) -> int | None:
        if self._keeper < 0:
            return super()._internal_poll(*arguments, **more)  # type: ignore[misc,no-any-return]
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def run(
    command: Sequence[str | bytes], *, input: Any = None, capture_output: bool = False,
    timeout: float | None = None, check: bool = False, **more: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """`subprocess.run`."""
    if input is not None:
        more["stdin"] = subprocess.PIPE
    if capture_output:
        more["stdout"] = more["stderr"] = subprocess.PIPE
    with Popen(command, **more) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _can_bear(words: list[str], environ: Mapping[str, str]) -> bool:
    def early(one: Mapping[str, str]) -> dict[str, str]:
        return {n: v for n, v in one.items() if n.startswith(_EARLY) and n not in _HARMLESS}

    plain = len(words) > 1 and (words[1] in ("-P", "-m", "-c") or not words[1].startswith("-"))
    return plain and words[0] == sys.executable and early(environ) == early(os.environ)


class _Nursery:
    def __init__(self) -> None:
        self._asking, theirs = socket.socketpair()
        atexit.register(self._asking.close)
        self._lock = threading.Lock()
        environ = {n: v for n, v in os.environ.items() if n not in _HARMLESS} | {"PYTHONPATH": SOURCES}
        with theirs:
            subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], env=environ, stdin=subprocess.DEVNULL,
            ).returncode = 0  # nobody waits for it: it ends with this process  # fmt: skip

    def bear(self, wish: Mapping[str, object], streams: list[int]) -> tuple[int, int]:
        """The pid of a new child, and where its keeper tells of its end."""
        reading, writing = os.pipe()
        text = json.dumps(wish).encode()
        with self._lock:
            socket.send_fds(self._asking, [len(text).to_bytes(4, "big")], [*streams, writing])
            self._asking.sendall(text)
        os.close(writing)
        return _line(reading)["pid"], reading


_nurseries: dict[int, _Nursery] = {}
_opening = threading.Lock()


def _nursery() -> _Nursery:
    with _opening:
        return _nurseries.get(os.getpid()) or _nurseries.setdefault(os.getpid(), _Nursery())


def _line(pipe: int) -> Any:
    text = b""
    while not text.endswith(b"\n"):
        read = os.read(pipe, 1)
        assert read, "the nursery is gone"
        text += read
    return json.loads(text)


# --- the nursery's side ---


def _serve(asking: socket.socket) -> Callable[[], object]:
    """Bear children until the test process is gone. In a child it returns: what the child is to do."""

    import hermes

    names = [found.name for found in pkgutil.walk_packages(hermes.__path__, "hermes.")]
    for name in ("uvloop", "yaml", *names):
        if name not in (*PROGRAMS, *LARGE):
            with contextlib.suppress(ImportError):  # an adapter whose SDK is not installed
                import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size, descriptors, _, _ = socket.recv_fds(asking, 4, 4)
        if not size:
            os._exit(0)
        text = b""
        while len(text) < int.from_bytes(size, "big"):
            text += asking.recv(65536)
        if os.fork() == 0:
            asking.close()
            return _keep(json.loads(text), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(wish: dict[str, Any], descriptors: list[int]) -> Callable[[], object]:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, report = descriptors
    child = os.fork()
    if child == 0:
        os.close(report)
        return _become(wish, streams)
    for stream in streams:
        os.close(stream)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(report, json.dumps({"pid": child}).encode() + b"\n")
    _, status, cost = os.wait4(child, 0)
    told = {"status": status, "cpu": cost.ru_utime + cost.ru_stime}
    with contextlib.suppress(BrokenPipeError):
        os.write(report, json.dumps(told).encode() + b"\n")
    os._exit(0)


def _become(wish: dict[str, Any], streams: list[int]) -> Callable[[], object]:
    """Make this process what a new Python would be, up to its first line."""
    # Numbers below 3 may be among those that came: none may be overwritten before it is used.
    for number, stream in enumerate([os.dup2(one, 100 + at) for at, one in enumerate(streams)]):
        os.dup2(stream, number)
        os.close(stream)
    for stream in streams:
        os.close(stream)
    if wish["session"]:
        os.setsid()
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["environ"])
    time.tzset()
    _streams()
    words: list[str] = wish["words"]
    sys.orig_argv = [sys.executable, *words]
    safe = words[0] == "-P"
    words = words[safe:]
    subprocess.Popen = Forked  # type: ignore[misc]
    path = [one for one in os.environ.get("PYTHONPATH", "").split(":") if one]
    sys.path[:] = path + [one for one in sys.path if one != SOURCES]
    return _work(words, safe)


class Forked(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen` in a child of the nursery: what it starts of this program is forked, unless
    threads or a loop run, which a fork would not survive."""

    def _execute_child(self, *arguments: Any) -> None:
        told = _CHILD.bind(self, *arguments).arguments
        words = [os.fsdecode(word) for word in told["args"]]
        environ = {os.fsdecode(n): os.fsdecode(v) for n, v in (told["env"] or os.environ).items()}
        alone = threading.active_count() == 1 and asyncio._get_running_loop() is None
        if told["pass_fds"] or not alone or not _can_bear(words, environ):
            return super()._execute_child(*arguments)  # type: ignore[misc,no-any-return]
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        wish = {
            "words": words[1:],
            "environ": environ,
            "cwd": os.fsdecode(told["cwd"] or os.getcwd()),
            "session": bool(told["start_new_session"]),
        }
        pipes = ("p2cread", "c2pwrite", "errwrite")
        streams = [os.dup(told[name] if told[name] >= 0 else at) for at, name in enumerate(pipes)]
        self.pid = os.fork()
        if self.pid == 0:
            _run_forked(wish, streams)
        for stream in streams:
            os.close(stream)
        self._child_created = True
        self._close_pipe_fds(*(told[name] for name in ends))  # type: ignore[attr-defined]


def _run_forked(wish: dict[str, Any], streams: list[int]) -> None:
    """Never returns."""
    code = 1
    try:
        _become(wish, streams)()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _streams() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, f"__{name}__")
        shown = os.isatty(number) or number == 2
        new = open(  # noqa: SIM115
            number, "w" if number else "r", encoding=old.encoding, errors=old.errors, closefd=False,
            buffering=1 if shown else -1,
        )  # fmt: skip
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _work(words: list[str], safe: bool) -> Callable[[], object]:
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        return lambda: runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        return lambda: exec(compile(words[1], "<string>", "exec"), main.__dict__)
    sys.argv = list(words)
    if not safe:
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
    return lambda: runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))()
