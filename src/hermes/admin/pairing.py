"""`hermes pairing`: whom the owner lets in."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

from hermes.admin.home import open_home
from hermes.admin.output import Commands, Console, ago, facts
from hermes.control.pairing import Approval, Overview
from hermes.domain.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account
from hermes.domain.text import one_line
from hermes.state.findings import nearest
from hermes.state.setting_names import PLATFORMS
from hermes.state.settings import load_settings


def arguments(parser: argparse.ArgumentParser) -> None:
    command = Commands(parser).add
    command("list", "Who is paired, and who waits for an approval.", json=True)
    approved = command("approve", "Let in the person who was given this code.")
    approved.add_argument("platform", help="like telegram, or telegram@work for another account")
    approved.add_argument("code", help="the 8 letters and digits the person was given")
    revoked = command("revoke", "Let a paired person in no more.")
    revoked.add_argument("platform", help="like telegram, or telegram@work for another account")
    revoked.add_argument("user", help="the person's id, as `hermes pairing list` shows it")
    cleared = command("clear-pending", "Forget open requests and invitations.")
    cleared.add_argument(
        "platform", nargs="?", help="only those of this platform, or of an account like telegram@work"
    )


def run(asked: argparse.Namespace, home: Path, environ: Mapping[str, str], console: Console) -> int:
    place = open_home(home, environ, "hermes pairing")
    account = None if getattr(asked, "platform", None) is None else _account(asked.platform, home, environ)
    match asked.command:
        case "list":
            _list(asked, place.get("/control/pairing", Overview), console)
        case "approve":
            if place.empty:
                raise UserError("Nobody has asked there yet: there is nothing to approve.")
            body = {"account": account, "code": asked.code, "by": "the command line"}
            approval = place.post("/control/pairing/approve", Approval, body)
            if approval.paired is None:
                raise UserError(approval.text)
            console.line(approval.text)
        case "revoke":
            place.post("/control/pairing/revoke", NoneType, {"account": account, "user": asked.user})
            console.line(f"{asked.user} is not paired on {account} any more.")
        case _:
            console.line(f"{place.post('/control/pairing/clear', int, {'account': account})} forgotten.")
    return 0


def _account(word: str, home: Path, environ: Mapping[str, str]) -> Account:
    """The account that is meant; a platform that nobody knows is a `UserError`."""
    platform, account = read_platform(word)
    known = PLATFORMS | load_settings(home, environ).settings.platforms.keys()
    if platform not in known:
        meant = nearest(platform, sorted(known))
        hint = f"Did you mean “{meant}”?" if meant else "`hermes pairing list` shows who waits where."
        raise UserError(f"There is no platform “{one_line(platform, 40)}”.", hint=hint)
    problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
    if problem is not None:
        raise problem
    return Account(platform=platform, name=account)


def _list(asked: argparse.Namespace, found: Overview, console: Console) -> None:
    now = datetime.now(UTC)
    if asked.json:
        console.json(_facts(found))
        return
    if not found.paired and not found.waiting:
        console.line("Nobody is paired, and nobody waits.")
    if found.waiting:
        rows = [
            [str(one.account), one.user or "(whoever sends it)", one.name or "–", ago(one.created_at, now)]
            for one in found.waiting
        ]
        console.table(["WAITING", "USER", "NAME", "SINCE"], rows, whole=2)
    if found.waiting and found.paired:
        console.line()
    if found.paired:
        rows = [
            [str(one.account), one.user, one.name or "–", ago(one.approved_at, now), one.by]
            for one in found.paired
        ]
        console.table(["PAIRED", "USER", "NAME", "SINCE", "BY"], rows, whole=2)


def _facts(found: Overview) -> dict[str, Any]:
    waiting = ("id", "user", "name", "created_at", "expires_at")
    paired = ("user", "name", "approved_at", "by")
    return {
        "waiting": [{"platform": str(one.account), **facts(one, *waiting)} for one in found.waiting],
        "paired": [{"platform": str(one.account), **facts(one, *paired)} for one in found.paired],
    }
