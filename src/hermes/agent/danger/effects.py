"""What programs do by themselves: deleting, formatting, installing, sending, stopping.

What can be told from a program's words alone is a row of a table; what needs more is a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from hermes.agent.danger import code, names, paths, tables
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

Find = Callable[["ShellCall"], None]
Row = tuple[str, Find]
"""The programs it is about, and what finds the rules that they break."""

_LOCAL = re.compile(r"(https?://)?(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)([:/].*)?")
_METADATA = re.compile(
    r"169\.254\.169\.254|metadata\.google|100\.100\.100\.200|fd00:ec2|2852039166|0xa9fea9fe"
)


def _rules(*rows: str, bundled: str = "A-Za-z0-9") -> Iterator[Row]:
    """The rows of a table, as `tables` tells how they are read."""
    for row in rows:
        row = re.sub(r"<(\w+)>", rf"-[{bundled}]*[\1][{bundled}]*", row)
        row = re.sub(r"\{([a-z]+)\}", lambda part: tables.PARTS[part[1]], row)
        programs, _, breach = row.partition(": ")
        rule, *conditions = re.split(" (starts|args|if|unless) ", breach)
        yield programs, partial(_find_rule, rule, list(zip(conditions[::2], conditions[1::2], strict=True)))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Made when its row is first looked at: most programs are never used."""
    return re.compile(text, re.DOTALL)


def _find_rule(rule: str, conditions: list[tuple[str, str]], call: ShellCall) -> None:
    words = call.plain_args
    for kind, text in conditions:
        pattern = _pattern(text)
        if kind in ("starts", "args"):
            chosen = words if kind == "args" else _verbs(call.name, words)
            lines = "".join(word.replace("\n", " ") + "\n" for word in chosen)
            holds = pattern.match(lines) is not None
        else:
            holds = any(map(pattern.fullmatch, words)) is (kind == "if")
        if not holds:
            return
    call.find(rule)


def _verbs(name: str, words: Sequence[str]) -> list[str]:
    """The words without options and without the values of those that are known to have one."""
    valued, passed, chosen = tables.VALUED.get(name, _NOTHING), False, list[str]()
    for word in words:
        if not passed and not word.startswith(("-", "+") if name == "cargo" else "-"):
            chosen.append(word)
        passed = not passed and word in valued
    return chosen


_NOTHING: frozenset[str] = frozenset()
_WIDE = re.compile(
    r"(--?[\w.-]+=)?(tcp://|http://|https://)?(0\.0\.0\.0|\[::\]|::)(:\d+)?"
    r"|--?(host|bind|ip|address|listen|hostname|server\.address|bind-address|addr)=\*(:\d+)?"
)
_POWERSHELL = re.compile(
    r"(?!Get-|Test-|Select-|Where-|Format-(Table|List)|Measure-|Write-|Sort-)[A-Z][a-z]+-[A-Z]\w+"
)
_CHANGES_BY_NAME = re.compile(
    r".+[-_](reset|change|set|setup)[-_]passwords?|.+[-_](uninstall|purge|wipe|destroy|nuke|passwd|keystore)"
)
_NAMES_HOSTS = names.SILENT | names.READERS | names.listed("curl wget ping nc sed")
"""Programs that may name such an address without serving there."""


def find_effects(call: ShellCall) -> None:
    if call.args[-1:] == ["--help"] and len(call.args) <= 2:
        return
    rows = _TABLE.get(_MAKES_DISKS.sub("mkfs", call.name))
    for find in rows or ():
        find(call)
    if call.name not in _NAMES_HOSTS and any(map(_WIDE.fullmatch, call.args)):
        call.find("net.listen")
    if _POWERSHELL.fullmatch(call.name):
        call.find("system.change")
    known = rows is not None or call.name in names.TAKES_CODE or call.judge.is_own(call.name)
    if not known and (tables.VERBS & set(_operands(call)[:2]) or _CHANGES_BY_NAME.fullmatch(call.name)):
        call.find("cluster")


def _options(call: ShellCall) -> str:
    """The letters of all short options."""
    return "".join(arg[1:] for arg in call.args if re.fullmatch(r"-[A-Za-z0-9]+", arg))


def _operands(call: ShellCall) -> list[str]:
    before = list(takewhile(lambda arg: arg != "--", call.args))
    behind = [arg for arg in call.args[len(before) :] if arg != "--"]
    return [arg for arg in before if not arg.startswith("-")] + behind


# --- files ---


def _reads_folders(when: str = "", *, here: bool = False) -> Find:
    """Reads whole folders if one of the words is like `when`: the homes in them too. `here`: with no folder
    named, it reads the one it stands in."""
    wanted = re.compile(when, re.DOTALL)

    def find(call: ShellCall) -> None:
        if when and not any(map(wanted.fullmatch, call.plain_args)):
            return
        operands = _operands(call)
        places = [*operands, "."] if here and len(operands) < 2 else operands
        call.judge.take(*places)
        if call.judge.holds_home(*places):
            call.find("read.home")
        if any(paths.holds_secrets(call.judge.path(place), call.judge.place) for place in places):
            call.find("read.secret")

    return find


def _write_folder(call: ShellCall, target: str) -> None:
    """Whole folders are written there: they may bring a home of Hermes along."""
    call.judge.check_write(target)
    if call.judge.holds_home(target):
        call.find("write.agent")


def _unpacks_to(*options: str) -> Find:
    def find(call: ShellCall) -> None:
        for target in call.values_of(*options):
            if target != "-":
                _write_folder(call, target)

    return find


def _delete(call: ShellCall) -> None:
    whole = call.name in ("rm", "srm", "wipe") and bool({"r", "R"} & set(_options(call)))
    recursive = whole or "--recursive" in call.args or call.name in ("trash", "trash-put")
    if "--no-preserve-root" in call.args:
        call.find("delete.root")
    for target in _operands(call):
        fault = call.judge.delete_fault(target, recursive=recursive)
        if fault:
            call.find(fault, to_plain(target))


def _write_last(call: ShellCall) -> None:
    """cp, mv, ln, install …: the last operand is written; mv also removes the others."""
    operands = _operands(call)
    named = [arg.partition("=")[2] for arg in call.args if arg.startswith("--target-directory=")]
    named += call.values_of("-t")
    whole = re.search("[rRa]", _options(call)) or {"--recursive", "--archive"} & set(call.args)
    write = partial(_write_folder, call) if whole else call.judge.check_write
    sources = [arg for arg in operands if arg not in named] if named else operands[:-1]
    for target in named or operands[-1:]:
        write(target)
        if (
            any(arg.startswith("--delete") for arg in call.args)
            and call.judge.delete_fault(target) == "delete.root"
        ):
            call.find("delete.root")
        for source in sources:
            if UNKNOWN not in target and UNKNOWN not in source:
                call.judge.check_write(f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}")
    if call.name == "ln":
        # What is written through the link is written there.
        for path in filter(None, (call.judge.path(f"{source}{end}") for source in sources for end in _ENDS)):
            fault = paths.write_fault(path, call.judge.place)
            if fault in ("write.later", "write.startup"):
                call.find(fault, to_plain(path))
    if call.name == "mv":
        for source in sources:
            fault = call.judge.delete_fault(source)
            if fault and fault != "delete.unknown":
                call.find(fault, to_plain(source))


_ENDS = ("", "/config")


def _write_all(call: ShellCall) -> None:
    copied = [arg[3:] for arg in call.args if arg.startswith("of=")]
    for target in copied if call.name == "dd" else _operands(call):
        call.judge.check_write(target)


def _values(call: ShellCall, options: Sequence[str]) -> Iterator[str]:
    """What these options are given: as the next word, behind `=`, or glued to a letter."""
    letters = "".join(option[1:] for option in options if len(option) == 2)
    short = re.compile(rf"-[A-Za-z0-9]{{0,6}}?[{letters}](.*)", re.DOTALL) if letters else None
    for arg, following in pairwise([*call.args, ""]):
        option, glued, value = arg.partition("=")
        if option in options:
            yield value if glued else following
        elif short is not None and not arg.startswith("--") and (bundle := short.fullmatch(arg)):
            yield bundle[1] or following


def _outputs(text: str) -> Find:
    """Files that a program is told to write: by these options, and by the `last` or `all` of its operands."""
    words = text.split()

    def find(call: ShellCall) -> None:
        operands = _operands(call)
        chosen = [*(operands if "all" in words else operands[1:][-1:] if "last" in words else [])]
        named = [value for value in _values(call, words) if value not in ("", "-")]
        joined = [f"{folder.rstrip('/')}/{name}" for folder in named for name in named if name != folder]
        for target in (*chosen, *named, *(path for path in joined if "//" not in path)):
            call.judge.check_write(target, fresh=False)
            if target in named and call.judge.path(target) == call.judge.place.home:
                call.find("write.unknown")

    return find


def _runs(text: str) -> Find:
    options = text.split()

    def find(call: ShellCall) -> None:
        for value in filter(None, _values(call, options)):
            call.read([value])

    return find


def _modes(call: ShellCall) -> None:
    modes = [arg for arg in call.plain_args if re.fullmatch(r"[0-7]{3,5}|[-+=,ugoarwxXst]+", arg)][:1]
    for mode in modes:
        others_write = re.fullmatch(r"0*[0-7]{2}[2367]", mode) or any(
            re.match(r"[ug]*[ao][ugoa]*[+=][rxXst]*w", part) for part in mode.split(",")
        )
        if others_write or re.fullmatch(r"0*[2-7][0-7]{3}", mode) or re.search(r"[+=][rwx]*s", mode):
            call.find("rights.open")
    for target in call.args:
        if to_plain(target) not in modes and not target.startswith("--"):
            call.judge.check_write(target, fresh=False)


# --- the network ---


def _download_target(call: ShellCall) -> None:
    curl = call.name == "curl"
    named = re.compile(
        r"-\w*o|--output" if curl else r"-\w*[OPod]|--(output-document|directory-prefix|out|dir)"
    )
    for target in (value for option, value in pairwise(call.args) if named.fullmatch(option)):
        if target != "-":
            call.judge.check_write(target)
    if not curl or "O" in _options(call):
        for arg in _operands(call):
            if "/" in arg and UNKNOWN not in arg:
                call.judge.check_write("./" + to_plain(arg).partition("?")[0].rpartition("/")[2])


def _web(call: ShellCall) -> None:
    """curl, wget: what leaves with the request, and what else they are told to do."""
    args = call.plain_args
    addresses = [arg for arg in args if re.match(r"(\w+://|localhost\b|[\w-]+(\.[\w-]+)+(/|$|:))", arg)]
    local = bool(addresses) and all(map(_LOCAL.fullmatch, addresses))
    if any(map(_METADATA.search, args)):
        call.find("net.metadata")
    if any(
        re.match("--(abstract-)?unix-socket|(telnet|gopher|dict|smtps?|imaps?|ldaps?|mqtt)://", arg)
        for arg in args
    ):
        call.find("net.socket")
    unknown = False
    for arg, following in pairwise([*args, ""]):
        option, glued, value = arg.partition("=")
        if len(arg) > 2 and arg[0] == "-" and arg[1] in "dFHbTXuAex" and call.name == "curl":
            option, value, glued = arg[:2], arg[2:], "="
        elif bundle := _BUNDLED_METHOD.fullmatch(arg):
            option, value, glued = "-X", bundle[1], "="
        value = value if glued else following
        if not local and _sends(call.name, option, value):
            call.find("net.upload")
        elif local and _METHOD.fullmatch(option) and _removes(value, addresses):
            call.find("cluster")
        unknown = unknown or (UNKNOWN in value and option.startswith("-") and not _KEEPS.fullmatch(option))
        if option in ("-K", "--config") or (call.name == "wget" and option in ("--use-askpass", "-e")):
            call.find("run.unknown")
    if not local and (unknown or any(UNKNOWN in address for address in addresses)):
        call.find("net.upload")


_DATA = re.compile(r"-\w*[dF]|--form(-string)?|--data(-binary|-raw|-ascii|-urlencode)?|--json|--url-query")
_KEEPS = re.compile(
    r"-\w*[owmP]|--output(-document)?|--write-out|--max-time|--directory-prefix|--retry|-[sSLfIOqikv]+|-O"
)
_CHANGES = re.compile(r"PUT|DELETE|PATCH", re.IGNORECASE)
_METHOD = re.compile(r"-\w*X|--request|--method")
_BUNDLED_METHOD = re.compile(r"-[a-zA-Z]{0,9}X([A-Z]+)")
_STORES = re.compile(
    r":(9200|5984|8500|2375|2376|2379|8200|10250|6443|15672|8001|2019|8086|7474|6333|9090)\b"
)
"""Ports of databases and controllers, which are told by the method what to do."""


def _removes(method: str, addresses: Sequence[str]) -> bool:
    """Whether a request to this machine deletes, or changes what a database or a controller keeps."""
    changing = method.upper() == "POST" or _CHANGES.match(method) is not None
    return method.upper() == "DELETE" or (changing and any(map(_STORES.search, addresses)))


def _sends(name: str, option: str, value: str) -> bool:
    """Whether an option with this value sends a file, or changes something elsewhere."""
    if name != "curl":
        return option in ("--post-file", "--body-file") or (
            option == "--method" and bool(_CHANGES.match(value))
        )
    if option == "--upload-file" or re.fullmatch(r"-\w*T", option):
        return True
    if _DATA.fullmatch(option):
        return re.match(r"[\w-]*@|.*(=@|=<)", value, re.DOTALL) is not None and "@" in value + value.replace(
            "<", "@"
        )
    if re.fullmatch(r"-\w*H|--header|--proxy-header", option):
        return value.startswith("@")
    if re.fullmatch(r"-\w*b|--cookie", option):
        return "=" not in value
    if _METHOD.fullmatch(option):
        return _CHANGES.match(value) is not None
    return option in ("-x", "--proxy", "--socks5", "--netrc-file", "--preproxy") and not _LOCAL.match(value)


_ITEM = re.compile(r"[\w.\[\]-]+(:?=@?|@)[^=].*|@.+", re.DOTALL)


def _http_client(call: ShellCall) -> None:
    """httpie and its like: items after the address are sent."""
    operands = _operands(call)
    local = any(map(_LOCAL.fullmatch, operands)) or any(word.startswith(":") for word in operands)
    sends = any(map(_ITEM.fullmatch, call.plain_args)) or {"POST", "PUT", "DELETE", "PATCH"} & set(operands)
    if not local and (sends or call.feed is not None or any(UNKNOWN in arg for arg in call.args)):
        call.find("net.upload")
    if local and any(_removes(word, operands) for word in operands if word.isupper()):
        call.find("cluster")


def _send_feed(call: ShellCall) -> None:
    secured = call.name == "openssl"
    if call.feed is not None and (not secured or (call.args[:1] == ["s_client"] and call.feed.text is None)):
        call.find("net.socket")


def _web_server(call: ShellCall) -> None:
    """Shares a folder with whoever can reach this machine, unless it is bound to the machine itself."""
    bound = call.values_of("-b", "--bind") + [arg[7:] for arg in call.args if arg.startswith("--bind=")]
    if not bound or not all(re.match(r"127\.|localhost|::1", place) for place in bound):
        call.find("net.listen")
    ground = call.judge.place.ground
    for path in map(call.judge.path, call.values_of("-d", "--directory")):
        if path is None or not ground or not (path + "/").startswith(ground + "/"):
            call.find("net.upload")


# --- processes ---


def _kill(call: ShellCall) -> None:
    if {"-l", "-L"} & set(call.args) or call.args[:1] == ["-0"]:
        return
    targets = list(call.args)
    if targets and re.fullmatch(r"-[A-Za-z0-9]+", targets[0]) and len(targets) > 1:
        targets = targets[2:] if targets[0] in ("-s", "-n") else targets[1:]
    own = {str(pid) for pid in call.judge.place.own_pids}
    for target in targets:
        if target in ("-1", "1"):
            call.find("kill.all")
        elif target == "0" or UNKNOWN in target:
            call.find("kill.many")
        elif target.lstrip("-") in own:
            call.find("agent.self")


def _kill_by_name(call: ShellCall) -> None:
    call.find("kill.all" if call.name == "killall5" else "kill.many")
    if "hermes" in call.shown:
        call.find("agent.self")


_CALM = re.compile(r"(status|version|help|doctor|config (path|check)|.*--help|-h|--version|-V)( .*)?")


def _agent(call: ShellCall) -> None:
    """Whoever runs `hermes` is its owner: all but a look at its state is the person's to allow."""
    if not _CALM.fullmatch(" ".join(call.plain_args)):
        call.find("agent.self")


def _processes(call: ShellCall) -> None:
    """`ps e` shows what other processes were started with, keys included; `ps -e` does not."""
    words = call.walk("-C -o -p -u -U -t -g -G -s -q -O --sort --format --pid --user")
    asked = any(re.fullmatch(r"[A-Za-z]*e[A-Za-z]*|-[A-Za-z]*E[A-Za-z]*", word) for word, _ in words)
    if asked or any("environ" in arg for arg in call.args):
        call.find("read.secret")


# --- git ---


def _git(call: ShellCall) -> None:
    args = call.plain_args
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if option.startswith(("--exec-path=", "--config-env=")):
            call.find("git.code")
        if args and re.fullmatch("-[Cc]|--(git-dir|work-tree|namespace|exec-path|config-env)", option):
            value = args.pop(0)
            if option in ("-c", "--config-env") and re.fullmatch(tables.PARTS["gitcode"], value):
                call.find("git.code")
    if args:
        if UNKNOWN in args[0]:
            call.find("run.unknown")
        find_effects(replace(call, name=f"git/{args[0]}", args=args[1:]))


def _halves(row: str) -> tuple[str, str]:
    programs, _, text = row.partition(": ")
    return programs, text


_MAKES_DISKS = re.compile(r"(mkfs\..+|mkswap|newfs.*)$")
_RECURSES = r"-\w*[rRa]\w*|--(dereference-)?recursive|--archive|--directories=recurse|recurse"
_ROWS: tuple[Row, ...] = (
    ("grep egrep fgrep zgrep diff", _reads_folders(_RECURSES, here=True)),
    ("rg ag ack", _reads_folders(here=True)),
    ("cp scp", _reads_folders(_RECURSES)),
    ("rsync tar bsdtar zip 7z 7za 7zz rar pax cpio ln mv restic borg", _reads_folders()),
    ("python-tarfile python-zipfile", _reads_folders()),
    ("rm unlink rmdir shred wipe srm trash trash-put", _delete),
    ("cp mv ln install rsync scp", _write_last),
    ("tee touch truncate mkdir sponge dd", _write_all),
    ("sed gsed", code.sed),
    ("psql mysql mariadb sqlite3 mongo mongosh redis-cli dropdb dropuser mysqladmin", code.sql),
    ("clickhouse-client cqlsh sqlcmd duckdb", code.sql),
    ("git", _git),
    *((programs, _outputs(text)) for programs, text in map(_halves, tables.OUTPUTS)),
    *((programs, _runs(text)) for programs, text in map(_halves, tables.RUNS)),
    *_rules(*tables.GIT, bundled="A-Za-z"),
    *_rules(*tables.ALL),
    ("chmod", _modes),
    ("tar bsdtar unzip cpio", _unpacks_to("-C", "--directory", "-d")),
    *_rules("tar bsdtar unzip cpio: write.system if -P|--absolute-names"),
    ("ssh-keygen", _unpacks_to("-f")),
    ("curl wget aria2c axel", _download_target),
    ("curl wget", _web),
    ("nc ncat netcat openssl", _send_feed),
    ("http https xh xhs curlie httpie", _http_client),
    ("python-http.server", _web_server),
    ("ps", _processes),
    ("kill", _kill),
    ("killall pkill skill killall5", _kill_by_name),
    ("vim vi nvim view ex emacs", code.editor),
    ("gdb lldb", code.debugger),
    ("hermes", _agent),
)
_TABLE: dict[str, list[Find]] = {}
for _programs, _find in _ROWS:
    for _name in _programs.split():
        _TABLE.setdefault(_name, []).append(_find)
