"""Programs that reach beyond this machine's files: git, uploads, raw connections, containers, clouds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.agent.danger import names
from hermes.agent.danger.expand import UNKNOWN, to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import Call

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


def _git(call: Call) -> None:
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
    for rule, found in _git_faults(verb, rest):
        if found:
            call.find(rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Git:
    """The words behind a git verb, sorted."""

    options: str
    words: list[str]
    flags: set[str]

    @property
    def whole(self) -> bool:
        return any(word in (".", "*", ":/", "./") for word in self.words)

    def has(self, letter: str, *flags: str) -> bool:
        return (bool(letter) and letter in self.options) or not self.flags.isdisjoint(flags)


def _git_faults(verb: str, rest: list[str]) -> list[tuple[str, bool]]:
    given = _Git(
        options="".join(arg[1:] for arg in rest if re.fullmatch(r"-[A-Za-z]+", arg)),
        words=[arg for arg in rest if not arg.startswith("-")],
        flags={arg.partition("=")[0] for arg in rest if arg.startswith("--")},
    )
    return _git_work(verb, given) or _git_history(verb, given)


def _git_work(verb: str, given: _Git) -> list[tuple[str, bool]]:
    """Verbs that may lose work which is not committed, or that exists only here."""
    first = given.words[:1]
    match verb:
        case "reset":
            return [("git.discard", given.has("", "--hard", "--merge", "--keep"))]
        case "clean":
            return [("git.discard", given.has("f", "--force") and not given.has("n", "--dry-run"))]
        case "branch":
            return [("git.discard", given.has("D") or {"--force", "--delete"} <= given.flags)]
        case "checkout":
            return [("git.discard", given.whole or given.has("f", "--force"))]
        case "restore":
            return [("git.discard", given.whole and not given.has("S", "--staged"))]
        case "switch":
            return [("git.discard", given.has("f", "--discard-changes", "--force"))]
        case "stash":
            return [("git.discard", first in (["drop"], ["clear"]))]
        case "worktree" | "submodule":
            return [("git.discard", given.has("f", "--force")), ("git.code", first == ["foreach"])]
        case "rm":
            return [("delete.everything", given.whole or (given.has("r") and given.has("f")))]
    return []


def _git_history(verb: str, given: _Git) -> list[tuple[str, bool]]:
    """Verbs that may lose or send away what is committed, or that run something else."""
    words, first = given.words, given.words[:1]
    match verb:
        case "push":
            forced = given.has("f", "--force", "--force-with-lease", "--force-if-includes", "--mirror")
            removed = given.has("d", "--delete", "--prune") or any(
                word[0] in "+:" for word in words[1:] if word
            )
            address = any(re.match(r"\w+://|[\w.-]+@[\w.-]+:", word) for word in words)
            return [("git.force", forced or removed), ("git.push", address)]
        case "filter-branch" | "filter-repo" | "replace" | "fast-import" | "prune":
            return [("git.rewrite", True)]
        case "reflog":
            return [("git.rewrite", first in (["expire"], ["delete"]))]
        case "gc":
            return [("git.rewrite", given.has("", "--prune"))]
        case "update-ref" | "symbolic-ref":
            return [("git.rewrite", given.has("d", "--delete"))]
        case "rebase":
            return [("git.rewrite", given.has("", "--root")), ("git.code", given.has("x", "--exec"))]
        case "config":
            reading = given.has("l", "--get", "--list", "--get-all", "--get-regexp") or len(words) < 2
            wide = given.has("", "--global", "--system") and first not in (["user.name"], ["user.email"])
            code = any(_CODE_KEYS.fullmatch(word) for word in first)
            return [("git.code", code and not reading), ("write.startup", wide and not reading)]
        case "bisect":
            return [("git.code", first == ["run"])]
        case "clone" | "fetch" | "pull" | "ls-remote":
            foreign = any(word.startswith(("ext::", "fd::")) for word in words)
            return [("git.code", foreign or given.has("u", "--upload-pack", "--config"))]
    return []


def _web(call: Call) -> None:
    """curl, wget: what leaves with the request."""
    args = call.plain_args
    addresses = [arg for arg in args if re.match(r"(\w+://|[\w-]+(\.[\w-]+)+(/|$|:))", arg)]
    local = bool(addresses) and all(_LOCAL.fullmatch(address) for address in addresses)
    if any(_METADATA.search(arg) for arg in args):
        call.find("net.metadata")
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
        hidden = any(UNKNOWN in address for address in addresses) and "$(" in _raw(call)
        if sending or hidden or any("?" in address and UNKNOWN in address for address in addresses):
            call.find("net.upload")


def _raw(call: Call) -> str:
    """A substitution leaves an unknown part: without the raw text every unknown counts as one."""
    return "$(" if any(UNKNOWN in arg for arg in call.args) else ""


def _sends_file(name: str, option: str, value: str, arg: str) -> bool:
    if name == "curl":
        if option in ("-T", "--upload-file") or re.fullmatch(r"-\w*T", option):
            return True
        if option in (
            "-F",
            "--form",
            "-d",
            "--data",
            "--data-binary",
            "--data-raw",
            "--data-urlencode",
            "--json",
        ):
            return "@" in value and (
                value.startswith("@") or "=@" in value or "=<" in value or option == "-F"
            )
        return re.match(r"-(d|F)@", arg) is not None or re.match(r"-F\w+=@", arg) is not None
    return option in ("--post-file", "--body-file")


def _raw_connection(call: Call) -> None:
    args = call.args
    if call.name in ("nc", "ncat", "netcat"):
        options = "".join(arg[1:] for arg in args if re.fullmatch(r"-[A-Za-z]+", arg))
        if "z" not in options or call.feed is not None or {"e", "c", "l"} & set(options):
            call.find("net.socket")
    elif call.name == "openssl":
        if args[:1] == ["s_client"] and call.feed is not None and call.feed.text is None:
            call.find("net.socket")
    else:
        call.find("net.socket")


def _copy_away(call: Call) -> None:
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


def ssh(call: Call) -> None:
    if set(call.args) & {"-V", "-G", "-Q"}:
        return
    call.find("run.remote")
    operands: list[str] = []
    args = list(call.args)
    while args:
        arg = args.pop(0)
        if re.fullmatch(r"-[bcDEeFIiJLlmOopQRSWw]", arg) and args and not operands:
            args.pop(0)
        elif not arg.startswith("-") or operands:
            operands.append(arg)
    if len(operands) > 1:
        call.judge.read(" ".join(to_plain(word) for word in operands[1:]))


def _containers(call: Call) -> None:
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


def _cloud(call: Call) -> None:
    text = " ".join(to_plain(arg) for arg in call.args if not arg.startswith("-"))
    changing = next(pattern for names, pattern in _CLOUDS.items() if call.name in names.split())
    if changing.match(text):
        call.find("cluster")
    if changing is _CLUSTER and re.match(r"get secrets?|config view", text):
        call.find("read.secret")


def _add_key(call: Call) -> None:
    if call.args and call.args[0] not in ("-l", "-L"):
        call.find("write.ssh")


ROWS: tuple[tuple[str, Callable[[Call], None]], ...] = (
    ("git", _git),
    ("curl wget", _web),
    ("nc ncat netcat socat telnet openssl", _raw_connection),
    ("scp rsync sftp ftp tftp", _copy_away),
    ("docker podman nerdctl docker-compose lxc ctr", _containers),
    *((names, _cloud) for names in _CLOUDS),
    ("ssh-add", _add_key),
)
