"""`hermes pairing`: approve people by pairing code, list them, revoke them."""

from __future__ import annotations

import argparse

from hermes.admin.shell.command import JSON, CliCommand, Subcommands
from hermes.admin.shell.home import open_home
from hermes.admin.shell.output import Column, ago, as_json, dash
from hermes.domain.chats.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.chats.pairing import Account
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.desk import approve_code, clear_pairing_requests, list_people, revoke_person
from hermes.state.home.findings import nearest
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import PLATFORMS


def arguments(parser: argparse.ArgumentParser) -> None:
    add = Subcommands(parser).add
    platform = {"platform": "like telegram, or telegram@work for another account"}
    code = {"code": "the 8 letters and digits the person was given"}
    user = {"user": "the person's id, as `hermes pairing list` shows it"}
    any_platform = {"[platform]": "only those of this platform, or of an account like telegram@work"}
    add("list", "List who is paired and who waits for approval.", _list, JSON)
    add("approve", "Approve the person who was given this code.", _approve, platform | code)
    add("revoke", "Revoke a person's pairing.", _revoke, platform | user)
    add("clear-pending", "Delete open requests and invitations.", _clear, any_platform)


def _approve(command: CliCommand) -> None:
    place, account = open_home(command), _account(command)
    if place.empty:
        raise UserError("Nobody has asked for access yet, so there is nothing to approve.")
    approval = place.ask(approve_code, account=account, code=command.asked.code, by="the command line")
    if approval.paired is None:
        raise UserError(approval.text)
    command.console.line(approval.text)


def _revoke(command: CliCommand) -> None:
    account, user = _account(command), command.asked.user
    open_home(command).ask(revoke_person, account=account, user=user)
    command.console.line(f"{user} is no longer paired on {account}.")


def _clear(command: CliCommand) -> None:
    account = None if command.asked.platform is None else _account(command)
    count = open_home(command).ask(clear_pairing_requests, account=account)
    command.console.line(f"Deleted {count}.")


def _account(command: CliCommand) -> Account:
    """The account that is named; an unknown platform is a `UserError`."""
    platform, account = read_platform(command.asked.platform)
    known = PLATFORMS | load_settings(command.home, command.environ).settings.platforms.keys()
    if platform not in known:
        meant = nearest(platform, sorted(known))
        hint = f"Did you mean “{meant}”?" if meant else "`hermes pairing list` shows who is waiting."
        raise UserError(f"There is no platform “{one_line(platform, 40)}”.", hint=hint)
    problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
    if problem is not None:
        raise problem
    return Account(platform=platform, name=account)


def _list(command: CliCommand) -> None:
    people, console = open_home(command).ask(list_people), command.console
    if command.asked.json:
        waiting = [as_json(code, _WAITING) for code in people.waiting]
        console.json({"waiting": waiting, "paired": [as_json(person, _PAIRED) for person in people.paired]})
        return
    if not people.paired and not people.waiting:
        console.line("Nobody is paired, and nobody is waiting. /pair in a chat makes a code for a person.")
    if people.waiting:
        command.print_table(people.waiting, _WAITING, whole=2)
    if people.waiting and people.paired:
        console.line()
    if people.paired:
        command.print_table(people.paired, _PAIRED, whole=2)


_WAITING = [
    Column("platform", "WAITING", value=lambda code: code.account),
    Column("user", "USER", lambda user: user or "(whoever sends it)"),
    Column("name", "NAME", dash),
    Column("created_at", "SINCE", ago),
    Column("id"),
    Column("expires_at"),
]
_PAIRED = [
    Column("platform", "PAIRED", value=lambda person: person.account),
    Column("user", "USER"),
    Column("name", "NAME", dash),
    Column("approved_at", "SINCE", ago),
    Column("by", "BY"),
]
