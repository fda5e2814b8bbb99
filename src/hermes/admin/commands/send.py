"""`hermes send`: a message to a chat, from the command line or a script."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

from hermes.admin.shell.command import JSON, CliCommand, declare
from hermes.admin.shell.home import HomeAccess, open_home
from hermes.admin.shell.output import Column, as_json
from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import OutState
from hermes.domain.errors import UserError
from hermes.domain.text import one_line, storable
from hermes.entry.desk import places, send, sent

_MOST_BYTES = 1 << 20
_WAIT_SECONDS = 3.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=_send)
    parser.description = "Send a message to a chat; it is sent, or on its way, when this returns."
    declare(parser, _WHAT, default="")
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    declare(parser, {"-l, --list PLATFORM": "list the targets"}, nargs="?", const="")
    declare(parser, {"-q, --quiet": "print nothing on success"} | JSON)


_WHAT = {
    "[message]": "the text; - reads it from stdin",
    "-t, --to TARGET": "a platform (its home channel), platform:chat[:thread], platform:#name, all;"
    " commas for several",
    "-f, --file FILE": "read the text from a file; - is stdin",
    "-s, --subject TEXT": "a first line above the text",
}


def _send(command: CliCommand) -> None:
    asked, console = command.asked, command.console
    if asked.more:
        raise UserError(
            "The message must be one argument, in quotes, and the chat stands behind -t.",
            hint="hermes send -t TARGET 'MESSAGE'; -l lists targets",
        )
    if asked.list is not None:
        _list(command)
        return
    if not asked.to:
        raise UserError(
            "Nobody was named to send to.", hint="hermes send -t TARGET MESSAGE; -l lists targets"
        )
    text = _text(asked)
    place = open_home(command, creating=True)
    key = f"cli-{secrets.token_hex(8)}"
    to = [str(address) for address in place.ask(send, target=asked.to, text=text, key=key)]
    arrived = place.running and _arrives(place, key)
    if asked.json:
        console.json({"to": to, "key": key, "gateway": place.running})
    elif not asked.quiet:
        console.line(f"{'Sent' if arrived else 'On its way'} to {', '.join(to)}.")
        if not place.running:
            console.note("No gateway is running. The message is sent when one starts (hermes gateway run).")


def _arrives(place: HomeAccess, key: str) -> bool:
    """Whether it has been sent; what was refused at once is an error, and what takes longer is not waited
    for."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        rows = place.ask(sent, key=key)
        if dead := next((row for row in rows if row.state is OutState.DEAD), None):
            raise UserError(
                f"Not sent to {dead.to}: {one_line(dead.error, 200) or 'it was refused'}.",
                hint=f"When that is mended: hermes outbox retry {dead.key}",
            )
        if all(row.state is OutState.SENT for row in rows) or time.monotonic() > until:
            return all(row.state is OutState.SENT for row in rows)
        time.sleep(0.05)


def _text(asked: argparse.Namespace) -> str:
    if asked.message and asked.message != "-" and asked.file:
        raise UserError("There is both a text and a file.", hint="Give one of them.")
    place = asked.file or ("-" if asked.message == "-" else "")
    text = _read(place) if place else asked.message
    if not text.strip():
        raise UserError("There is nothing to send.", hint="hermes send -t TARGET MESSAGE, or -f FILE")
    return storable(f"**{one_line(asked.subject, 200)}**\n\n{text}" if asked.subject else text)


def _read(place: str) -> str:
    try:
        if place == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(place).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{one_line(place, 200)} cannot be read ({error.strerror}).") from error
    if len(data) > _MOST_BYTES:
        raise UserError("The text is longer than 1 MiB.", hint="Send a shorter one.")
    return data.decode("utf-8", "replace")


def _list(command: CliCommand) -> None:
    wanted, chats = command.asked.list.lower(), open_home(command).ask(places)

    def fits(to: Address) -> bool:
        return wanted in ("", to.platform, to.credential)

    homes = {name: to for name, to in chats.homes.items() if fits(to)}
    channels = [channel for channel in chats.channels if fits(channel.address)]
    if command.asked.json:
        columns = [Column("target", value=lambda channel: channel.address), Column("name"), Column("guild")]
        listed = [as_json(channel, columns) for channel in channels]
        command.console.json({"homes": {name: str(to) for name, to in homes.items()}, "channels": listed})
    elif not homes and not channels:
        command.console.line("No chats yet. A chat appears here after somebody has written from it.")
    else:
        rows = [[str(to), f"home channel of {name}", ""] for name, to in homes.items()]
        rows += [[str(seen.address), seen.name, seen.kind.value if seen.kind else ""] for seen in channels]
        command.console.table(("TARGET", "NAME", "KIND"), rows)
