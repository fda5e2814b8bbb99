"""The file of webhook routes made by command: read again when it has changed, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.domain.settings.declaring import Secret
from hermes.state.home.jsonfile import JsonFile, read_mapping
from hermes.state.home.textfile import replace_text, sole_writer
from hermes.state.settings.names import is_key_like

FILE = "webhook_subscriptions.json"


class WebhookSubscriptions(JsonFile[dict[str, Any]]):
    """Name → route as it was written, with secrets as `Secret`s. A file that cannot be read has no routes:
    `problem` says why."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / FILE, _wrapped)


def change(home: Path, name: str, route: Mapping[str, Any] | None) -> bool:
    """Write a route, or remove it; says whether it was there before. Its secrets are the owner's alone."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with sole_writer(home):
        tree = read_mapping(home / FILE)
        known = tree.pop(name, None) is not None
        if route is not None:
            tree[name] = dict(route)
        if known or route is not None:
            text = json.dumps(tree, ensure_ascii=False, indent=2, sort_keys=True)
            replace_text(home / FILE, text + "\n", 0o600)
    return known


def _wrapped(tree: Any, name: str = "") -> Any:
    if isinstance(tree, dict):
        return {inner: _wrapped(child, inner) for inner, child in tree.items()}
    if isinstance(tree, list):
        return [_wrapped(child, name) for child in tree]
    return Secret(tree) if isinstance(tree, str) and is_key_like(name) else tree
