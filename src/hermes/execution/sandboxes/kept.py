"""What an agent's home knows of its sandboxes at a service: the name of each there, and what keeps its files.

A name is random and lies in the home. So it goes along when the agent gets another id, and nobody else has
it: not who gets the id of an agent that is gone, nor a home with the same path on another machine."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.ports.world import BackendRequest
from hermes.execution.files.work import write_file

FOLDER = "sandboxes"
SERVICES = ("daytona", "modal")


def place_digest(request: BackendRequest, *words: str) -> str:
    """Tells the sandboxes of one home apart; `words` are further ones that make another."""
    named = "|".join((str(request.home), str(request.workspace), str(request.network), *words))
    return hashlib.sha256(named.encode()).hexdigest()[:16]


class KeptSandbox(Struct, frozen=True):
    """Its name at the service, and the image of its files, if there is one."""

    name: str
    image: str = ""


def kept_file(home: Path, service: str, digest: str) -> Path:
    return home / FOLDER / service / f"{digest}.json"


def read_kept(file: Path) -> KeptSandbox:
    """What is known of a sandbox; of a new one a name. Blocks."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=KeptSandbox)
    except FileNotFoundError:
        fresh = KeptSandbox(f"hermes-{file.stem}-{uuid.uuid4().hex[:8]}")
        write_kept(file, fresh)
        return fresh
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(
            f"{file} cannot be read, which tells where the files of this sandbox are.",
            hint="Mend it, or remove it to begin without them.",
        ) from error


def write_kept(file: Path, kept: KeptSandbox) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(str(file), lambda opened: opened.write(msgspec.json.encode(kept)), mode=0o600)
    except OSError as error:
        raise UserError(f"{file} cannot be written ({error.strerror}).") from error


def list_kept(home: Path) -> Iterator[tuple[str, str]]:
    """The service of each sandbox, and what is there: it stays when the home goes."""
    for service in SERVICES:
        for file in sorted((home / FOLDER / service).glob("*.json")):
            try:
                kept = read_kept(file)
            except UserError:
                continue
            yield service, kept.image or kept.name
