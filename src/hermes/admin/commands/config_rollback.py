"""`hermes config rollback`: go back to what config.yaml said before. What stands there now is kept, so that a
rollback can be taken back, too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hermes.admin.shell.changing import DRY_RUN, UNCHANGED, apply_change, load
from hermes.admin.shell.command import JSON, CliCommand, Subcommands, number_to
from hermes.admin.shell.output import Column, ago
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.settings import Settings
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.homes import agent_home
from hermes.state.home.textfile import read_text
from hermes.state.settings.history import KEPT, earlier_configs
from hermes.state.settings.loader import CONFIG_FILE
from hermes.state.settings.whole_changes import ConfigChange


def add_rollback(commands: Subcommands) -> None:
    summary = "Go back to what config.yaml said before the last change, or an earlier one."
    arguments = {"--list": "list what there is to go back to"} | DRY_RUN | JSON
    added = commands.add("rollback", summary, _rollback, arguments)
    about = "which one, as --list numbers them; the latest if you name none"
    added.add_argument("number", nargs="?", type=number_to(KEPT), default=1, help=about)


def _rollback(command: CliCommand) -> None:
    file = command.home / CONFIG_FILE
    now = read_text(file, SettingsFindings(str(file)))
    earlier = earlier_configs(command.home, now.text)
    if command.asked.list:
        rows = [(n, each) for n, each in enumerate(earlier, 1)]
        columns = [
            Column("number", "NUMBER", value=lambda row: row[0]),
            Column("at", "KEPT", ago, value=lambda row: row[1].at),
            Column("lines", "LINES", value=lambda row: len(row[1].text.splitlines())),
        ]
        command.list(rows, columns, none="There is nothing to go back to.")
        return
    if len(earlier) < command.asked.number:
        kept = "What commands change and a gateway adopts is kept."
        hint = f"There are {len(earlier)}." if earlier else kept
        raise UserError("There is nothing to go back to.", hint=hint)
    change = ConfigChange(
        file=file,
        before=now.text,
        after=earlier[command.asked.number - 1].text,
        mode=0o600 if now.mode is None else now.mode,
    )
    _check_ids(command, change)
    apply_change(command, change)


def _check_ids(command: CliCommand, change: ConfigChange) -> None:
    """Conversations, memory and jobs go by the id of their agent, and only a rename takes them along."""
    now, then = load(command).settings, load(command, change.after).settings
    later = {_lives(command, now, name): name for name in now.agents if name not in then.agents}
    for name in then.agents:
        place = _lives(command, then, name)
        if name not in now.agents and place and (called := later.get(place)):
            raise UserError(
                f"There the agent {called} is called {name}, and its conversations would not go along.",
                hint=f"First: hermes agent rename {called} {name}. Then go back further. {UNCHANGED}",
            )


def _lives(command: CliCommand, settings: Settings, name: str) -> Path | None:
    with suppress(UserError):  # its home_dir leads nowhere, which may be why somebody goes back
        return agent_home(command.home, AgentId(name), settings)
    return None
