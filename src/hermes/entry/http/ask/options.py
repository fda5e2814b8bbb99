"""What a request wants of its turn: the session it belongs to, whether it outlives its client, and by which
key and fingerprint a repeat is recognised. The same for chat completions, responses, runs and sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from hermes.control.sessions.submission import NewRequest, SessionTarget
from hermes.domain.ids import TurnId
from hermes.entry.http.site.call import HttpCall, session_name
from hermes.entry.http.site.errors import bad_request
from hermes.entry.http.site.headers import (
    CHAT_ID,
    IDEMPOTENCY,
    RUN_ID,
    SESSION_ID,
    SESSION_KEY,
    TELLING,
    THREAD_ID,
    USER_ID,
)
from hermes.entry.http.site.routing import RouteDetails

FORGET_AFTER = timedelta(days=1)
ASKS = RouteDetails(
    headers=(IDEMPOTENCY, *TELLING), returns=(SESSION_ID, SESSION_KEY, RUN_ID), refuses=(404, 409, 422, 502)
)
"""An endpoint that makes a turn with `ask` and answers with `turn_headers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """What a resource wants of a turn. `lasting` ones go on without their client; `named` ones can be asked
    for again by their id with this prefix; `after` goes on from an earlier turn; `facts` are kept with it. A
    session of its own is forgotten after `keep`."""

    prefix: str
    lasting: bool = False
    named: bool = False
    after: TurnId | None = None
    session: str | None = None
    conversation: str | None = None
    facts: str = "{}"
    keep: timedelta = FORGET_AFTER


def session_target(call: HttpCall, options: TurnOptions) -> SessionTarget:
    forget = call.site.clock.now() + options.keep
    if options.after is not None:
        return SessionTarget(after=options.after, until=forget, owner=call.owner)
    named = options.session or call.name_header(SESSION_ID)
    if named is not None:
        return SessionTarget(session=session_name(named), begin=True, owner=call.owner)
    if call.name_header(CHAT_ID) or call.name_header(USER_ID):
        return SessionTarget(owner=call.owner)
    if call.name_header(THREAD_ID):
        raise bad_request(f"{THREAD_ID} needs {CHAT_ID} beside it.", param=THREAD_ID)
    return SessionTarget(until=forget)


async def idempotent_request(call: HttpCall, options: TurnOptions) -> NewRequest | None:
    """By what a request can be asked for again, if it can."""
    key = call.name_header(IDEMPOTENCY)
    if key is None and not options.named:
        return None
    return NewRequest(
        prefix=options.prefix,
        owner=call.principal.name,
        key=key,
        fingerprint=await fingerprint(call),
        conversation=options.conversation,
        facts=options.facts,
    )


async def fingerprint(call: HttpCall) -> str:
    """What is asked, where, and by whom: the same under one key, or it is another request."""
    parts = [call.principal.name, call.request.method, call.request.path]
    parts += [f"{name}={call.request.headers.get(name, '')}" for name in TELLING]
    digest = sha256("\n".join(parts).encode("utf-8", "surrogateescape"))
    digest.update(await call.request.read())
    return digest.hexdigest()
