"""The gateways of this user on this machine, whatever HOME they were started with: one file each in a folder
that is found by the user's number alone. A file counts only while the process that it names lives, which is
known by its number and the moment it began; whoever looks removes the others."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from hermes.domain.errors import UserError
from hermes.entry.http.site.owner_socket import check_folder
from hermes.state.home.locks import runtime_folders
from hermes.state.home.textfile import replace_text

log = logging.getLogger("hermes.app")
_ZOMBIE = "Z"


class ListedGateway(msgspec.Struct, frozen=True, kw_only=True):
    home: str
    pid: int
    began: str


def began_at(pid: int) -> str | None:
    """When a process began, as the system counts it; None if there is no such process any more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            facts = file.read().rpartition(")")[2].split()
        return None if facts[0] == _ZOMBIE else facts[19]
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            return None
    except (OSError, IndexError):
        return None
    told = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or None


@contextlib.contextmanager
def listed(home: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Be found by `hermes gateway stop --all`. A gateway that cannot be is one all the same."""
    pid = os.getpid()
    entry = ListedGateway(home=str(home), pid=pid, began=began_at(pid) or "")
    path = _write(entry, environ)
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _write(entry: ListedGateway, environ: Mapping[str, str]) -> Path | None:
    for folder in runtime_folders(environ):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_folder(folder)
            path = folder / f"gateway-{entry.pid}.json"
            replace_text(path, json.dumps(msgspec.to_builtins(entry)) + "\n", 0o600)
        except (OSError, UserError) as error:
            log.warning("gateway.not_listed folder=%s why=%s", folder, error)
        else:
            return path
    return None


def living_gateways(environ: Mapping[str, str]) -> list[ListedGateway]:
    """Those that run. Folders that are not this user's alone are not looked into."""
    living: dict[int, ListedGateway] = {}
    for folder in runtime_folders(environ):
        try:
            check_folder(folder)
        except (OSError, UserError):
            continue
        for path in sorted(folder.glob("gateway-*.json")):
            try:
                entry = msgspec.json.decode(path.read_bytes(), type=ListedGateway)
            except (OSError, msgspec.MsgspecError):
                continue
            if entry.began and began_at(entry.pid) == entry.began:
                living[entry.pid] = entry
            else:
                path.unlink(missing_ok=True)
    return list(living.values())
