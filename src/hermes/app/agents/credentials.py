"""The credentials of a gateway's agents, as pools use them: those of the agent's own `auth.json`, else of the
gateway's, behind the key that stands in the environment or the settings.

Another process may change a file at any time, so it is looked at again once a second. A login's token is
renewed by one task in one process: the others wait for its lock, read the file again, and find the new token.
That task ends by itself, whoever stops waiting for it, because a refresh token may be used up by then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hermes.agent.models.login.services import login_of
from hermes.agent.models.pool import CredentialAccess
from hermes.domain.clock import Clock
from hermes.domain.errors import NeedsLogin, Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.models.credential import Cooldown, Credential, secrets_of
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace
from hermes.state.home.credentials import CredentialFile, StoredCredentials
from hermes.state.home.homes import agent_home
from hermes.state.home.locks import MachineLock
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.secrets import Secrets

log = logging.getLogger("hermes.models")
READ_SECONDS = 1.0
LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.05


class CredentialStore:
    """One `auth.json`, shared by the pools of a process. `outside` are keys that stand elsewhere."""

    def __init__(self, home: Path, secrets: Secrets, clock: Clock) -> None:
        self._file = CredentialFile(home)
        self._locks = home / "cache"
        self._secrets = secrets
        self._clock = clock
        self._held = StoredCredentials()
        self._read_at = float("-inf")
        self._unsaved: dict[str, Cooldown] = {}
        self._renewing: dict[str, asyncio.Task[Credential]] = {}
        self._unwritten: dict[str, Credential] = {}
        """Logins with a new token that could not be written yet."""

    def access(self, provider: str, outside: Sequence[Credential]) -> CredentialAccess:
        return CredentialAccess(read=partial(self.read, provider, outside), rest=self.rest, renew=self.renew)

    async def read(self, provider: str, outside: Sequence[Credential] = ()) -> list[Credential]:
        held = self._held if time.monotonic() - self._read_at < READ_SECONDS else await self._look()
        every = [held.rested(credential) for credential in (*outside, *held.of(provider))]
        unsaved = self._unsaved
        return [replace(each, cooldown=unsaved[each.id]) if each.id in unsaved else each for each in every]

    async def rest(self, id: str, cooldown: Cooldown, uses: dict[str, int]) -> None:
        """Store a cooldown before anybody acts on it. Where that fails, it holds for this process."""
        try:
            await asyncio.to_thread(self._file.rest, {id: cooldown}, self._clock.now(), uses)
            self._unsaved.pop(id, None)
        except UserError as error:
            log.warning("credential.cooldown_not_stored why=%s", error)
            self._unsaved[id] = cooldown
        await self._look()

    async def renew(self, credential: Credential) -> Credential:
        """The credential with another token than it has. `NeedsLogin` if only a person can help."""
        renewing = self._renewing.get(credential.id)
        if renewing is None:
            renewing = asyncio.create_task(self._renew(credential), name=f"renew {credential.id}")
            self._renewing[credential.id] = renewing
            renewing.add_done_callback(lambda task: self._renewed(credential.id, task))
        return await asyncio.shield(renewing)

    def _renewed(self, id: str, task: asyncio.Task[Credential]) -> None:
        del self._renewing[id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("credential.not_renewed id=%s why=%s", id, error)

    async def _renew(self, credential: Credential) -> Credential:
        login = login_of(credential)
        if login is None:
            raise NeedsLogin(f"nobody knows how to renew a login at {credential.provider}")
        lock = MachineLock(folder=self._locks, scope="login", identity=f"{self._file.path}\0{credential.id}")
        await self._take(lock)
        try:
            stored = await asyncio.to_thread(self._file.read_anew)
            every = {each.id: each for each in stored.credentials} | self._unwritten
            now = every.get(credential.id)
            if now is None or now.dead:
                why = now.dead if now else f"there is no login any more: {login.again}"
                raise NeedsLogin(why)
            if now.key != credential.key:
                return now  # somebody else has renewed it meanwhile
            from hermes.agent.models.login.oauth import refresh_tokens  # only logins need it

            try:
                tokens = await refresh_tokens(login, now.refresh, self._clock.now())
            except NeedsLogin as error:
                dead = str(error)
                await asyncio.to_thread(self._file.update, now.id, lambda entry: replace(entry, dead=dead))
                raise
            self._secrets.learn(tokens.access.reveal(), tokens.refresh.reveal())
            renewed = self._unwritten[now.id] = tokens.on(now)
            log.info("credential.renewed provider=%s label=%s", now.provider, now.label)
            return renewed
        finally:
            try:
                await self._look()  # it writes the new token, before others may look
            finally:
                lock.release()

    async def _take(self, lock: MachineLock) -> None:
        end = time.monotonic() + LOCK_SECONDS
        while not await asyncio.to_thread(lock.take):
            if time.monotonic() > end:
                raise Unreachable("another process has been renewing this login for a minute")
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> StoredCredentials:
        self._held = await asyncio.to_thread(self._read)
        self._read_at = time.monotonic()
        self._secrets.learn(*secrets_of(self._held.credentials))
        return self._held

    def _read(self) -> StoredCredentials:
        """Read the file, once new tokens are written: the service has forgotten the old ones."""
        for id, renewed in list(self._unwritten.items()):
            try:
                self._file.update(id, partial(_instead, renewed))
                self._unwritten.pop(id, None)
            except UserError as error:
                log.error("credential.token_not_written id=%s why=%s", id, error)
        held = self._file.read()
        every = (self._unwritten.get(each.id, each) for each in held.credentials)
        return replace(held, credentials=tuple(every))

    async def close(self) -> None:
        """Let a token that is being renewed reach the file."""
        await asyncio.gather(*self._renewing.values(), return_exceptions=True)
        if self._unwritten:
            await self._look()


class AgentCredentials:
    """Which stored credentials each agent of a gateway has; none without a `home`."""

    def __init__(self, home: Path | None, loaded: LoadedSettings, clock: Clock) -> None:
        self._home = home
        self._loaded = loaded
        self._clock = clock
        self._stores: dict[AgentId, CredentialStore] = {}

    def providers(self, agent: AgentId) -> frozenset[str]:
        """The providers that the agent has a stored credential for, its own or the gateway's."""
        stored = {} if self._home is None else self._loaded.credentials
        return frozenset(each.provider for name in {agent, MAIN_AGENT} for each in stored.get(name, ()))

    def key(self, agent: AgentId, provider: str) -> Secret:
        """The first stored key, as it was when the settings were read; empty if there is none."""
        own = self._loaded.credentials.get(self._owner(agent, provider), ())
        return next((each.key for each in own if each.provider == provider and not each.dead), Secret(""))

    def access(self, agent: AgentId, provider: str, key: Secret) -> CredentialAccess:
        """What a pool works with. `key` stands in the environment or the settings, and comes first."""
        outside = [Credential.outside(provider, self._variable(key), key)] if key else []
        owner = self._owner(agent, provider)
        assert self._home is not None
        store = self.store(owner, agent_home(self._home, owner, self._loaded.settings))
        return store.access(provider, outside)

    def _variable(self, key: Secret) -> str:
        values = self._loaded.secrets.values().items()
        return next((name for name, value in values if value == key.reveal()), "config.yaml")

    def _owner(self, agent: AgentId, provider: str) -> AgentId:
        own = self._loaded.credentials.get(agent, ())
        return agent if any(each.provider == provider for each in own) else MAIN_AGENT

    def store(self, agent: AgentId, home: Path) -> CredentialStore:
        """What an agent stores in its home; closed with all others."""
        if agent not in self._stores:
            self._stores[agent] = CredentialStore(home, self._loaded.secrets, self._clock)
        return self._stores[agent]

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in self._stores.values()))


def _instead(renewed: Credential, entry: Credential) -> Credential:
    return renewed
