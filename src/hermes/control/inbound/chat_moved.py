"""A chat gets a new id (a Telegram group becomes a supergroup). Its sessions, its name and its role as home
channel follow it, in the transaction that ends the row. The settings belong to the operator: if they still
name the old id, the chat is told so."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime

from hermes.domain.address import Source
from hermes.domain.channels import seen_channel
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings

_LISTS = ("allowed_chats", "group_allowed_chats", "ignored_channels", "free_response_channels")


def move_chat(tx: Tx, source: Source, new: str, now: datetime) -> None:
    """`source` is the chat as it was, `new` its id from now on."""
    old = source.address
    for session in tx.directory.bound(old):
        for key, bound in tx.bindings.of(session):
            if bound.address == old:
                there = replace(bound, address=replace(old, chat=new))
                tx.bindings.bind(replace(key, chat=new), session, there, now)
    tx.directory.note(seen_channel(replace(source, address=replace(old, chat=new)), now))
    for account, home in tx.directory.homes().items():
        if home == old:
            tx.directory.set_home(account, replace(home, chat=new), now)


def words_on_settings(source: Source, new: str, settings: Settings) -> str:
    """What the operator has to change; nothing if no list names the chat."""
    block = settings.block(source.address)
    lists = {one.name: getattr(block, one.name) for one in fields(block) if one.name in _LISTS}
    old = source.address.chat
    stale = [name for name, listed in lists.items() if old in listed and new not in listed]
    if not stale:
        return ""
    return (
        f"⚠️ This group has a new id, {new}, and the settings still say {old} in {', '.join(stale)}. "
        "Whoever runs me has to change them."
    )
