"""Which program is the browser. Apart from starting it, since each gateway asks whether there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

_APPLICATIONS = "/Applications/{0}.app/Contents/MacOS/{0}"
_PROGRAMS = (
    "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome-headless-shell",
    _APPLICATIONS.format("Google Chrome"), _APPLICATIONS.format("Chromium"),
)  # fmt: skip
_ALSO_SEARCHED = "/usr/local/bin:/usr/bin:/bin"
HOW_TO_INSTALL = "Install it: `apt-get install chromium`, or set browser.path or browser.cdp_url."


def find_browser(path: str, environ: Mapping[str, str]) -> str:
    """The program; empty if there is none."""
    search = f"{environ.get('PATH', '')}:{_ALSO_SEARCHED}"
    names = (os.path.expanduser(path),) if path else _PROGRAMS
    return next(filter(None, (shutil.which(name, path=search) for name in names)), "")
