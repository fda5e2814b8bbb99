"""The file of webhook routes made by command: read again when it has changed, replaced as a whole."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.settings import Secret
from hermes.state.setting_names import is_key_like
from hermes.state.textfile import MOST_BYTES, replace_text, sole_writer

FILE = "webhook_subscriptions.json"


class Subscriptions:
    """Name → route as it was written, with secrets as `Secret`s. The same object as long as the file stays.

    A file that cannot be read has no routes: `problem` says why."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._seen: tuple[int, int, int] | None = None
        self._tree: Mapping[str, Any] = {}
        self.problem = ""

    def read(self) -> Mapping[str, Any]:
        try:
            info = os.stat(self._path)
        except OSError as error:
            self._keep(None, {}, "" if isinstance(error, FileNotFoundError) else _unreadable(error))
            return self._tree
        seen = (info.st_mtime_ns, info.st_size, info.st_ino)
        if seen != self._seen:
            try:
                self._keep(seen, _wrapped(load(self._path)), "")
            except UserError as error:
                self._keep(seen, {}, str(error))
        return self._tree

    def _keep(self, seen: tuple[int, int, int] | None, tree: dict[str, Any], problem: str) -> None:
        self._seen, self.problem = seen, problem
        if tree or self._tree:
            self._tree = tree


def load(path: Path) -> dict[str, Any]:
    """The file's routes as plain JSON; nothing if there is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is no file of routes.", hint="Move it away.")
        tree = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(_unreadable(error)) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON.", hint="Mend it, or move it away.") from error
    if not isinstance(tree, dict):
        raise UserError(f"{path} must map names to routes.", hint="Mend it, or move it away.")
    return tree


def change(home: Path, name: str, route: Mapping[str, Any] | None) -> bool:
    """Write a route, or remove it; says whether it was there before. Its secrets are the owner's alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with sole_writer(home):
        tree = load(home / FILE)
        known = tree.pop(name, None) is not None
        if route is not None:
            tree[name] = dict(route)
        if known or route is not None:
            text = json.dumps(tree, ensure_ascii=False, indent=2, sort_keys=True)
            replace_text(home / FILE, text + "\n", 0o600)
    return known


def _unreadable(error: OSError) -> str:
    return f"The webhook subscriptions cannot be read ({error.strerror})."


def _wrapped(tree: Any, name: str = "") -> Any:
    if isinstance(tree, dict):
        return {inner: _wrapped(child, inner) for inner, child in tree.items()}
    if isinstance(tree, list):
        return [_wrapped(child, name) for child in tree]
    return Secret(tree) if isinstance(tree, str) and is_key_like(name) else tree
