"""A look from outside: who the bot is, what it may read, on which servers it is and what it lacks there."""

from __future__ import annotations

from typing import Any

from hermes.domain.adapter import Finding, good, wrong
from hermes.domain.errors import Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.payload import as_dict, as_dicts, dig
from hermes.entry.platforms.discord.api import DiscordApi
from hermes.entry.platforms.discord.convert import is_snowflake

_CONTENT_FLAGS = 1 << 18 | 1 << 19
_RIGHTS = {
    1 << 10: "View Channels",
    1 << 11: "Send Messages",
    1 << 16: "Read Message History",
    1 << 15: "Attach Files",
    1 << 35: "Create Public Threads",
    1 << 38: "Send Messages in Threads",
    1 << 6: "Add Reactions",
    1 << 14: "Embed Links",
}
_ADMINISTRATOR = 1 << 3
_MOST_SERVERS, _SHOWN = 200, 10


async def findings(rest: DiscordApi) -> list[Finding]:
    me = await rest.call("GET", "/users/@me")
    app = await application(rest)
    name = one_line(str(dig(me, "username") or "nobody"), 40)
    found = [good(f"Discord knows the bot as {name}.")]
    flags = app.get("flags")
    if not isinstance(flags, int) or not flags & _CONTENT_FLAGS:
        hint = "Turn it on at discord.com/developers/applications → your application → Bot."
        found.append(wrong("It may not read messages: “Message Content Intent” is off.", hint))
    servers = as_dicts(await rest.call("GET", "/users/@me/guilds", limit=_MOST_SERVERS))
    lacking = [finding for finding in map(_lacking, servers) if finding is not None]
    return [*found, _count(len(servers), app["id"]), *lacking[:_SHOWN]]


async def application(rest: DiscordApi) -> dict[str, Any]:
    told = await rest.call("GET", "/applications/@me")
    if not is_snowflake(dig(told, "id")):
        raise Unreachable("Discord does not say which application the bot belongs to")
    return as_dict(told)


def _count(count: int, app: str) -> Finding:
    rights = sum(_RIGHTS)
    invite = f"discord.com/oauth2/authorize?client_id={app}&permissions={rights}"
    hint = f"Invite it: https://{invite}&scope=bot+applications.commands"
    text = f"It is on {count} server{'s' * (count != 1)}."
    return Finding(good=count > 0, text=text, hint="" if count else hint)


def _lacking(server: dict[str, Any]) -> Finding | None:
    """What the bot's roles do not give it on a server; channels may say otherwise."""
    bits = str(server.get("permissions"))
    has = int(bits) if bits.isascii() and bits.isdigit() and len(bits) < 30 else 0
    missing = [] if has & _ADMINISTRATOR else [name for bit, name in _RIGHTS.items() if not has & bit]
    if not missing:
        return None
    text = f"On “{one_line(str(server.get('name')), 40)}” it lacks rights: {', '.join(missing)}."
    return wrong(text, "Give them to the bot's role: Server Settings → Roles.")
