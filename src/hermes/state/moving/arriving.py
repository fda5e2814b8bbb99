"""What moves in is put in place here: a file, a variable or a setting that nobody has set here yet. Each is
there whole or not at all, so that a move that was cut off is done again, and finds what it did."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.state.home.textfile import replace_text, sole_writer
from hermes.state.home.wholefile import sync_file, sync_folder, write_whole
from hermes.state.moving.openclaw_settings import OldSettings
from hermes.state.settings.by_key import readable_file, value_at
from hermes.state.settings.dotenv import with_variable
from hermes.state.settings.loader import SECRETS_FILE, load_settings
from hermes.state.settings.names import BUILT_IN, platform_of
from hermes.state.settings.secrets import looks_like_placeholder
from hermes.state.settings.whole_changes import plan_change, write_change

_DRAFT = ".moving"


class MoveReport(Struct):
    """What was, or would be, taken; what is here already; and what has no place here."""

    taken: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Arrival(Struct, kw_only=True):
    """The way into a home; with `dry` nothing is written."""

    home: Path
    dry: bool
    report: MoveReport = field(default_factory=MoveReport)
    usual: dict[str, str] = field(default_factory=dict)
    """Texts that a home is made with: nobody misses them."""

    def text(self, name: str, text: str, what: str) -> None:
        target = self.home / name
        if self._is_kept(name, what):
            return
        self.report.taken.append(f"{name} ({what})")
        if not self.dry:
            self._made_folder(target.parent)
            _written(target, lambda: write_whole(target, text.encode()))

    def file(self, old: Path, name: str, what: str) -> None:
        if not self._is_kept(name, what):
            self.report.taken.append(f"{name} ({what})")
            self._copy(old, self.home / name)

    def folder(self, old: Path, name: str, what: str) -> None:
        """File by file, so that what is here already stays; without links: they are named."""
        count = 0
        for path in _walk(old):
            if (old / path).is_symlink():
                self.report.left.append(f"{name}/{path}: a link to {os.readlink(old / path)}")
            elif not self._is_kept(f"{name}/{path}", what):
                count += 1
                self._copy(old / path, self.home / name / path)
        if count:
            self.report.taken.append(f"{name}: {count} file{'s' * (count != 1)} ({what})")

    def settings(self, moved: OldSettings) -> None:
        """All variables in one step, then all of `config.yaml` in another."""
        loaded, unset = load_settings(self.home, {}), Settings()
        settings = loaded.settings
        new: dict[str, str] = {}
        for name, value in moved.variables.items():
            platform = platform_of(name, BUILT_IN.names, BUILT_IN.variables)
            here = loaded.variable(name)
            if looks_like_placeholder(value):
                self.report.left.append(f"{name}: its value is a placeholder")
            elif here or platform in settings.platforms:
                if here != value:
                    self.report.kept.append(f"{name}{f' ({platform} is set up here)' if not here else ''}")
            else:
                new[name] = value
        tables = {
            (table, name): entry
            for (table, name), entry in moved.tables.items()
            if name not in getattr(settings, table)
        }
        keys = {key: value for key, value in moved.keys.items() if not self._is_set(key, settings, unset)}
        self.report.kept += [".".join(table) for table in moved.tables if table not in tables]
        self.report.kept += [key for key in moved.keys if key not in keys]
        self.report.taken += [f"{name} (.env)" for name in new]
        self.report.taken += [f"{name} (config.yaml)" for name in (*keys, *map(".".join, tables))]
        if not self.dry:
            self._add(new, keys, tables)

    def _add(
        self, variables: dict[str, str], keys: dict[str, Any], tables: dict[tuple[str, str], dict[str, Any]]
    ) -> None:
        with sole_writer(self.home):
            path = self.home / SECRETS_FILE
            text = before = readable_file(path).text
            for name, value in variables.items():
                text = with_variable(text, name, value)
            if text != before:
                replace_text(path, text, 0o600)

        def change(data: Any) -> None:
            for place, value in [*((key.split("."), value) for key, value in keys.items()), *tables.items()]:
                holder = data
                for name in place[:-1]:
                    if not isinstance(holder.get(name), dict):
                        holder[name] = {}
                    holder = holder[name]
                holder[place[-1]] = value

        if keys or tables:
            write_change(plan_change(self.home, change))

    @staticmethod
    def _is_set(key: str, settings: Settings, unset: Settings) -> bool:
        if key.startswith("model."):  # a provider follows from the keys there are, until a model is named
            return bool(settings.model.default)
        return bool(value_at(settings, key) != value_at(unset, key))

    def _is_kept(self, name: str, what: str) -> bool:
        target = self.home / name
        if not os.path.lexists(target):
            return False
        usual = self.usual.get(name)
        if (
            usual is not None
            and target.is_file()
            and target.read_text("utf-8", "replace").strip() == usual.strip()
        ):
            return False
        self.report.kept.append(f"{name} ({what})")
        return True

    def _copy(self, old: Path, new: Path) -> None:
        if self.dry:
            return
        self._made_folder(new.parent)
        draft = new.with_name(f".{new.name}{_DRAFT}")

        def copy() -> None:
            try:
                shutil.copyfile(old, draft)
                draft.chmod(old.stat().st_mode & 0o700)
                sync_file(draft)
                draft.replace(new)
                sync_folder(new.parent)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise

        _written(new, copy)

    def _made_folder(self, folder: Path) -> None:
        _written(folder, lambda: folder.mkdir(mode=0o700, parents=True, exist_ok=True))


def _written(target: Path, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise UserError(
            f"{target} cannot be written ({error.strerror}).",
            hint="Mend that, and run the same command again: what is here already stays.",
        ) from None


def _walk(folder: Path) -> Iterator[str]:
    """The files in it, and the links, which are not followed."""
    for top, folders, names in os.walk(folder):
        for name in sorted(names + folders):
            place = Path(top, name)
            if place.is_symlink() or (place.is_file() and not name.endswith(_DRAFT)):
                yield str(place.relative_to(folder))
