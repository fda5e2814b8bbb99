"""The error tree. Each error is named by what its catcher should do.

HermesError
├── UserError       show it: the person can mend it; safe to print, with a hint
│   └── SettingsError   the same, with file and line
├── Refused         do not retry: the other side said no
├── Unreachable     retry later (`after` seconds, if the other side told)
├── NeedsLogin      stop and ask the operator for credentials
└── Lost            our lease or turn is no longer ours: stop quietly

Adapters, providers, stores and backends translate foreign errors into these at their border.
"""

from __future__ import annotations

PRINTED = {"printed": True}
"""`extra` of a log record for an error that the command ends with, and so prints itself."""


class HermesError(Exception):
    """Root of the tree; never raised itself."""


class UserError(HermesError):
    """One sentence for a person, and what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SettingsError(UserError):
    """A wrong setting: where it stands, what is wrong, how to mend it."""

    def __init__(self, message: str, *, file: str, line: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}"


class Refused(HermesError):
    """The other side will not do this, however often it is asked."""


class Unreachable(HermesError):
    """It did not work now and may work later.

    `maybe_done` says that the request may have taken effect (it left, the answer did not come).
    """

    def __init__(self, message: str, *, after: float | None = None, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.maybe_done = maybe_done


class NeedsLogin(HermesError):
    """Credentials are missing, wrong or revoked; only the operator can go on."""


class Lost(HermesError):
    """What we were working on belongs to somebody else now."""
