"""The words of pairing: people who were let in by a code, and open codes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hermes.domain.chats.address import Address, spell_platform


class Account(Struct, frozen=True, kw_only=True):
    """The account of ours that people write to: pairing counts for one of them, never for others."""

    platform: str
    name: str

    def __str__(self) -> str:
        return spell_platform(self.platform, self.name)


class PairedUser(Struct, frozen=True, kw_only=True):
    """A person who was let in. `by` says who did it."""

    account: Account
    user: str
    name: str
    approved_at: datetime
    by: str


class PairingCode(Struct, frozen=True, kw_only=True):
    """An open code, known by its salted hash alone. With a `user` it waits for the owner's yes and can let in
    nobody else; without, it is an invitation for whoever sends it first. `place` is where its user waits."""

    id: str
    account: Account
    salt: bytes
    digest: bytes
    created_at: datetime
    expires_at: datetime
    user: str | None = None
    name: str = ""
    place: Address | None = None
    by: str = ""


class PairingCounter(Struct, frozen=True, kw_only=True):
    """Something counted or remembered for a while: wrong codes, the last request of a person."""

    name: str
    count: int = 0
    until: datetime | None = None
