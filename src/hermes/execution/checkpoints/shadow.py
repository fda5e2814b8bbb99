"""A shadow git store: states of one folder, beside it and unknown to it. The folder's own repository, its
hooks and attributes, and the user's git settings play no part: git only gets the bytes of files, and gives
them back. Everything here blocks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from hermes.domain.errors import UserError
from hermes.domain.tools.checkpoint import Changes
from hermes.execution.checkpoints.walk import FileStamp, LeftOut, list_files
from hermes.execution.files.work import read_file

_SECONDS = 60.0
_YOUNG = 600
"""Seconds for which a state is left alone that nobody names yet: its row may be on its way."""
_REFS = "refs/checkpoints"
_SEEN = "seen"
ROOT_FILE = "root"
"""Says which folder a store is of."""
_LONGEST_DIFF = 60_000
_RECENT = 100_000_000
"""Nanoseconds in which a file may change again without another time of change."""
_UNSURE: FileStamp = (0, 0, 0, 0)


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one file, and of all that one snapshot has to read."""

    file: int
    whole: int


class StateNotes(msgspec.Struct, frozen=True):
    """What a state tells beside the files that it holds: what was left out, and which files only their owner
    could read."""

    left: dict[str, LeftOut] = {}
    private: tuple[str, ...] = ()


class _Seen(msgspec.Struct):
    """The files as they were at the last snapshot, so that the next one reads only what changed."""

    tree: str = ""
    files: dict[str, FileStamp] = {}


class ShadowStore:
    """The store of the folder `root`, which leads through no link, in a folder of its own."""

    def __init__(self, folder: Path, root: str, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self.root = root
        self._env = {
            "PATH": environ.get("PATH", os.defpath), "HOME": str(folder), "GIT_DIR": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DEFAULT_HASH": "sha1",
            "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
        }  # fmt: skip
        self._git = shutil.which("git", path=self._env["PATH"]) or ""
        self._lock: tuple[int, ...] = ()

    def snapshot(self, name: str, limits: SnapshotLimits) -> str:
        """Keep the state of the folder under a name of its own; its id. A `UserError` says why not."""
        if not self._git:
            raise UserError("git is not installed.")
        with self._locked():
            began = time.time_ns()
            files, left = list_files(self.root, limits.file)
            private = [path for path, stamp in files.items() if not stamp[3] & 0o077]
            notes = json.dumps({"left": left, "private": private})
            self._make()
            seen = self._load()
            try:
                state, tree = self._import(name, notes, seen, files, limits)
            except OSError:
                if not seen.tree:
                    raise UserError(f"git could not keep {self.root}.") from None
                # What was seen last is not in the store any more.
                try:
                    state, tree = self._import(name, notes, _Seen(), files, limits)
                except OSError as error:
                    raise UserError(f"git could not keep {self.root} ({error}).") from None
            certain = began - _RECENT
            known = {path: stamp if stamp[0] < certain else _UNSURE for path, stamp in files.items()}
            self._save(_Seen(tree=tree, files=known))
            return state

    def changes(self, old: str, new: str) -> Changes:
        fields = iter(self._run("diff-tree", "-r", "-z", "--no-renames", old, new).split(b"\0")[:-1])
        found = {}
        for facts in fields:
            path = os.fsdecode(next(fields))
            old_mode, new_mode, old_id, new_id, _ = facts.decode().lstrip(":").split(" ")
            found[path] = (_version(old_mode, old_id), _version(new_mode, new_id))
        return found

    def moment(self, state: str) -> int:
        """When a state was kept, in nanoseconds."""
        words = self._run("log", "-1", "--format=%ct %s", state).split()
        return int(words[1]) if len(words) > 1 else int(words[0]) * 10**9

    def notes(self, state: str) -> StateNotes:
        told = self._run("log", "-1", "--format=%b", state).strip()
        return msgspec.convert(json.loads(told or "{}"), StateNotes)

    def read(self, object_id: str) -> bytes:
        return self._run("cat-file", "blob", object_id)

    def diff(self, old: str, new: str) -> str:
        """What became of the files between two states, as text."""
        options = ("--no-renames", "--no-ext-diff", "--no-textconv", "--stat=72", "--patch")
        text = self._run("diff-tree", "-r", *options, old, new).decode("utf-8", "replace").strip()
        return text if len(text) <= _LONGEST_DIFF else f"{text[:_LONGEST_DIFF]}\n[… diff cut]"

    def keep(self, states: Collection[str]) -> None:
        """Forget every other state, and give back its space."""
        if not self._git:
            return
        with self._locked():
            form = "--format=%(objectname) %(committerdate:unix) %(refname)"
            listed = (
                line.split(" ", 2) for line in self._run("for-each-ref", form, _REFS).decode().splitlines()
            )
            young = time.time() - _YOUNG
            old = [ref for state, at, ref in listed if state not in states and int(at) < young]
            if old:
                # The next snapshot must not build on what goes now.
                (self._folder / _SEEN).unlink(missing_ok=True)
                self._run("update-ref", "--stdin", given="".join(f"delete {ref}\n" for ref in old).encode())
                self._run("gc", "--quiet", "--prune=now")

    def size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- making ---

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone in the store, also beside another process and what a dead one has left running: git holds the
        lock, too. So its own lock files are those of the dead."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for stale in (*self._folder.glob("*.lock"), *self._folder.glob("refs/**/*.lock")):
                stale.unlink()
            self._lock = (lock.fileno(),)
            try:
                yield
            finally:
                self._lock = ()

    def _make(self) -> None:
        if not (self._folder / ROOT_FILE).exists():
            self._run("init", "--quiet", "--bare", "--template=")
            (self._folder / ROOT_FILE).write_text(self.root)

    def _import(
        self, name: str, notes: str, seen: _Seen, files: Mapping[str, FileStamp], limits: SnapshotLimits
    ) -> tuple[str, str]:
        """The ids of the state and of its tree; an `OSError` if git breaks off."""
        changed = [path for path, stamp in files.items() if seen.files.get(path) != stamp]
        if sum(files[path][1] for path in changed) > limits.whole:
            raise UserError(f"{self.root} has more than {limits.whole >> 20} MB that would have to be kept.")
        options = (
            "-c",
            "core.fsyncMethod=batch",
            "-c",
            "core.fsync=all",
            "fast-import",
            "--quiet",
            "--force",
        )
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [self._git, *options, "--cat-blob-fd=1"], env=self._env, stdin=pipe, stdout=pipe,
            stderr=subprocess.DEVNULL, cwd="/", pass_fds=self._lock,
        ) as git:  # fmt: skip
            assert git.stdin is not None and git.stdout is not None
            try:
                for piece in self._stream(name, notes, seen, files, changed, limits.file):
                    git.stdin.write(piece)
                git.stdin.close()
                told = git.stdout.read().split()
            except BaseException:
                git.kill()
                raise
        if git.returncode or len(told) < 4:
            raise OSError(f"git fast-import ended with {git.returncode}")
        return told[0].decode(), told[3].decode()

    def _stream(
        self,
        name: str,
        notes: str,
        seen: _Seen,
        files: Mapping[str, FileStamp],
        changed: list[str],
        largest: int,
    ) -> Iterator[bytes]:
        deadline = time.monotonic() + _SECONDS
        who, told = f"hermes <> {int(time.time())} +0000", f"{time.time_ns()}\n\n{notes}"
        yield f"commit {_REFS}/{name}\nmark :1\ncommitter {who}\ndata {len(told)}\n{told}\n".encode()
        if seen.tree:
            yield f"M 040000 {seen.tree} \n".encode()
            # What is not known to be as it was is taken out first: a folder may stand there by now.
            for path in seen.files.keys() - files.keys():
                yield b"D " + _quoted(path)
        for path in changed:
            if time.monotonic() > deadline:
                raise UserError(f"{self.root} takes longer than {_SECONDS:g} s to be kept.")
            try:
                data = read_file(os.path.join(self.root, path), 0, largest, follow=False)
            except OSError:
                yield b"D " + _quoted(path)
                continue
            mode = b"100755" if files[path][3] & 0o100 else b"100644"
            yield b"M %s inline %sdata %d\n" % (mode, _quoted(path), len(data))
            yield data + b"\n"
        yield b'get-mark :1\nls :1 ""\n'

    def _load(self) -> _Seen:
        try:
            return msgspec.msgpack.decode((self._folder / _SEEN).read_bytes(), type=_Seen)
        except (OSError, msgspec.DecodeError):
            return _Seen()

    def _save(self, seen: _Seen) -> None:
        fresh = self._folder / f"{_SEEN}.new"
        fresh.write_bytes(msgspec.msgpack.encode(seen))
        fresh.replace(self._folder / _SEEN)

    def _run(self, *args: str, given: bytes = b"") -> bytes:
        argv = [self._git or "git", *args]
        try:
            done = subprocess.run(
                argv, env=self._env, input=given, capture_output=True, timeout=_SECONDS, check=False, cwd="/",
                pass_fds=self._lock,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"git does not work: {error}.") from None
        if done.returncode:
            raise UserError(f"The checkpoints of {self.root} cannot be read; some are gone or damaged.")
        return done.stdout


def _version(mode: str, object_id: str) -> tuple[str, str]:
    return (mode, object_id) if object_id.strip("0") else ("", "")


def _quoted(path: str) -> bytes:
    plain = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + plain + b'"\n'
