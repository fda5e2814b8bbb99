"""Which files of a workspace a snapshot holds: regular ones, without dependencies, builds, caches, secrets,
what is too large and names that are no text. Of most others it notes that they are there."""

from __future__ import annotations

import fnmatch
import os
import re
import stat

from hermes.domain.errors import UserError
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import storable
from hermes.execution.files.ignoring import SKIPPED

FileStamp = tuple[int, int, int, int]
"""When the file was last changed in any way, its size, its inode, and its mode."""
LeftOut = tuple[int, int, int]
"""Inode, size, and when it was last written, in nanoseconds; of a folder only the first."""
_MOST_FILES = 50_000
_MOST_NOTED = 5_000
"""Of what is left out; then folders of it are looked into no more."""
_FOLDERS = SKIPPED | {
    "bower_components", ".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache", ".gradle", ".terraform",
    "dist", "build", "target", "coverage", "env", ".direnv", ".ssh", ".gnupg", ".aws", ".hermes",
}  # fmt: skip
_SECRETS = (
    ".env .env.* *.pem *.key *.p12 *.pfx *.keystore *.jks *.kdbx id_rsa* id_ed25519* id_ecdsa* id_dsa* "
    ".netrc .npmrc .pypirc .git-credentials credentials credentials.json secrets.* .git"
)
_FILES = late_pattern("|".join(map(fnmatch.translate, _SECRETS.split())), re.IGNORECASE)
_MADE_AGAIN = (".pyc", ".o", ".class", ".swp", ".DS_Store")


def list_files(root: str, largest: int) -> tuple[dict[str, FileStamp], dict[str, LeftOut]]:
    """What a snapshot holds and what it leaves out, by their paths below the folder, which leads through no
    link; a `UserError` if they are too many."""
    found: dict[str, FileStamp] = {}
    left: dict[str, LeftOut] = {}
    folders = [(root, False)]
    while folders:
        folder, is_left_out = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            out = is_left_out or storable(entry.name) != entry.name
            if is_folder:
                is_noted = out or entry.name in _FOLDERS
                if entry.name not in SKIPPED and not (is_noted and len(left) >= _MOST_NOTED):
                    folders.append((entry.path, is_noted))
                if not is_noted:
                    continue
            if entry.name.endswith(_MADE_AGAIN):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            path = entry.path[len(root) + 1 :]
            if is_folder:
                left[path] = (info.st_ino, 0, 0)
            elif out or not stat.S_ISREG(info.st_mode) or info.st_size > largest or _FILES.match(entry.name):
                left[path] = (info.st_ino, info.st_size, info.st_mtime_ns)
            else:
                found[path] = (info.st_ctime_ns, info.st_size, info.st_ino, stat.S_IMODE(info.st_mode))
        if len(found) > _MOST_FILES:
            raise UserError(f"{root} has more than {_MOST_FILES} files.")
    return found, left
