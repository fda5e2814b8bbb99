"""Programs that reach beyond this machine's files: git, uploads, raw connections, containers, clouds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.agent.danger import names
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_CODE_KEYS = re.compile(
    r"(alias\..*|core\.(sshcommand|fsmonitor|hookspath|pager|editor|askpass|gitproxy)|credential\..*helper"
    r"|diff\..*|difftool\..*|merge\..*|filter\..*|pager\..*|gpg\..*program|protocol\..*|sequence\.editor|uploadpack\..*)"
    r"(=.*)?",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"(https?://)?(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)([:/].*)?")
_METADATA = re.compile(
    r"169\.254\.169\.254|metadata\.google|100\.100\.100\.200|fd00:ec2|2852039166|0xa9fea9fe"
)


def _git(call: ShellCall) -> None:
    args = list(call.plain_args)
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if (
            option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
            and args
        ):
            value = args.pop(0)
            if option in ("-c", "--config-env") and _CODE_KEYS.fullmatch(value):
                call.find("git.code")
    if not args:
        return
    verb, rest = args[0], args[1:]
    if UNKNOWN in verb:
        call.find("run.unknown")
    given = _Git(
        options="".join(arg[1:] for arg in rest if re.fullmatch(r"-[A-Za-z]+", arg)),
        words=[arg for arg in rest if not arg.startswith("-")],
        flags={arg.partition("=")[0] for arg in rest if arg.startswith("--")},
    )
    faults = _FAULTS[verb](given) if verb in _FAULTS else {}
    for rule in (rule for rule, found in faults.items() if found):
        call.find(rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Git:
    """The words behind a git verb, sorted."""

    options: str
    words: list[str]
    flags: set[str]

    @property
    def first(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def whole(self) -> bool:
        return any(word in (".", "*", ":/", "./") for word in self.words)

    def has(self, letter: str, *flags: str) -> bool:
        return (bool(letter) and letter in self.options) or not self.flags.isdisjoint(flags)


def _push(given: _Git) -> dict[str, bool]:
    forced = given.has("f", "--force", "--force-with-lease", "--force-if-includes", "--mirror")
    removed = given.has("d", "--delete", "--prune") or any(word[:1] in ("+", ":") for word in given.words[1:])
    address = any(re.match(r"\w+://|[\w.-]+@[\w.-]+:", word) for word in given.words)
    return {"git.force": forced or removed, "git.push": address}


def _config(given: _Git) -> dict[str, bool]:
    reading = given.has("l", "--get", "--list", "--get-all", "--get-regexp") or len(given.words) < 2
    wide = given.has("", "--global", "--system") and given.first not in ("user.name", "user.email")
    code = _CODE_KEYS.fullmatch(given.first) is not None
    return {"git.code": code and not reading, "write.startup": wide and not reading}


def _fetch(given: _Git) -> dict[str, bool]:
    foreign = any(word.startswith(("ext::", "fd::")) for word in given.words)
    return {"git.code": foreign or given.has("u", "--upload-pack", "--config")}


_VERBS: dict[str, Callable[[_Git], dict[str, bool]]] = {
    # What may lose work that is not committed, or that exists only here.
    "reset": lambda given: {"git.discard": given.has("", "--hard", "--merge", "--keep")},
    "clean": lambda given: {"git.discard": given.has("f", "--force") and not given.has("n", "--dry-run")},
    "branch": lambda given: {"git.discard": given.has("D") or {"--force", "--delete"} <= given.flags},
    "checkout": lambda given: {"git.discard": given.whole or given.has("f", "--force")},
    "restore": lambda given: {"git.discard": given.whole and not given.has("S", "--staged")},
    "switch": lambda given: {"git.discard": given.has("f", "--discard-changes", "--force")},
    "stash": lambda given: {"git.discard": given.first in ("drop", "clear")},
    "worktree submodule": lambda given: {
        "git.discard": given.has("f", "--force"),
        "git.code": given.first == "foreach",
    },
    "rm": lambda given: {"delete.everything": given.whole or (given.has("r") and given.has("f"))},
    # What may lose or send away what is committed, or run something else.
    "push": _push,
    "filter-branch filter-repo replace fast-import prune": lambda given: {"git.rewrite": True},
    "reflog": lambda given: {"git.rewrite": given.first in ("expire", "delete")},
    "gc": lambda given: {"git.rewrite": given.has("", "--prune")},
    "update-ref symbolic-ref": lambda given: {"git.rewrite": given.has("d", "--delete")},
    "rebase": lambda given: {"git.rewrite": given.has("", "--root"), "git.code": given.has("x", "--exec")},
    "config": _config,
    "bisect": lambda given: {"git.code": given.first == "run"},
    "clone fetch pull ls-remote": _fetch,
}
_FAULTS = {verb: faults for verbs, faults in _VERBS.items() for verb in verbs.split()}


def _web(call: ShellCall) -> None:
    """curl, wget: what leaves with the request."""
    args = call.plain_args
    addresses = [arg for arg in args if re.match(r"(\w+://|[\w-]+(\.[\w-]+)+(/|$|:))", arg)]
    local = bool(addresses) and all(_LOCAL.fullmatch(address) for address in addresses)
    if any(_METADATA.search(arg) for arg in args):
        call.find("net.metadata")
    if any(re.match("--(abstract-)?unix-socket", arg) for arg in args):
        call.find("net.socket")
    for i, arg in enumerate(args):
        option, glued, value = arg.partition("=")
        value = value if glued else args[i + 1] if i + 1 < len(args) else ""
        if _sends_file(call.name, option, value, arg) and not local:
            call.find("net.upload")
        if option in ("-K", "--config") or (call.name == "wget" and option in ("--use-askpass", "-e")):
            call.find("run.unknown")
    if any(UNKNOWN in arg for arg in call.args) and not local:
        sending = any(
            arg.startswith(("-d", "--data", "-F", "--form", "--post-data", "-H", "--header")) for arg in args
        )
        if sending or any(UNKNOWN in address for address in addresses):
            call.find("net.upload")


_SENDING = names.names("-F --form -d --data --data-binary --data-raw --data-urlencode --json")


def _sends_file(name: str, option: str, value: str, arg: str) -> bool:
    if name == "curl":
        if option in ("-T", "--upload-file") or re.fullmatch(r"-\w*T", option):
            return True
        if option in _SENDING:
            named = re.match(r"@|.*(=@|=<)", value, re.DOTALL) is not None
            return "@" in value and (named or option == "-F")
        return re.match(r"-[dF]@|-F\w+=@", arg) is not None
    return option in ("--post-file", "--body-file")


def _raw_connection(call: ShellCall) -> None:
    args = call.args
    if call.name in ("nc", "ncat", "netcat"):
        options = "".join(arg[1:] for arg in args if re.fullmatch(r"-[A-Za-z]+", arg))
        if "z" not in options or call.feed is not None or {"e", "c", "l", "U"} & set(options):
            call.find("net.socket")
    elif call.name == "openssl":
        if args[:1] == ["s_client"] and call.feed is not None and call.feed.text is None:
            call.find("net.socket")
    else:
        call.find("net.socket")


def _copy_away(call: ShellCall) -> None:
    operands = [arg for arg in call.args if not arg.startswith("-")]
    there = [
        to_plain(arg).endswith(":")
        or re.match(r"([\w.-]+@)?[\w.-]+::?[^\\]|rsync://|\w[\w.-]+:", to_plain(arg)) is not None
        for arg in operands
    ]
    if there and (there[-1] or call.name in ("sftp", "ftp", "tftp")):
        call.find("net.upload")
    if any(
        arg in ("-e", "--rsh") or arg.startswith(("-oProxyCommand", "--rsync-path", "--rsh="))
        for arg in call.args
    ):
        call.find("run.unknown")
    if call.name == "rsync" and any(arg.startswith("--delete") for arg in call.args):
        call.find("delete.unknown")


def ssh(call: ShellCall) -> None:
    if set(call.args) & {"-V", "-G", "-Q"}:
        return
    call.find("run.remote")
    for arg, next_ in call.walk("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"):
        if not arg.startswith("-"):
            call.judge.read(" ".join(map(to_plain, call.args[next_:])))
            return


def _containers(call: ShellCall) -> None:
    words = [arg for arg in call.args if not arg.startswith("-")]
    if call.name in ("docker", "podman", "nerdctl") and words[:1] and words[0] in names.CONTAINER_KINDS:
        words = words[1:]
    if words and words[0] not in names.CONTAINER_READING:
        call.find("container")


_CLUSTER = re.compile(
    r"(delete|apply|create|replace|patch|drain|cordon|scale|edit|exec|rollout (restart|undo)|cp|run|uninstall"
    r"|upgrade|install|set|taint|label|annotate)\b"
)
_CLOUDS = {
    "kubectl helm oc": _CLUSTER,
    "terraform tofu pulumi": re.compile(r"(apply|destroy|import|taint|state (rm|mv|push)|up)\b"),
    "ansible ansible-playbook": re.compile(""),
    "aws gcloud az gsutil rclone s3cmd b2 mc doctl flyctl heroku": re.compile(
        r".*\b(rm|rb|delete\S*|terminate\S*|destroy|put\S*|cp|mv|sync|copy|move|upload|create\S*|update\S*"
        r"|run\S*|deploy|purge|set\S*|attach\S*|get-secret\S*|get-session-token|print-access-token)\b",
        re.DOTALL,
    ),
    "gh glab": re.compile(
        r"gist create|release (upload|delete)|repo (delete|edit)|secret|auth token|ssh-key|gpg-key"
        r"|workflow run|api .*(DELETE|PUT|POST|PATCH)"
    ),
}
"""What changes something elsewhere, by how the words begin that are no options."""


def _cloud(call: ShellCall) -> None:
    text = " ".join(to_plain(arg) for arg in call.args if not arg.startswith("-"))
    changing = next(pattern for names, pattern in _CLOUDS.items() if call.name in names.split())
    if changing.match(text):
        call.find("cluster")
    if changing is _CLUSTER and re.match(r"get secrets?|config view", text):
        call.find("read.secret")


def _add_key(call: ShellCall) -> None:
    if call.args and call.args[0] not in ("-l", "-L"):
        call.find("write.ssh")


ROWS: tuple[tuple[str, Callable[[ShellCall], None]], ...] = (
    ("git", _git),
    ("curl wget", _web),
    ("nc ncat netcat socat telnet openssl", _raw_connection),
    ("scp rsync sftp ftp tftp", _copy_away),
    ("docker podman nerdctl docker-compose lxc ctr", _containers),
    *((names, _cloud) for names in _CLOUDS),
    ("ssh-add", _add_key),
)
