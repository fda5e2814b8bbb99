"""Which files of a workspace a snapshot holds: regular ones, without dependencies, builds, caches, secrets,
what is too large and names that are no text."""

from __future__ import annotations

import fnmatch
import os
import re

from hermes.domain.errors import UserError
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import storable
from hermes.execution.files.ignoring import SKIPPED

FileStamp = tuple[int, int, int, int]
"""When the file was last changed in any way, its size, its inode, and whether it can be executed."""
_MOST_FILES = 50_000
_FOLDERS = SKIPPED | {
    "bower_components", ".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache", ".gradle", ".terraform",
    "dist", "build", "target", "coverage", "env", ".direnv", ".ssh", ".gnupg", ".aws", ".hermes",
}  # fmt: skip
_SECRETS = (
    ".env .env.* *.pem *.key *.p12 *.pfx *.keystore *.jks *.kdbx id_rsa* id_ed25519* id_ecdsa* id_dsa* "
    ".netrc .npmrc .pypirc .git-credentials credentials credentials.json secrets.* *.pyc *.o *.class *.swp "
    ".DS_Store .git"
)
_FILES = late_pattern("|".join(map(fnmatch.translate, _SECRETS.split())), re.IGNORECASE)


def list_files(root: str, largest: int) -> dict[str, FileStamp]:
    """By their paths below the folder, which leads through no link; a `UserError` if they are too many."""
    found: dict[str, FileStamp] = {}
    folders = [root]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            if storable(entry.name) != entry.name:
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _FOLDERS:
                    folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and not _FILES.match(entry.name):
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if info.st_size <= largest:
                    stamp = (info.st_ctime_ns, info.st_size, info.st_ino, int(info.st_mode & 0o100 != 0))
                    found[entry.path[len(root) + 1 :]] = stamp
        if len(found) > _MOST_FILES:
            raise UserError(f"{root} has more than {_MOST_FILES} files.")
    return found
