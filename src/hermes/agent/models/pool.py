"""Several credentials of one provider, used as one: chosen by a strategy, rested when the service refuses
one, renewed when a login's token ends.

A credential that is refused gets a cooldown, which is stored before the next one is tried, so that it holds
after a restart, too. A call that had said words before it broke is not repeated here: its fault says that
another credential is ready, and whoever hears the words goes on with it."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import cast

from msgspec import Struct

from hermes.agent.models.remedies import Remedy, calls_for
from hermes.domain.clock import Clock
from hermes.domain.errors import FaultKind, HermesError, ModelFault, NeedsLogin, Unreachable, as_model_fault
from hermes.domain.models.credential import Cooldown, Credential, CredentialKind, PoolStrategy
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace

log = logging.getLogger("hermes.models")
BAD_KEY_SECONDS = 300.0
LIMITED_SECONDS = 3600.0
RENEW_EARLY = timedelta(seconds=120)
Pieces = AsyncGenerator[ModelPiece, None]


class CredentialAccess(Struct, frozen=True, kw_only=True):
    """The credentials behind a pool: `read` gives them as they are now, `rest` stores a cooldown and how
    often each was used, `renew` gets another token for a login (`NeedsLogin` if only a person can)."""

    read: Callable[[], Awaitable[Sequence[Credential]]]
    rest: Callable[[str, Cooldown, dict[str, int]], Awaitable[None]]
    renew: Callable[[Credential], Awaitable[Credential]]


class _Made(Struct, kw_only=True):
    """The provider of a key, and how many calls run with it."""

    key: Secret
    provider: Provider
    calls: int = 0


class PooledProvider:
    """A provider with the credentials of `access`; `make` makes the provider of one. If it stands `alone`,
    without a model to fall back to, a credential is tried in spite of a cooldown that was only guessed."""

    def __init__(
        self,
        name: str,
        access: CredentialAccess,
        make: Callable[[Credential], Provider],
        *,
        clock: Clock,
        strategy: PoolStrategy = PoolStrategy.FILL_FIRST,
        alone: bool = True,
    ) -> None:
        self._name = name
        self._access = access
        self._make = make
        self._clock = clock
        self._strategy = strategy
        self._alone = alone
        self._made: dict[str, _Made] = {}
        self._old: list[_Made] = []
        """Providers of tokens that were renewed, as long as calls with them run."""
        self._uses: dict[str, int] = {}
        self._last = ""

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        tried: set[str] = set()
        while True:
            credential, several = await self._next(tried)
            tried.add(credential.id)
            began, fresh = False, False
            made: _Made | None = None
            try:
                credential, fresh = await self._fresh(credential), True
                self._uses[credential.id] = self._uses.get(credential.id, 0) + 1
                made = self._take(credential)
                pieces = cast(Pieces, made.provider.call(request))
                async with aclosing(pieces):
                    async for piece in pieces:
                        began = True
                        if several and isinstance(piece, ModelEnd):
                            piece = replace(piece, via=f"#{credential.label}")
                        yield piece
                return
            except HermesError as error:
                fault = as_model_fault(error)
                if not fresh and fault.is_passing:
                    # A token server that is in trouble says nothing about the credential.
                    moves_on = await self._has_others(tried)
                else:
                    moves_on = await self._moves_on(fault, credential, request, tried)
                if not moves_on:
                    raise fault from error
                if began:
                    fault.elsewhere = True
                    raise fault from error
            finally:
                if made is not None:
                    made.calls -= 1
                    await self._close_idle()

    # --- which one

    async def _next(self, tried: set[str]) -> tuple[Credential, bool]:
        """The next credential that nobody has tried for this call, and whether there are several."""
        every, now = await self._access.read(), self._clock.now()
        living = [one for one in every if not one.dead and one.id not in tried]
        usable = [one for one in living if one.is_usable(now)]
        if not usable and self._alone and not tried:
            guessed = [one for one in living if one.cooldown is not None and not one.cooldown.by_service]
            usable = sorted(guessed, key=_end)[:1]
        if not usable:
            raise self._exhausted(every)
        chosen = self._pick(usable, every)
        self._last = chosen.id
        return chosen, len(every) > 1

    def _pick(self, usable: Sequence[Credential], every: Sequence[Credential]) -> Credential:
        match self._strategy:
            case PoolStrategy.FILL_FIRST:
                return usable[0]
            case PoolStrategy.RANDOM:
                return random.choice(usable)
            case PoolStrategy.LEAST_USED:
                return min(usable, key=lambda key: key.uses + self._uses.get(key.id, 0))
            case PoolStrategy.ROUND_ROBIN:
                ids = [one.id for one in every]
                last = ids.index(self._last) if self._last in ids else -1
                return min(usable, key=lambda key: (ids.index(key.id) - last - 1) % len(ids))

    def _exhausted(self, every: Sequence[Credential]) -> ModelFault:
        resting = sorted((one for one in every if not one.dead and one.cooldown is not None), key=_end)
        if not resting or resting[0].cooldown is None:
            why = f": {every[0].dead}" if every and every[0].dead else ""
            words = f"there is no usable key or login for {self._name}{why}."
            hint = f"Give one: hermes auth add {self._name}"
            return ModelFault(words, kind=FaultKind.BAD_KEY, hint=hint)
        first = resting[0].cooldown
        after = max((first.until - self._clock.now()).total_seconds(), 0.0)
        words = f"every key of {self._name} is used up or refused until {first.until:%H:%M:%S} UTC"
        hint = f"See `hermes auth list`; add another with `hermes auth add {self._name}`."
        return ModelFault(
            f"{words}.", kind=FaultKind.LIMITED_UNTIL, hint=hint, after=after, until=first.until
        )

    # --- what a fault means for it

    async def _moves_on(
        self, fault: ModelFault, credential: Credential, request: ModelRequest, tried: set[str]
    ) -> bool:
        """Whether the call goes on with another credential; the one that was refused rests."""
        if not calls_for(fault, Remedy.NEXT_CREDENTIAL, request.retries_left):
            return False
        if fault.kind is FaultKind.BAD_KEY and await self._renewed(credential, tried):
            return True
        await self._rest(credential, fault)
        log.warning(
            "credential.refused provider=%s label=%s kind=%s", self._name, credential.label, fault.kind
        )
        return await self._has_others(tried)

    async def _has_others(self, tried: set[str]) -> bool:
        now = self._clock.now()
        return any(one.id not in tried and one.is_usable(now) for one in await self._access.read())

    async def _rest(self, credential: Credential, fault: ModelFault) -> None:
        guess = BAD_KEY_SECONDS if fault.kind is FaultKind.BAD_KEY else LIMITED_SECONDS
        seconds = guess if fault.after is None else fault.after
        until = self._clock.now() + timedelta(seconds=seconds)
        cooldown = Cooldown(until=until, kind=fault.kind, by_service=fault.after is not None)
        uses, self._uses = self._uses, {}
        await self._access.rest(credential.id, cooldown, uses)

    async def _renewed(self, credential: Credential, tried: set[str]) -> bool:
        """A login whose token was refused may have a newer one, once for each call."""
        mark = f"renewed {credential.id}"
        if credential.kind is not CredentialKind.OAUTH or not credential.refresh or mark in tried:
            return False
        try:
            await self._access.renew(credential)
        except (NeedsLogin, Unreachable):
            return False
        tried -= {credential.id}
        tried.add(mark)
        return True

    async def _fresh(self, credential: Credential) -> Credential:
        """The credential with a token that has not ended. A token server that cannot be reached does no harm
        as long as the old token lives."""
        ends, now = credential.expires_at, self._clock.now()
        if credential.kind is not CredentialKind.OAUTH or ends is None or ends - RENEW_EARLY > now:
            return credential
        if not credential.refresh:
            return credential
        try:
            return await self._access.renew(credential)
        except Unreachable:
            if ends <= now:
                raise
            return credential

    # --- the provider of a credential

    def _take(self, credential: Credential) -> _Made:
        """The provider of a credential, for one more call."""
        made = self._made.get(credential.id)
        if made is None or made.key.reveal() != credential.key.reveal():
            if made is not None:
                self._old.append(made)
            made = self._made[credential.id] = _Made(key=credential.key, provider=self._make(credential))
        made.calls += 1
        return made

    async def _close_idle(self) -> None:
        if self._old:
            idle = [made for made in self._old if not made.calls]
            self._old = [made for made in self._old if made.calls]
            await _close(idle)

    async def close(self) -> None:
        every = [*self._old, *self._made.values()]
        self._old, self._made = [], {}
        await _close(every)


def _end(credential: Credential) -> datetime:
    assert credential.cooldown is not None
    return credential.cooldown.until


async def _close(providers: Sequence[_Made]) -> None:
    for made in providers:
        close = getattr(made.provider, "close", None)
        if close is not None:
            await close()
