"""The files of a batch run, in the home's `batches/<run>/`: its items, how it was begun, its samples. What
became of the items is in the gateway's database."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from hermes.domain.errors import UserError
from hermes.domain.text import one_line, storable, storable_all
from hermes.state.home.textfile import replace_text

FOLDER = "batches"
MANIFEST, ITEMS = "run.json", "items.jsonl"
LARGEST_FILE = 1 << 30
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_UNFIT = re.compile(r"[^a-z0-9.-]+")
_NAME_RULE = "Use up to 64 small letters, digits, “-” and “.”."


class BatchManifest(msgspec.Struct, frozen=True, kw_only=True):
    """How a run was begun; it goes on so, whatever is said later."""

    name: str
    agent: str
    digest: str
    items: int
    distribution: str
    model: str = ""
    created_at: datetime


class DatasetItem(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file that a run is made from. `metadata` goes into the sample as it is; `image` is an
    address on the web or a file."""

    prompt: str
    cwd: str | None = None
    image: str = ""
    metadata: dict[str, Any] = {}


class RunFiles:
    """A batch run on disk. One that was never begun has no manifest."""

    def __init__(self, home: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UserError(f"A batch run cannot be called “{one_line(name, 80)}”.", hint=_NAME_RULE)
        self.name = name
        self.folder = home / FOLDER / name

    @property
    def is_there(self) -> bool:
        return (self.folder / MANIFEST).is_file()

    def begin(
        self, dataset: Path, agent: str, distribution: str, model: str, most: int | None
    ) -> BatchManifest:
        """Copy the items and note how they are to be run. The manifest comes last: a run that has one is
        complete."""
        data = _read(dataset)
        items = read_items(data, dataset.name)[:most]
        lines = "".join(f"{msgspec.json.encode(item).decode()}\n" for item in items)
        manifest = BatchManifest(
            name=self.name,
            agent=agent,
            digest=sha256(data).hexdigest(),
            items=len(items),
            distribution=distribution,
            model=model,
            created_at=datetime.now(UTC),
        )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_text(self.folder / ITEMS, lines, 0o600)
        self._write(manifest)
        return manifest

    def settle(self, manifest: BatchManifest, distribution: str) -> BatchManifest:
        """Note the toolsets that the agent really has, so that the run goes on with these."""
        if distribution != manifest.distribution:
            manifest = msgspec.structs.replace(manifest, distribution=distribution)
            self._write(manifest)
        return manifest

    def _write(self, manifest: BatchManifest) -> None:
        replace_text(self.folder / MANIFEST, msgspec.json.encode(manifest).decode(), 0o600)

    def manifest(self) -> BatchManifest:
        if not self.is_there:
            raise UserError(f"There is no batch run “{self.name}”.", hint="`hermes batch list` shows them.")
        try:
            return msgspec.json.decode((self.folder / MANIFEST).read_bytes(), type=BatchManifest)
        except (msgspec.MsgspecError, OSError) as error:
            raise _unreadable(self.folder / MANIFEST, error) from error

    def items(self) -> list[DatasetItem]:
        """As they were when the run began: a folder or a picture may be gone by now."""
        lines = _read(self.folder / ITEMS).splitlines()
        try:
            return [msgspec.json.decode(line, type=DatasetItem) for line in lines]
        except msgspec.MsgspecError as error:
            raise _unreadable(self.folder / ITEMS, error) from error

    def check_same(self, manifest: BatchManifest, dataset: Path) -> None:
        """A run is not continued with other items: the answers would belong to other questions."""
        if sha256(_read(dataset)).hexdigest() != manifest.digest:
            raise UserError(
                f"The run “{self.name}” was begun with another file than {dataset.name} is now.",
                hint="Give the new run another name with --run, or continue the old one without a file.",
            )

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def run_name(dataset: Path) -> str:
    """What a run is called if nobody says so: as its file."""
    return _UNFIT.sub("-", dataset.stem.lower()).strip("-.")[:64] or "batch"


def list_runs(home: Path) -> list[RunFiles]:
    folders = sorted((home / FOLDER).iterdir()) if (home / FOLDER).is_dir() else []
    return [
        run
        for folder in folders
        if _NAME.fullmatch(folder.name) and (run := RunFiles(home, folder.name)).is_there
    ]


def read_items(data: bytes, name: str) -> list[DatasetItem]:
    """The items of a JSONL file; the first line that is wrong is a `UserError`, so that nothing is run."""
    items: list[DatasetItem] = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            items.append(_item(line, f"Line {number} of {name}"))
    if not items:
        raise UserError(f"{name} has no items.", hint='Each line is one: {"prompt": "…"}')
    return items


def _item(line: bytes, place: str) -> DatasetItem:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{place} is not JSON ({error}).", hint='Each line is one: {"prompt": "…"}'
        ) from error
    if (
        not isinstance(fields, dict)
        or not isinstance(fields.get("prompt"), str)
        or not fields["prompt"].strip()
    ):
        raise UserError(f"{place} has no prompt.", hint='Write {"prompt": "…"}')
    image = fields.get("image") or ""
    if not isinstance(image, str) or not (image.startswith("https://") or not image or Path(image).is_file()):
        raise UserError(
            f"{place} names an image that is no file: {one_line(str(image), 80)}",
            hint="Use a path, or an https address.",
        )
    cwd = fields.get("cwd")
    if cwd is not None and not (isinstance(cwd, str) and cwd.startswith("/") and Path(cwd).is_dir()):
        raise UserError(
            f"{place} names a cwd that is no folder: {one_line(str(cwd), 80)}", hint="Use a full path."
        )
    named = fields.get("metadata")
    rest = {key: value for key, value in fields.items() if key not in ("prompt", "cwd", "image", "metadata")}
    metadata = {**(named if isinstance(named, dict) else {}), **rest}
    here = image if image.startswith("https://") or not image else str(Path(image).absolute())
    return DatasetItem(
        prompt=storable(fields["prompt"]), cwd=cwd, image=here, metadata=storable_all(metadata)
    )


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} is larger than 1 GB.", hint="Split it into several runs.")
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    why = getattr(error, "strerror", None) or one_line(str(error), 120)
    return UserError(f"{path} cannot be read ({why}).", hint="Check the path and its permissions.")
