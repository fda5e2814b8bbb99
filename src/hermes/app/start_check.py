"""Whether a gateway would start with the files, packages and plugins as they are now. This is asked in a
process of its own: a gateway that runs knows only the plugins of its start, and keeps what was removed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hermes.domain.errors import SettingsError, UserError
from hermes.domain.text import one_line

SECONDS = 120.0
"""How long it may take; each plugin that hangs takes some of it."""
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


async def check_new_process(home: Path, environ: Mapping[str, str], tolerated: Iterable[str]) -> None:
    """Raise what would keep a new process from starting on this home; a wrong model is no reason for agents
    that are `tolerated`."""
    own = {name: os.environ[name] for name in os.environ if name in _PASSED_ON or name.startswith("PYTHON")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=own,
        start_new_session=True,
    )
    # Not as its environment, which others of this machine's user can read.
    asked = {"home": str(home), "environ": dict(environ), "tolerated": list(tolerated)}
    try:
        async with asyncio.timeout(SECONDS):
            said, printed = await child.communicate(json.dumps(asked).encode("utf-8", "surrogateescape"))
    except TimeoutError:
        raise UserError(f"The settings could not be checked within {SECONDS:.0f} seconds.") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    _raise_told(said, printed.decode("utf-8", "replace"), child.returncode)


def _raise_told(answer: bytes, printed: str, code: int | None) -> None:
    try:
        told: dict[str, Any] = json.loads(answer.splitlines()[-1])
    except (ValueError, IndexError):
        last = one_line(printed.strip().rpartition("\n")[2], 300)
        raise UserError(
            f"The settings could not be checked: the check ended with code {code}. {last}"
        ) from None
    if not told:
        return
    if "file" in told:
        raise SettingsError(told["message"], hint=told["hint"], file=told["file"], line=told["line"])
    raise UserError(told["message"], hint=told["hint"])


def main() -> None:
    from hermes.app.app import App
    from hermes.app.overrides import AppOverrides
    from hermes.domain.errors import as_user_error

    asked = json.load(sys.stdin)
    told: dict[str, Any] = {}
    try:
        app = App(Path(asked["home"]), asked["environ"], AppOverrides(in_memory=True))
        asyncio.run(app.rehearse(asked["tolerated"]))
    except Exception as error:  # plugins have a part in a start, and may raise anything
        why = as_user_error(error)
        told = {"message": why.message, "hint": why.hint}
        if isinstance(why, SettingsError):
            told |= {"file": why.file, "line": why.line}
    sys.stdout.write(f"\n{json.dumps(told)}\n")
    sys.stdout.flush()
    os._exit(0)  # a plugin may have left a thread that does not end


if __name__ == "__main__":
    main()
