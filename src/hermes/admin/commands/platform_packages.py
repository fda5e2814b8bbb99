"""The packages that only some need, for a platform or a proxy, installed into the environment in use from a
lock that pins them by hash. An environment that `./hermes` made is extended by the script that made it, which
remembers what it has; any other one by pip or uv."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.capabilities import PackageExtra
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.execution.service.checkout import checkout_in_use, passed_on

FURTHER_EXTRAS = {
    "backup": PackageExtra(name="backup", modules=("pyrage",)),
    "daytona": PackageExtra(name="daytona", modules=("daytona",)),
    "socks": PackageExtra(name="socks", modules=("aiohttp_socks",)),
    "honcho": PackageExtra(name="honcho", modules=("honcho",)),
    "local": PackageExtra(name="local", modules=("xllamacpp",)),
    "mcp": PackageExtra(name="mcp", modules=("mcp",)),
    "modal": PackageExtra(name="modal", modules=("modal",)),
    "web": PackageExtra(name="web", modules=("trafilatura", "pypdf", "openpyxl")),
    "ddgs": PackageExtra(name="ddgs", modules=("ddgs",)),
    "stt": PackageExtra(name="stt", modules=("faster_whisper",)),
    "tts": PackageExtra(name="tts", modules=("edge_tts",)),
}
"""What no single platform needs: proxies, memory, models from files, sandboxes, pages, speech, MCP."""
_LOCKS = Path(__file__).parents[1] / "extras"
_PACKAGE = re.compile(r"^([\w.-]+)==", re.MULTILINE)


def is_importable(module: str) -> bool:
    try:
        return find_spec(module.replace("-", "_")) is not None
    except (ImportError, ValueError):
        return False


def is_installed(extra: PackageExtra) -> bool:
    return all(map(is_importable, extra.modules))


def packages_of(extra: PackageExtra) -> list[str]:
    return _PACKAGE.findall(_lock_of(extra).read_text(encoding="utf-8"))


def install_extra(extra: PackageExtra, name: str, console: CliConsole) -> None:
    """Install it, and tell how that goes; `name` is the platform's."""
    count = len(packages_of(extra))
    console.note(f"Installing {count} package{'' if count == 1 else 's'} into {sys.prefix} …")
    checkout = checkout_in_use()
    why = _install_here(_lock_of(extra)) if checkout is None else _prepare_again(checkout, extra.name)
    importlib.invalidate_caches()
    if why or not is_installed(extra):
        raise UserError(
            f"The packages could not be installed{f': {one_line(why, 300)}' if why else '.'}",
            hint=f"Check the network, then run: hermes platforms install {name}",
        )
    # Some of a lock are for other systems.
    here = {str(one.name).lower().replace("_", "-") for one in metadata.distributions()}
    console.line(f"Installed: {', '.join(name for name in packages_of(extra) if name in here)}")


def _lock_of(extra: PackageExtra) -> Path:
    return _LOCKS / f"{extra.name}.lock"


def _prepare_again(root: Path, extra: str) -> str:
    """Let the checkout prepare its environment once more, with one extra more in its list."""
    listed, prefix = Path(f"{sys.prefix}.extras"), Path(sys.prefix)
    try:
        before = listed.read_text(encoding="utf-8") if listed.exists() else ""
        if extra not in before.split():
            listed.write_text(f"{before}{extra}\n", encoding="utf-8")
        (prefix / "stamp").unlink(missing_ok=True)
    except OSError as error:
        return f"{error.filename or listed} cannot be written ({error.strerror})"
    environ = passed_on(os.environ) | {"HERMES_VENV": str(prefix)}
    done = subprocess.run([root / "hermes", "--version"], env=environ, stdout=subprocess.DEVNULL, check=False)
    if done.returncode or not (prefix / f"extra-{extra}").exists():
        listed.write_text(before, encoding="utf-8")  # else every later set-up would try it again
        return "the lines above say why"
    return ""


def _install_here(lock: Path) -> str:
    """With pip, or with uv where there is no pip; why that failed, or nothing."""
    options = ["install", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    if is_importable("pip"):
        command = [sys.executable, "-P", "-m", "pip", *options, "--no-input", "--disable-pip-version-check"]
    elif uv := which("uv"):
        command = [uv, "pip", *options, "--no-config", "--python", sys.executable]
    else:
        return f"this environment has no pip, and there is no uv. What is needed stands in {lock}"
    done = subprocess.run(
        command,
        cwd=sys.prefix,  # a `pip.py` or `uv.toml` of the current folder is not ours
        env=passed_on(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return _reason(done.stderr.splitlines()) if done.returncode else ""


def _reason(lines: Sequence[str]) -> str:
    texts = [line.strip() for line in lines if line.strip()]
    errors = [text.removeprefix("ERROR: ") for text in texts if text.startswith("ERROR: ")]
    return (errors or texts or ["the installer does not say why"])[-1]
