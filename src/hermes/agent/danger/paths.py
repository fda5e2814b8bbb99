"""Places that matter: which paths hold secrets, run by themselves later, or belong to the system.

Judged by name alone, after `.`, `..` and `~` are resolved; the file tools resolve links."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from hermes.agent.danger.ignored import FILE, is_ignored
from hermes.agent.danger.names import listed
from hermes.agent.danger.scope import ROOTS, CommandScope, is_within
from hermes.agent.danger.shell.expand import UNKNOWN, has_glob, to_plain
from hermes.agent.danger.shell.syntax import BRACKET, QUESTION, STAR
from hermes.domain.ports.world import FolderRules
from hermes.domain.safety.late_pattern import late_pattern

# Matched against paths in which the home folder is written `~`.
_SECRET = late_pattern(
    r"""
    ~/\.ssh/(?!known_hosts|config$|.*\.pub$).* | ~/\.ssh | ~/\.gnupg(/.*)? | ~/\.aws(/.*)? | ~/\.azure(/.*)?
    | ~/\.kube(/.*)? | ~/\.docker/config\.json | ~/\.config/(gcloud|gh|op|rclone)(/.*)? | ~/\.netrc
    | ~/\.pgpass | ~/\.my\.cnf | ~/\.npmrc | ~/\.pypirc | ~/\.git-credentials | ~/\.config/git/credentials
    | ~/\.password-store(/.*)? | ~/\.local/share/keyrings(/.*)? | ~/Library/Keychains(/.*)?
    | ~/\.(mozilla|thunderbird|config/(google-chrome|chromium|BraveSoftware))(/.*)?
    | ~/\.(bash|zsh|python|psql|mysql)_history | ~/\.vault-token | ~/\.terraform\.d/credentials.*
    | /etc/(shadow|gshadow|sudoers|master\.passwd)(-|\.d(/.*)?)? | /etc/ssh/ssh_host_.*_key
    | /etc/ssl/private(/.*)? | /proc/(?!self/fd/)[^/]+/(task/[^/]+/)?(environ|mem|maps|(root|cwd|fd)(/.*)?)
    | /proc/kcore | /dev/(mem|kmem|port)
    | /(var/)?run/secrets(/.*)? | /var/lib/docker(/.*)? | /root/\.ssh(/.*)? | .*/\.env\.[^/]*/.*
    """,
    re.VERBOSE | re.DOTALL,
)
_SECRET_NAME = late_pattern(
    r"""
    id_(rsa|dsa|ecdsa|ed25519) | .*\.(pem|p12|pfx|keystore|jks|kdbx) | credentials\.json | \.htpasswd
    | \.env(?!\.(example|sample|template|dist)$)(\..*|rc)?
    | (secrets?|service[-_]account.*)\.(ya?ml|json|toml)
    """,
    re.VERBOSE | re.DOTALL,
)
_STARTUP = late_pattern(
    r"""
    ~/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout
    |kshrc|cshrc|tcshrc|login|inputrc|xinitrc|xsession|xprofile|vimrc|emacs|gitconfig|tmux\.conf|pythonrc|curlrc
    |wgetrc|gdbinit)
    | ~/\.config/(fish|autostart|systemd|environment\.d|git|nvim)(/.*)? | ~/\.local/bin(/.*)? | ~/bin(/.*)?
    | ~/Library/LaunchAgents(/.*)? | .*/\.git/(hooks(/.*)?|config) | .*/\.husky(/.*)? | ~/\.vim(/.*)?
    | .*/(sitecustomize|usercustomize)\.py | .*\.pth
    """,
    re.VERBOSE | re.DOTALL,
)
_HOOKS = (
    r".*/\.git/(hooks(/.*)?|config(\.worktree)?|commondir|info/attributes)|.*/\.husky(/.*)?|.*/\.envrc"
    r"|(?=.*?/\.git/(modules|worktrees)/).*/(hooks(/.*)?|config(\.worktree)?|commondir)"
    r"|.*/\.vscode/(tasks|launch|settings)\.json"
)
_LATER = late_pattern(_HOOKS, re.DOTALL)
_LATER_OUTSIDE = late_pattern(
    _HOOKS
    + r"|.*/\.github/(workflows|actions)(/.*)?|.*/(\.gitlab-ci|azure-pipelines|\.travis|\.drone)\.ya?ml"
    r"|.*/\.(circleci|buildkite|gitea|forgejo)(/.*)?|.*/(Jenkinsfile|\.pre-commit-config\.yaml|lefthook\.ya?ml)"
    r"|.*/\.(idea|devcontainer|cursor|claude)(/.*)?|.*/\.git(modules|attributes)",
    re.DOTALL,
)
"""What runs by itself where the workspace is used outside of the sandbox: by people, editors or servers."""
_PROMPT = late_pattern(
    r".*/(\.hermes|\.agents|\.claude)(/skills(/.*)?)?|.*/(\.hermes|HERMES|AGENTS|CLAUDE)\.md|.*/\.cursorrules"
    r"|.*/\.cursor(/rules(/.*)?)?",
    re.DOTALL | re.IGNORECASE,
)
"""What the prompt of later conversations in a folder is made of."""
_LOGIN = late_pattern(r"~/\.ssh(/.*)?|/root/\.ssh(/.*)?|.*/authorized_keys2?", re.DOTALL)
_SCHEDULE = late_pattern(r"/etc/(cron.*|anacrontab|at\..*)|/var/spool/(cron|at)(/.*)?", re.DOTALL)
_SYSTEM = late_pattern(
    r"/(etc|usr|bin|sbin|lib|lib32|lib64|boot|opt|sys|srv|root|var|snap|System|Library|Applications)(/.*)?",
    re.DOTALL,
)
_HARMLESS_SYSTEM = late_pattern(r"/var/(tmp|folders)/.+|/usr/src/app/.+")
_DEVICE = late_pattern(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|md|dm-|mapper/|loop|sr|mtd|ram|fb|mem|kmem|port).*",
    re.DOTALL,
)
_HARMLESS_DEVICE = late_pattern(
    r"/dev/(null|zero|full|stdin|stdout|stderr|tty|random|urandom|fd/\d\d?|shm/.+|pts/.*)"
)
_POWER = late_pattern(r"/proc/(sysrq-trigger|acpi/sleep)|/sys/power/(state|disk)|/dev/watchdog\d*")
"""What is written there stops, restarts or sends to sleep the machine."""
_LONGEST_PATH = 4096
_DEEPEST_LINK = 7
_LINKS = late_pattern(rf"proc|dev/|/[^/]*[{STAR}{QUESTION}{BRACKET}]")
_LINK = late_pattern(r"proc/[^/]+/(task/[^/]+/)?(cwd|root|fd/[^/]+)|dev/(fd/[^/]+|stdin|stdout|stderr)")


def resolve(path: str, cwd: str | None) -> str | None:
    """An absolute path without `.` and `..`; None if it cannot be known."""
    if UNKNOWN in path:
        return None
    if not path.startswith("/"):
        if cwd is None:
            return None
        path = os.path.join(cwd, path)
    if _LINKS.search(path):
        return _followed(path, cwd)
    return re.sub(r"^/+", "/", os.path.normpath(path))


def _followed(path: str, cwd: str | None) -> str | None:
    """The same through the links that the system keeps for processes; None behind those that nobody knows."""
    names: list[str] = []
    for name in path.split("/"):
        here = "/".join(names) if len(names) < _DEEPEST_LINK else ""
        if name == "..":
            if len(names) > 2 and fnmatchcase("proc", to_plain(names[0])):
                return None
            names = names[:-1]
        elif name and name != ".":
            if _LINK.fullmatch(here) or _may_be_link(here) or (names and _may_be_above(names[-1])):
                return None
            names.append(name)
        if name in ("cwd", "root") and names[:-1] in (["proc", "self"], ["proc", "thread-self"]):
            if name == "cwd" and (cwd is None or _LINKS.search(cwd)):
                return None
            names = (cwd or "").strip("/").split("/") if name == "cwd" else []
    return "/" + "/".join(names)


def _may_be_above(name: str) -> bool:
    """`.*` and `.?` stand for `..` too, in most shells."""
    return name[0] == "." and has_glob(name) and fnmatchcase("..", to_plain(name[:_LONGEST_PATH]))


def _may_be_link(path: str) -> bool:
    """Whether a glob in it may stand for a link of a process."""
    if not has_glob(path):
        return False
    names = to_plain(path).split("/")
    return (
        len(names) in (3, 5)
        and fnmatchcase("proc", names[0])
        and any(fnmatchcase(link, names[-1]) for link in ("cwd", "root", "fd"))
    )


def named_in(arg: str) -> dict[str, None]:
    """What may be a path in a word: `file`, `--option=file`, `-Ifile`, `@file`, `host:file`."""
    glued = arg[arg.index("/") :] if arg.startswith("-") and "/" in arg else ""
    value = arg[2:] if arg.startswith("-") and not arg.startswith("--") else ""
    texts = (arg, arg.partition("=")[2], arg.partition("@")[2], arg.partition(":")[2], glued, value)
    return dict.fromkeys(texts)


def _short(path: str, place: CommandScope) -> str:
    path = to_plain(path)
    return "~" + path[len(place.home) :] if path == place.home or path.startswith(place.home + "/") else path


def _could_be(pattern: re.Pattern[str], path: str, place: CommandScope) -> bool:
    """Whether the path, or with globs anything it may stand for that is worth the question, is meant."""
    short = _short(path, place)
    if pattern.fullmatch(short):
        return True
    if not has_glob(path):
        return False
    folder, _, name = short.rpartition("/")
    return any(pattern.fullmatch(f"{folder}/{file}") and _glob(name, file) for file in _TEMPTING)


def _is_secret(path: str, place: CommandScope) -> bool:
    if has_glob(path) and len(path) > _LONGEST_PATH:
        return True
    if _could_be(_SECRET, path, place):
        return True
    name = path.rpartition("/")[2]
    if not has_glob(name):
        return _SECRET_NAME.fullmatch(name) is not None
    return any(_SECRET_NAME.fullmatch(file) and _glob(to_plain(name), file) for file in _TEMPTING)


_TEMPTING = listed("id_rsa id_ed25519 .env shadow sudoers environ .bashrc .netrc credentials.json")


def _glob(pattern: str, name: str) -> bool:
    """As a shell matches, except that a pattern of nothing but wildcards means everything, not this."""
    if not re.search(r"[^*?]", pattern) or (name.startswith(".") and not pattern.startswith((".", "["))):
        return False
    return fnmatchcase(name, pattern)


def read_fault(path: str, place: CommandScope) -> str:
    """The id of the rule that reading this breaks, or nothing."""
    if _is_secret(path, place):
        return "read.secret"
    if _is_closed(path, place.homes, writing=False):
        return "read.home"
    return "ignored" if place.ignored and is_ignored(path, place.workspace, place.ignored) else ""


def is_sealed(path: str, homes: FolderRules, *, writing: bool) -> bool:
    """Whether it is another agent's, or the gateway's."""
    if not _is_inside(path, homes.sealed) or _is_inside(path, homes.own):
        return False
    return _is_closed(path, homes, writing=writing)


def holds_home(path: str | None, place: CommandScope) -> bool:
    """Whether a home is in this folder: who takes the folder whole takes the home along."""
    return path is not None and any(_leads(path, home, down=True) for home in place.homes.closed)


_SECRET_FOLDERS = listed(
    "~ ~/.config ~/.local ~/.local/share ~/Library ~/.docker /root /home /etc /etc/ssh /etc/ssl / /Users"
)


def holds_secrets(path: str | None, place: CommandScope) -> bool:
    """Whether a folder that is taken whole has credentials in it at the usual places."""
    return path is not None and (_short(path, place).rstrip("/") or "/") in _SECRET_FOLDERS


def write_fault(path: str, place: CommandScope) -> str:
    """The id of the rule that a write there breaks, or nothing."""
    if _is_closed(path, place.homes, writing=True):
        return "write.agent"
    rules = {
        "write.ssh": _LOGIN,
        "write.startup": _STARTUP,
        "write.schedule": _SCHEDULE,
        "write.later": _LATER,
    }
    if place.contained:
        rules = {"write.later": _LATER_OUTSIDE}
    fault = next((rule for rule, pattern in rules.items() if _could_be(pattern, path, place)), "")
    own_rules = f"{place.workspace.rstrip('/')}/{FILE}"
    if not fault and (path == own_rules or is_ignored(path, place.workspace, place.ignored)):
        fault = "ignored"
    return fault or ("write.secret" if _is_secret(path, place) else _system_fault(path, place))


def prompt_fault(path: str, place: CommandScope) -> str:
    """The id of the rule that a write there breaks after words from outside, or nothing."""
    return "write.prompt" if _could_be(_PROMPT, path, place) else ""


def _system_fault(path: str, place: CommandScope) -> str:
    text = to_plain(path)
    if _DEVICE.fullmatch(text):
        return "disk.device"
    if text.startswith(("/dev/tcp/", "/dev/udp/")):
        return "net.socket"
    if _POWER.fullmatch(text):
        return "power"
    if text.startswith(("/dev/", "/proc/", "/sys/")):
        return "write.system" if not _HARMLESS_DEVICE.fullmatch(text) else ""
    own_home = place.home if place.home != "/" else ""
    mine = (
        any(is_within(path, own) for own in (place.ground, *place.folders))
        or is_within(path, own_home)
        or _HARMLESS_SYSTEM.fullmatch(text)
    )
    return "write.system" if _SYSTEM.fullmatch(text) and not mine else ""


def delete_fault(path: str | None, place: CommandScope, *, recursive: bool) -> str:
    """The id of the rule that deleting this breaks, or nothing."""
    if path is None:
        return "delete.unknown"
    name = to_plain(path)
    folder = os.path.dirname(name) if has_glob(os.path.basename(path)) else name
    everything = os.path.basename(name) in ("*", ".*", "?*", "**") or name == folder
    if recursive and everything and (ROOTS.fullmatch(folder) or folder == place.home):
        tmp = folder == "/tmp" and name != folder
        return "delete.outside" if tmp else "delete.root"
    if recursive and has_glob(path) and _holds_roots(name, place.home):
        return "delete.root"
    fault = "write.agent" if recursive and holds_home(path, place) else write_fault(path, place)
    if fault:
        return "delete.outside" if fault == "write.system" else fault
    ground = next((one for one in (place.ground, *place.folders) if is_within(folder, one)), "")
    if ground:
        whole = name == ground or (folder == ground and everything)
        return "delete.everything" if whole or os.path.basename(name) == ".git" else ""
    scratch = re.match(r"/(var/)?tmp/[^/]+", folder) or (folder == "/tmp" and not everything)
    return "" if scratch and not is_within(folder, place.home) else "delete.outside"


_KNOWN_ROOTS = tuple(
    f"/{name}".split("/")
    for name in listed(
        "etc usr bin sbin lib lib64 boot dev home opt proc root run srv sys var mnt Users System usr/bin"
        " usr/lib usr/local usr/share usr/sbin var/lib var/log"
    )
)
"""System folders that are there on most machines."""


def _holds_roots(pattern: str, home: str) -> bool:
    """Whether a pattern certainly stands for system folders, or for the user's home, among others."""
    wanted = pattern.rstrip("/").split("/")
    if len(pattern) > _LONGEST_NAME:
        return len(wanted) <= 3
    known = (root for root in (*_KNOWN_ROOTS, home.split("/")) if len(root) == len(wanted))
    return any(all(map(fnmatchcase, root, wanted)) for root in known)


_LONGEST_NAME = 255


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    """Whether the path is one of the folders or something in it."""
    return any(_leads(path, folder) for folder in folders)


def _is_closed(path: str, homes: FolderRules, *, writing: bool) -> bool:
    if not _is_inside(path, homes.closed):
        return False
    places = homes.writable if writing else (*homes.writable, *homes.readable)
    plain = to_plain(path)
    free = [place for place in places if plain == place or plain.startswith(place + "/")]
    # A home inside a place that is free is closed again.
    return not free or any(_is_inside(home, free) and _is_inside(path, (home,)) for home in homes.closed)


def _leads(path: str, folder: str, *, down: bool = False) -> bool:
    """Whether the path is the folder or in it; `down`: whether it is above it."""
    if not folder:
        return False
    if not has_glob(path):
        above, below = (path, folder) if down else (folder, path)
        above, below = above.casefold().rstrip("/"), below.casefold()
        return below.startswith(above + "/") or (not down and below == above)
    names, wanted = path.strip("/").split("/"), folder.strip("/").split("/")
    if len(names) >= len(wanted) if down else len(names) < len(wanted):
        return False
    return all(_may_be(name, meant) for name, meant in zip(names, wanted, strict=False))


def _may_be(name: str, meant: str) -> bool:
    if not has_glob(name):
        return name.casefold() == meant.casefold()
    pattern = to_plain(name)
    if len(pattern) > _LONGEST_NAME or "**" in pattern:
        return True
    if meant.startswith(".") and not pattern.startswith((".", "[")):
        return False
    return fnmatchcase(meant.casefold(), pattern.casefold())
