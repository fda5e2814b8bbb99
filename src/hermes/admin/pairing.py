"""`hermes pairing`: whom the owner lets in. Through the gateway that runs, or else in the store itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from hermes.admin.gateway import on_store
from hermes.admin.output import Console, ago
from hermes.admin.running import find_running
from hermes.control.pairing import Approval, Overview, approve, clear_pending, overview, revoke
from hermes.domain.address import DEFAULT_ACCOUNT, account_problem, read_platform
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account
from hermes.domain.ports import Tx
from hermes.domain.text import one_line
from hermes.state.findings import nearest
from hermes.state.setting_names import PLATFORMS
from hermes.state.settings import load_settings
from hermes.state.sqlite import SqliteStore

T = TypeVar("T")
_BY = "the command line"
_NOT_APPROVED = "Nobody has asked there yet: there is nothing to approve."


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, told: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=told, description=told)

    listed = command("list", "Who is paired, and who waits for an approval.")
    listed.add_argument("--json", action="store_true", help="print JSON")
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
    desk = _Desk(home, environ)
    _COMMANDS[asked.command](asked, desk, console)
    return 0


class _Desk:
    """Where pairing is done: by the gateway that runs, or in the store itself."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ

    def overview(self) -> Overview:
        running = find_running(self._home, self._environ)
        if running is not None:
            return running.get("/control/pairing", Overview)
        now = datetime.now(UTC)
        return self._stored(lambda tx: overview(tx, now)) or Overview(paired=[], waiting=[])

    def approve(self, account: Account, code: str) -> Approval:
        running = find_running(self._home, self._environ)
        if running is not None:
            body = {"account": account, "code": code, "by": _BY}
            return running.post("/control/pairing/approve", Approval, body)
        now = datetime.now(UTC)
        done = self._stored(lambda tx: approve(tx, account, code, _BY, now))
        return done or Approval(text=_NOT_APPROVED)

    def revoke(self, account: Account, user: str) -> None:
        running = find_running(self._home, self._environ)
        if running is not None:
            running.post("/control/pairing/revoke", dict[str, Any], {"account": account, "user": user})
            return

        def unit(tx: Tx) -> bool:
            revoke(tx, account, user)
            return True

        if self._stored(unit) is None:
            raise UserError(f"Nobody is paired on {account}.")

    def clear(self, account: Account | None) -> int:
        running = find_running(self._home, self._environ)
        if running is not None:
            cleared = running.post("/control/pairing/clear", dict[str, int], {"account": account})
            return cleared["count"]
        return self._stored(lambda tx: clear_pending(tx, account)) or 0

    def account(self, word: str) -> Account:
        """The account that is meant; a platform that nobody knows is a `UserError`."""
        platform, account = read_platform(word)
        known = PLATFORMS | load_settings(self._home, self._environ).settings.platforms.keys()
        if platform not in known:
            meant = nearest(platform, sorted(known))
            hint = f"Did you mean “{meant}”?" if meant else "`hermes pairing list` shows who waits where."
            raise UserError(f"There is no platform “{one_line(platform, 40)}”.", hint=hint)
        problem = None if account == DEFAULT_ACCOUNT else account_problem(platform, account)
        if problem is not None:
            raise problem
        return Account(platform=platform, name=account)

    def _stored(self, unit: Callable[[Tx], T]) -> T | None:
        async def work(store: SqliteStore) -> T:
            return await store.write(unit)

        return on_store(self._home, "hermes pairing", work)


def _list(asked: argparse.Namespace, desk: _Desk, console: Console) -> None:
    found, now = desk.overview(), datetime.now(UTC)
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
    return {
        "waiting": [
            {
                "platform": str(one.account),
                "id": one.id,
                "user": one.user,
                "name": one.name,
                "created_at": one.created_at.isoformat(),
                "expires_at": one.expires_at.isoformat(),
            }
            for one in found.waiting
        ],
        "paired": [
            {
                "platform": str(one.account),
                "user": one.user,
                "name": one.name,
                "approved_at": one.approved_at.isoformat(),
                "by": one.by,
            }
            for one in found.paired
        ],
    }


def _approve(asked: argparse.Namespace, desk: _Desk, console: Console) -> None:
    approval = desk.approve(desk.account(asked.platform), asked.code)
    if approval.paired is None:
        raise UserError(approval.text)
    console.line(approval.text)


def _revoke(asked: argparse.Namespace, desk: _Desk, console: Console) -> None:
    account = desk.account(asked.platform)
    desk.revoke(account, asked.user)
    console.line(f"{asked.user} is not paired on {account} any more.")


def _clear(asked: argparse.Namespace, desk: _Desk, console: Console) -> None:
    account = None if asked.platform is None else desk.account(asked.platform)
    console.line(f"{desk.clear(account)} forgotten.")


_COMMANDS: dict[str, Callable[[argparse.Namespace, _Desk, Console], None]] = {
    "list": _list,
    "approve": _approve,
    "revoke": _revoke,
    "clear-pending": _clear,
}
