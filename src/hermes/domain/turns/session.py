"""Sessions: the identity that owns a transcript, and the one function that names it."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import unquote

from msgspec import Struct

from hermes.domain.chats.address import LOCAL_DOOR, Source, SourceKind, read_platform, spell, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId, new_session_id, new_turn_id
from hermes.domain.models.manner import Manner
from hermes.domain.turns.turn import BusyMode, Cause, ReplyPlace, Turn, TurnInput
from hermes.domain.word import replace

SHARED_KINDS = (SourceKind.GROUP, SourceKind.CHANNEL, SourceKind.THREAD)
_IMPORTED_KINDS = {"dm": SourceKind.PRIVATE, "forum": SourceKind.THREAD}


class SessionKey(Struct, frozen=True, kw_only=True):
    """What a conversation is found by. The identity is the tuple; the string is for people."""

    agent: AgentId
    platform: str
    account: str
    kind: SourceKind
    chat: str
    thread: str | None = None
    user: str | None = None

    @property
    def shared(self) -> bool:
        """Whether several people speak under it."""
        return self.kind in SHARED_KINDS and self.user is None

    def __str__(self) -> str:
        parts = ["agent", spell(self.agent), spell_platform(self.platform, self.account), self.kind.value]
        parts.append(spell(self.chat))
        parts.extend(spell(part) for part in (self.thread, self.user) if part is not None)
        return ":".join(parts)

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        parts = text.split(":")
        if not (5 <= len(parts) <= 7 and parts[0] == "agent" and all(parts)):
            raise UserError(
                f"“{text}” is not a session key.",
                hint="Write agent:<agent>:<platform>:<kind>:<chat>[:<thread>][:<user>].",
            )
        platform, account = read_platform(parts[2])
        kind = _IMPORTED_KINDS.get(parts[3]) or _kind(parts[3], text)
        chat, *rest = (unquote(part) for part in parts[4:])
        thread: str | None = None
        user: str | None = None
        if len(rest) == 2:
            thread, user = rest
        elif rest and kind is SourceKind.GROUP:
            user = rest[0]
        elif rest:
            thread = rest[0]
        return cls(
            agent=AgentId(unquote(parts[1])),
            platform=platform,
            account=account,
            kind=kind,
            chat=chat,
            thread=thread,
            user=user,
        )


def _kind(word: str, text: str) -> SourceKind:
    try:
        return SourceKind(word)
    except ValueError:
        known = ", ".join(kind.value for kind in SourceKind)
        raise UserError(f"“{word}” in “{text}” is not a kind of chat.", hint=f"Known: {known}.") from None


class Isolation(Struct, frozen=True, kw_only=True):
    """Whether members of a shared place have sessions of their own."""

    groups_per_user: bool = True
    threads_per_user: bool = False


DEFAULT_ISOLATION = Isolation()


def session_key(source: Source, agent: AgentId, isolation: Isolation = DEFAULT_ISOLATION) -> SessionKey:
    """The one place where a source becomes a key."""
    address = source.address
    user: str | None = None
    if source.kind is SourceKind.GROUP and isolation.groups_per_user:
        user = source.person
    elif source.kind is SourceKind.THREAD and isolation.threads_per_user:
        user = source.person
    return SessionKey(
        agent=agent,
        platform=address.platform,
        account=address.account,
        kind=source.kind,
        chat=address.chat or source.person or "",
        thread=address.thread,
        user=user,
    )


class Session(Struct, frozen=True, kw_only=True):
    """The identity that owns a transcript; chats are bound to it by their keys. `owner` is the person it was
    begun by, `place` the chat: who may come back to it is decided by them. One that `expires_at` some time is
    forgotten then, unless somebody comes back to it before. In one with `yolo` nothing is asked first. Its
    commands and files start in `workspace`; None = in the agent's own. One that is `archived` is in no list
    until it is used again. The `tag` says what it was begun for, if somebody said so.

    What stays the same for the model from the first turn on: `system_prompt`, the agent's own words;
    `context_prompt`, those about its folder, its project and its day; `place_prompt`, those about the chat it
    began in; `tool_list`, its tools as they are sent, if they are frozen with it. All but that of the place
    are stored once for all sessions that have the same. `manner` is how it was asked to behave here."""

    id: SessionId
    agent: AgentId
    created_at: datetime
    updated_at: datetime
    owner: str | None = None
    place: str | None = None
    title: str | None = None
    parent: SessionId | None = None
    model: str | None = None
    busy_mode: str | None = None
    system_prompt: str | None = None
    context_prompt: str | None = None
    place_prompt: str | None = None
    tool_list: str | None = None
    manner: Manner | None = None
    ended: str | None = None
    expires_at: datetime | None = None
    yolo: bool = False
    workspace: str | None = None
    archived: bool = False
    tag: str | None = None


class FrozenPrompt(Struct, frozen=True, kw_only=True):
    """What a session keeps for the model from its first turn on, so that the start of every request stays the
    same byte for byte: the agent's own words, those about the folder, the project and the day, and its tools
    as they are sent if they are frozen too. Each is stored once, by its hash, for all sessions."""

    text: str
    context: str | None = None
    tool_list: str | None = None

    def given_to(self, session: Session, place: str = "") -> Session:
        """The session with this prompt, unless it has one; `place` tells of the chat it began in."""
        if session.system_prompt is not None:
            return session
        return replace(
            session,
            system_prompt=self.text,
            context_prompt=self.context,
            tool_list=self.tool_list,
            place_prompt=place or session.place_prompt,
        )


def owner_of(source: Source) -> str | None:
    """A person as sessions remember them: the platform and the stable id."""
    return None if source.person is None else f"{source.address.credential}:{spell(source.person)}"


def speaker_of(turn: Turn) -> Source | None:
    """Who speaks in a turn, so that what they allowed counts in it. Nobody does in one that something woke
    where people share the place: it may have been anybody's doing."""
    source = turn.source
    woken = turn.cause is Cause.CHILD and source is not None and source.kind in SHARED_KINDS
    return None if woken else source


def speaks_for_another(source: Source, other: Source | None) -> bool:
    """Whether words come from somebody else than other words did, in a place that people share. Who has no
    id there is taken for somebody else."""
    if source.kind not in SHARED_KINDS and (other is None or other.kind not in SHARED_KINDS):
        return False
    person = owner_of(source)
    return person is None or other is None or person != owner_of(other)


def begin_session(key: SessionKey, source: Source, now: datetime) -> Session:
    """A new session for a key. In a place that is shared it belongs to the place, else to the person."""
    return Session(
        id=new_session_id(now),
        agent=key.agent,
        created_at=now,
        updated_at=now,
        owner=None if key.shared else owner_of(source),
        place=str(source.address),
        workspace=source.folder,
        tag=source.tag,
    )


BACKGROUND = "bg_"
"""How the ids of sessions begin that work on something beside a chat."""

RUN_SESSIONS = "cron_"
"""How the ids of the sessions of job runs begin."""

BATCHED = "batch_"
"""How the ids of sessions begin that are items of a batch run. Run names have no “_”, so they do not mix."""

BRANCHED = "branched"
"""How a session has ended that goes on in a fork of it."""


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions are meant: those begun through an account (`owner`), on a `platform` or with it as their
    tag, and, unless `children`, only those that stand for themselves. A fork does; what was split off by the
    way does not. Without `batched`, no items of batch runs; with `untitled`, only those without a title that
    stay; with `unused_since`, only those that were last used before, with nothing unfinished; with `under`,
    only those whose ids begin so; with `archived`, only those that are, or are not."""

    owner: str | None = None
    platform: str | None = None
    children: bool = True
    batched: bool = True
    untitled: bool = False
    unused_since: datetime | None = None
    under: str = ""
    archived: bool | None = None


EVERY_SESSION = SessionFilter()


def _is_local(session: Session) -> bool:
    return (session.owner or "").partition(":")[0].partition("@")[0] == LOCAL_DOOR


def heard_by(session: Session, source: Source) -> Session:
    """The session as a view on others: where one of the terminal was handed over to a chat, who speaks there
    sees what they could see before, not what the terminal can."""
    if not _is_local(session) or source.address.platform == LOCAL_DOOR:
        return session
    return replace(session, owner=owner_of(source), place=str(source.address))


class Viewer(Struct, frozen=True, kw_only=True):
    """A turn that looks for what was said before, in its session. It sees what those who speak there may come
    back to; whoever sits at the machine may see everything."""

    session: Session
    turn: TurnId

    @property
    def is_local(self) -> bool:
        return _is_local(self.session)


def make_turn(
    session: Session,
    cause: Cause,
    given: TurnInput,
    now: datetime,
    *,
    source: Source | None = None,
    reply: ReplyPlace | None = None,
    busy: BusyMode = BusyMode.QUEUE,
) -> Turn:
    """A turn of a session that is to be begun."""
    return Turn(
        id=new_turn_id(),
        session=session.id,
        agent=session.agent,
        cause=cause,
        input=given,
        created_at=now,
        source=source,
        reply=reply,
        busy=busy,
    )
