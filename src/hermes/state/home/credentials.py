"""The credential store of an agent: `auth.json` in its home, readable by its owner alone.

Owns the file and its lock. Every change reads the file again under the lock and replaces it whole, so that
several processes lose nothing of each other and a power cut leaves the old file or the new one. What this
program does not know in the file stays as it is. Keys from the environment are never written here; only their
cooldowns are, under a digest. Everything here looks at the disk: call it off the loop."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from hermes.domain.errors import FaultKind, UserError
from hermes.domain.models.credential import Cooldown, Credential, CredentialKind, OAuthClient
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace
from hermes.state.home.jsonfile import JsonFile, read_mapping
from hermes.state.home.wholefile import write_whole

AUTH_FILE = "auth.json"
LOCK_FILE = "auth.lock"
_POOL, _COOLDOWNS, _VERSION = "credential_pool", "cooldowns", 1
T = TypeVar("T")


class StoredCredentials(Struct, frozen=True, kw_only=True):
    """What the file holds. `cooldowns` are those of credentials that stand elsewhere, too."""

    credentials: tuple[Credential, ...] = ()
    cooldowns: dict[str, Cooldown] = field(default_factory=dict)

    def of(self, provider: str) -> list[Credential]:
        return [one for one in self.credentials if one.provider == provider]

    def rested(self, credential: Credential) -> Credential:
        """The credential with the cooldown that is noted for it."""
        return replace(credential, cooldown=self.cooldowns.get(credential.id))


class CredentialFile:
    """`auth.json` of one home."""

    def __init__(self, home: Path) -> None:
        self.path = home / AUTH_FILE
        self._lock = home / LOCK_FILE
        self._file = JsonFile(self.path, _read_tree)
        self._reading = threading.Lock()

    @property
    def problem(self) -> str:
        """Why the file counts as empty, if it cannot be read."""
        return self._file.problem

    def read(self) -> StoredCredentials:
        """What the file holds now; it is parsed again only if it looks changed."""
        with self._reading:
            return self._file.read()

    def read_anew(self) -> StoredCredentials:
        """The same, whatever it looks like: for whoever would use up a token that another has renewed."""
        return _read_tree(read_mapping(self.path))

    def add(self, credential: Credential) -> None:
        """Store a credential behind the others of its provider, or in the place of the one with its id."""

        def work(tree: dict[str, Any]) -> None:
            entries = _entries(tree).setdefault(credential.provider, [])
            entry = next((one for one in entries if _id(one) == credential.id), None)
            if entry is None:
                entries.append(entry := {})
            entry.update(_written(credential))
            _cooldowns(tree).pop(credential.id, None)

        self._change(work)

    def remove(self, *ids: str) -> None:
        def work(tree: dict[str, Any]) -> None:
            pools = _entries(tree)
            for provider in list(pools):
                pools[provider] = [one for one in pools[provider] if _id(one) not in ids]
                if not pools[provider]:
                    del pools[provider]
            for id in ids:
                _cooldowns(tree).pop(id, None)

        self._change(work)

    def update(self, id: str, change: Callable[[Credential], Credential]) -> Credential | None:
        """Change one credential as it stands now; None if it is not there any more."""

        def work(tree: dict[str, Any]) -> Credential | None:
            for provider, entries in _entries(tree).items():
                for entry in entries:
                    if _id(entry) == id and (now := _read_entry(provider, entry)) is not None:
                        changed = change(now)
                        entry.update(_written(changed))
                        return changed
            return None

        return self._change(work)

    def rest(self, cooldowns: dict[str, Cooldown | None], now: datetime, uses: dict[str, int]) -> None:
        """Note cooldowns (None ends one) and how often credentials were used since the last time."""

        def work(tree: dict[str, Any]) -> None:
            noted = _cooldowns(tree)
            for id, cooldown in cooldowns.items():
                noted.pop(id, None)
                if cooldown is not None:
                    noted[id] = {"until": cooldown.until.isoformat(), "kind": cooldown.kind.value}
                    noted[id] |= {"by_service": True} if cooldown.by_service else {}
            for id in [
                id for id, one in noted.items() if (read := _read_cooldown(one)) is None or read.until <= now
            ]:
                del noted[id]
            for entries in _entries(tree).values():
                for entry in entries:
                    if uses.get(_id(entry)):
                        entry["request_count"] = _count(entry) + uses[_id(entry)]

        self._change(work)

    def _change(self, work: Callable[[dict[str, Any]], T]) -> T:
        try:
            with self._alone():
                tree = read_mapping(self.path)
                done = work(tree)
                data = json.dumps({"version": _VERSION, **tree}, indent=2, ensure_ascii=False)
                write_whole(self.path.resolve(), data.encode() + b"\n")
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written ({error.strerror}).",
                hint="Check the folder's owner, its rights and the free space.",
            ) from error
        return done

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


# --- between the file and our words ---


def _entries(tree: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The lists of entries by provider; what has another form is dropped when the file is written."""
    pools = tree.get(_POOL)
    kept = pools if isinstance(pools, dict) else {}
    tree[_POOL] = {
        str(provider): [one for one in entries if isinstance(one, dict)]
        for provider, entries in kept.items()
        if isinstance(entries, list)
    }
    pools = tree[_POOL]
    assert isinstance(pools, dict)
    return pools


def _cooldowns(tree: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(tree.get(_COOLDOWNS), dict):
        tree[_COOLDOWNS] = {}
    noted: dict[str, Any] = tree[_COOLDOWNS]
    return noted


def _read_tree(tree: dict[str, Any]) -> StoredCredentials:
    read = {str(id): _read_cooldown(one) for id, one in _cooldowns(tree).items()}
    cooldowns = {id: one for id, one in read.items() if one is not None}
    entries = [
        _read_entry(provider, entry) for provider, entries in _entries(tree).items() for entry in entries
    ]
    credentials = (replace(one, cooldown=cooldowns.get(one.id)) for one in entries if one is not None)
    return StoredCredentials(credentials=tuple(credentials), cooldowns=cooldowns)


def _read_entry(provider: str, entry: dict[str, Any]) -> Credential | None:
    """An entry as Hermes Agent writes it, too; None without a token, or if it came from the environment."""
    key, source = _text(entry, "access_token"), _text(entry, "source")
    if not key or not _id(entry) or source.startswith("env:"):
        return None
    oauth = entry.get("auth_type") == CredentialKind.OAUTH
    return Credential(
        id=_id(entry),
        provider=provider,
        label=_text(entry, "label") or _id(entry),
        kind=CredentialKind.OAUTH if oauth else CredentialKind.API_KEY,
        source=source or "manual",
        key=Secret(key),
        refresh=Secret(_text(entry, "refresh_token")),
        expires_at=_time(entry.get("expires_at")),
        base_url=_text(entry, "base_url"),
        dead=_text(entry, "last_error_message") or "it was refused"
        if entry.get("last_status") == "dead"
        else "",
        uses=_count(entry),
        client=_read_client(entry.get("client")),
    )


def _read_client(entry: object) -> OAuthClient | None:
    if not isinstance(entry, dict) or not _text(entry, "token_url"):
        return None
    return OAuthClient(
        token_url=_text(entry, "token_url"),
        client_id=_text(entry, "client_id"),
        client_secret=Secret(_text(entry, "client_secret")),
        basic=entry.get("basic") is True,
        resource=_text(entry, "resource"),
        remedy=_text(entry, "remedy"),
    )


def _written(credential: Credential) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": credential.id,
        "label": credential.label,
        "auth_type": credential.kind.value,
        "source": credential.source,
        "access_token": credential.key.reveal(),
        "request_count": credential.uses,
        "last_status": "dead" if credential.dead else "ok",
        "last_error_message": credential.dead or None,
        "expires_at": credential.expires_at.isoformat() if credential.expires_at else None,
    }
    if credential.refresh:
        entry["refresh_token"] = credential.refresh.reveal()
    if credential.base_url:
        entry["base_url"] = credential.base_url
    if (client := credential.client) is not None:
        told = {name: getattr(client, name) for name in client.__struct_fields__}
        entry["client"] = told | {"client_secret": client.client_secret.reveal()}
    return entry


def _read_cooldown(noted: object) -> Cooldown | None:
    if not isinstance(noted, dict):
        return None
    until = _time(noted.get("until"))
    try:
        kind = FaultKind(str(noted.get("kind")))
    except ValueError:
        return None
    return (
        None
        if until is None
        else Cooldown(until=until, kind=kind, by_service=noted.get("by_service") is True)
    )


def _id(entry: dict[str, Any]) -> str:
    return _text(entry, "id")


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _count(entry: dict[str, Any]) -> int:
    value = entry.get("request_count")
    return value if isinstance(value, int) and value > 0 else 0


def _time(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
