"""The platform accounts of a gateway: which are enabled, how their adapters are made, and their leases: a row
in the store, and for a credential the lock that all homes on this machine share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hermes import plugins
from hermes.control.access import Knock, Outcome, decide
from hermes.control.pairing import is_paired
from hermes.domain.address import Source
from hermes.domain.capabilities import Manifest
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.outfit import OpenFile, Outfit, Welcomes, no_files, nobody
from hermes.domain.ports import Platform, Store
from hermes.domain.settings import PlatformSettings, Secret
from hermes.entry.host import HostState, Report
from hermes.state.locks import MachineLock
from hermes.state.settings import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLease:
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
        said = {} if self.lock is None else self.lock.holder()
        if not said.get("home"):
            return "another gateway uses this account"
        return f"the gateway of {said['home']} (process {said.get('pid')}) uses the same credential"


def is_enabled(manifest: Manifest, loaded: Loaded) -> bool:
    """Said so, or not said otherwise and everything it requires is there; where it requires nothing, anything
    of what it may be told."""
    block = loaded.settings.platforms.get(manifest.name)
    if block is not None and block.enabled is not None:
        return block.enabled
    if any(field.required for field in manifest.settings):
        return not missing_settings(manifest, loaded)
    trees = {} if block is None else block.trees
    return any(
        loaded.find(manifest.name, field.env)
        or trees.get(field.env.lower().removeprefix(f"{manifest.name}_"))
        for field in manifest.settings
    )


def missing_settings(manifest: Manifest, loaded: Loaded) -> list[str]:
    """The variables that a platform requires and nobody has set."""
    wanted = (field.env for field in manifest.settings if field.required)
    return [name for name in wanted if not loaded.find(manifest.name, name)]


def credential(manifest: Manifest, loaded: Loaded) -> str:
    """What no two gateways may use at once; empty if the platform was told no secret."""
    found = [loaded.find(manifest.name, field.env) for field in manifest.settings if field.secret]
    return "\0".join(secret.reveal() for secret in found if secret is not None)


def welcome(store: Store, manifest: Manifest, loaded: Loaded) -> Welcomes:
    """Who may ask an account into a chat: whoever may speak to it there, or would be given a code."""

    async def welcomes(source: Source) -> bool:
        paired = await store.read(lambda tx: is_paired(tx, source))
        knock = Knock(source=source, paired=paired, mentioned=True, able=manifest.capabilities)
        return decide(knock, loaded.settings).outcome in (Outcome.ALLOWED, Outcome.NEEDS_PAIRING)

    return welcomes


def adapter_maker(
    manifest: Manifest,
    loaded: Loaded,
    clock: Clock,
    open_file: OpenFile = no_files,
    welcomes: Welcomes = nobody,
    home: Path | None = None,
) -> Callable[[], Awaitable[Platform]]:
    folder = None if home is None else home / "platforms" / manifest.name

    async def make() -> Platform:
        missing = missing_settings(manifest, loaded)
        if missing:
            raise UserError(
                f"{manifest.title} needs {', '.join(missing)}.", hint=f"hermes config set {missing[0]} …"
            )
        adapter = await asyncio.to_thread(plugins.load_adapter, manifest)
        block = loaded.settings.platforms.get(manifest.name, PlatformSettings())

        def find(variable: str) -> Secret | None:
            return loaded.find(manifest.name, variable)

        return adapter(
            Outfit(
                settings=block,
                find=find,
                open_file=open_file,
                clock=clock,
                welcomes=welcomes,
                folder=folder,
            )
        )

    return make


def ready_maker(platform: Platform) -> Callable[[], Awaitable[Platform]]:
    async def make() -> Platform:
        return platform

    return make


def told_apart(tell: Report) -> Report:
    """Incoming webhooks are a door of the same name as the account that sends some."""

    def told(account: str, state: HostState, why: str) -> None:
        tell("webhook targets" if account == "webhook" else account, state, why)

    return told
