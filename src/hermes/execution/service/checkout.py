"""The checkout that Hermes runs from: which one it is, how far it is behind, how it is brought up to date.
An update that cannot be prepared is taken back. Everything here blocks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_SECONDS = 300.0
_PREPARING = 1200.0
_MADE_BY_US = "made-by-hermes"
_SHOWN = 20
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PASSED_ON_PREFIXES = ("PIP_", "UV_", "XDG_", "LC_", "GIT_", "SSH_AUTH_", "HERMES_PYTHON")
ELSEWHERE = "Hermes does not run from a clone of its repository here."
OTHER_WAYS = "Update it as it was installed: pipx, uv or pip from a newer clone, or a newer image."


class UpdateState(Struct, frozen=True, kw_only=True):
    """`changes` are the first lines of what is new, newest first; there are `behind` of them."""

    root: Path
    behind: int
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.behind:
            return "Hermes is up to date."
        more = f"\n… and {self.behind - len(self.changes)} more" if self.behind > len(self.changes) else ""
        listed = "\n".join(f"- {line}" for line in self.changes)
        return f"{self.behind} change{'s' * (self.behind != 1)} to come:\n{listed}{more}"


def checkout_in_use() -> Path | None:
    """The checkout whose `./hermes` made this environment."""
    root, prefix = Path(__file__).parents[4], Path(sys.prefix)
    try:
        lock = (prefix / "installed").read_text(encoding="utf-8").strip().partition("/")[2]
    except OSError:
        return None
    ours = (prefix / _MADE_BY_US).exists() and (root / "hermes").is_file()
    return root if ours and Path(f"/{lock}") == root / "requirements.lock" else None


def look_for_update(root: Path | None, environ: Mapping[str, str]) -> UpdateState:
    """Ask where it came from what is new; a `UserError` says why that cannot be known."""
    if root is None or not (root / ".git").exists():
        raise UserError(ELSEWHERE, hint=OTHER_WAYS)
    _git(root, environ, "fetch", "--quiet")
    count = _git(root, environ, "rev-list", "--count", "HEAD..@{upstream}")
    subjects = _git(root, environ, "log", f"--max-count={_SHOWN}", "--format=%s", "HEAD..@{upstream}")
    changes = tuple(one_line(line, 120) for line in subjects.splitlines())
    return UpdateState(root=root, behind=int(count), changes=changes)


def update_checkout(state: UpdateState, environ: Mapping[str, str]) -> None:
    """Bring it up to date, and its packages; nothing has changed if a `UserError` says why not."""
    root = state.root
    if _git(root, environ, "status", "--porcelain", "--untracked-files=no"):
        raise UserError(
            f"Files in {root} were changed by hand.", hint=f"Put them aside first: git -C {root} stash"
        )
    before = _git(root, environ, "rev-parse", "HEAD")
    _git(root, environ, "merge", "--quiet", "--ff-only", "@{upstream}")
    if why := _prepare(root, environ):
        _git(root, environ, "reset", "--quiet", "--keep", before)
        _prepare(root, environ)  # a new environment may be in place already
        raise UserError(f"The new version could not be prepared, so the old one stays: {one_line(why, 300)}")


def _prepare(root: Path, environ: Mapping[str, str]) -> str:
    """Prepare the environment, as the next start would; why that does not work."""
    try:
        done = subprocess.run(
            [str(root / "hermes"), "--version"], env={**environ, "HERMES_VENV": sys.prefix},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PREPARING,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or "no reason was given") if done.returncode else ""


def _git(root: Path, environ: Mapping[str, str], *words: str) -> str:
    asked = {**environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(
            command, env=asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git does not work: {error}.", hint="Install git, or check the network.") from None
    if done.returncode:
        why = one_line(done.stderr.strip() or f"exit code {done.returncode}", 300)
        hint = f"See for yourself: git -C {root} {' '.join(words)}"
        raise UserError(f"git {words[0]} failed: {why}", hint=hint)
    return done.stdout.strip()


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """What git and installers need; they run code of others, so no keys."""
    return {
        name: value
        for name, value in environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES) or name.lower().endswith("_proxy")
    }
