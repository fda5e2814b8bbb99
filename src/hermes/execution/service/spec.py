"""What a service is to run, whoever manages it, and how a manager's own program is asked."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_SECONDS = 120.0


class ServiceSpec(Struct, frozen=True, kw_only=True):
    """`program` begins with an absolute path. `profile` is empty for the usual home; `user` is whose service
    it is where the system runs it; `apart` names it after its home, as another home has the usual name.
    `drain` is how long a stop may take. `variables` are what it is to see of the shell beside the PATH."""

    program: tuple[str, ...]
    home: Path
    environ: Mapping[str, str]
    profile: str = ""
    system: bool = False
    user: str = ""
    sudo: bool = False
    apart: bool = False
    drain: float = 10.0
    variables: Mapping[str, str] = {}

    @property
    def suffix(self) -> str:
        own = hashlib.sha256(str(self.home).encode()).hexdigest()[:8] if self.apart else ""
        return "".join(f"-{word}" for word in (self.profile, own) if word)


def ask_manager(*words: str, environ: Mapping[str, str], may_fail: bool = False) -> str:
    """What a service manager's program prints; a `UserError` says why it did not do it."""
    try:
        done = subprocess.run(
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{words[0]} does not work here: {error}.", hint=NO_MANAGER) from None
    if done.returncode and not may_fail:
        why = one_line((done.stderr or done.stdout).strip() or f"exit code {done.returncode}", 300)
        raise UserError(f"{' '.join(words)} failed: {why}", hint="Mend that, and run the same command again.")
    return done.stdout.strip()


NO_MANAGER = "Without a service manager: hermes gateway start (it lives until the next reboot), or Docker."


def quote_words(words: Sequence[str]) -> str:
    """Words of a command in a unit: systemd expands `$` there."""
    return " ".join(quote_word(word).replace("$", "$$") for word in words)


def quote_word(word: str) -> str:
    """A word in a unit: systemd ends words at blanks and reads quotes and backslashes."""
    plain = escape_path(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def escape_path(word: str) -> str:
    """What stands alone in a line of a unit: systemd expands `%`."""
    if not word.isprintable():
        raise UserError(f"“{one_line(word, 80)}” cannot stand in the file of a service.")
    return word.replace("%", "%%")
