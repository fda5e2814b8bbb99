"""The error tree. Each error is named by what its catcher should do.

HermesError
├── UserError       show it: the person can mend it; safe to print, with a hint
│   └── SettingsError   the same, with file and line
├── Refused         do not retry: the other side said no
├── Unreachable     retry later (`after` seconds, if the other side told)
├── NeedsLogin      stop and ask the operator for credentials
├── ModelFault      a model gave no answer; `kind` says what to do about it
└── Lost            our lease or turn is no longer ours: stop quietly

Adapters, providers, stores and backends translate foreign errors into these at their border.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

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


def as_user_error(error: Exception) -> UserError:
    """Whatever was raised, foreign code's errors too, as one sentence for a person."""
    if isinstance(error, UserError):
        return error
    words = " ".join(str(error).split())[:300]
    ours = isinstance(error, HermesError | OSError)
    return UserError(words if ours and words else f"{type(error).__name__}: {words}".removesuffix(": "))


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

    `maybe_done` says that the request may have taken effect (it left, the answer did not come); `in_transfer`
    that a file was on its way, though nobody sees anything of it yet; `offline` that no connection came
    about, so that trying again soon disturbs nobody.
    """

    def __init__(
        self,
        message: str,
        *,
        after: float | None = None,
        maybe_done: bool = False,
        in_transfer: bool = False,
        offline: bool = False,
    ) -> None:
        super().__init__(message)
        self.after = after
        self.maybe_done = maybe_done
        self.in_transfer = in_transfer
        self.offline = offline


class NeedsLogin(HermesError):
    """Credentials are missing, wrong or revoked; only the operator can go on."""


class FaultKind(StrEnum):
    """Why a model did not answer, named so that retry, fallback and key pools can decide on it."""

    TOO_LONG = "too_long"
    """The conversation is longer than the model reads: shorten it."""
    BUSY = "busy"
    """The service has no room right now: try again soon."""
    LIMITED_UNTIL = "limited_until"
    """This account has used its share for now; mostly it was told until when."""
    NO_CREDIT = "no_credit"
    """Somebody has to pay, or another account has to be used."""
    BAD_KEY = "bad_key"
    """The operator has to give another key."""
    NO_MODEL = "no_model"
    """There is no such model there, or no service at all: another one may do."""
    NO_IMAGES = "no_images"
    """The model takes no pictures; with `only_this`, it does not take those of this request."""
    FILTERED = "filtered"
    """A content filter withheld the answer: say it in other words."""
    BAD_REQUEST = "bad_request"
    """This request cannot be answered, however often it is made."""
    BROKEN = "broken"
    """The connection, the service or the answer broke: try again."""


_PASSING = frozenset({FaultKind.BUSY, FaultKind.LIMITED_UNTIL, FaultKind.BROKEN})


class ModelFault(HermesError):
    """A model gave no answer. The words are safe to show; `hint` says what a person can do about it, `quote`
    what the service said. `after` (seconds) and `until` are what it said about trying again. `elsewhere` says
    that another credential or model answers if the call is made again now; `model` is whose fault it is, if
    not that of the model that was asked."""

    def __init__(
        self,
        message: str,
        *,
        kind: FaultKind,
        hint: str = "",
        after: float | None = None,
        until: datetime | None = None,
        only_this: bool = False,
        quote: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.quote = quote
        self.kind = kind
        self.hint = hint
        self.after = after
        self.until = until
        self.only_this = only_this
        self.elsewhere = False
        self.model = ""

    @property
    def is_passing(self) -> bool:
        """Whether the same request may work later."""
        return self.kind in _PASSING

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def as_model_fault(error: HermesError) -> ModelFault:
    """Any error of this tree as a provider may raise it."""
    match error:
        case ModelFault():
            return error
        case UserError():
            return ModelFault(error.message, kind=FaultKind.NO_MODEL, hint=error.hint)
        case NeedsLogin():
            return ModelFault(str(error), kind=FaultKind.BAD_KEY)
        case Unreachable():
            return ModelFault(str(error), kind=FaultKind.BUSY, after=error.after)
        case _:
            return ModelFault(str(error), kind=FaultKind.BAD_REQUEST)


class Lost(HermesError):
    """What we were working on belongs to somebody else now."""
