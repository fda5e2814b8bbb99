"""The platform accounts of a gateway: which are enabled, how their adapters are made, and their leases: a row
in the store, and for a credential the lock that all homes on this machine share."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes import plugins
from hermes.control.outbound.targets import NamedTopics
from hermes.control.people.access import AccessOutcome, AccessRequest, decide, is_paired
from hermes.domain.chats.adapter import AdapterContext, OpenFile, Welcomes
from hermes.domain.chats.address import DEFAULT_ACCOUNT, Source, read_platform, spell_platform
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import Egress
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.host import PlatformAccount, Report
from hermes.state.home.locks import MachineLock, lock_folder
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.names import with_account

ONE_EACH = "Each account needs one of its own."


class StoreLease(Struct, frozen=True, kw_only=True):
    """An account's lease as a row. The owner is the home: its lock lets nobody else take it back at once."""

    store: Store
    clock: Clock
    name: str
    owner: str
    lock: MachineLock | None = None

    async def take(self, seconds: float) -> bool:
        if self.lock is not None and not await asyncio.to_thread(self.lock.take):
            return False
        now = self.clock.now()
        epoch = await self.store.write(lambda tx: tx.leases.take(self.name, self.owner, now, seconds))
        return epoch is not None

    async def release(self) -> None:
        try:
            await self.store.write(lambda tx: tx.leases.release(self.name, self.owner))
        finally:
            if self.lock is not None:
                self.lock.release()

    def holder(self) -> str:
        """Who else uses the account, for a sentence."""
        holder = {} if self.lock is None else self.lock.holder()
        if not holder.get("home"):
            return "another gateway uses this account"
        return f"the gateway of {holder['home']} (process {holder.get('pid')}) uses the same credential"


class DeclaredAccount(Struct, frozen=True, kw_only=True):
    """An account of a platform as the settings tell of it: the platform's own, or a further one."""

    manifest: Manifest
    loaded: LoadedSettings
    account: str = DEFAULT_ACCOUNT

    @property
    def name(self) -> str:
        return spell_platform(self.manifest.name, self.account)

    @property
    def title(self) -> str:
        return self.manifest.title + ("" if self.account == DEFAULT_ACCOUNT else f" ({self.account})")

    @property
    def block(self) -> PlatformSettings:
        return self.loaded.settings.platforms.get(self.name) or PlatformSettings()

    @property
    def enabled(self) -> bool:
        """Said so, or not said otherwise and everything it requires is there; where it requires nothing,
        anything of what it may be told."""
        if self.block.enabled is not None:
            return self.block.enabled
        if any(field.required for field in self.manifest.settings):
            return not self.missing
        prefix = f"{self.manifest.name}_"
        return any(
            self.find(field.env) or self.block.trees.get(field.env.lower().removeprefix(prefix))
            for field in self.manifest.settings
        )

    @property
    def missing(self) -> list[str]:
        """The variables that it requires and nobody has set."""
        wanted = (field.env for field in self.manifest.settings if field.required)
        return [self.variable(name) for name in wanted if not self.find(name)]

    @property
    def credential(self) -> str:
        """What nobody else may use at the same time; empty if it was told no secret."""
        fields = self.manifest.settings
        telling = [field for field in fields if field.required or field.identifies]
        if not any(field.secret for field in telling):
            telling += [field for field in fields if field.secret]
        values = {field: secret.reveal() for field in telling if (secret := self.find(field.env))}
        given = {field: value for field, value in values.items() if value}
        return "\0".join(given.values()) if any(field.secret for field in given) else ""

    def find(self, variable: str) -> Secret | None:
        return self.loaded.find(self.name, variable)

    def variable(self, name: str) -> str:
        """A variable of the platform as it is called for this account."""
        return with_account(name, self.account)

    def worded(self, text: str) -> str:
        """A sentence of its adapter, which knows the variables by their plain names."""
        if self.account == DEFAULT_ACCOUNT or not self.manifest.settings:
            return text
        names = "|".join(re.escape(field.env) for field in self.manifest.settings)
        return re.sub(rf"\b(?:{names})\b", lambda match: self.variable(match[0]), text)


def declared_accounts(manifests: Iterable[Manifest], loaded: LoadedSettings) -> Iterator[DeclaredAccount]:
    """The accounts of each platform, its own first; also those that are not enabled."""
    for manifest in manifests:
        yield DeclaredAccount(manifest=manifest, loaded=loaded)
        for name in sorted(loaded.settings.platforms):
            platform, account = read_platform(name)
            if platform == manifest.name and account != DEFAULT_ACCOUNT:
                yield DeclaredAccount(manifest=manifest, loaded=loaded, account=account)


def same_credentials(accounts: Iterable[DeclaredAccount]) -> dict[str, str]:
    """The accounts whose credential an earlier one has, and which."""
    users: dict[tuple[str, str], str] = {}
    doubles: dict[str, str] = {}
    for account in accounts:
        if account.credential:
            first = users.setdefault((account.manifest.name, account.credential), account.name)
            doubles |= {account.name: first} if first != account.name else {}
    return doubles


def welcome(store: Store, declared: DeclaredAccount) -> Welcomes:
    """Who may ask an account into a chat: whoever may speak to it there, or would be given a code."""

    async def welcomes(source: Source) -> bool:
        paired = await store.read(lambda tx: is_paired(tx, source))
        able = declared.manifest.capabilities
        knock = AccessRequest(source=source, paired=paired, mentioned=True, able=able)
        verdict = decide(knock, declared.loaded.settings)
        return verdict.outcome in (AccessOutcome.ALLOWED, AccessOutcome.NEEDS_PAIRING)

    return welcomes


async def make_adapter(declared: DeclaredAccount, home: Path, **around: Any) -> Platform:
    """Its adapter; `around` are the further fields of its `AdapterContext`."""
    missing = declared.missing
    if missing:
        raise UserError(
            f"{declared.title} needs {', '.join(missing)}.", hint=f"hermes config set {missing[0]} …"
        )
    adapter = await asyncio.to_thread(plugins.load_adapter, declared.manifest)
    return adapter(
        AdapterContext(
            settings=declared.block,
            find=declared.find,
            account=declared.account,
            folder=home / "platforms" / declared.name,
            **around,
        )
    )


class AccountFactory(Struct, frozen=True, kw_only=True):
    """Makes the accounts of a gateway ready for their hosts."""

    home: Path
    environ: Mapping[str, str]
    clock: Clock
    store: Store
    open_file: OpenFile
    egress: Egress

    def given(self, platforms: Mapping[str, Platform]) -> list[PlatformAccount]:
        """Accounts whose adapters are there already."""
        return [
            PlatformAccount(name=name, make=partial(_ready, platform), lease=self._lease(name))
            for name, platform in platforms.items()
        ]

    def declared(self, manifests: Iterable[Manifest], loaded: LoadedSettings) -> list[PlatformAccount]:
        """Those that are enabled; one with the credential of an earlier one only says so."""
        enabled = [account for account in declared_accounts(manifests, loaded) if account.enabled]
        doubles = same_credentials(enabled)
        return [self._account(account, doubles.get(account.name)) for account in enabled]

    def _account(self, account: DeclaredAccount, first: str | None) -> PlatformAccount:
        make: Callable[[], Awaitable[Platform]]
        lock = None
        if first is not None:
            make = partial(_refuse, f"{account.name} has the same credential as {first}.")
        else:
            topics = NamedTopics(store=self.store, clock=self.clock)
            make = partial(
                make_adapter,
                account,
                self.home,
                clock=self.clock,
                open_file=self.open_file,
                egress=self.egress,
                welcomes=welcome(self.store, account),
                find_topic=topics.find,
                name_topic=topics.name,
                keep_topic=topics.keep,
                learn=account.loaded.secrets.learn,
            )
            lock = self._lock(account.manifest.name, account.credential)
        lease = self._lease(account.name, lock)
        return PlatformAccount(name=account.name, make=make, lease=lease, worded=account.worded)

    def _lock(self, platform: str, secret: str) -> MachineLock | None:
        """One credential is one lock, whatever the account is called in the home that uses it."""
        if not secret:
            return None
        folder, owner = lock_folder(self.environ), {"home": str(self.home)}
        return MachineLock(folder=folder, scope=platform, identity=secret, owner=owner)

    def _lease(self, account: str, lock: MachineLock | None = None) -> StoreLease:
        name, owner = f"account:{account}", str(self.home)
        return StoreLease(store=self.store, clock=self.clock, name=name, owner=owner, lock=lock)


async def _ready(platform: Platform) -> Platform:
    return platform


async def _refuse(why: str) -> Platform:
    raise UserError(why, hint=ONE_EACH)


def state_name(account: str) -> str:
    """How the state of an account is named: incoming webhooks are a door of the same name as the account that
    sends some."""
    return "webhook targets" if account == "webhook" else account


def rename_webhook_account(tell: Report) -> Report:
    return lambda account, state, why: tell(state_name(account), state, why)
