"""What a person must allow before a call runs, and when nobody has to be asked: it was allowed before, or the
person named where it leads.

A tool says what it asks for always, and what once words from outside were read (`after_outside`). One that
says nothing of that, and whose effect must not happen twice, is asked for then whatever its arguments are."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping

from hermes.agent.run.addresses import carries_data, host_of, taken_address
from hermes.agent.run.links import urls_in
from hermes.agent.run.taint import has_read_outside, is_named, named_hosts
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.agent import Run
from hermes.domain.system.border import Border
from hermes.domain.tools.tool import Approval, ApprovalCheck, ApprovalPrompt, Effect, StandingGrants, Tool
from hermes.domain.word import replace

log = logging.getLogger("hermes.tools")
NOT_JUDGED = "Not run: {name} could not say what it needs first ({error})."
_FOR_ADDRESSES = re.compile(r"(.*_)?urls?", re.IGNORECASE)
AFTER_OUTSIDE = "Asked because words from outside were read before, and you did not name where it leads."


async def approval_prompt(
    run: Run, tool: Tool, arguments: Mapping[str, object], *, tainted: bool = False
) -> ApprovalPrompt | None:
    """`tainted` says that the call around it has read words from outside just now."""
    ask = await _ask(run.session.id, tool, tool.approval, arguments)
    decided = ask is not None and ask.spelled is None
    if decided or not may_ask(tool) or not (tainted or has_read_outside(run)):
        return ask
    if tool.after_outside is not None:
        more = await _ask(run.session.id, tool, tool.after_outside, arguments)
    elif tool.effect is Effect.ONCE:
        more = await _ask(run.session.id, tool, Approval.ASK, arguments)
    else:
        more = _ask_for_links(tool, arguments)
    return ask if more is None else replace(more, text=f"{more.text}\n{AFTER_OUTSIDE}")


def may_ask(tool: Tool) -> bool:
    """Whether it runs here: what a person, a child or a client answers does not."""
    return tool.asks is None


def _ask_for_links(tool: Tool, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
    """A tool that only reads may still carry data away in an address."""
    hosts: list[str] = []
    for text, is_address in _texts(arguments):
        if not is_address:
            hosts += (host_of(url) for url in urls_in(f'"{text}"') if carries_data(url))
        elif (taken := taken_address(text)) is None or carries_data(taken[0]):
            hosts.append("" if taken is None else taken[1])
    if not hosts:
        return None
    words = json.dumps(arguments, ensure_ascii=False)
    return ApprovalPrompt(text=f"{tool.name} {words}", digest=f"{tool.name}:{words}", hosts=tuple(hosts))


def _texts(value: object, name: str = "") -> Iterator[tuple[str, bool]]:
    """Every text in the arguments of a call, and whether it is taken for an address whatever it looks like.
    `url` is one without a scheme, too; `image_url` may be a path or data then."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key), False
            yield from _texts(one, str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one, name)
    elif text := str(value).strip():
        kind = _FOR_ADDRESSES.fullmatch(name)
        yield text, kind is not None and (not kind[1] or text.lower().startswith(("http:", "https:")))


async def is_granted(run: Run, standing: StandingGrants, ask: ApprovalPrompt) -> bool:
    return not ask.locked and (standing.allows(ask.digest) or await is_destination_named(run, ask))


async def is_destination_named(run: Run, ask: ApprovalPrompt) -> bool:
    """It is about writing to chats, and each is the chat of the turn or was named by who speaks in it; or
    about hosts that were all named. What the model wrote does not count, only where it leads."""
    if ask.hosts:
        return all(map(named_hosts(run), ask.hosts))
    chats = () if ask.spelled is None else await ask.spelled(run.turn.agent, run.turn.id)
    if not chats:
        return False
    here = "" if run.turn.reply is None else str(run.turn.reply.to)
    return all(here in forms[:1] or is_named(run, forms) for forms in chats)


async def _ask(
    session: SessionId, tool: Tool, approval: Approval | ApprovalCheck, arguments: Mapping[str, object]
) -> ApprovalPrompt | None:
    if isinstance(approval, Approval):
        if approval is Approval.NEVER:
            return None
        text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        return ApprovalPrompt(text=f"{tool.name} {text}", digest=f"{tool.name}:{text}")
    try:
        with Border():
            ask = await approval(session, arguments)
            if ask is None or (isinstance(ask.text, str) and isinstance(ask.digest, str)):
                return ask
        raise TypeError("the text and the digest of an approval must be texts")
    except HermesError:
        raise
    except Exception as error:  # a plugin's code may raise anything; what is not known is not allowed
        log.exception("tool.approval_broke tool=%s", tool.name)
        raise UserError(NOT_JUDGED.format(name=tool.name, error=type(error).__name__)) from error
