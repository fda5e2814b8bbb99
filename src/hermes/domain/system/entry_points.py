"""What installed packages offer to Hermes: the entry points of their metadata on `sys.path`. Nothing of them
is imported. The standard library's reader would load a megabyte of modules and open every package for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

from msgspec import Struct

_PREFIX = "hermes."
_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


class EntryPoint(Struct, frozen=True, kw_only=True):
    """One line of a package's metadata: a name in a group, and what it stands for (`module:attribute`)."""

    group: str
    name: str
    target: str
    package: str
    version: str

    @property
    def module(self) -> str:
        return self.target.partition(":")[0].strip()

    def load(self) -> Any:
        value: Any = import_module(self.module)
        for attribute in filter(None, self.target.partition(":")[2].strip().split(".")):
            value = getattr(value, attribute)
        return value


def entry_points(group: str = "") -> tuple[EntryPoint, ...]:
    """Those of one group, or of all."""
    return tuple(entry for entry in _every(tuple(sys.path)) if group in ("", entry.group))


def have_changed() -> bool:
    """Whether packages with entry points were installed, changed or removed since they were first read."""
    path = tuple(sys.path)
    return _every.__wrapped__(path) != _every(path)


@lru_cache(maxsize=1)
def _every(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """A package that is installed twice counts where it would be imported from: first on the path."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for folder in dict.fromkeys(path):
        for package, offered in _in_folder(folder or "."):
            entries.setdefault(package, offered)
    return tuple(entry for offered in entries.values() for entry in offered)


def _in_folder(folder: str) -> Iterator[tuple[str, tuple[EntryPoint, ...]]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        metadata = _METADATA.get(os.path.splitext(name)[1])
        text = _read(os.path.join(folder, name, "entry_points.txt")) if metadata else ""
        if metadata and _PREFIX in text:
            about = _headers(_read(os.path.join(folder, name, metadata)))
            package = about.get("Name", name.partition("-")[0])
            yield package.lower().replace("_", "-"), tuple(_parsed(text, package, about.get("Version", "")))


def _parsed(text: str, package: str, version: str) -> Iterator[EntryPoint]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group.startswith(_PREFIX) and line[:1] not in ("", "#"):
            name, _, target = line.partition("=")
            target = target.partition("[")[0].strip()  # behind it stand extras, which nobody uses any more
            yield EntryPoint(group=group, name=name.strip(), target=target, package=package, version=version)


def _headers(text: str) -> dict[str, str]:
    head = text.partition("\n\n")[0]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in head.splitlines())}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
