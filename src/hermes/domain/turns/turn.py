"""Turns and the questions they wait for."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.message import Attachment
from hermes.domain.ids import AgentId, CallId, QuestionId, SessionId, TurnId
from hermes.domain.models.call_options import CallOptions
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import QuestionKind, Verdict

CLIENT_GONE = "client gone"
"""Why a turn is stopped whose client no longer waits for it; nobody is told."""
WITHDRAWN = "its message was deleted"
REFUSED = "a hook did not allow it"
DROPPED = "dropped before it began"
UNHEARD = (WITHDRAWN, REFUSED, DROPPED)
"""Why a turn is stopped that had not begun: what was said in it is not written down, and nobody hears it."""


CRASHES_BESIDE = 2
"""After so many deaths of the process beside other turns, a turn is tried alone."""
CRASHES_ALONE = 3
"""After so many deaths of the process with no other turn to blame, a turn is given up."""


class TurnState(StrEnum):
    """accepted → running ⇄ waiting → done · failed · stopped"""

    ACCEPTED = "accepted"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def open(self) -> bool:
        return self in (TurnState.ACCEPTED, TurnState.RUNNING, TurnState.WAITING)


class Cause(StrEnum):
    MESSAGE = "message"
    COMMAND = "command"
    JOB = "job"
    WEBHOOK = "webhook"
    ANSWER = "answer"
    CHILD = "child"
    HANDOFF = "handoff"
    POST = "post"
    FLUSH = "flush"


class BusyMode(StrEnum):
    """What a plain message does while its session is busy."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"
    STEER = "steer"


class TurnAction(StrEnum):
    """What the actor does with a turn's words: say them, change the transcript first, pass them on as the
    answer without the agent, write down that the agent said them from elsewhere, run a command as the agent
    would, without the model, begin a new session, restore files from a checkpoint, compress the conversation,
    take back what that did, or add what was prepared for it in the background."""

    SAY = "say"
    RELAY = "relay"
    MIRROR = "mirror"
    UNDO = "undo"
    ROLLBACK = "rollback"
    RETRY = "retry"
    RUN = "run"
    NEW = "new"
    COMPRESS = "compress"
    RESTORE = "restore"
    SUMMARISE = "summarise"

    @property
    def calls_model(self) -> bool:
        return self in (TurnAction.SAY, TurnAction.RETRY)


class Speaker(StrEnum):
    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SYSTEM = "system"


class EarlierMessage(Struct, frozen=True, kw_only=True):
    """A message that a client says came before. The model is told of it; the transcript is not."""

    by: Speaker
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: CallId | None = None
    attachments: tuple[Attachment, ...] = ()


class ClientTool(Struct, frozen=True, kw_only=True):
    """A function of the client's own; `parameters` is its JSON schema, as text. A call of it is asked of the
    client, whose result answers."""

    name: str
    description: str = ""
    parameters: str = "{}"
    strict: bool = False


class ParentCall(Struct, frozen=True, kw_only=True):
    """The call that a child's turn answers, and whose it is. `place` is the child's among those of the call
    (“2/3”, empty if it is alone), `depth` how many turns are above it, `above` whose those above this call
    are, the topmost first."""

    agent: AgentId
    turn: TurnId
    call: CallId | None
    place: str = ""
    depth: int = 1
    above: tuple[AgentId, ...] = ()

    @property
    def agents(self) -> tuple[AgentId, ...]:
        """Those whose limits hold for the child, the topmost first."""
        return (*self.above, self.agent)


class Guidance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client brings along for one turn and the transcript never sees: words for the model beside the
    system prompt, messages from before, functions of its own, and which model it wants.

    `toolsets` are the only ones of the agent that the turn may use (none named: all), `withheld` those it may
    not. `unattended` says that nobody can be asked, and what is done instead: `deny` or `approve`. `backend`
    is where its commands run, if its source does not say so. `origin` is whoever had a job made, or caused
    what woke a session: tools and commands are limited like theirs. `outside` says that who gave the task
    had read words from outside. `steps` is how many replies with tools it may take, 0: as many as any, and
    `effort` how hard the model is to think. `parent` is what a child's turn was begun by."""

    instructions: str = ""
    history: tuple[EarlierMessage, ...] = ()
    tools: tuple[ClientTool, ...] = ()
    model: str = ""
    toolsets: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    unattended: str = ""
    backend: str = ""
    origin: Source | None = None
    outside: bool = False
    steps: int = 0
    effort: str = ""
    parent: ParentCall | None = None

    @property
    def bounds(self) -> Guidance:
        """What of it also holds for the turns that follow from this one."""
        return Guidance(
            toolsets=self.toolsets,
            withheld=self.withheld,
            unattended=self.unattended,
            backend=self.backend,
            origin=self.origin,
            outside=self.outside,
        )


NO_GUIDANCE = Guidance()


class TurnInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came in, kept until the turn takes it into the transcript. With `confirm` the person is asked
    before anything happens. In one that is `expanded`, what references in the text stand for is part of the
    context; in one that is `recalled`, so is what a memory provider knew. `options` are those of the client's
    latest request to this turn, and `heard` is the digest of its messages, once a request has continued the
    turn."""

    text: str = ""
    author: str | None = None
    attachments: tuple[Attachment, ...] = ()
    group: str | None = None
    cut: bool = False
    context: str = ""
    action: TurnAction = TurnAction.SAY
    count: int = 1
    guidance: Guidance = NO_GUIDANCE
    command: str = ""
    confirm: bool = False
    notes: tuple[int, ...] = ()
    options: CallOptions | None = None
    heard: str = ""
    expanded: bool = False
    recalled: bool = False


class ReplyPlace(Struct, frozen=True, kw_only=True):
    """Where the answer goes: a chat, and the message in it that is answered."""

    to: Address
    ref: str | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """One piece of work of a session, from the words that caused it to their answer.

    `attempt` rises with each start and fences every later write; `progress` counts the records since
    then. `crashes` counts deaths of the process that found it running without any: at most two beside other
    such turns, then those it met alone; a record ends the count. `ephemeral` turns live only as long as their
    client: they are settled, not resumed, after a crash."""

    id: TurnId
    session: SessionId
    agent: AgentId
    cause: Cause
    input: TurnInput
    created_at: datetime
    state: TurnState = TurnState.ACCEPTED
    source: Source | None = None
    reply: ReplyPlace | None = None
    busy: BusyMode = BusyMode.QUEUE
    attempt: int = 0
    progress: int = 0
    crashes: int = 0
    ready_at: datetime | None = None
    stop: str | None = None
    absorbed_by: TurnId | None = None
    ephemeral: bool = False

    @property
    def suspect(self) -> bool:
        """Whether it must be tried alone: deaths of the process follow it."""
        return self.crashes >= CRASHES_BESIDE and not self.poison

    @property
    def poison(self) -> bool:
        return self.crashes >= CRASHES_BESIDE + CRASHES_ALONE


class Question(Struct, frozen=True, kw_only=True):
    """Something a turn waits for. The first valid answer wins; nobody listed means nobody may answer."""

    id: QuestionId
    turn: TurnId
    session: SessionId
    kind: QuestionKind
    text: str
    options: tuple[str, ...] = ()
    call: CallId | None = None
    digest: str = ""
    may_answer: tuple[str, ...] = ()
    expires_at: datetime | None = None
    relays: QuestionId | None = None
    verdict: Verdict | None = None
    answer: str = ""
    answered_by: str | None = None

    @property
    def open(self) -> bool:
        return self.verdict is None


class Answer(Struct, frozen=True, kw_only=True):
    """A try at closing a question."""

    question: QuestionId
    verdict: Verdict
    text: str = ""
    by: str | None = None


class AnswerResult(Struct, frozen=True, kw_only=True):
    """What came of an answer: whether it closed the question, and a sentence for who gave it."""

    closed: bool
    text: str
    session: SessionId | None = None


class Request(Struct, frozen=True, kw_only=True):
    """What a client asked for by name, so that it can ask again or come back to it: the turn that answers.

    `owner` is who asked (an API key, a webhook route). `key` makes a repeat harmless: the same key from the
    same owner is the same request, and `fingerprint` tells whether it really asks the same. `conversation`
    names a chain of requests; `facts` are the door's own, as JSON."""

    id: str
    owner: str
    turn: TurnId
    session: SessionId
    created_at: datetime
    key: str | None = None
    fingerprint: str = ""
    conversation: str | None = None
    facts: str = "{}"
    agent: AgentId | None = None
    """Whose turn it is; the store fills it in."""
