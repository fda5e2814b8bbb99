"""Which backend the commands of an agent run in: by who commands, the route of the turn, the settings and the
folder of the session."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
from collections.abc import (
    AsyncIterator,
    Collection,
    Iterator,
)
from functools import partial
from pathlib import Path

from hermes.app.agents.backends import BackendOrder, GatewayBackends, HeldBackend
from hermes.app.agents.ladder import (
    BoundaryChoice,
    Commander,
    choose,
    leaves_open,
)
from hermes.app.homes import MEDIA, SANDBOXES, WORKSPACE, WORKSPACES
from hermes.control.people.routing import job_source
from hermes.control.people.standing import may_task
from hermes.domain.chats.address import CHAT_KINDS, Source, SourceKind
from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import UserError
from hermes.domain.ports.agent import Agent, Run
from hermes.domain.ports.world import (
    Backend,
    Files,
    ProcessView,
    World,
)
from hermes.domain.settings.settings import AUTO, ApprovalSettings, Profile, Settings
from hermes.domain.text import one_line
from hermes.domain.turns.event import AgentEvent, Failed, Notice
from hermes.domain.turns.session import RUN_SESSIONS, owner_of
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace
from hermes.execution.backend_life import KeptBackend
from hermes.execution.routed_backend import RoutedBackend
from hermes.execution.sandboxes.probe import SandboxProbe

log = logging.getLogger("hermes.backend")
_INCOMING = "incoming"
_PIECE = 1 << 20
_LED_AWAY = (
    "The folder of this session, {folder}, is or lies behind a link now, so this works in the agent's own"
    " folder. Put the folder back, or begin a new session where it is."
)
_NOT_FOR_THEM = (
    "The agent {agent} has conversations of its own and takes tasks for the owner and admins alone. "
    "With agents.{agent}.mode: subagent it works for everybody."
)
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_JOB_RUN = re.compile(rf"{RUN_SESSIONS}(?P<job>[0-9a-f]{{12}})_")


class AgentBackends:
    """Those of one agent. Who commands, the route of the turn and the settings say which one its commands run
    in; the session, the folder in which they start, else it is the agent's own."""

    def __init__(self, profile: Profile, workspace: Path, gateway: GatewayBackends) -> None:
        self._profile = profile
        self._workspace = workspace
        self._gateway = gateway
        self.backend = RoutedBackend(self._of_session, self._all)
        for name in self._declared():
            choice = choose(Commander(named=name), profile.settings, ())
            order = self._order(name, workspace, choice, self._settings())
            gateway.name_own(order)
            if not gateway.has(order):
                gateway.make(order)

    def _settings(self) -> Settings:
        """Those of now, as they count for the agent."""
        return self._gateway.settings().of(self._profile.agent)

    def _settings_for(self, turn: Turn) -> Settings:
        """A task of others is no way around where the commands of the topmost run, nor around what any of
        them denies or asks for."""
        own, parent = self._settings(), turn.input.guidance.parent
        if parent is None:
            return own
        above = [self._gateway.settings().of(agent) for agent in parent.agents]
        deny, ask = (
            tuple(dict.fromkeys(line for each in (own, *above) for line in getattr(each.approvals, name)))
            for name in ("deny", "ask")
        )
        approvals = replace(own.approvals, deny=deny, ask=ask)
        return replace(own, terminal=above[0].terminal, approvals=approvals)

    def of(self, turn: Turn, folder: str | None = None) -> Backend:
        return self._alone(Commander.of(turn), turn.session, folder, self._settings_for(turn))

    def of_source(self, source: Source | None, folder: str | None = None, session: str = "") -> Backend:
        """That of what comes from there; of the agent itself, if it comes from nowhere."""
        return self._alone(Commander(source=source), session, folder)

    def of_server(self, named: str) -> Backend:
        """That of a program which the settings name: the agent's own, or the one that is named with it."""
        return self._alone(Commander(named=named), "")

    def of_job(self, maker: Source | None, session: str = "") -> Backend:
        """That of a job which somebody made, in the session of one of its runs."""
        run = _JOB_RUN.match(session)
        source = None if run is None else job_source(run["job"])
        return self._alone(Commander(source=source, maker=maker, alone=True), session)

    def trusts(self, maker: Source | None) -> bool:
        """Whether a job is the owner's or an admin's, who may name folders of this machine."""
        return Commander(maker=maker).is_trusted(self._settings())

    def takes(self, turn: Turn) -> bool:
        """Whether the agent may do what another one gave it, for whoever that one works for."""
        parent, agent, who = turn.input.guidance.parent, self._profile.agent, Commander.of(turn)
        if parent is None or parent.agent == agent:
            return True
        return may_task(who.source if who.maker is None else who.maker, agent, self._settings())

    async def place(
        self, source: Source | None, folder: str | None = None, session: str = ""
    ) -> World | None:
        """None while it is looked for what works here: nobody waits for that before a command does."""
        open_yet = leaves_open(Commander(source=source), self._settings())
        if open_yet and self._gateway.probes.results is None:
            return None
        return await self.of_source(source, folder, session).place()

    def project_files(self, source: Source | None, folder: str | None, session: str) -> Files | None:
        """The files among which a project may tell how to work in it; none for strangers: their folder is
        their own. A job has some only in a folder of its own, for anybody may have had it made."""
        if source is not None and source.kind is SourceKind.JOB and folder is None:
            return None
        trusted = Commander(source=source).is_trusted(self._settings())
        return self.of_source(source, folder, session).files if trusted else None

    def _has_session_folders(self, settings: Settings) -> bool:
        hosted = settings.agents.get(self._profile.agent)
        return hosted is not None and hosted.session_workspaces

    def _all(self) -> list[KeptBackend]:
        return self._gateway.of_agent(self._profile.agent, self._profile.home)

    def _alone(
        self, who: Commander, session: str, folder: str | None = None, settings: Settings | None = None
    ) -> Backend:
        hold = partial(self._hold, who, session, folder, settings or self._settings())

        async def choose(_: str) -> KeptBackend:
            return (await hold()).kept

        return RoutedBackend(choose, self._all)

    @contextlib.contextmanager
    def bind(self, turn: Turn, folder: str | None = None) -> Iterator[None]:
        """What the session does meanwhile is done in one backend, whatever the settings become."""
        bound, key = self._gateway.bound, (self._profile.agent, turn.session)
        settings = self._settings_for(turn)
        get = bound[key] = partial(self._hold, Commander.of(turn), turn.session, folder, settings)
        try:
            yield
        finally:
            if bound.get(key) is get:  # a run that was left behind may end during the next one
                del bound[key]

    async def processes(self, session: str) -> list[ProcessView]:
        """What runs in the background for a session, in any of them."""
        views = [await kept.ask(lambda backend: backend.processes.list(session)) for kept in self._all()]
        return [view for listed in views for view in listed]

    async def asks_all(self, session: str) -> bool:
        """Whether a person is asked before each command of the session."""
        get = self._gateway.bound.get((self._profile.agent, session))
        return get is not None and (await get()).choice.ask_all

    async def approvals(self, session: str) -> ApprovalSettings:
        """What counts for the session's commands, with what whoever gave its task denies."""
        get = self._gateway.bound.get((self._profile.agent, session))
        return self._settings().approvals if get is None else (await get()).approvals

    def _declared(self) -> Collection[str]:
        settings, agent = self._profile.settings, self._profile.agent  # they may not count yet
        routed = (route.backend for route in settings.routes if route.agent == agent and route.backend)
        names = (name.strip().lower() for name in (settings.terminal.backend, *routed))
        return [name for name in dict.fromkeys(names) if name != AUTO]

    async def _of_session(self, session: str) -> KeptBackend:
        get = self._gateway.bound.get((self._profile.agent, session))
        if get is not None:
            return (await get()).kept
        if session:  # what its turn left running must not slip out of the sandbox that it was in
            raise UserError(f"No turn runs in the session {session}, so nothing can be done there now.")
        return (await self._hold(Commander(), "", None, self._settings())).kept

    async def _hold(
        self, who: Commander, session: str, folder: str | None, settings: Settings
    ) -> HeldBackend:
        """The backend that who commands gets, once it is sure that it holds what it must."""
        choice = choose(who, settings, await self._probes(who, settings))
        choice.check()
        workspace = self._workspace
        if choice.apart:
            workspace = self._profile.home / SANDBOXES / choice.backend / _task(who, session) / WORKSPACE
        elif folder is not None and not await asyncio.to_thread(is_led_away, folder):
            workspace = Path(folder)
        elif session and self._has_session_folders(settings):
            workspace = self._profile.home / WORKSPACES / _task(who, session)
        order = self._order(choice.backend, workspace, choice, settings)
        if workspace == self._workspace:
            self._gateway.name_own(order)
        kept = await self._gateway.get(order)
        choice.check(await kept.place())
        return HeldBackend(kept=kept, choice=choice, approvals=settings.approvals)

    async def _probes(self, who: Commander, settings: Settings) -> Collection[SandboxProbe]:
        """What works here, where it matters: nobody waits for it in vain."""
        probes = await self._gateway.probes.get() if leaves_open(who, settings) else ()
        return [probe for probe in probes if self._gateway.offers(probe.name)]

    def _order(self, name: str, workspace: Path, choice: BoundaryChoice, settings: Settings) -> BackendOrder:
        both = (self._profile.settings, self._settings())
        names = ((route, route.backend.strip().lower()) for each in both for route in each.routes)
        return BackendOrder(
            name=name,
            profile=self._profile,
            workspace=workspace,
            network=choice.network,
            route=next((route for route, named in names if named == name), None),
            own_folder=choice.apart or workspace.parent == self._profile.home / WORKSPACES,
            passthrough=settings.terminal.env_passthrough,
        )

    async def bring(self, turn: Turn, item: MediaItem, path: str, folder: str | None = None) -> str:
        """Where the turn's commands find a file that came with a message and is kept at a path of ours: there
        if they see it, else a copy."""
        backend = self.of(turn, folder)
        world = await backend.place()
        if world.host_files:
            return path
        copy = f"{incoming_folder(world, self._profile)}/{os.path.basename(path)}"
        there = await backend.files.stat("", copy)
        if there is None or there.size != item.size:
            await backend.files.write("", copy, _pieces(path))
        return copy


def incoming_folder(world: World, profile: Profile) -> str:
    """Where files that came with messages are in a world."""
    return str(profile.home / MEDIA) if world.host_files else f"{world.workspace.rstrip('/')}/{_INCOMING}"


def _task(who: Commander, session: str) -> str:
    """The name of a stranger's folder: one for each session, and for all runs of a job. The ids of an API
    client's sessions are its own words, and may be those of another key before, so the key counts too."""
    source = who.source
    kind = SourceKind.PRIVATE if source is None else source.kind
    run = _JOB_RUN.match(session) if kind is SourceKind.JOB else None
    if run is not None:
        return f"job-{run['job']}"
    if source is not None and kind not in CHAT_KINDS:
        name = "\0".join((kind.value, owner_of(source) or "", session))
    elif _TASK.fullmatch(session):
        return f"session-{session}"
    else:
        name = session
    return f"{kind.value}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


async def _pieces(path: str) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(open, path, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


class BoundAgent:
    """An agent whose commands run where the route of the turn and the folder of the session say."""

    def __init__(self, agent: Agent, backends: AgentBackends) -> None:
        self._agent = agent
        self._backends = backends

    async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        if not self._backends.takes(run.turn):
            yield (Failed(reason=_NOT_FOR_THEM.format(agent=run.turn.agent)),)
            return
        folder = run.session.workspace
        if folder is not None and await asyncio.to_thread(is_led_away, folder):
            log.warning("backend.folder_moved session=%s folder=%s", run.session.id, folder)
            yield Notice(text=_LED_AWAY.format(folder=one_line(folder, 200)))
        with self._backends.bind(run.turn, folder):
            async for event in self._agent.run(run):
                yield event


def is_led_away(folder: str) -> bool:
    """Whether a link stands now where a session's folder was, or above it. The real path was stored, so what
    is there now was never meant, and rules for paths would be judged by a name that is not where things
    happen."""
    return os.path.realpath(folder) != folder
