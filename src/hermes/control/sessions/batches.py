"""The items of a batch run. Each is a session of its own, named by the run and the item's number, with one
turn. So the store alone says how far a run is, and an item that was begun is never begun again."""

from __future__ import annotations

from msgspec import Struct

from hermes.control.sessions.repeats import NewRequest
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Attachment
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Failed, Finished, Stopped
from hermes.domain.turns.session import BATCHED, Session, SessionFilter
from hermes.domain.turns.turn import Guidance, TurnInput, TurnState

PLATFORM = "batch"
MOST_ITEMS = 1_000_000
WITHHELD = ("clarify", "cronjob", "memory", "messaging", "send_message")
"""Nobody is there to answer, and items leave nothing behind."""


class BatchItem(Struct, frozen=True, kw_only=True):
    """One prompt, with the only toolsets it may use, the model if it is not the agent's, the folder that its
    commands start in, and a picture, by its content or its address on the web."""

    index: int
    prompt: str
    toolsets: tuple[str, ...] = ()
    model: str = ""
    folder: str | None = None
    image: bytes = b""
    image_url: str = ""


class ItemStanding(Struct, frozen=True, kw_only=True):
    """How far an item is: `turn` is the one to watch while it runs, `reason` why it came to no answer."""

    index: int
    state: TurnState
    turn: TurnId | None = None
    reason: str = ""


def run_prefix(run: str) -> str:
    return f"{BATCHED}{run}_"


def session_of(run: str, index: int) -> SessionId:
    return SessionId(f"{run_prefix(run)}{index:06}")


def submission_of(
    agent: AgentId, run: str, item: BatchItem, attachments: tuple[Attachment, ...] = ()
) -> Submission:
    source = Source(
        address=Address(platform=PLATFORM, chat=run), kind=SourceKind.JOB, chat_name=run, folder=item.folder
    )
    bounds = Guidance(model=item.model, toolsets=item.toolsets, withheld=WITHHELD, unattended="deny")
    return Submission(
        agent=agent,
        source=source,
        input=TurnInput(text=item.prompt, guidance=bounds, attachments=attachments),
        place=SessionTarget(session=session_of(run, item.index), begin=True),
        request=NewRequest(prefix="item_", owner=str(source.address), key=str(item.index)),
    )


def standing_of(tx: Tx, run: str, index: int) -> ItemStanding | None:
    """None for an item that was not begun."""
    session = session_of(run, index)
    if tx.sessions.get(session) is None:
        return None
    running = tx.turns.open_of(session, 1)
    if running:
        return ItemStanding(index=index, state=running[0].state, turn=running[0].id)
    last = tx.journal.read(session, most=1, newest=True)
    match last[0].record if last else None:
        case Finished():
            return ItemStanding(index=index, state=TurnState.DONE)
        case Failed(reason=reason):
            return ItemStanding(index=index, state=TurnState.FAILED, reason=reason)
        case Stopped(reason=reason):
            return ItemStanding(index=index, state=TurnState.STOPPED, reason=reason)
        case _:
            return ItemStanding(index=index, state=TurnState.STOPPED, reason="it has no end")


def list_standings(tx: Tx, run: str) -> list[ItemStanding]:
    """The items that were begun, in order."""
    numbers = [session.id.removeprefix(run_prefix(run)) for session in item_sessions(tx, run)]
    items = (standing_of(tx, run, int(number)) for number in sorted(numbers) if number.isdecimal())
    return [item for item in items if item is not None]


def item_sessions(tx: Tx, run: str) -> list[Session]:
    return tx.sessions.find("", MOST_ITEMS, SessionFilter(under=run_prefix(run)))
