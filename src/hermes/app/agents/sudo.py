"""Where sudo gets its password from: `SUDO_PASSWORD` of the gateway's `.env`, else nobody. Whatever works
without a password never comes here."""

from __future__ import annotations

from collections.abc import Callable

from hermes.control.people.standing import is_trusted
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.domain.tool import ToolContext
from hermes.state.settings.secrets import Secrets

VARIABLE = "SUDO_PASSWORD"
_NONE = UserError(
    "sudo wants a password, and none is ever asked for in a conversation, where it would be kept.",
    hint=f"Set {VARIABLE} (hermes config set {VARIABLE}), allow it without one in sudoers, or run it yourself.",
)


class SudoPasswords:
    def __init__(self, secrets: Secrets, settings: Callable[[], Settings]) -> None:
        self._secrets = secrets
        self._settings = settings

    async def __call__(self, context: ToolContext, wrong: int) -> str:
        password = self._secrets.reveal(VARIABLE)
        if not password or not is_trusted(context.source, self._settings()):
            raise UserError(_NONE.message, hint=_NONE.hint)
        if wrong:
            raise UserError(
                f"sudo did not accept {VARIABLE}.", hint=f"Set it anew: hermes config set {VARIABLE}"
            )
        return password
