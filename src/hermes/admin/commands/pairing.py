"""`hermes pairing`: whom the owner lets in."""

from __future__ import annotations

import argparse
from typing import Any

from hermes.admin.shell.command import CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import ago, facts
from hermes.control.people.pairing import PairingOverview
from hermes.domain.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account
from hermes.domain.text import one_line
from hermes.entry.desk import approve_code, clear_pairing_requests, list_people, revoke_person
from hermes.state.settings.findings import nearest
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import PLATFORMS


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    add("list", "Who is paired, and who waits for an approval.", _list, json=True)
    approved = add("approve", "Let in the person who was given this code.", _approve)
    approved.add_argument("platform", help="like telegram, or telegram@work for another account")
    approved.add_argument("code", help="the 8 letters and digits the person was given")
    revoked = add("revoke", "Let a paired person in no more.", _revoke)
    revoked.add_argument("platform", help="like telegram, or telegram@work for another account")
    revoked.add_argument("user", help="the person's id, as `hermes pairing list` shows it")
    cleared = add("clear-pending", "Forget open requests and invitations.", _clear)
    cleared.add_argument(
        "platform", nargs="?", help="only those of this platform, or of an account like telegram@work"
    )


def _approve(command: CliCommand) -> None:
    place, account = open_home(command), _account(command)
    if place.empty:
        raise UserError("Nobody has asked there yet: there is nothing to approve.")
    approval = place.ask(approve_code, account=account, code=command.asked.code, by="the command line")
    if approval.paired is None:
        raise UserError(approval.text)
    command.console.line(approval.text)


def _revoke(command: CliCommand) -> None:
    account, user = _account(command), command.asked.user
    open_home(command).ask(revoke_person, account=account, user=user)
    command.console.line(f"{user} is not paired on {account} any more.")


def _clear(command: CliCommand) -> None:
    account = None if command.asked.platform is None else _account(command)
    count = open_home(command).ask(clear_pairing_requests, account=account)
    command.console.line(f"{count} forgotten.")


def _account(command: CliCommand) -> Account:
    """The account that is meant; a platform that nobody knows is a `UserError`."""
    platform, account = read_platform(command.asked.platform)
    known = PLATFORMS | load_settings(command.home, command.environ).settings.platforms.keys()
    if platform not in known:
        meant = nearest(platform, sorted(known))
        hint = f"Did you mean “{meant}”?" if meant else "`hermes pairing list` shows who waits where."
        raise UserError(f"There is no platform “{one_line(platform, 40)}”.", hint=hint)
    problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
    if problem is not None:
        raise problem
    return Account(platform=platform, name=account)


def _list(command: CliCommand) -> None:
    found, console = open_home(command).ask(list_people), command.console
    if command.asked.json:
        console.json(_facts(found))
        return
    if not found.paired and not found.waiting:
        console.line("Nobody is paired, and nobody waits.")
    if found.waiting:
        rows = [
            [str(one.account), one.user or "(whoever sends it)", one.name or "–", ago(one.created_at)]
            for one in found.waiting
        ]
        console.table(["WAITING", "USER", "NAME", "SINCE"], rows, whole=2)
    if found.waiting and found.paired:
        console.line()
    if found.paired:
        rows = [
            [str(one.account), one.user, one.name or "–", ago(one.approved_at), one.by]
            for one in found.paired
        ]
        console.table(["PAIRED", "USER", "NAME", "SINCE", "BY"], rows, whole=2)


def _facts(found: PairingOverview) -> dict[str, Any]:
    waiting = ("id", "user", "name", "created_at", "expires_at")
    paired = ("user", "name", "approved_at", "by")
    return {
        "waiting": [{"platform": str(one.account), **facts(one, *waiting)} for one in found.waiting],
        "paired": [{"platform": str(one.account), **facts(one, *paired)} for one in found.paired],
    }
