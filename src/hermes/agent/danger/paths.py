"""Places that matter: which paths hold secrets, run by themselves later, or belong to the system.

Judged by name alone, after `.`, `..` and `~` are resolved; what is a link is the file tools' to find out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hermes.agent.danger.expand import UNKNOWN, has_glob, to_plain
from hermes.agent.danger.names import names

# Matched against paths in which the home folder is written `~`.
_SECRET = re.compile(
    r"""
    ~/\.ssh/(?!known_hosts|config$|.*\.pub$).* | ~/\.ssh | ~/\.gnupg(/.*)? | ~/\.aws(/.*)? | ~/\.azure(/.*)?
    | ~/\.kube(/.*)? | ~/\.docker/config\.json | ~/\.config/(gcloud|gh|op|rclone)(/.*)? | ~/\.netrc
    | ~/\.pgpass | ~/\.my\.cnf | ~/\.npmrc | ~/\.pypirc | ~/\.git-credentials | ~/\.config/git/credentials
    | ~/\.password-store(/.*)? | ~/\.local/share/keyrings(/.*)? | ~/Library/Keychains(/.*)?
    | ~/\.(mozilla|thunderbird|config/(google-chrome|chromium|BraveSoftware))(/.*)?
    | ~/\.(bash|zsh|python|psql|mysql)_history | ~/\.vault-token | ~/\.terraform\.d/credentials.*
    | /etc/(shadow|gshadow|sudoers|master\.passwd)(-|\.d(/.*)?)? | /etc/ssh/ssh_host_.*_key
    | /etc/ssl/private(/.*)? | /proc/[^/]+/(environ|mem|maps) | /proc/kcore | /dev/(mem|kmem|port)
    | /(var/)?run/secrets(/.*)? | /var/lib/docker(/.*)? | /root/\.ssh(/.*)?
    | .*/(id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|p12|pfx|keystore|jks|kdbx)|credentials\.json|\.htpasswd)
    | .*/\.env(?!\.(example|sample|template|dist)$)(\..*|rc)?
    | .*/(secrets?|service[-_]account.*)\.(ya?ml|json|toml)
    """,
    re.VERBOSE,
)
_STARTUP = re.compile(
    r"""
    ~/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout
    |kshrc|cshrc|tcshrc|login|inputrc|xinitrc|xsession|xprofile|vimrc|emacs|gitconfig|tmux\.conf|pythonrc|curlrc
    |wgetrc|gdbinit)
    | ~/\.config/(fish|autostart|systemd|environment\.d|git|nvim)(/.*)? | ~/\.local/bin(/.*)? | ~/bin(/.*)?
    | ~/Library/LaunchAgents(/.*)? | .*/\.git/(hooks(/.*)?|config) | .*/\.husky(/.*)? | ~/\.vim(/.*)?
    | .*/(sitecustomize|usercustomize)\.py | .*\.pth
    """,
    re.VERBOSE,
)
_SCHEDULE = re.compile(r"/etc/(cron.*|anacrontab|at\..*)|/var/spool/(cron|at)(/.*)?")
_SYSTEM = re.compile(
    r"/(etc|usr|bin|sbin|lib|lib32|lib64|boot|opt|sys|srv|root|var|snap|System|Library|Applications)(/.*)?"
)
_HARMLESS_SYSTEM = re.compile(r"/var/(tmp|folders)/.+|/usr/src/app/.+")
_DEVICE = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|md|dm-|mapper/|loop|sr|mtd|ram|fb|mem|kmem|port).*"
)
_HARMLESS_DEVICE = re.compile(
    r"/dev/(null|zero|full|stdin|stdout|stderr|tty|random|urandom|fd/.*|shm/.+|pts/.*)"
)
_ROOTS = re.compile(
    r"/|/(etc|usr|bin|sbin|lib|lib32|lib64|boot|dev|home|opt|proc|root|run|srv|sys|var|tmp|mnt|media|Users|System"
    r"|Library|Applications|Volumes|nix|snap)|/(home|Users)/[^/]+|/usr/(bin|lib|local|share|sbin)|/var/(lib|log)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command is to run: what it may treat as its own, and what is the agent's."""

    cwd: str
    workspace: str
    home: str
    agent_home: str = ""
    own_pids: tuple[int, ...] = ()
    deny: tuple[str, ...] = ()
    """Patterns of commands that the operator forbids."""

    def denies(self, command: str) -> bool:
        folded = command.strip().casefold()
        return any(fnmatchcase(folded, pattern.casefold()) for pattern in self.deny)


def resolve(path: str, cwd: str | None) -> str | None:
    """An absolute path without `.` and `..`; None if it cannot be known."""
    if UNKNOWN in path:
        return None
    if not path.startswith("/"):
        if cwd is None:
            return None
        path = os.path.join(cwd, path)
    return re.sub(r"^/+", "/", os.path.normpath(path))


def _short(path: str, place: Place) -> str:
    path = to_plain(path)
    return "~" + path[len(place.home) :] if path == place.home or path.startswith(place.home + "/") else path


def _could_be(pattern: re.Pattern[str], path: str, place: Place) -> bool:
    """Whether the path, or with globs anything it may stand for that is worth the question, is meant."""
    short = _short(path, place)
    if pattern.fullmatch(short):
        return True
    if not has_glob(path):
        return False
    folder, _, name = short.rpartition("/")
    return any(pattern.fullmatch(f"{folder}/{one}") and _glob(name, one) for one in _TEMPTING)


_TEMPTING = names("id_rsa id_ed25519 .env shadow sudoers environ .bashrc .netrc credentials.json")


def _glob(pattern: str, name: str) -> bool:
    """As a shell matches, except that a pattern of nothing but wildcards means everything, not this."""
    if not re.search(r"[^*?]", pattern) or (name.startswith(".") and not pattern.startswith((".", "["))):
        return False
    return fnmatchcase(name, pattern)


def is_secret(path: str, place: Place) -> bool:
    if place.agent_home and _within(path, place.agent_home):
        below = path[len(place.agent_home) :].lstrip("/")
        if re.match(r"(\.env|auth|tokens?|secrets?|pairing|oauth|webhook_sub|state\.db)", below):
            return True
    return _could_be(_SECRET, path, place)


def write_fault(path: str, place: Place) -> str:
    """The id of the rule that a write there breaks, or nothing."""
    if place.agent_home and _within(path, place.agent_home) and not _within(path, place.workspace):
        below = path[len(place.agent_home) :].lstrip("/")
        if not re.match(r"(cache|workspace|tmp)/", below):
            return "write.agent"
    if _could_be(re.compile(r"~/\.ssh(/.*)?|/root/\.ssh(/.*)?|.*/authorized_keys2?"), path, place):
        return "write.ssh"
    if _could_be(_STARTUP, path, place):
        return "write.startup"
    if _could_be(_SCHEDULE, path, place):
        return "write.schedule"
    if is_secret(path, place):
        return "write.secret"
    return _system_fault(path, place)


def _system_fault(path: str, place: Place) -> str:
    text = to_plain(path)
    if _DEVICE.fullmatch(text):
        return "disk.device"
    if text.startswith(("/dev/tcp/", "/dev/udp/")):
        return "net.socket"
    if text.startswith("/dev/") and not _HARMLESS_DEVICE.fullmatch(text):
        return "write.system"
    if text.startswith(("/proc/", "/sys/")):
        return "write.system"
    mine = _within(path, place.workspace) or _within(path, place.home) or _HARMLESS_SYSTEM.fullmatch(text)
    return "write.system" if _SYSTEM.fullmatch(text) and not mine else ""


def delete_fault(path: str | None, place: Place, *, recursive: bool) -> str:
    """The id of the rule that deleting this breaks, or nothing."""
    if path is None:
        return "delete.unknown"
    name = to_plain(path)
    folder = os.path.dirname(name) if has_glob(os.path.basename(path)) else name
    everything = os.path.basename(name) in ("*", ".*", "?*", "**") or name == folder
    if recursive and everything and (_ROOTS.fullmatch(folder) or folder == place.home):
        tmp = folder == "/tmp" and name != folder
        return "delete.outside" if tmp else "delete.root"
    fault = write_fault(path, place)
    if fault:
        return "delete.outside" if fault == "write.system" else fault
    if _within(folder, place.workspace):
        whole = name == place.workspace or (folder == place.workspace and everything)
        return "delete.everything" if whole or os.path.basename(name) == ".git" else ""
    scratch = re.match(r"/(var/)?tmp/[^/]+", folder) or (folder == "/tmp" and not everything)
    return "" if scratch and not _within(folder, place.home) else "delete.outside"


def _within(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
