"""The gateway's side of a conversation at a terminal.

A new conversation begins with its first words, so that looking in leaves nothing behind. Several terminals
may talk with one gateway; each is in a session of its own, which works in the folder of the terminal that
began it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from hashlib import sha256

from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.sessions.callers import Caller, unfinished_sessions
from hermes.control.sessions.repeats import NewRequest, id_for
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn.questions import settled_of
from hermes.domain.chats.address import REMOTE, Address, Source, SourceKind
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import UserError
from hermes.domain.ids import EVERY_AGENT, MAIN_AGENT, AgentId, QuestionId, SessionId, TurnId
from hermes.domain.knowledge.skill import pick_skill
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import NAME_RULE, is_name
from hermes.domain.text import one_line
from hermes.domain.tools.toolsets import MCP
from hermes.domain.turns.event import FeedItem, ModelSaid, UserSaid, Verdict
from hermes.domain.turns.session import Session, SessionFilter, owner_of
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import Answer, AnswerResult, Guidance, Turn, TurnInput
from hermes.domain.word import replace
from hermes.entry.terminal.door import (
    LOCAL,
    PLATFORM,
    ChatMenu,
    ChatOption,
    Exchange,
    ResumedSession,
    SessionChoice,
    TerminalState,
    UnfinishedSession,
)

_PREFIX = "said_"
_UNSEEN = "unseen"
"""The chain of requests whose turns no terminal has watched to the end; each folder has one."""
_UNSEEN_KEPT = timedelta(days=1)
_LOOKED_BACK = 200
_EXCHANGES = 2
_PICKED = 200
"""Sessions that one may pick from."""


def local_caller(agent: AgentId = MAIN_AGENT, folder: str | None = None) -> Caller:
    """The person at this machine's terminal, in a folder."""
    if folder is not None and not folder.startswith("/"):
        raise UserError(f"“{one_line(folder, 80)}” is no absolute path of a folder.")
    address = Address(platform=PLATFORM, chat=LOCAL)
    source = Source(address=address, kind=SourceKind.PRIVATE, user=LOCAL, folder=folder)
    return Caller(agent=agent, source=source)


def terminal_caller(terminal: TerminalState, *, remote: bool = False) -> Caller:
    """The person at a terminal; one that is `remote` has no folder here."""
    caller = local_caller(terminal.agent or MAIN_AGENT, None if remote else terminal.folder)
    tag = terminal.tag
    if tag is not None and not is_name(tag):
        raise UserError(f"“{one_line(tag, 60)}” is no tag of a session.", hint=f"Use {NAME_RULE}.")
    source = replace(
        caller.source, ignore_rules=terminal.ignore_rules, checkpoints=terminal.checkpoints, tag=tag
    )
    if remote:
        source = replace(source, address=Address(platform=PLATFORM, chat=REMOTE))
    return replace(caller, source=source)


async def find_session_to_resume(gateway: Gateway, caller: Caller, wish: SessionChoice) -> ResumedSession:
    """Find what somebody wants to go on with. What another terminal is just watching is left to it."""
    wanted = wish.named
    caller = await _addressed(gateway, caller, wish)
    agent = caller.agent
    await _check_toolsets(gateway, agent, wish.terminal.toolsets)
    await _check_skills(gateway, agent, wish.terminal.skills)
    if wanted is None and wish.latest:
        wanted = await gateway.read(agent, lambda tx: tx.bindings.get(caller.key))
        if wanted is None:
            raise UserError("There is no conversation to continue yet.", hint="Start one with: hermes")
    joined, elsewhere = await _missed(gateway, caller) if wanted is None and wish.attach else ([], ())
    if joined:
        wanted = joined[0].session
    commands = tuple(slash.name for slash in await gateway.commands(caller))
    runtime = await gateway.agents.get(agent)
    fresh = ResumedSession(
        agent=agent,
        model=runtime.model,
        commands=commands,
        elsewhere=elsewhere,
        has=_equipment(runtime, caller.source),
    )
    if wanted is None:
        return fresh
    session = await gateway.enter(caller, wanted, wish.terminal.model)
    turns = await gateway.read(agent, lambda tx: tx.turns.open_of(session.id))
    # What has ended since it was found is shown all the same.
    turns = [*(turn for turn in joined if turn.id not in {one.id for one in turns}), *turns]
    settled = await gateway.read(agent, lambda tx: settled_of(tx, turns))
    shown = {turn.absorbed_by or turn.id for turn in turns}
    recent = await gateway.read(agent, lambda tx: last_exchanges(tx, session.id, shown))
    return replace(fresh, session=session, recent=recent, turns=tuple(turns), settled=settled)


def _equipment(runtime: Runtime, source: Source) -> tuple[tuple[str, str], ...]:
    """What the agent has for them, each with how many there are, and what of it cannot be used."""
    tools = [tool.toolset for tool in runtime.toolbox.usable_for(source).values()]
    skills = () if runtime.skills is None else runtime.skills.all()
    groups = {
        "Tools": [toolset for toolset in tools if not toolset.startswith(MCP)],
        "MCP": [toolset.removeprefix(MCP) for toolset in tools if toolset.startswith(MCP)],
        "Skills": [skill.category or "others" for skill in skills],
    }
    shown = [(name, f"{len(each)}: {', '.join(sorted({*each}))}") for name, each in groups.items() if each]
    broken = ", ".join(sorted(name.removeprefix(MCP) for name in runtime.toolbox.problems))
    return (*shown, *([("Broken", broken)] if broken else []))


async def _addressed(gateway: Gateway, caller: Caller, wish: SessionChoice) -> Caller:
    """With the agent that they mean: the one they name, the one whose session they name, or the one that
    routes and the default give them."""
    agent, wanted = wish.terminal.agent, (wish.named or "").strip()
    if agent is None and wanted:
        found = await gateway.read(EVERY_AGENT, lambda tx: tx.sessions.find(wanted))
        agent = found[0].agent if len(found) == 1 and gateway.hosts(found[0].agent) else None
    if agent is None:
        agent = await gateway.route(caller.source)
    gateway.check_speaks(agent)
    return replace(caller, agent=agent)


async def _missed(gateway: Gateway, caller: Caller) -> tuple[list[Turn], tuple[UnfinishedSession, ...]]:
    """What is unfinished in a session of this folder, else the last thing that was finished there while
    nobody watched; and which other sessions are unfinished. Nobody is taken into another folder unasked:
    what they say next would be done there."""
    place, folder = str(caller.source.address), caller.source.folder
    since = gateway.actors.core.clock.now() - _UNSEEN_KEPT
    unfinished = await gateway.read(caller.agent, lambda tx: unfinished_sessions(tx, caller))
    joined: list[Turn] = []
    elsewhere: list[UnfinishedSession] = []
    for session, turns in unfinished:
        if any(gateway.feeds.is_watched(turn.id) for turn in turns):
            continue
        if not joined and session.place == place and session.workspace == folder:
            joined = turns
        else:
            text = one_line(turns[-1].input.text or session.title or session.id, 70)
            elsewhere.append(UnfinishedSession(session=session.id, text=text, folder=session.workspace))
    if not joined:
        joined = await gateway.read(caller.agent, lambda tx: _unseen_turn(tx, place, folder, since))
    return [turn for turn in joined if not gateway.feeds.is_watched(turn.id)], tuple(elsewhere)


def _unseen_turn(tx: Tx, place: str, folder: str | None, since: datetime) -> list[Turn]:
    request = tx.requests.latest(place, _unseen_in(folder))
    turn = None if request is None or request.created_at < since else tx.turns.get(request.turn)
    return [] if turn is None or turn.state.open or tx.sessions.get(turn.session) is None else [turn]


def _unseen_in(folder: str | None) -> str:
    return f"{_UNSEEN} {folder or ''}"


async def note_seen(gateway: Gateway, agent: AgentId, turn: TurnId) -> None:
    """A terminal has watched a turn to its end, so nobody will ask for it again."""
    with contextlib.suppress(UserError):  # an agent may have been removed meanwhile
        await gateway.write(agent, lambda tx: tx.requests.remove(id_for(_PREFIX, turn)))


async def chat_menu(gateway: Gateway, caller: Caller, named: SessionId | None) -> ChatMenu:
    """What somebody may choose from in a session, or in one that has not begun."""
    agent, directory = caller.agent, gateway.info().directory
    commands = await gateway.commands(caller)
    skills = (await gateway.agents.get(agent)).skills
    here, sessions = await gateway.read(agent, lambda tx: _sessions_of(tx, caller, named))
    model = None if here is None else here.model
    option = None if directory is None else directory.describe(agent, model or "")
    return ChatMenu(
        commands=tuple(ChatOption(name=each.name, about=each.summary, usage=each.usage) for each in commands),
        models=() if directory is None else tuple(directory.names(agent)),
        skills=tuple(
            ChatOption(name=each.name, about=one_line(each.description, 80))
            for each in (() if skills is None else skills.all())
        ),
        sessions=sessions,
        model="" if option is None else option.name,
        window=0 if option is None else option.facts.window or 0,
        agent=agent,
        yolo=here is not None and here.yolo,
    )


def _sessions_of(
    tx: Tx, caller: Caller, named: SessionId | None
) -> tuple[Session | None, tuple[ChatOption, ...]]:
    owner = owner_of(caller.source)
    entries = []
    for session in tx.sessions.find(
        "", _PICKED, SessionFilter(children=False, batched=False, archived=False)
    ):
        if session.owner == owner and session.id != named:
            first = tx.journal.read(session.id, most=1)
            said = [entry.record.text for entry in first if isinstance(entry.record, UserSaid)]
            at = session.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
            words = session.title or one_line(said[0] if said else "", 60)
            entries.append(ChatOption(name=session.id, about=words, usage=at))
    return None if named is None else tx.sessions.get(named), tuple(entries)


async def look_back(gateway: Gateway, session: SessionId) -> ResumedSession:
    """A session as somebody finds it who has just come into it."""

    def read(tx: Tx) -> ResumedSession:
        turns = tx.turns.open_of(session)
        return ResumedSession(
            session=tx.sessions.get(session),
            recent=last_exchanges(tx, session, {turn.id for turn in turns}),
            turns=tuple(turns),
            settled=settled_of(tx, turns),
        )

    return await gateway.read(EVERY_AGENT, read)


def last_exchanges(tx: Tx, session: SessionId, without: set[TurnId]) -> tuple[Exchange, ...]:
    """The last things that were said in a session and answered, but those of some turns."""
    exchanges: list[Exchange] = []
    for entry in visible(tx.journal.read(session, most=_LOOKED_BACK, newest=True)):
        record = entry.record
        if entry.turn in without:
            continue
        if isinstance(record, UserSaid) and record.text:
            exchanges.append(Exchange(question=record.text))
        elif isinstance(record, ModelSaid) and record.text and not record.calls and exchanges:
            exchanges[-1] = replace(exchanges[-1], answer=record.text)
    return tuple(exchanges[-_EXCHANGES:])


async def _check_toolsets(gateway: Gateway, agent: AgentId, wanted: tuple[str, ...]) -> None:
    """What is asked for and not there is refused, never left out."""
    if wanted:
        (await gateway.agents.get(agent)).toolbox.check_names(wanted)


async def _check_skills(gateway: Gateway, agent: AgentId, wanted: tuple[str, ...]) -> None:
    skills = (await gateway.agents.get(agent)).skills if wanted else None
    for name in wanted:
        pick_skill(name, () if skills is None else skills.all())


class ServedDoor:
    """A conversation of a terminal that is in this state. Without a session, the next words begin one."""

    def __init__(self, gateway: Gateway, caller: Caller, terminal: TerminalState | None = None) -> None:
        self._gateway = gateway
        self._caller = caller
        self._terminal = terminal or TerminalState()

    async def say(self, text: str, key: str, images: tuple[Attachment, ...] = ()) -> Turn:
        caller, terminal = self._caller, self._terminal
        model = terminal.model if terminal.session is None else None
        folder = await self._folder()
        limits = Guidance(toolsets=terminal.toolsets, steps=terminal.steps)
        words = Submission(
            agent=caller.agent,
            source=caller.source,
            input=TurnInput(text=text, attachments=images, context=await self._skills(), guidance=limits),
            place=SessionTarget(session=terminal.session, bind=True, model=model),
            busy=None,
            request=NewRequest(
                prefix=_PREFIX,
                owner=str(caller.source.address),
                key=key,
                conversation=_unseen_in(folder),
                fingerprint=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            ),
        )
        turn = await self._gateway.submit(words)
        self._be_in(turn.session)
        return turn

    def watch(self, turn: TurnId, after: int) -> AsyncIterator[FeedItem]:
        return self._gateway.watch(self._caller.agent, turn, after)

    async def answer(self, question: QuestionId, verdict: Verdict, text: str) -> AnswerResult:
        given = Answer(question=question, verdict=verdict, text=text, by=self._caller.source.person)
        return await self._gateway.answer(self._caller.agent, given)

    async def stop(self, turn: TurnId) -> bool:
        return await self._gateway.stop_turn(self._caller.agent, turn, "interrupted")

    async def command(self, text: str, key: str = "") -> CallerReply:
        if self._terminal.session is None:
            self._be_in((await self._gateway.enter(self._caller, None, self._terminal.model)).id)
        caller = replace(self._caller, session=self._terminal.session)
        replied = await self._gateway.command(caller, text, key)
        if replied.agent is not None:
            self._gateway.check_speaks(replied.agent)
        self._be_in(replied.session)
        return replied

    async def _skills(self) -> str:
        """What the skills say that a session was begun with, before its first words."""
        named, wanted, agent = self._terminal.session, self._terminal.skills, self._caller.agent
        skills = (await self._gateway.agents.get(agent)).skills if wanted else None
        if skills is None:
            return ""
        if named is not None and await self._gateway.read(
            agent, lambda tx: bool(tx.journal.read(named, most=1))
        ):
            return ""
        return await skills.load(wanted, self._caller.source, named or "")

    async def _folder(self) -> str | None:
        """Where the session works that the next words are for."""
        named = self._terminal.session
        if named is None:
            return self._caller.source.folder
        session = await self._gateway.read(self._caller.agent, lambda tx: tx.sessions.get(named))
        return None if session is None else session.workspace

    def _be_in(self, session: SessionId) -> None:
        self._terminal = replace(self._terminal, session=session)
