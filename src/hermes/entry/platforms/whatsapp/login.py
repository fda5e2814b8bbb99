"""The login: installs the bridge, and links a device by a QR code that a person scans with WhatsApp."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import Unreachable, UserError
from hermes.entry.kit.payload import as_text
from hermes.entry.platforms.whatsapp import convert, program
from hermes.entry.platforms.whatsapp.api import Bridge
from hermes.entry.platforms.whatsapp.manifest import MODES, RISK

_LOGIN_SECONDS = 180.0
_SETTLE_SECONDS = 8.0


async def log_in(context: AdapterContext, tell: Callable[[str], None]) -> dict[str, str]:
    if context.folder is None:
        raise UserError("WhatsApp needs a folder of its own in the home.")
    if not context.is_on("WHATSAPP_ENABLED"):
        tell(f"The risk: {RISK}.")
        answer = await asyncio.to_thread(context.ask, "Type yes to use a personal account all the same:")
        if answer.strip().lower() not in ("yes", "y"):
            raise UserError("No device was linked.")
    node = await program.find_node(context.setting("WHATSAPP_NODE"))
    bridge = Bridge(node, await program.install(node, program.place_of(context.folder), tell), context.folder)
    try:
        await bridge.start("login")
    except Unreachable:
        hint = "Stop it first: hermes gateway stop."
        raise UserError("The gateway uses this account's linked device.", hint=hint) from None
    try:
        async with asyncio.timeout(_LOGIN_SECONDS):
            phone = await linked(bridge, tell)
    except TimeoutError:
        raise UserError(
            "Nobody scanned the code in time.", hint="Run it again, and scan it at once."
        ) from None
    finally:
        await bridge.close()
    tell(f"Linked with {phone}. The phone lists this device under Linked devices, where it can be removed.")
    settings = {"WHATSAPP_ENABLED": "true"}
    if context.setting("WHATSAPP_MODE", MODES[0]) == MODES[0] and not context.settings.allowed_users:
        settings["WHATSAPP_ALLOWED_USERS"] = phone  # nobody else can write there
    return settings


async def linked(bridge: Bridge, tell: Callable[[str], None]) -> str:
    """The number of the account, once WhatsApp has let the device in."""
    shown = 0
    async for told in bridge.events():
        if told["event"] == "qr":
            shown += 1
            tell(
                "Scan this with WhatsApp: Settings → Linked devices → Link a device."
                if shown == 1
                else "Another code:"
            )
            for line in as_text(told.get("drawing")).splitlines():
                tell(line)
        elif told["event"] == "open":
            tell("WhatsApp has let the device in; one moment, it exchanges keys …")
            await asyncio.sleep(_SETTLE_SECONDS)
            return convert.person(as_text(told.get("id")))
    raise AssertionError("events end with an error")
