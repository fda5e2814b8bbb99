"""Changes of `config.yaml` that are more than one value, like an agent with its routes. The comments and the
order of the file stay; the text is made first, so that it can be shown before it is written."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.state.home.textfile import replace_text, sole_writer
from hermes.state.settings.by_key import NOTHING_SET, load_tree, readable_file, round_trip
from hermes.state.settings.history import config_text, keep_config
from hermes.state.settings.loader import CONFIG_FILE

_MODE = 0o600


class ConfigChange(Struct, frozen=True, kw_only=True):
    """The text of a `config.yaml` before and after a change."""

    file: Path
    before: str
    after: str
    mode: int = _MODE


def plan_change(home: Path, change: Callable[[Any], None]) -> ConfigChange:
    """What the file would say if `change` were done to its tree; nothing is written."""
    from ruamel.yaml.comments import CommentedMap

    path = home / CONFIG_FILE
    file = readable_file(path, yaml=True)
    yaml = round_trip(file.text)
    data, kept = load_tree(yaml, file.text, path), ""
    if data is None:
        data, kept = CommentedMap(), f"{file.text.rstrip()}\n" if file.text.strip() else ""
        yaml.explicit_start = False
    change(data)
    out = io.StringIO()
    if data:
        yaml.dump(data, out)
    after = kept + out.getvalue() if data else kept + NOTHING_SET  # a file without a word counts as lost
    mode = _MODE if file.mode is None else file.mode
    return ConfigChange(file=path, before=file.text, after=after, mode=mode)


def section_of(data: Any, name: str, kind: type) -> Any:
    """What stands under a name, at the top or under `gateway`: a `dict` or a `list`, made if need be."""
    gateway = data.get("gateway")
    holder = gateway if name not in data and isinstance(gateway, dict) and name in gateway else data
    if holder.get(name) is None:
        holder[name] = kind()
    if not isinstance(holder[name], kind):
        raise UserError(f"{name} in {CONFIG_FILE} cannot be changed.", hint="Run: hermes config check")
    return holder[name]


def write_change(change: ConfigChange) -> None:
    """Put the new text in place, and keep the one before. A `UserError` if somebody else changed it."""
    home = change.file.parent
    with sole_writer(home):
        if config_text(home) != change.before:
            raise UserError(f"{change.file} was changed meanwhile; nothing was changed.", hint="Try again.")
        keep_config(home, change.before)
        replace_text(change.file, change.after, change.mode)


def take_back(change: ConfigChange) -> None:
    """Put the text from before back, as if nothing had been written; never over what another wrote since."""
    with sole_writer(change.file.parent):
        if config_text(change.file.parent) != change.after:
            return
        if change.before:
            replace_text(change.file, change.before, change.mode)
        else:
            change.file.unlink(missing_ok=True)
