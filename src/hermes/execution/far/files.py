"""Files of a far world, by small scripts for `sh` over the streams of commands, so that both see the same.

They need what every system has: cat, chmod, dd, find, head, mkdir, mktemp, mv, readlink, stat, tail, tar and
xargs. Contents are searched here, since expressions are those of Python: the far end lists what there is and
sends the files that count. Names with a line feed are not listed."""

from __future__ import annotations

import asyncio
import io
import os
import shlex
import stat
import tarfile
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Sequence

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ports.world import FileMatches, FileSearch, FileView
from hermes.execution.files.ignoring import IGNORE_FILE, SKIPPED, IgnoreRules, is_hidden
from hermes.execution.files.paths import PathsOfSessions
from hermes.execution.files.search import LARGEST, Gathering

Query = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
_PIECE = 1 << 20
_MOST_LISTED = 10_000
_MOST_FOUND = 32 << 20
_BATCH_BYTES = 8 << 20
_BATCH_FILES = 400
_NEW_MODE = 0o644
_NONE, _FOLDER, _ODD, _LED, _WHY = 2, 3, 4, 5, 6
"""How a script says that there is no such file, that it is a folder or nothing regular, that its path leads
elsewhere, or why else it cannot be done."""

_SKIPPED = " -o ".join(f"-name {shlex.quote(name)}" for name in sorted(SKIPPED))
_READ = f"""
if [ ! -e "$p" ]; then
  case $(LC_ALL=C stat "$p" 2>&1) in *denied*) echo Permission denied; exit {_WHY} ;; *) exit {_NONE} ;; esac
fi
[ -d "$p" ] && exit {_FOLDER}
[ -f "$p" ] || exit {_ODD}
[ -r "$p" ] || {{ echo Permission denied; exit {_WHY}; }}
exec 5<"$p"
if [ $follow = 0 ]; then
  r=$(readlink /proc/self/fd/5 || readlink -f "$p"; echo .); r=${{r%??}}
  [ "$r" = "$p" ] || exit {_LED}
fi
"""
_BEGIN = f"""
try() {{ m=$("$@" 2>&1) || {{ printf %s "${{m##*: }}"; [ -z "$t" ] || rm -f "$t"; exit {_WHY}; }}; }}
t=
try mkdir -p "${{p%/*}}/"
r=$(readlink -f "$p"; echo .); r=${{r%??}}
[ -n "$r" ] || {{ echo its link leads nowhere; exit {_WHY}; }}
[ $follow = 1 ] || [ "$r" = "$p" ] || exit {_LED}
[ -d "$r" ] && exit {_FOLDER}
if [ -e "$r" ]; then
  [ -f "$r" ] || exit {_ODD}
  [ -w "$r" ] || {{ echo Permission denied; exit {_WHY}; }}
  mode=$(stat -c %a "$r")
fi
try mktemp "${{r%/*}}/.hermes-XXXXXX"; t=$m
"""
_FILL = f'cat >>"$t" || {{ rm -f "$t"; echo No space left on device; exit {_WHY}; }}\n'
_COMMIT = """
try chmod "$mode" "$t"
dd if=/dev/null of="$t" conv=notrunc,fsync 2>/dev/null
try mv -f "$t" "$r"
"""
_REMOVE = f"""
[ -e "$p" ] || [ -L "$p" ] || exit {_NONE}
[ -d "$p" ] && [ ! -L "$p" ] && exit {_FOLDER}
r=$(readlink -f "${{p%/*}}/"; echo .); r=${{r%??}}
[ $follow = 1 ] || [ "${{r%/}}" = "${{p%/*}}" ] || exit {_LED}
m=$(rm -f "$p" 2>&1) || {{ printf %s "${{m##*: }}"; exit {_WHY}; }}
"""
_STAT = f"""
r=$(readlink -f "$p"; echo .); r=${{r%??}}
[ -e "$r" ] || exit {_NONE}
stat -L -c '%s %f %Y' "$r" && printf %s "$r"
"""
_LIST = f"""
[ -e "$p" ] || exit {_NONE}
[ -d "$p" ] || {{ echo Not a directory; exit {_WHY}; }}
cd "$p" && [ -r . ] || {{ echo Permission denied; exit {_WHY}; }}
find . -mindepth 1 -maxdepth 1 ! -name '*
*' -exec stat -L -c '%s %f %Y %n' {{}} + | head -c {_MOST_FOUND}
"""
_FIND = f"""
[ -e "$p" ] || exit {_NONE}
at=.
if [ -d "$p" ]; then cd "$p"; else cd "${{p%/*}}/"; at=./${{p##*/}}; fi
find "$at" -type d \\( {_SKIPPED} \\) -prune -o ! -name '*
*' -exec stat -c '%s %f 0 %n' {{}} + 2>/dev/null | head -c {_MOST_FOUND}
"""
_FETCH = 'if [ -d "$p" ]; then cd "$p"; else cd "${p%/*}/"; fi; xargs -0 tar -cf -; true'


class _Entry(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    mode: int
    changed: float


class FarFiles(PathsOfSessions):
    """The `Files` port. `query` runs a script with input. `home` is set once it is known."""

    def __init__(self, query: Query, cwd: Callable[[str], Awaitable[str]]) -> None:
        super().__init__(cwd, "")
        self._query = query

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        full = await self.resolve(session, path)
        data = bytearray()
        while limit > len(data):
            piece = min(limit - len(data), _PIECE * 4)
            first = start + len(data)
            script = f"{_READ}tail -c +{first + 1} <&5 | head -c {piece}"
            got = await self._do("read", script, full, follow=str(int(follow)))
            data += got
            if len(got) < piece:
                break
        return bytes(data)

    async def write(
        self,
        session: str,
        path: str,
        data: bytes | AsyncIterable[bytes] | None,
        *,
        follow: bool = True,
        mode: int = 0,
    ) -> None:
        full = await self.resolve(session, path)
        if data is None:
            await self._do("removed", _REMOVE, full, follow=str(int(follow)))
            return
        given = {"follow": str(int(follow)), "mode": f"{mode or _NEW_MODE:o}"}
        if isinstance(data, bytes) and len(data) <= _PIECE:
            await self._do("written", _BEGIN + _FILL + _COMMIT, full, data, **given)
            return
        begun = await self._do("written", f'{_BEGIN}printf "%s\\0" "$t" "$r" "$mode"', full, b"", **given)
        t, r, there = os.fsdecode(begun).split("\0")[:3]
        try:
            async for piece in _pieces(data):
                await self._do("written", _FILL, full, piece, t=t)
            commit = _BEGIN[: _BEGIN.index("t=\n")] + _COMMIT
            await self._do("written", commit, full, t=t, r=r, mode=there)
        except BaseException:
            await self._query(f"rm -f {shlex.quote(t)}", b"")
            raise

    async def stat(self, session: str, path: str) -> FileView | None:
        full = await self.resolve(session, path)
        code, output = await self._query(_given(p=full) + _STAT, b"")
        if code == _NONE:
            return None
        numbers, _, real = os.fsdecode(output).partition("\n")
        if code or not real:
            raise UserError(f"{full} cannot be looked at.")
        entry = _entry(f"{numbers} {real}")
        return _view(real, entry)

    async def list(self, session: str, path: str) -> list[FileView]:
        full = await self.resolve(session, path)
        entries = _entries(await self._do("listed", _LIST, full))
        named = sorted(entries, key=lambda entry: entry.name)[:_MOST_LISTED]
        return [_view(os.path.join(full, entry.name), entry) for entry in named]

    async def check_folder(self, session: str, path: str) -> str:
        """The folder that a path means; a `UserError` if there is none."""
        full = await self.resolve(session, path)
        code, _ = await self._query(f'{_given(p=full)}[ -d "$p" ]', b"")
        if code:
            raise UserError(f"There is no folder {full}.")
        return full

    # --- searching ---

    async def search(self, search: FileSearch) -> FileMatches:
        root = await self.resolve(search.session, search.under)
        gathering = await asyncio.to_thread(Gathering, root, search)
        entries = _entries(await self._do("searched", _FIND, root))
        if len(entries) == 1 and not stat.S_ISDIR(entries[0].mode):
            files = {root: entries[0]}
        else:
            files = {os.path.join(root, entry.name): entry for entry in entries if entry.name != "."}
        ignored = {} if search.unhidden else await self._rules(root, files)
        wanted = await asyncio.to_thread(list, _walk(files, ignored, search, gathering))
        if search.names:
            for path in wanted:
                gathering.add(path, None)
        else:
            await self._look(root, {path: files[path] for path in wanted}, gathering)
        return gathering.result()

    async def _rules(self, root: str, files: dict[str, _Entry]) -> dict[str, IgnoreRules]:
        named = [
            path
            for path, entry in files.items()
            if entry.name == IGNORE_FILE or path.endswith(f"/{IGNORE_FILE}")
        ]
        texts = await self._fetch(root, named[:_BATCH_FILES]) if root not in named else {}
        return {
            os.path.dirname(path): IgnoreRules(os.path.dirname(path), data.decode("utf-8", "replace"))
            for path, data in texts.items()
        }

    async def _look(self, root: str, files: dict[str, _Entry], gathering: Gathering) -> None:
        for batch in _batches(files):
            contents = await self._fetch(root, batch)
            for path in batch:
                if not gathering.goes_on:
                    return
                await asyncio.to_thread(gathering.add, path, contents.get(path))

    async def _fetch(self, root: str, paths: Sequence[str]) -> dict[str, bytes]:
        """What is in these files, as far as they can be read."""
        if not paths:
            return {}
        alone = tuple(paths) == (root,)
        folder = os.path.dirname(root) if alone else root
        listed = b"".join(os.fsencode(f"./{_below(folder, path)}") + b"\0" for path in paths)
        code, packed = await self._query(_given(p=root) + _FETCH, listed)
        if code or not packed:
            raise UserError("Files cannot be searched there: tar or xargs is missing.")
        return await asyncio.to_thread(_unpack, packed, folder)

    async def _do(self, verb: str, script: str, path: str, data: bytes = b"", **given: str) -> bytes:
        code, output = await self._query(_given(p=path, **given) + script, data)
        if code == 0:
            return output
        if code == _NONE:
            raise UserError(f"There is no {path}.")
        if code == _FOLDER:
            raise UserError(f"{path} is a folder.")
        reasons = {_ODD: "it is not a regular file", _LED: "it leads elsewhere by now"}
        told = output[-200:].decode("utf-8", "replace").strip().rpartition(": ")[2]
        why = reasons.get(code) or (told if code == _WHY else "") or f"the far end failed with code {code}"
        raise UserError(f"{path} cannot be {verb}: {why}.")


def _given(**variables: str) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


async def _pieces(data: bytes | AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    if isinstance(data, bytes):
        for at in range(0, len(data), _PIECE):
            yield data[at : at + _PIECE]
        return
    async for piece in data:
        yield piece


def _entry(line: str) -> _Entry:
    size, mode, changed, name = line.split(" ", 3)
    return _Entry(name=name.removeprefix("./"), size=int(size), mode=int(mode, 16), changed=float(changed))


def _entries(output: bytes) -> list[_Entry]:
    """Of a listing that may have been cut in its last line."""
    return [_entry(line) for line in os.fsdecode(output).split("\n")[:-1] if line.count(" ") >= 3]


def _view(path: str, entry: _Entry) -> FileView:
    return FileView(
        path=path,
        size=entry.size,
        folder=stat.S_ISDIR(entry.mode),
        mode=stat.S_IMODE(entry.mode),
        changed=entry.changed,
    )


def _walk(
    files: dict[str, _Entry], ignored: dict[str, IgnoreRules], search: FileSearch, gathering: Gathering
) -> Iterator[str]:
    """The paths that count, in their order, without what is hidden or closed and all below it."""
    hidden: set[str] = set()
    for path in sorted(files, key=lambda path: path.split("/")):
        if not gathering.goes_on:
            return
        entry, folder = files[path], os.path.dirname(path)
        is_folder = stat.S_ISDIR(entry.mode)
        above = [ignored[place] for place in reversed([*_above(path)]) if place in ignored]
        if folder in hidden or path in search.closed or is_hidden(above, path, is_folder, gathering.deadline):
            if is_folder:
                hidden.add(path)
            continue
        counts = search.names or (stat.S_ISREG(entry.mode) and entry.size <= LARGEST)
        if counts and gathering.wants(path):
            yield path


def _below(folder: str, path: str) -> str:
    return path[len(folder.rstrip("/")) + 1 :]


def _above(path: str) -> Iterator[str]:
    while (folder := os.path.dirname(path)) != path:
        yield folder
        path = folder


def _batches(files: dict[str, _Entry]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path, entry in files.items():
        if batch and (size + entry.size > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += entry.size
    if batch:
        yield batch


def _unpack(packed: bytes, folder: str) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:", ignore_zeros=True) as archive:
            for member in archive:
                if (member.isreg() or member.islnk()) and (file := archive.extractfile(member)) is not None:
                    contents[os.path.normpath(os.path.join(folder, member.name))] = file.read()
    except tarfile.TarError:
        return contents
    return contents
