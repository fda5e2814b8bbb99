"""Settings that change while the gateway runs. A change is a new generation: it is read and checked as a
whole, its main agent is built, and then it is adopted; or it is refused as a whole, with the reason in health
and status, and the old one goes on. Nothing is written here, so a crash on the way leaves the files as they
are.

Agents, routes, access lists, commands and models count at once, and a turn that runs keeps the agent it began
with. What was fixed when the gateway started is named as waiting for a restart, each time, as long as it
differs from what the gateway started with."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.control.core import GatewayCore
from hermes.control.people.access import half_open
from hermes.domain.errors import PRINTED, HermesError, SettingsError, UserError, as_user_error
from hermes.domain.settings.live import SettingsReport
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.system import entry_points
from hermes.domain.turns.gateway_event import SettingsAdopted
from hermes.domain.word import field_names, is_word
from hermes.state.home.credentials import AUTH_FILE
from hermes.state.settings.history import config_text, keep_config
from hermes.state.settings.loader import CONFIG_FILE, SECRETS_FILE, LoadedSettings
from hermes.state.settings.names import ACCOUNT_MARK
from hermes.state.settings.values import MEANWHILE

log = logging.getLogger("hermes.settings")
WATCH_SECONDS = 2.0
OTHER_PLUGINS = "Plugins were installed or removed since it started; they count after: hermes gateway restart"
_AT_START = frozenset({
    "gateway.cache_mb", "gateway.max_running", "gateway.reserve_mb", "gateway.dedupe_days",
    "gateway.watch_config", "sessions.write_json", "platforms.api_server", "platforms.webhook",
})  # fmt: skip
_AT_START_WHOLE = ("plugins",)
_PORTS = ("WEBHOOK_HOST", "WEBHOOK_PORT")
_BOUNDING = ("terminal", "routes", "agents")


class SettingsGenerations:
    """`read` reads the files, `adopt` builds what depends on them and puts it in place, or raises and changes
    nothing; `retry` tries again what could not be built, for its reason may be outside these files; `tell`
    shows a fact of the gateway; `bounds` are the boundaries that settings give to commands; `connecting` are
    the variables that connections of platforms are made from."""

    def __init__(
        self,
        *,
        home: Path,
        core: GatewayCore,
        loaded: LoadedSettings,
        read: Callable[[], LoadedSettings],
        adopt: Callable[[LoadedSettings], Awaitable[None]],
        retry: Callable[[], None],
        tell: Callable[[Mapping[str, Any]], None],
        bounds: Callable[[Settings], Awaitable[Sequence[dict[str, Any]]]],
        connecting: Collection[str] = (),
    ) -> None:
        self._home = home
        self._core = core
        self._loaded = loaded
        self._start = loaded
        self._connecting = frozenset({*connecting, *_PORTS})
        self._text = config_text(home)
        self._read = read
        self._adopt = adopt
        self._retry = retry
        self._tell = tell
        self._bounds = bounds
        self._changing = asyncio.Lock()

    async def apply(self) -> SettingsReport:
        """Adopt what the files say now; a `UserError` (with file, line and remedy) says why not."""
        async with self._changing:
            try:
                loaded = await asyncio.to_thread(self._read)
                changed = self._check(loaded)
                if changed:
                    await self._adopt(loaded)
            except Exception as error:  # plugins have a part in the agents, and may raise anything
                other = OTHER_PLUGINS if await asyncio.to_thread(entry_points.have_changed) else ""
                why, foreign = (
                    refusal(as_user_error(error), other),
                    not isinstance(error, HermesError | OSError),
                )
                generation = self._core.live.generation
                log.warning("settings.refused generation=%d why=%s", generation, why, exc_info=foreign)
                self._tell({"settings_problem": str(why)})
                await asyncio.to_thread(keep_config, self._home, self._text)
                raise why from error
            bounds = await self._new_bounds(loaded.settings, changed)
            await asyncio.to_thread(self._keep_text)
            self._retry()
            return self._adopted(loaded, changed, bounds)

    def _keep_text(self) -> None:
        """What the file said before, so that somebody who edited it can take that back, and what is adopted:
        the next edit may be the wrong one."""
        before, self._text = self._text, config_text(self._home)
        if before != self._text:
            keep_config(self._home, before)
            keep_config(self._home, self._text)

    async def _new_bounds(self, settings: Settings, changed: Sequence[str]) -> tuple[dict[str, Any], ...]:
        """The boundaries that are others than before."""
        if not any(key.startswith(_BOUNDING) for key in changed):
            return ()
        before = await self._bounds(self._loaded.settings)
        return tuple(fact for fact in await self._bounds(settings) if fact not in before)

    def _check(self, loaded: LoadedSettings) -> tuple[str, ...]:
        """The keys that changed. A mistake with which this gateway started is no reason to refuse."""
        if self._loaded.has_file and not loaded.has_file:
            message = f"{CONFIG_FILE} is gone, and its limits with it."
            hint = "Restore it, or restart the gateway to go on with the defaults."
            raise SettingsError(message, file=loaded.file, hint=hint)
        before = {error.message for error in (*self._loaded.stops, *self._loaded.problems)}
        for error in (*loaded.stops, *loaded.problems):
            if error.message not in before:
                raise error
        changed = differences(self._loaded.settings, loaded.settings)
        changed += self._connections(self._loaded, loaded)
        if loaded.secrets.values() != self._loaded.secrets.values():
            changed.append(SECRETS_FILE)
        after, earlier = loaded.agent_variables, self._loaded.agent_variables
        changed += (
            f"agents.{agent} {SECRETS_FILE}"
            for agent in sorted({*after, *earlier})
            if after.get(agent) != earlier.get(agent) and agent in loaded.settings.agents
        )
        if _names(loaded) != _names(self._loaded):
            changed.append(AUTH_FILE)
        return tuple(changed)

    def _connections(self, before: LoadedSettings, after: LoadedSettings) -> tuple[str, ...]:
        """The variables of connections and ports that say something else, those of further accounts too."""
        every = {*before.secrets.names, *before.variables, *after.secrets.names, *after.variables}
        return tuple(
            name
            for name in sorted(every)
            if name.partition(ACCOUNT_MARK)[0] in self._connecting
            and before.variable(name) != after.variable(name)
        )

    def _adopted(
        self, loaded: LoadedSettings, changed: tuple[str, ...], bounds: tuple[dict[str, Any], ...]
    ) -> SettingsReport:
        core, start, now = self._core, self._start.settings, loaded.settings
        self._loaded = loaded
        waits = tuple(key for key in differences(start, now) if _waits(key, start, now))
        waits += self._connections(self._start, loaded)
        if changed:
            core.events.emit(SettingsAdopted(generation=core.live.generation))
            log.info("settings.adopted generation=%d keys=%s", core.live.generation, ",".join(changed))
        self._tell({"settings_problem": "", "settings_generation": core.live.generation})
        return SettingsReport(
            generation=core.live.generation, changed=changed, waits=waits, boundaries=bounds
        )

    async def watch(self) -> None:
        """Apply what changes in the files, also what changed since this gateway read them at its start."""
        seen: list[tuple[int, int, int] | None] = []
        while True:
            await self._core.clock.sleep(WATCH_SECONDS)
            stamps = await asyncio.to_thread(self._stamps)
            if stamps != seen:
                seen = stamps
                with contextlib.suppress(UserError):  # it is logged and shown; somebody will mend the file
                    await self.apply()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        stamps: list[tuple[int, int, int] | None] = []
        for name in (CONFIG_FILE, SECRETS_FILE):
            try:
                facts = os.stat(self._home / name)
            except OSError:
                stamps.append(None)
            else:
                stamps.append((facts.st_mtime_ns, facts.st_ino, facts.st_size))
        return stamps


def _names(loaded: LoadedSettings) -> set[tuple[str, str, str]]:
    """Which credentials are stored. Their tokens may change: whoever uses them looks at the file."""
    stored = loaded.credentials.items()
    return {(agent, each.provider, each.id) for agent, credentials in stored for each in credentials}


def check_half_open(loaded: LoadedSettings) -> None:
    """A platform that is said to be open and is not opened: only the operator knows which one is meant."""
    for problem in half_open(loaded.settings):
        error = SettingsError(problem, file=loaded.file, hint="Set both or neither.")
        log.error("settings.half_open %s", error, extra=PRINTED)
        raise error


def refusal(error: UserError, more: str = "") -> UserError:
    """What is wrong, told where nothing of the new settings counts; `more` is what else there is to say."""
    remedy = "" if error.hint.startswith(MEANWHILE) else error.hint
    hint = f"{remedy} The settings from before count. {more}".strip()
    if isinstance(error, SettingsError):
        return SettingsError(error.message, file=error.file, line=error.line, hint=hint)
    return UserError(f"{error.message.rstrip('.')}.", hint=hint)


def differences(old: Settings, new: Settings) -> list[str]:
    """The dotted keys whose values differ."""
    changed: list[str] = []
    for name in field_names(Settings):
        before, after = _parts(getattr(old, name)), _parts(getattr(new, name))
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = dict.fromkeys((*before, *after))
            changed += [f"{name}.{key}" for key in keys if before.get(key) != after.get(key)]
        elif before != after:
            changed.append(name)
    return changed


def _parts(value: Any) -> Any:
    """A section as a mapping."""
    if is_word(value):
        return {name: getattr(value, name) for name in field_names(value)}
    return value


def _waits(key: str, old: Settings, new: Settings) -> bool:
    """Whether a change counts only after a restart: what the gateway, its port or an account's connection
    was made from."""
    if key in _AT_START or key.startswith(_AT_START_WHOLE):
        return True
    section, _, name = key.partition(".")
    if section != "platforms":
        return False
    before, after = (settings.platforms.get(name, PlatformSettings()) for settings in (old, new))
    return any(getattr(before, part) != getattr(after, part) for part in ("enabled", "secrets", "extra"))
