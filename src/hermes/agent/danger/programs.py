"""Programs that run others, or that run what they read: shells, interpreters, wrappers, pipes into them.

What a program does by itself is judged in `effects`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, islice, pairwise, takewhile
from typing import TYPE_CHECKING

from hermes.agent.danger import code, effects
from hermes.agent.danger.names import (
    CHANGERS,
    DECLARES,
    DECODERS,
    DOWNLOADS,
    ESCAPING,
    LANGUAGES,
    PRECEDED,
    READERS,
    READS_COMMANDS,
    ROOT,
    ROOT_VALUES,
    RUNNERS,
    SHELLS,
    SILENT,
    WRAPPERS,
    by_name,
    names,
)
from hermes.agent.danger.paths import delete_fault, holds_home
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain
from hermes.agent.danger.shell.words import unescaped

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_RUNS = {"download": "run.download", "decoder": "run.decoded"}
"""The rule that running something breaks, by where it comes from."""
_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*m(.*)", re.DOTALL)
# Words that make an interpreter go on to take commands.
_STAYS_PYTHON = re.compile(r"-[bBdEIOPqRsSuvx]*i")
_STAYS = {"perl": re.compile("-d.*"), "ruby": re.compile("-rdebug"), "php": re.compile("-a|--interactive")}
_STAYS_OTHER = re.compile("-i|--interactive|inspect|debug")
_OWN_MODULE = re.compile(r"hermes(\.(cli|__main__))?")
_OWN_SCRIPT = re.compile(r"(.*/)?hermes(/(cli|__main__)\.py)?/?", re.DOTALL)
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?|pypy3?|ipython3?")


def look(call: ShellCall) -> None:
    """Judge a program by what it runs, then by what it does."""
    name = call.name
    for known in (_shell, _language, _wrapper, _builtin):
        if known(call):
            break
    if name in READS_COMMANDS and not any(map(READS_COMMANDS[name].fullmatch, call.args)):
        if name in ESCAPING:
            code.fed_commands(call)
        elif call.feed is None and name not in ("sqlite3", "duckdb"):
            call.judge.readers.add(name)
    if name in ROOT:
        _root(call)
    effects.find_effects(call)


# --- what runs text ---


def _shell(call: ShellCall) -> bool:
    if call.name not in SHELLS:
        return False
    for arg, next_ in call.walk("-o +o -O --rcfile --init-file"):
        if re.fullmatch(r"[-+][a-zA-Z]*c[a-zA-Z]*", arg):
            _run_text(call, call.after(next_), call.args[next_ + 1 :])
            return True
        if arg in ("--rcfile", "--init-file") and call.after(next_):
            _script_file(call, call.after(next_))
        elif arg in ("-s", "-"):
            _run_feed(call)
            return True
        elif not arg.startswith(("-", "+")):
            _script_file(call, arg, call.args[next_:])
            return True
    if not any(arg in ("--version", "--help", "-n") for arg in call.args):
        _run_feed(call)
    return True


def _run_text(call: ShellCall, script: str, args: list[str]) -> None:
    text = to_plain(script)
    hidden = re.search(f"{UNKNOWN}(download|decoder){UNKNOWN}", text)
    if hidden:
        call.find(_RUNS[hidden[1]])
        return
    variables = call.judge.variables.values
    before = dict(variables)
    for position, arg in enumerate(args[:9]):
        variables[str(position)] = (arg,)
    if args:
        variables["@"] = variables["*"] = tuple(args[1:]) or ("",)
    call.judge.check_subscripts(args)
    call.judge.read(text, call.feed)
    call.judge.variables.values = before


def _run_feed(call: ShellCall, *, shell: bool = False) -> None:
    """A shell or an interpreter that runs what it is fed."""
    feed = call.feed
    if feed is None:
        call.judge.readers.add(call.name)
        return
    if feed.text is not None:
        if shell or call.name in SHELLS:
            call.judge.read(feed.text)
        else:
            _judge_code(call, feed.text)
    else:
        call.find(_RUNS.get(feed.source, "run.unknown"))


def _script_file(call: ShellCall, path: str, args: Sequence[str] = ()) -> None:
    if _OWN_SCRIPT.fullmatch(to_plain(path)):
        call.judge.run(["hermes", *args], call.feed)
    if path.startswith("/dev/fd/"):
        found = re.search("download|decoder", path)
        call.find(_RUNS[found[0]] if found else "run.unknown")
    elif path in ("/dev/stdin", "/proc/self/fd/0"):
        _run_feed(call)
    elif UNKNOWN in path:
        call.find("run.unknown")
    elif call.judge.is_written(path) or call.judge.is_written(f"./{path}"):
        call.find("run.fresh")


def _language(call: ShellCall) -> bool:
    if call.name in ("awk", "gawk", "mawk", "nawk"):
        return _awk(call)
    python = _PYTHON.fullmatch(call.name) is not None
    if not python and call.name not in LANGUAGES:
        return False
    if call.name in ("osascript", "pwsh") and call.args:
        call.find("run.code")
    flags = ["-c"] if python else sorted(LANGUAGES[call.name].split())
    if any(map((_STAYS_PYTHON if python else _STAYS.get(call.name, _STAYS_OTHER)).fullmatch, call.args)):
        call.judge.readers.add(call.name)
    for arg, next_ in call.walk("-W -X -r --require -I -M"):
        short = next((flag for flag in flags if _takes_code(arg, flag)), "")
        if short:
            inline = arg[2:] if arg.startswith(short) and len(short) == 2 and arg != short and python else ""
            _judge_code(call, to_plain(inline or call.after(next_)))
            return True
        module = _MODULE.fullmatch(arg) if python else None
        if module:
            _run_module(call, [*([module[1]] if module[1] else []), *call.args[next_:]])
            return True
        if arg in ("-", "/dev/stdin"):
            _run_feed(call)
            return True
        if not arg.startswith("-"):
            _script_file(call, arg, call.args[next_:])
            return True
    if not any(arg in ("--version", "-V", "-v", "--help", "-h") for arg in call.args):
        _run_feed(call)
    return True


def _run_module(call: ShellCall, words: list[str]) -> None:
    """`python -m`: this program's own module is found behind those that run others, too."""
    at = next((i for i, word in enumerate(words) if _OWN_MODULE.fullmatch(to_plain(word))), None)
    if at is not None:
        call.judge.run(["hermes", *words[at + 1 :]], call.feed)
    elif words:
        call.judge.run(["pip" if words[0] == "pip" else f"python-{words[0]}", *words[1:]], call.feed)


def _takes_code(arg: str, flag: str) -> bool:
    """`-e`, and in a bundle like perl's `-pe` or `-ne`."""
    if arg == flag:
        return True
    if len(flag) == 2 and flag.startswith("-") and not arg.startswith("--"):
        return re.fullmatch(rf"-[a-zA-Z0-9]*{flag[1]}", arg) is not None or (
            flag == "-c" and arg.startswith("-c")
        )
    return False


def _judge_code(call: ShellCall, text: str) -> None:
    hidden = re.search(f"{UNKNOWN}(download|decoder)", text)
    if hidden:
        call.find(_RUNS[hidden[1]])
    elif UNKNOWN in text:
        call.find("run.unknown")
    else:
        if call.name in ("perl", "ruby") and any(re.fullmatch(r"-\w*i(\.\w+)?\w*", arg) for arg in call.args):
            for path in call.args:
                if not path.startswith("-") and path != text:
                    call.judge.check_write(path)
        code.check_strings(call, text)
        harmless = code.is_harmless_python if _PYTHON.fullmatch(call.name) else code.is_harmless_code
        if not harmless(text):
            call.find("run.code")


def _awk(call: ShellCall) -> bool:
    valued = "-F -v -l --assign --field-separator --load"
    programs = [call.after(next_) for word, next_ in call.walk("") if word in ("-e", "--source")]
    programs += [word.partition("=")[2] for word in call.args if word.startswith("--source=")]
    files = [
        call.after(next_) for word, next_ in call.walk("") if word in ("-f", "--file", "-i", "--include")
    ]
    for path in files:
        _script_file(call, path)
    if not programs and not files:
        programs = [word for word, _ in call.walk(valued) if not word.startswith("-")][:1]
    for program in programs:
        known = UNKNOWN not in program or "'" in call.shown
        if known and not code.is_harmless_awk(to_plain(program)):
            call.find("run.code")
        code.check_strings(call, to_plain(program))
    return True


# --- what runs other programs ---


def _wrapper(call: ShellCall) -> bool:
    name, args = call.name, list(call.args)
    if name in _OWN_SYNTAX:
        _OWN_SYNTAX[name](call)
        return True
    if name not in WRAPPERS:
        return False
    if name in RUNNERS and args[:1] != ["run"]:
        return False
    args = args[1:] if name in RUNNERS else args
    if name == "command" and args and args[0] in ("-v", "-V"):
        return True
    if name == "npx" and "-c" in args:
        call.judge.read(to_plain(args[args.index("-c") + 1]) if args[-1] != "-c" else "")
        return True
    if name == "ld.so" and any(arg.startswith(("--preload", "--audit", "--library-path")) for arg in args):
        call.find("run.environment")
    _run_rest(call, args, names(WRAPPERS[name]), PRECEDED.get(name, ""))
    return True


def _sg(call: ShellCall) -> None:
    """`sg group -c command`, as one text or as words."""
    call.judge.read(" ".join(arg for arg in call.plain_args if arg not in ("-", "-c")).partition(" ")[2])


def _capsh(call: ShellCall) -> None:
    if "--" in call.args:
        call.judge.run(["bash", *call.args[call.args.index("--") + 1 :]], call.feed)


def _commands(call: ShellCall) -> None:
    """Each word is a command."""
    for word in call.plain_args:
        if " " in word or not word.startswith("-"):
            call.judge.read(word)


def _run_rest(
    call: ShellCall, args: Sequence[str], valued: frozenset[str] = frozenset(), preceded: str = ""
) -> None:
    """What stands behind the options, and behind a word like `preceded`, is a command."""
    rest = _behind_options(args, valued)
    if preceded and rest and re.fullmatch(preceded, to_plain(rest[0]), re.DOTALL):
        rest = _behind_options(rest[1:], valued)
    if rest:
        call.judge.run(rest, call.feed)


def _behind_options(args: Sequence[str], valued: frozenset[str]) -> list[str]:
    """The words behind the options; those named here have a value."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        option = args[at]
        at += 2 if option in valued else 1
        if option == "--":
            break
    return list(args[at:])


_SPLIT = re.compile(r"-[iv0]*S(.*)|--s[a-z-]*(?:=(.*))?", re.DOTALL)


def _env(call: ShellCall) -> None:
    before = call.judge.cwd
    _run_in_env(call)
    call.judge.cwd = before


def _run_in_env(call: ShellCall) -> None:
    for arg, next_ in call.walk("-u --unset -C --chdir -a --argv0"):
        split = _SPLIT.fullmatch(arg)
        if split:
            words = [split[1] or split[2] or "", *call.args[next_:]]
            call.judge.read(" ".join(map(to_plain, words)).strip(), call.feed)
            return
        folder = re.fullmatch(r"(?:-C|--ch?d?i?r?=?)(.*)", arg, re.DOTALL)
        if folder:
            named = folder[1] or call.after(next_)
            call.judge.cwd = call.judge.path(named) if named else None
        elif re.match(r"[A-Za-z_]\w*=", arg):
            name, _, value = arg.partition("=")
            call.judge.assign(name, (value,), lasting=False)
        elif not arg.startswith("-"):
            call.judge.run([arg, *call.args[next_:]], call.feed)
            return


def _timeout(call: ShellCall) -> None:
    command = _behind_options(call.args, names("-k -s --kill-after --signal"))[1:]
    if command:
        call.judge.run(command, call.feed)


def _before_lists(args: list[str]) -> list[str]:
    """The words of `parallel` before its lists: no command among them means that the lists hold commands."""
    return list(takewhile(lambda arg: arg and not arg.startswith(":::"), args))


def _xargs(call: ShellCall) -> None:
    """What comes on its input becomes words nobody knows yet."""
    replace = ""
    if call.name == "parallel" and not any(arg[0] not in "-:" for arg in _before_lists(call.args)):
        _run_feed(call, shell=True)
        for arg in call.plain_args[len(_before_lists(call.args)) :]:
            call.judge.read(arg.strip(":"))
        return
    for arg, next_ in call.walk("-I -n -P -L -d -a -s -E -j"):
        if not arg.startswith("-"):
            known = call.feed.text.split() if call.feed is not None and call.feed.text is not None else None
            words, command = known or [UNKNOWN], [arg, *call.args[next_:]]
            if call.feed is not None and call.feed.source == "home" and arg not in SILENT:
                call.find("read.home")
            if replace:
                call.judge.run([field.replace(replace, words[0]) for field in command])
            else:
                call.judge.run([*command, *words])
            return
        if arg.startswith(("-I", "-i", "--replace")):
            glued = arg[2:] if arg[1] != "-" else arg.partition("=")[2]
            replace = glued or (arg == "-I" and call.after(next_)) or "{}"


_JUNK = re.compile(
    r"(\*?\.(pyc|pyo|tmp|log|bak|swp|swo|o|obj|orig|rej|class|DS_Store)|\*~|__pycache__|\.DS_Store"
    r"|\.(pytest|mypy|ruff)_cache|\*/__pycache__/?\*?|Thumbs\.db)"
)


def _find(call: ShellCall) -> None:
    args = call.args
    starts = list(takewhile(lambda arg: not arg.startswith(("-", "(", "!")), args))
    sought = [to_plain(args[i + 1]) for i, arg in enumerate(args[:-1]) if arg in ("-name", "-iname", "-path")]
    junk = bool(sought) and all(_JUNK.fullmatch(name) for name in sought)
    for i, arg in enumerate(args):
        if arg == "-delete" and not junk:
            _delete_found(call, starts)
        elif arg in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"):
            inner = list(takewhile(lambda word: word not in (";", "+"), islice(args, i + 1, None)))
            _run_found(call, inner, starts, junk)
        elif arg in ("-fprint", "-fprintf", "-fls") and i + 1 < len(args):
            call.judge.check_write(args[i + 1])


def _delete_found(call: ShellCall, starts: list[str]) -> None:
    for start in starts or ["."]:
        fault = delete_fault(call.judge.path(start), call.judge.place, recursive=True)
        call.find(fault or "delete.everything", call.shown)


def _run_found(call: ShellCall, inner: list[str], starts: list[str], junk: bool) -> None:
    if not inner:
        return
    name = to_plain(inner[0]).rpartition("/")[2]
    if name in ("rm", "unlink", "shred", "rmdir"):
        if not junk:
            _delete_found(call, starts)
        return
    if any(holds_home(call.judge.path(start), call.judge.place) for start in starts or ["."]):
        call.find("read.home")
    reading = name in READERS
    folder = starts[0] if starts else "."
    found = f"{folder.rstrip('/')}/found" if reading or name not in CHANGERS else UNKNOWN
    call.judge.run([field.replace("{}", found) for field in inner])


def _flock(call: ShellCall) -> None:
    args = [arg for arg in call.args if not arg.startswith("-") or arg == "-c"]
    if len(args) > 2 and args[1] == "-c":
        call.judge.read(to_plain(args[2]))
    elif len(args) > 1:
        call.judge.run(args[1:], call.feed)


def _watch(call: ShellCall) -> None:
    call.read(_behind_options(call.args, names("-n --interval")))


def _script_command(call: ShellCall) -> None:
    for i, arg in enumerate(call.args[:-1]):
        if re.fullmatch(r"-\w*c", arg) or arg == "--command":
            call.judge.read(to_plain(call.args[i + 1]))


def _make(call: ShellCall) -> None:
    for arg in call.args:
        if arg.startswith(("SHELL=", "--eval")):
            call.find("run.unknown")
    if "-f" in call.args and "-" in call.args:
        call.find("run.unknown")


def _root(call: ShellCall) -> None:
    call.find("root")
    args = list(call.args)
    if call.name in ("su", "runuser") or call.name == "chroot":
        for command in call.values_of("-c", "--command"):
            call.read([command])
        if call.name != "chroot":
            return
        args = args[1:]
    _run_rest(call, list(dropwhile(re.compile(r"[A-Za-z_]\w*=").match, args)), ROOT_VALUES)


_OWN_SYNTAX = by_name(
    {
        "env": _env,
        "timeout": _timeout,
        "xargs parallel": _xargs,
        "find fd": _find,
        "flock": _flock,
        "watch": _watch,
        "script": _script_command,
        "ssh": effects.ssh,
        "chroot unshare nsenter": _root,
        "make": _make,
        "sg": _sg,
        "capsh": _capsh,
        "hyperfine": _commands,
    }
)


def _builtin(call: ShellCall) -> bool:
    name, args = call.name, call.args
    if name == "eval":
        _run_text(call, " ".join(args), [])
    elif name in ("source", "."):
        if args:
            _script_file(call, args[0])
    elif name == "trap":
        rest = args[1:] if args[:1] == ["--"] else args
        if len(rest) > 1 and rest[0] not in ("-p", "-l", "-"):
            call.judge.read(to_plain(rest[0]))
    elif name in ("compgen", "complete"):
        for option, value in pairwise(args):
            if option == "-C":
                call.judge.read(to_plain(value))
            elif option == "-W":
                call.judge.read(f": {to_plain(value)}")
    elif name == "history" and args[:1] == ["-s"]:
        call.read(args[1:])
    elif name == "alias":
        for arg in args:
            if "=" in arg:
                alias, _, meant = to_plain(arg).partition("=")
                call.judge.aliases[alias] = meant
                call.judge.read(meant)
    elif name in ("cd", "pushd"):
        target = next((arg for arg in args if not arg.startswith("-") or arg == "-"), None)
        where = call.judge.place.home if target is None else target
        call.judge.enter(None if where == "-" else call.judge.path(where))
    elif name == "popd":
        call.judge.enter(None)
    elif name in DECLARES:
        refers = name != "export" and any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*", arg) for arg in args)
        for arg in args:
            if re.match(r"[A-Za-z_]\w*\+?=", arg):
                key, _, value = arg.partition("=")
                value = UNKNOWN * 2 if refers else to_plain(value)
                call.judge.assign(("+" if key.endswith("+") else "") + key.rstrip("+"), (value,))
    elif name in ("read", "mapfile", "readarray", "getopts", "unset"):
        paths = call.feed is not None and "/" in (call.feed.text or "") and name != "unset"
        for arg in (*args, "REPLY", "MAPFILE"):
            call.judge.variables.values.pop(arg, None)
            if paths:
                call.judge.variables.values[arg] = (UNKNOWN * 2,)
        for command in call.values_of("-C")[:1] if name in ("mapfile", "readarray") else ():
            call.read([command])
        fed = (
            call.feed.text
            if call.feed is not None and name == "read" and len(args) == 1 + ("-r" in args)
            else None
        )
        if fed and "\\" not in fed and args[-1] != "-r":
            call.judge.assign(args[-1], tuple(line.strip() for line in fed.splitlines()))
    elif name == "printf" and args[:1] == ["-v"] and len(args) > 2:
        text = printed(["printf", *args[2:]], None, None)
        call.judge.assign(args[1], (text if text is not None else UNKNOWN,))
    else:
        return False
    return True


def printed(fields: list[str], fed: str | None, cwd: str | None) -> str | None:
    """What a command prints, for the few whose output follows from their words."""
    if not fields:
        return None
    name, args = fields[0].rpartition("/")[2], [to_plain(field) for field in fields[1:]]
    if name == "echo":
        escaped = any(re.fullmatch(r"-\w*e\w*", arg) for arg in args[:1])
        while args and re.fullmatch(r"-[neE]+", args[0]):
            args = args[1:]
        text = " ".join(args)
        return unescaped(text) if escaped else text
    if name == "printf" and args:
        return _formatted(args[0], args[1:])
    if name == "cat" and (not args or args == ["-"]):
        return fed
    if name == "pwd" and cwd is not None:
        return cwd
    if name in ("which", "command", "basename") and args and not args[-1].startswith("-"):
        return args[-1].rpartition("/")[2]
    return None


def _formatted(pattern: str, args: list[str]) -> str | None:
    text = unescaped(pattern)
    if "%" not in text:
        return text
    words = iter(args)
    return re.sub(r"%[-0-9.]*([sbdcxq%])", lambda match: "%" if match[1] == "%" else next(words, ""), text)


def source_of(fields: list[str]) -> str:
    """Where the output of a command comes from, if that matters to who runs it."""
    if not fields:
        return ""
    name = fields[0].rpartition("/")[2]
    while name in ("sudo", "command", "env", "timeout", "nohup") and len(fields) > 1:
        fields = fields[1:]
        name = fields[0].rpartition("/")[2]
    if name in DOWNLOADS:
        return "download"
    return "decoder" if name in DECODERS else ""
