"""Where sudo gets its password from: `SUDO_PASSWORD` of the gateway's `.env`, else whoever sits at a terminal
of this machine and watches the turn. Whatever works without a password never comes here."""

from __future__ import annotations

from collections.abc import Callable

from hermes.control.people.standing import at_machine, is_trusted
from hermes.control.turn.passwords import PasswordDesk
from hermes.domain.chats.address import LOCAL_DOOR
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import ToolContext
from hermes.state.settings.secrets import Secrets

VARIABLE = "SUDO_PASSWORD"


class SudoPasswords:
    def __init__(
        self, secrets: Secrets, settings: Callable[[], Settings], desk: Callable[[], PasswordDesk | None]
    ) -> None:
        self._secrets = secrets
        self._settings = settings
        self._desk = desk

    async def __call__(self, context: ToolContext, wrong: int) -> str:
        password = self._secrets.reveal(VARIABLE)
        if password and is_trusted(context.source, self._settings()):
            if wrong:
                raise UserError(
                    f"sudo did not accept {VARIABLE}.", hint=f"Set it anew: hermes config set {VARIABLE}"
                )
            return password
        desk, source = self._desk(), context.source
        here = source is not None and source.address.platform == LOCAL_DOOR and at_machine(source)
        if desk is None or not here or not desk.is_watched(context.turn):
            raise UserError(
                "sudo wants a password, which is never asked for in a conversation, where it would be kept.",
                hint=f"Set {VARIABLE} (hermes config set {VARIABLE}), allow this command without a password"
                " in sudoers, or ask for it in the terminal of the gateway's machine.",
            )
        return await desk.ask(context.session, context.turn, wrong)
