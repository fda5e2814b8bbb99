"""Why somebody may speak somewhere, or not: `hermes access explain`. A source is told in words, and judged
as a message from there would be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from hermes.control.people.access import AccessDecision, AccessRequest, decide, is_paired
from hermes.control.people.operator_patterns import fits_one
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.capabilities import Capabilities
from hermes.domain.errors import UserError
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line

EXAMPLE = "telegram:-100123 user=42 kind=group role=helpers mention"
VALUES = ("user", "alt", "name", "kind", "role", "guild", "parent", "text")
FLAGS = ("bot", "mention", "others", "reply", "joined", "command")


def read_access_request(words: Sequence[str]) -> AccessRequest:
    """`platform:chat[:thread] user=… kind=… role=… [mention] [reply] [bot]` as a message that would come."""
    if not words:
        raise UserError("Say who writes from where.", hint=f"For example: {EXAMPLE}")
    told: dict[str, list[str]] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name not in (VALUES if equals else FLAGS) or (equals and not value):
            raise _unknown(word, name)
        told.setdefault(name, []).extend(value.split(",") if name == "role" else [value])
    one = {name: values[-1] for name, values in told.items()}
    source = Source(
        address=Address.parse(words[0]),
        kind=_kind(one.get("kind", SourceKind.PRIVATE.value)),
        user=one.get("user"),
        user_alt=one.get("alt"),
        user_name=one.get("name"),
        guild=one.get("guild"),
        parent_chat=one.get("parent"),
        roles=tuple(told.get("role", ())),
        is_bot="bot" in told,
    )
    return AccessRequest(
        source=source,
        text=one.get("text", ""),
        mentioned="mention" in told,
        for_others="others" in told and "mention" not in told,
        replied="reply" in told,
        joined="joined" in told,
        called="command" in told,
    )


def explain(
    tx: Tx | None, request: AccessRequest, settings: Settings, capabilities: Callable[[Address], Capabilities]
) -> AccessDecision:
    """The verdict on it; without a store nobody is paired."""
    source = request.source
    paired = tx is not None and is_paired(tx, source)
    named = fits_one(settings.block(source.address).mention_patterns, request.text)
    able = capabilities(source.address)
    return decide(replace(request, paired=paired, named=named, able=able), settings)


def _kind(word: str) -> SourceKind:
    if word == "dm":
        return SourceKind.PRIVATE
    try:
        return SourceKind(word)
    except ValueError as error:
        known = ", ".join(kind.value for kind in SourceKind)
        raise UserError(f"“{one_line(word, 40)}” is not a kind of place.", hint=f"Known: {known}.") from error


def _unknown(word: str, name: str) -> UserError:
    known = {**{one: f"{one}=…" for one in VALUES}, **{one: one for one in FLAGS}}
    near = get_close_matches(name, list(known), n=1)
    hint = f"Did you mean “{known[near[0]]}”?" if near else f"Known: {', '.join(known.values())}."
    return UserError(f"“{one_line(word, 40)}” says nothing about a source.", hint=hint)
