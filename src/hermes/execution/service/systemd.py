"""systemd: the unit of a gateway, and what is asked of `systemctl`. Sources: systemd.service(5),
systemd.exec(5), systemd.unit(5) of systemd 252.

What hardens it must leave sandboxes alone: bubblewrap mounts a /proc of its own, which the kernel refuses
where parts of /proc are covered (`ProtectKernelTunables`, `ProtectKernelLogs`, `ProtectControlGroups`), and
it needs namespaces. Filters of system calls imply that nothing gets more rights, so there is no sudo."""

from __future__ import annotations

from pathlib import Path

from hermes.execution.service.spec import ServiceSpec, ask_manager, escape_path, quote_word, quote_words

_HARDENED = """NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""
_SYSTEM_FOLDER = Path("/etc/systemd/system")


class SystemdService:
    def __init__(self, spec: ServiceSpec) -> None:
        self._spec = spec
        self.name = f"hermes-gateway{spec.suffix}.service"
        own = Path(spec.environ.get("XDG_CONFIG_HOME") or Path(spec.environ.get("HOME") or "/") / ".config")
        self.file = (_SYSTEM_FOLDER if spec.system else own / "systemd/user") / self.name

    @property
    def title(self) -> str:
        return f"systemd{'' if self._spec.system else ' of your login'}, {self.name}"

    @property
    def home_line(self) -> str:
        """What stands in the file of this home's service alone."""
        return f"Environment={quote_word(f'HERMES_HOME={self._spec.home}')}\n"

    def text(self) -> str:
        spec = self._spec
        stop = int(spec.drain) + 80
        seen = {"PATH": spec.environ.get("PATH", "")} | dict(spec.variables)
        lines = [f"Environment={quote_word(f'{name}={value}')}\n" for name, value in seen.items() if value]
        owner = f"User={escape_path(spec.user)}\n" if spec.system else ""
        network = "Wants=network-online.target\nAfter=network-online.target\n" if spec.system else ""
        wall = "" if spec.sudo else _HARDENED + ("ProtectSystem=full\n" if spec.system else "")
        return f"""\
# Written by `hermes gateway install`; `hermes gateway uninstall` removes it. Your own lines belong into a
# drop-in: systemctl {"" if spec.system else "--user "}edit {self.name}
[Unit]
Description=Hermes Gateway{f" ({spec.profile})" if spec.profile else ""}
{network}StartLimitIntervalSec=0

[Service]
Type=notify
{owner}ExecStart={quote_words(spec.program)}
ExecReload=/bin/kill -USR1 $MAINPID
WorkingDirectory=-{escape_path(str(spec.home))}
{"".join(lines)}{self.home_line}Restart=on-failure
RestartSec=2
RestartForceExitStatus=75
SuccessExitStatus=75
RestartPreventExitStatus=78
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec={stop}
WatchdogSec=120
UMask=0077
OOMPolicy=continue
{wall}
[Install]
WantedBy={"multi-user.target" if spec.system else "default.target"}
"""

    def start(self, *, now: bool) -> list[str]:
        """Let systemd know of the unit; what the operator may have to do beside it."""
        self._ask("daemon-reload")
        self._ask("enable", *(["--now"] if now else []), self.name)
        if self._spec.system:
            return []
        user = self._spec.user
        lingers = ask_manager(
            "loginctl", "show-user", user, "--property=Linger", environ=self._spec.environ, may_fail=True
        )
        if lingers == "Linger=yes":
            return []
        return [f"It ends when you log out. To let it begin with the machine: loginctl enable-linger {user}"]

    def remove(self) -> None:
        self._ask("disable", "--now", self.name, may_fail=True)
        self.file.unlink(missing_ok=True)
        self._ask("daemon-reload", may_fail=True)

    def _ask(self, *words: str, may_fail: bool = False) -> None:
        scope = [] if self._spec.system else ["--user"]
        ask_manager("systemctl", *scope, *words, environ=self._spec.environ, may_fail=may_fail)
