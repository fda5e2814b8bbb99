"""Commands about the gateway and its platform accounts: pause one (stored, so it outlives a restart), let
people in, choose the home channel, hand a conversation over to it, restart."""

from __future__ import annotations

from collections.abc import Collection

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command, tier_of
from hermes.control.commands.session import name_of
from hermes.control.handoff.requests import handoff_words, opening_words, request_handoff
from hermes.control.outbound.accounts import pause_account, paused_by
from hermes.control.outbound.notices import ask_restart
from hermes.control.outbound.targets import home_channels
from hermes.control.people.access import account_of
from hermes.control.people.pairing import invite
from hermes.domain.chats.address import LOCAL_DOOR, SourceKind, read_platform, spell_platform
from hermes.domain.chats.pairing import Account
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.turns.session import owner_of

_USAGE = "Write /platform list, /platform pause <platform> or /platform resume <platform>."


@command(
    "platform",
    "list the platform accounts, pause one, resume it",
    usage="[list | pause <platform> | resume <platform>]",
    admin=True,
)
def platform(call: CommandCall) -> CommandReply:
    action, _, name = call.args.partition(" ")
    if action.lower() in ("", "list") and not name.strip():
        lines = [f"- {account}: {_state(call, account)}" for account in chat_accounts(call.gateway.accounts)]
        return CommandReply(text="\n".join(lines) or "No platform is set up.")
    if action.lower() not in ("pause", "resume") or not name.strip():
        raise UserError(f"/platform does not know “{one_line(call.args, 40)}”.", hint=_USAGE)
    account = account_named(name.strip(), call.gateway.accounts)
    if action.lower() == "resume":
        if not paused_by(call.tx, account):
            return CommandReply(text=f"{account} is not paused.")
        pause_account(call.tx, account, "")
        return CommandReply(text=f"{account} is resumed; it connects in a moment.")
    if account == call.source.address.credential:
        raise UserError(
            f"{account} is what you are writing through: nobody could resume it from here.",
            hint="Use another platform, or /platform in the terminal.",
        )
    pause_account(call.tx, account, owner_of(call.source) or "an admin")
    return CommandReply(text=f"{account} is paused until /platform resume {account}; messages to it wait.")


def chat_accounts(accounts: Collection[str]) -> list[str]:
    return sorted(set(accounts) - {LOCAL_DOOR})


def account_named(text: str, accounts: Collection[str]) -> str:
    """The account that somebody means, as `platform[@account]`."""
    known, account = chat_accounts(accounts), spell_platform(*read_platform(text))
    if account not in known:
        there = ", ".join(known) or "none; set up a platform first"
        raise UserError(f"There is no platform “{one_line(text, 40)}” here.", hint=f"There is: {there}.")
    return account


def _state(call: CommandCall, account: str) -> str:
    by = paused_by(call.tx, account)
    if by:
        return f"paused by {by}"
    return "connected" if call.gateway.is_up(account) else "not connected"


@command("pair", "make a code that lets one new person in", usage="[platform]", admin=True)
def pair(call: CommandCall) -> CommandReply:
    if call.source.kind is not SourceKind.PRIVATE and not call.is_local:
        raise UserError("Everybody here would read the code.", hint="Write /pair to me in a private chat.")
    account = _account(call)
    if account != account_of(call.source) and not tier_of(call.source, call.settings).owner:
        raise UserError("You may let people in on this account only.", hint="Write /pair alone.")
    by = "the terminal" if call.is_local else f"{call.source.address.credential}:{call.source.person}"
    code = invite(call.tx, account, f"invited by {by}", call.now)
    shown = code if call.is_local else f"**{code}**"
    text = (
        f"Pairing code for {account}: {shown}\n\n"
        "Whoever sends it to me there first, in a private chat and within one hour, may write to me."
    )
    return CommandReply(text=text, fleeting=True)


def _account(call: CommandCall) -> Account:
    """The account that is named, or else the one this was written to."""
    if not call.args and call.is_local:
        raise UserError("Say for which platform.", hint="Write /pair <platform>.")
    if not call.args:
        return account_of(call.source)
    known = {*call.platforms, *call.settings.platforms, *call.gateway.accounts}
    platform, name = read_platform(account_named(call.args, known))
    return Account(platform=platform, name=name)


@command(
    "sethome",
    "make this chat the platform's home channel",
    usage="[off]",
    aliases=("set-home",),
    admin=True,
    otherwise="At the gateway's machine it is: hermes config set '{account}.home_channel' '{chat}'. ",
)
def sethome(call: CommandCall) -> CommandReply:
    here = call.source.address
    if not call.source.is_chat:
        raise UserError("This is no chat that messages could be sent to.", hint="Write /sethome in a chat.")
    if call.args and call.args.lower() != "off":
        raise UserError(
            f"/sethome takes no “{one_line(call.args, 40)}”.",
            hint="Write it in the chat that is meant; /sethome off takes it back.",
        )
    if call.args:
        if here.credential not in call.tx.directory.homes():
            return CommandReply(text=f"No home channel was chosen for {here.credential}.")
        call.tx.directory.set_home(here.credential, None, call.now)
        left = home_channels(call.tx, call.settings).get(here.credential)
        now = "it has none now" if left is None else f"it is {left} again, as in the settings"
        return CommandReply(text=f"This is no longer the home channel of {here.credential}; {now}.")
    call.tx.directory.set_home(here.credential, here, call.now)
    return CommandReply(
        text=f"This chat is now the home channel of {here.credential}: reports, and messages to"
        f" “{here.credential}” without a chat, come here."
    )


async def _check_start(request: CommandRequest) -> None:
    if request.gateway.can_restart and request.source.address.platform != LOCAL_DOOR:
        await request.gateway.check_start()


@command("restart", "restart the gateway", admin=True, prepare=_check_start)
def restart(call: CommandCall) -> CommandReply:
    if call.is_local:
        raise UserError("A terminal restarts the gateway from outside.", hint="Run: hermes gateway restart")
    if not call.gateway.can_restart:
        raise UserError(
            "This gateway belongs to a chat in a terminal.", hint="It starts and ends with that chat."
        )
    if call.reply_place is not None:
        ask_restart(call.tx, call.reply_place.to, call.reply_place.ref)
    return CommandReply(
        text="Restarting. Unfinished work continues afterwards, and I will tell you here when I am back.",
        restart=True,
    )


async def _update(request: CommandRequest) -> str:
    if request.gateway.update is None or not request.gateway.can_restart:
        raise UserError("This gateway cannot update itself.", hint="Run in a terminal: hermes update")
    await request.progress("Looking for a new version …")
    return await request.gateway.update()


@command("update", "bring Hermes up to date, and restart", admin=True, prepare=_update, seconds=1200)
def update(call: CommandCall) -> CommandReply:
    if not call.prepared:
        return CommandReply(text="Hermes is up to date.")
    if call.is_local:
        return CommandReply(text=f"{call.prepared}\nRestart the gateway to use it: hermes gateway restart")
    if call.reply_place is not None:
        ask_restart(call.tx, call.reply_place.to, call.reply_place.ref)
    text = f"{call.prepared}\nUpdated. Restarting now; I will tell you here when I am back."
    return CommandReply(text=text, restart=True)


async def _look_for_opening(request: CommandRequest) -> str | None:
    return await request.read(lambda call: opening_words(call.tx, call.session.id))


@command(
    "handoff",
    "let this conversation go on in a platform's home channel",
    usage="[platform]",
    mid_turn=False,
    terminal=True,
    prepare=_look_for_opening,
)
def handoff(call: CommandCall) -> CommandReply:
    if not call.args:
        latest = call.tx.handoffs.latest(call.session.id, 1)
        there = ", ".join(chat_accounts(call.gateway.receiving)) or "none; set up a platform first"
        return CommandReply(text=handoff_words(latest[0]) if latest else f"Say where to. There is: {there}.")
    account = account_named(call.args.strip(), call.gateway.receiving)
    made = request_handoff(
        call.tx, call.session, account, call.source, call.now, call.settings, call.prepared
    )
    return CommandReply(text=f"{name_of(call.session)} is on its way to {account}.", handoff=made.id)
