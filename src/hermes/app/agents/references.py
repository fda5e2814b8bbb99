"""What references in a person's words stand for, looked up as the agent itself would: files and folders with
its file tool, commits and changes with its terminal, addresses through the egress client. What the agent
could not read for this person without being asked is refused here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from hermes.app.agents.agent_backends import AgentBackends
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import CallId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.world import DocumentReader, Egress
from hermes.domain.safety.outside import fence
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Approval, Tool, ToolContext
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.references import (
    MOST_COMMITS,
    MOST_REFERENCES,
    Expansion,
    Reference,
    ReferenceKind,
    find_references,
)
from hermes.domain.turns.session import Session, speaker_of
from hermes.domain.turns.turn import Turn

_SHARE_REFUSED, _SHARE_WARNED = 0.5, 0.25
_CHARS = 4
"""Of a token, roughly."""
_USUAL_WINDOW = 128_000
_MOST_LINES = 2000
_MOST_BYTES = 1_000_000
_GIT = "git --no-pager"
_COMMANDS = {
    ReferenceKind.DIFF: f"{_GIT} diff --no-color --no-ext-diff --no-textconv",
    ReferenceKind.STAGED: f"{_GIT} diff --staged --no-color --no-ext-diff --no-textconv",
}


class AgentReferences:
    def __init__(
        self,
        *,
        toolbox: Toolbox,
        backends: AgentBackends,
        egress: Callable[[], Egress],
        read: DocumentReader,
        facts: Callable[[str], ModelFacts],
    ) -> None:
        self._toolbox = toolbox
        self._backends = backends
        self._egress = egress
        self._read = read
        self._facts = facts

    async def expand(self, session: Session, turn: Turn) -> Expansion:
        references = find_references(turn.input.text)
        notes: list[str] = []
        blocks: list[str] = []
        if len(references) > MOST_REFERENCES:
            notes.append(f"Only the first {MOST_REFERENCES} references were looked up.")
        with self._backends.bind(turn, session.workspace):
            for reference in references[:MOST_REFERENCES]:
                try:
                    text = await self._look_up(session, turn, reference)
                    blocks.append(f"[{reference} stands for this:]\n{fence(text, turn.id)}")
                except HermesError as error:
                    why = f"{reference} was not looked up: {one_line(str(error), 200)}"
                    notes.append(why)
                    blocks.append(f"[{why}]")
        return self._fitted(session, references, blocks, notes)

    def _fitted(
        self, session: Session, references: Sequence[Reference], blocks: list[str], notes: list[str]
    ) -> Expansion:
        """What fits the model's window, and a word if it takes much of it."""
        tokens = sum(map(len, blocks)) // _CHARS
        window = self._facts(session.model or "").window or _USUAL_WINDOW
        share = f"about {tokens:,} tokens, {100 * tokens // window} % of what the model can read"
        if tokens > window * _SHARE_REFUSED:
            names = one_line(", ".join(map(str, references)), 300)
            why = f"{names}: left out, for they take {share}. Name fewer, or some lines: @file:path:1-200."
            return Expansion(context=f"[{why}]", notes=(*notes, why))
        if tokens > window * _SHARE_WARNED:
            notes.append(f"What you referred to takes {share}.")
        return Expansion(context="\n\n".join(blocks), notes=tuple(notes))

    async def _look_up(self, session: Session, turn: Turn, reference: Reference) -> str:
        match reference.kind:
            case ReferenceKind.FILE | ReferenceKind.FOLDER:
                count = _MOST_LINES if reference.last is None else reference.last - reference.first + 1
                arguments = {
                    "path": reference.value,
                    "offset": reference.first,
                    "limit": min(count, _MOST_LINES),
                }
                return await self._call(session, turn, "read_file", arguments)
            case ReferenceKind.URL:
                return await self._fetch(turn, reference.value)
            case ReferenceKind.GIT:
                count = min(max(int(reference.value), 1), MOST_COMMITS)
                command = f"{_GIT} log -n {count} --stat --patch --no-color --no-ext-diff --no-textconv"
                return await self._call(session, turn, "terminal", {"command": command})
            case _:
                return await self._call(session, turn, "terminal", {"command": _COMMANDS[reference.kind]})

    async def _call(self, session: Session, turn: Turn, name: str, arguments: Mapping[str, object]) -> str:
        tool = self._toolbox.usable(session, turn).get(name)
        if tool is None:
            raise UserError("the agent may not read files for you here.")
        await _check_free(tool, session, arguments)
        context = ToolContext(
            agent=turn.agent,
            session=session.id,
            turn=turn.id,
            call_id=CallId(f"reference_{turn.id}"),
            key=f"{turn.id}:reference:{json.dumps(arguments)}",
            output=lambda text: None,
            source=speaker_of(turn),
        )
        result = await tool.run(context, arguments)
        if result.failed:
            raise UserError(result.text)
        return result.text

    async def _fetch(self, turn: Turn, url: str) -> str:
        if not self._backends.trusts(turn.source):
            raise UserError("only the owner and admins may have addresses read like this.")
        page = await self._egress().fetch(url, limit=_MOST_BYTES)
        if not 200 <= page.status < 300:
            raise UserError(f"its server answered with {page.status}.")
        mime = page.headers.get("content-type", page.mime)
        return (await self._read(page.data, mime, limit=_MOST_BYTES, url=page.url)).text


async def _check_free(tool: Tool, session: Session, arguments: Mapping[str, object]) -> None:
    """A `UserError` if somebody would have to be asked first."""
    if tool.approval is Approval.ASK:
        raise UserError("it would have to be allowed first.")
    if isinstance(tool.approval, Approval):
        return
    ask = await tool.approval(session.id, arguments)
    if ask is not None:
        raise UserError(f"it would have to be allowed first ({one_line(ask.text, 160)}).")
