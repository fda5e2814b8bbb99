"""What programs do by themselves: deleting, formatting, installing, sending, stopping.

One function per family; `look` sends a call to those that know its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes.agent.danger import code, names, remote
from hermes.agent.danger.expand import UNKNOWN, to_plain
from hermes.agent.danger.paths import delete_fault

if TYPE_CHECKING:
    from hermes.agent.danger.judge import Call

JUNK = re.compile(
    r"(\*?\.(pyc|pyo|tmp|log|bak|swp|swo|o|obj|orig|rej|class|DS_Store)|\*~|__pycache__|\.DS_Store"
    r"|\.(pytest|mypy|ruff)_cache|\*/__pycache__/?\*?|Thumbs\.db)"
)


def look(call: Call) -> None:
    for find in _BY_NAME.get(call.name, ()):
        find(call)
    for pattern, find in _BY_PATTERN:
        if pattern.fullmatch(call.name):
            find(call)


def _options(call: Call) -> str:
    """The letters of all short options."""
    return "".join(arg[1:] for arg in call.args if re.fullmatch(r"-[A-Za-z0-9]+", arg))


def _operands(call: Call) -> list[str]:
    found: list[str] = []
    ended = False
    for arg in call.args:
        if arg == "--":
            ended = True
        elif ended or not arg.startswith("-"):
            found.append(arg)
    return found


# --- files ---


def _delete(call: Call) -> None:
    recursive = (call.name == "rm" and bool({"r", "R"} & set(_options(call)))) or "--recursive" in call.args
    if "--no-preserve-root" in call.args:
        call.find("delete.root")
    for target in _operands(call):
        fault = delete_fault(call.judge.path(target), call.judge.place, recursive=recursive)
        if fault:
            call.find(fault, to_plain(target))
    if call.name in ("shred", "wipe", "srm"):
        call.find("delete.unknown")


def find_deletes(call: Call, starts: list[str]) -> None:
    for start in starts or ["."]:
        fault = delete_fault(call.judge.path(start), call.judge.place, recursive=True)
        call.find(fault or "delete.everything", call.shown)


def _write_last(call: Call) -> None:
    """cp, mv, ln, install …: the last operand is written; mv also removes the others."""
    operands = _operands(call)
    named = [arg.partition("=")[2] for arg in call.args if arg.startswith("--target-directory=")]
    for i, arg in enumerate(call.args[:-1]):
        if arg == "-t":
            named.append(call.args[i + 1])
    for target in named or operands[-1:]:
        call.judge.check_write(target)
        for source in operands[:-1]:
            if UNKNOWN not in target and UNKNOWN not in source:
                call.judge.check_write(f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}")
    if call.name == "mv":
        for source in operands[:-1]:
            fault = delete_fault(call.judge.path(source), call.judge.place, recursive=True)
            if fault and fault != "delete.unknown":
                call.find(fault, to_plain(source))


def _write_all(call: Call) -> None:
    for target in _operands(call):
        call.judge.check_write(target)


def _sed(call: Call) -> None:
    operands = _operands(call)
    if any(re.fullmatch(r"-\w*i.*|--in-place.*", arg) for arg in call.args):
        scripted = any(arg in ("-e", "-f") for arg in call.args)
        for target in operands if scripted else operands[1:]:
            call.judge.check_write(target)
    script = " ".join(operands[:1])
    if re.search(r"(^|[;}/\d$])\s*e(\s|$)|/e[gIp]*($|;)|(^|;)\s*[wW]\s+/", to_plain(script)):
        call.find("run.code")


def _dd(call: Call) -> None:
    for arg in call.args:
        if arg.startswith("of="):
            call.judge.check_write(arg[3:])


def _rights(call: Call) -> None:
    if "R" in _options(call) or "--recursive" in call.args:
        call.find("rights.recursive")
    if call.name != "chmod":
        call.find("rights.owner")
        return
    modes = [arg for arg in call.plain_args if re.fullmatch(r"[0-7]{3,5}|[-+=,ugoarwxXst]+", arg)]
    for mode in modes[:1]:
        others_write = re.fullmatch(r"0*[0-7]{2}[2367]", mode) or (
            re.search(r"(^|,)(a|[ug]*o[ug]*|)[+=][rxX]*w", mode) and not re.match(r"[ug]+[+=]", mode)
        )
        if others_write or re.fullmatch(r"0*[2-7][0-7]{3}", mode) or re.search(r"[+=][rwx]*s", mode):
            call.find("rights.open")
    for target in call.args:
        if to_plain(target) not in modes[:1] and not target.startswith("--"):
            call.judge.check_write(target, fresh=False)


def _disk(call: Call) -> None:
    reading = any(arg in ("-l", "--list", "-h", "--help", "--version", "print") for arg in call.args)
    if not reading:
        call.find("disk.format")


def _mounts(call: Call) -> None:
    if call.args and not set(call.args) <= {"-l", "-a", "-j", "status", "list", "-V", "--version"}:
        call.find("disk.change")


def _download_target(call: Call) -> None:
    for i, arg in enumerate(call.args[:-1]):
        if arg in ("-o", "-O", "--output", "--output-document", "-P", "--directory-prefix") and not (
            call.name == "curl" and arg == "-O"
        ):
            target = call.args[i + 1]
            if target != "-":
                call.judge.check_write(target)
    remote_name = (call.name == "curl" and re.search("O", _options(call))) or call.name == "wget"
    if remote_name:
        for arg in _operands(call):
            if "/" in arg and UNKNOWN not in arg:
                call.judge.check_write("./" + to_plain(arg).partition("?")[0].rpartition("/")[2])


def _unpack(call: Call) -> None:
    for i, arg in enumerate(call.args):
        if arg.startswith(("--to-command", "--checkpoint-action", "--use-compress-program", "-I")):
            call.find("run.unknown")
        if arg in ("-C", "--directory", "-d") and i + 1 < len(call.args):
            call.judge.check_write(call.args[i + 1])
        if arg == "-P" or arg == "--absolute-names":
            call.find("write.system")


# --- the machine ---


def _packages(call: Call) -> None:
    words = _operands(call)
    verb = words[0] if words else ""
    options = _options(call)
    if call.name in ("dpkg", "rpm"):
        if re.search("[irPeUF]" if call.name == "dpkg" else "[ieUF]", options) and "q" not in options:
            call.find("package.change")
    elif call.name == "pacman":
        if re.search("[SRU]", options) and not re.search("s|i", options):
            call.find("package.change")
    elif verb and verb not in names.PACKAGE_READING and "--version" not in call.args:
        call.find("package.change")
    elif call.name in ("nix-env", "emerge", "xbps-install") and call.args:
        call.find("package.change")


def _language_packages(call: Call) -> None:
    words = [to_plain(arg) for arg in _operands(call)]
    verb = next((word for word in words if word not in ("pip", "tool", "cargo")), "")
    everywhere = any(
        arg in ("-g", "--global", "--location=global", "--break-system-packages") for arg in call.args
    )
    foreign = any(
        arg.startswith(
            ("--index-url", "--extra-index-url", "--trusted-host", "--registry", "-i", "-f", "--find-links")
        )
        or re.match(r"(git\+|https?://|ssh://|git@|file:)", to_plain(arg))
        for arg in call.args
    )
    if verb in ("install", "add", "i", "update", "upgrade", "ci"):
        if everywhere or call.name in ("gem", "cpan", "cpanm"):
            call.find("package.change")
        if foreign:
            call.find("package.foreign")
    elif verb in (
        "uninstall",
        "remove",
        "rm",
        "publish",
        "unpublish",
        "login",
        "adduser",
        "yank",
        "token",
        "owner",
    ):
        call.find("package.change")
    elif verb in ("config", "set") and len(words) > 2:
        call.find("write.startup")


def _services(call: Call) -> None:
    words = _operands(call)
    if set(words) & names.POWER_VERBS:
        call.find("power")
    elif (
        words
        and not set(words) & names.SERVICE_READING
        and "--status-all" not in call.args
        and "--version" not in call.args
    ):
        call.find("agent.self" if "hermes" in " ".join(words) else "service.change")


def _power(call: Call) -> None:
    if call.name in ("init", "telinit"):
        if set(call.args) & {"0", "6", "1", "s", "S"}:
            call.find("power")
    elif not set(call.args) & {"--help", "-c", "--version"}:
        call.find("power")


def _system(call: Call) -> None:
    if call.name in names.SYSTEM_REPORTERS:
        if set(call.plain_args) & names.SYSTEM_CHANGING or any(
            re.match(r"[\w.]+=", arg) for arg in call.args
        ):
            call.find("system.change")
    elif not call.args or not set(call.args) <= names.SYSTEM_READING:
        call.find("system.change")


def _schedule(call: Call) -> None:
    if not set(call.args) & {"-l", "-V"}:
        call.find("write.schedule")


def _kill(call: Call) -> None:
    if call.name in ("killall", "pkill", "skill", "killall5"):
        call.find("kill.all" if call.name == "killall5" else "kill.many")
        if re.search("hermes", call.shown):
            call.find("agent.self")
        return
    if {"-l", "-L"} & set(call.args) or call.args[:1] == ["-0"]:
        return
    targets = list(call.args)
    if targets and re.fullmatch(r"-[A-Za-z0-9]+", targets[0]) and len(targets) > 1:
        targets = targets[2:] if targets[0] in ("-s", "-n") else targets[1:]
    own = {str(pid) for pid in call.judge.place.own_pids}
    for target in targets:
        if target in ("-1", "--", "1", "0"):
            call.find("kill.all" if target in ("-1", "1") else "kill.many") if target != "--" else None
        elif target.lstrip("-") in own:
            call.find("agent.self")
        elif UNKNOWN in target:
            call.find("kill.many")


def _sql(call: Call) -> None:
    inline = "\n;\n".join(to_plain(arg) for arg in call.args)
    fed = call.feed.text if call.feed is not None else None
    if code.drops_data(inline) or (fed is not None and code.drops_data(fed)):
        call.find("sql.drop")
    elif call.name in ("dropdb", "dropuser"):
        call.find("sql.drop")
    elif call.feed is not None and fed is None:
        call.find("sql.unknown")
    elif call.name == "mysqladmin" and {"drop", "shutdown"} & set(call.args):
        call.find("sql.drop")


def _history(call: Call) -> None:
    if call.name == "history":
        if {"c", "w", "d"} & set(_options(call)):
            call.find("history.erase")
    elif call.name == "journalctl":
        if any(arg.startswith(("--vacuum", "--rotate", "--flush")) for arg in call.args):
            call.find("history.erase")
    elif call.name == "dmesg":
        if {"-C", "-c", "--clear"} & set(call.args):
            call.find("history.erase")
    else:
        call.find("history.erase")


def _secret_stores(call: Call) -> None:
    words = " ".join(call.plain_args)
    if call.name == "gpg" and "--export-secret" in words:
        call.find("read.secret")
    elif call.name == "security" and re.match(r"(find|dump|export)", words):
        call.find("read.secret")
    elif call.name in ("secret-tool", "kwallet-query", "bw", "op", "vault", "pass") and words:
        call.find("read.secret")


def _agent(call: Call) -> None:
    words = _operands(call)
    calm = {"status", "sessions", "version", "help", "trace", "doctor", "logs"}
    if (
        words
        and words[0] not in calm
        and not (words[0] == "config" and words[1:2] in (["show"], ["get"], ["path"]))
    ):
        call.find("agent.self")


def _web_server(call: Call) -> None:
    """Shares a folder with whoever can reach this machine: its own workspace is fine."""
    for option, value in zip(call.args, call.args[1:], strict=False):
        if option in ("-d", "--directory"):
            path = call.judge.path(value)
            if path is None or not (path + "/").startswith(call.judge.place.workspace + "/"):
                call.find("net.upload")


def _own_code(call: Call) -> None:
    """Editors and pagers that can run commands from their options."""
    for arg in call.plain_args:
        if re.search(r"^\+?:?!|:!|system\(|:r!|call\s+system", arg):
            call.find("run.unknown")


_Find = Callable[["Call"], None]


def _table() -> dict[str, tuple[_Find, ...]]:
    rows: list[tuple[frozenset[str], _Find]] = [
        (names.DELETING, _delete),
        (names.WRITING_LAST, _write_last),
        (names.WRITING_ALL, _write_all),
        (names.names("sed gsed"), _sed),
        (names.names("dd"), _dd),
        (names.RIGHTS, _rights),
        (names.DISKS, _disk),
        (names.MOUNTS, _mounts),
        (names.names("curl wget"), _download_target),
        (names.names("tar bsdtar unzip cpio"), _unpack),
        (names.LANGUAGE_PACKAGES, _language_packages),
        (names.SYSTEM_PACKAGES, _packages),
        (names.SERVICES, _services),
        (names.POWER, _power),
        (names.SYSTEM, _system),
        (names.SCHEDULES, _schedule),
        (names.KILLERS, _kill),
        (names.DATABASES, _sql),
        (names.HISTORIES, _history),
        (names.SECRET_STORES, _secret_stores),
        (names.names("hermes"), _agent),
        (names.names("python-http.server"), _web_server),
        (names.EDITORS, _own_code),
        *remote.ROWS,
    ]
    table: dict[str, tuple[_Find, ...]] = {}
    for row, find in rows:
        for name in row:
            table[name] = (*table.get(name, ()), find)
    return table


_BY_NAME = _table()
_BY_PATTERN: tuple[tuple[re.Pattern[str], _Find], ...] = ((re.compile(r"mkfs(\..+)?|mkswap|newfs.*"), _disk),)
