"""Where the items of batch runs are begun: on the owner's socket alone."""

from __future__ import annotations

from hermes.control.sessions.batches import (
    BatchItem,
    ItemStanding,
    standing_of,
    submission_of,
)
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.ids import AgentId
from hermes.domain.turns.turn import TurnState
from hermes.entry.http.site.endpoint import HttpCall, local_route


@local_route("POST", "/control/batch/item", "Begin an item of a batch run, unless that was done before.")
async def begin_item(call: HttpCall, run: str, agent: str, item: BatchItem) -> ItemStanding:
    whose = AgentId(agent)
    known = await call.gateway.read(whose, lambda tx: standing_of(tx, run, item.index))
    if known is not None:
        return known
    attachments: tuple[Attachment, ...] = ()
    if item.image:
        attachments = (await call.gateway.keep_file(whose, item.image, None),)
    elif item.image_url:
        attachments = (Attachment(kind=MediaKind.IMAGE, ref=item.image_url),)
    turn = await call.gateway.submit(submission_of(whose, run, item, attachments))
    return ItemStanding(index=item.index, state=TurnState.RUNNING, turn=turn.id)


@local_route("POST", "/control/batch/toolsets", "The toolsets that an agent has.")
async def agent_toolsets(call: HttpCall, agent: str) -> list[str]:
    runtime = await call.gateway.agents.get(AgentId(agent))
    return sorted({tool.toolset for tool in runtime.toolbox.all.values()})
