"""Whether two processes would read the same settings: a digest of the files of a home and of the variables
that can hold settings or keys. A terminal compares its own with that of the gateway it finds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from hermes.state.settings.names import is_key_like

_FILES = ("config.yaml", ".env")
_PREFIXES = ("HERMES_", "TERMINAL_", "API_SERVER_", "WEBHOOK_")
_SUFFIXES = ("_BASE_URL", "_HOST", "_MODEL")
_OF_ONE_PROCESS = ("HERMES_HOME", "HERMES_PROFILE")
"""Say which home is meant; that is known by now."""


def settings_fingerprint(home: Path, environ: Mapping[str, str]) -> str:
    digest = sha256()
    for name in _FILES:
        try:
            facts = os.stat(home / name)
        except OSError:
            continue
        digest.update(f"{name}:{facts.st_mtime_ns}:{facts.st_size}\0".encode())
    for name, value in sorted(environ.items()):
        counts = is_key_like(name) or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)
        if counts and name not in _OF_ONE_PROCESS:
            digest.update(f"{name}={value}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]
