"""Whether two processes would read the same settings: a digest of the files of a home and of the variables
that Hermes reads. A terminal compares its own with that of the gateway it finds."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path

from hermes.state.settings import names

_FILES = ("config.yaml", ".env")
_REFERENCE = re.compile(r"\$\{(\w+)")
_KEY = "_API_KEY"


def settings_fingerprint(home: Path, environ: Mapping[str, str], declared: Collection[str]) -> str:
    """`declared` are the variables of the platforms' manifests. The gateway tells them, because a terminal
    would need long to load them."""
    digest, text = sha256(), ""
    for name in _FILES:
        try:
            facts = os.stat(home / name)
            text += (home / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        digest.update(f"{name}:{facts.st_mtime_ns}:{facts.st_size}\0".encode())
    known = {*names.known_variables(), *declared, *_REFERENCE.findall(text)}
    read = {name for name, value in environ.items() if value and _is_read(name, known)}
    # The key of a provider counts if something names the provider.
    named = "\n".join((text, *(environ[name] for name in read))).lower().replace("-", "_")
    keys = (name for name, value in environ.items() if value and name.endswith(_KEY))
    read |= {name for name in keys if name.removesuffix(_KEY).lower() in named}
    for name in sorted(read):
        digest.update(f"{name}={environ[name]}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _is_read(name: str, variables: Collection[str]) -> bool:
    plain = name.partition(names.ACCOUNT_MARK)[0]
    machine = name.lower() in names.OF_THE_MACHINE
    return (
        machine or name in variables or plain in variables or bool(names.platform_of(plain, names.PLATFORMS))
    )
