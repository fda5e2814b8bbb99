"""launchd: the agent of a gateway in the login of its owner. Source: launchd.plist(5). Nothing here was run
on macOS yet; the file is checked with `plistlib`."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path
from xml.sax.saxutils import escape

from hermes.execution.service.spec import ServiceSpec, ask_manager


class LaunchdService:
    def __init__(self, spec: ServiceSpec) -> None:
        self._spec = spec
        self.name = f"ai.hermes.gateway{spec.suffix}"
        self.file = Path(spec.environ.get("HOME") or "/") / "Library/LaunchAgents" / f"{self.name}.plist"

    @property
    def title(self) -> str:
        return f"launchd, {self.name}"

    @property
    def home_line(self) -> str:
        """What stands in the file of this home's service alone."""
        return f"<string>{escape(str(self._spec.home))}</string>"

    def text(self) -> str:
        spec = self._spec
        variables = {"PATH": spec.environ.get("PATH", ""), "HERMES_HOME": str(spec.home)}
        variables |= spec.variables
        content = {
            "Label": self.name,
            "ProgramArguments": [*spec.program, "--external-supervisor"],
            "EnvironmentVariables": {name: value for name, value in variables.items() if value},
            "WorkingDirectory": str(spec.home),
            "RunAtLoad": True,
            # It is started again unless it ended in order: launchd knows no exit codes.
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 30,
            "ExitTimeOut": int(spec.drain) + 80,
            "ProcessType": "Background",
            "Umask": 0o077,
            "StandardOutPath": str(spec.home / "logs/gateway.out"),
            "StandardErrorPath": str(spec.home / "logs/gateway.out"),
        }
        return plistlib.dumps(content).decode()

    def start(self, *, now: bool) -> list[str]:
        del now  # what is loaded begins
        domain = f"gui/{os.getuid()}"
        self._ask("bootout", f"{domain}/{self.name}", may_fail=True)
        self._ask("bootstrap", domain, str(self.file))
        return []

    def remove(self) -> None:
        self._ask("bootout", f"gui/{os.getuid()}/{self.name}", may_fail=True)
        self.file.unlink(missing_ok=True)

    def _ask(self, *words: str, may_fail: bool = False) -> None:
        ask_manager("launchctl", *words, environ=self._spec.environ, may_fail=may_fail)
