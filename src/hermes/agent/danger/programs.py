"""Programs that run others, or that run what they read: shells, interpreters, wrappers, pipes into them.

What a program does by itself is judged in `effects`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile, islice, pairwise, takewhile
from typing import TYPE_CHECKING

from hermes.agent.danger import code, effects, inline, names, pure, scripts, tables
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain
from hermes.agent.danger.shell.reader import unescaped
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_RUNS = {"download": "run.download", "decoder": "run.decoded"}
"""The rule that running something breaks, by where it comes from."""
_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*m(.*)", re.DOTALL)
# Words that make an interpreter go on to take commands.
_STAYS = {
    "python": re.compile(r"-[bBdEIOPqRsSuvx]*i"),
    "perl": re.compile("-d.*"),
    "ruby": re.compile("-rdebug"),
    "php": re.compile("-a|--interactive"),
}
_STAYS_OTHER = re.compile("-i|--interactive|inspect|debug")
_OWN_MODULE = re.compile(r"hermes(\.(cli|__main__))?")
_OWN_SCRIPT = re.compile(r"(.*/)?hermes(/(cli|__main__)\.py)?/?", re.DOTALL)
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?|pypy3?|ipython3?")


def look(call: ShellCall) -> None:
    """Judge a program by what it runs, then by what it does."""
    name = call.name
    for is_judged in (_interpreter, _awk, _runner, _builtin):
        if is_judged(call):
            break
    if name in names.READS_COMMANDS and not any(map(names.READS_COMMANDS[name].fullmatch, call.args)):
        if name in names.ESCAPING:
            code.fed_commands(call)
        elif call.feed is None and name not in ("sqlite3", "duckdb"):
            call.judge.readers.add(name)
    if name in names.LOADERS:
        _load(call)
    if name in ("make", "gmake"):
        scripts.make(call)
    elif name in ("npm", "yarn", "pnpm", "bun"):
        scripts.package_scripts(call)
    effects.find_effects(call)


# --- what runs text ---


def _interpreter(call: ShellCall) -> bool:
    """Code stands behind an option, in a file or in what comes on its input."""
    python, shell = _PYTHON.fullmatch(call.name) is not None, call.name in names.SHELLS
    language = "python" if python else call.name
    if language not in names.TAKES_CODE:
        return False
    if language in ("osascript", "pwsh", "powershell") and call.args:
        call.find("run.code")
    if not shell and any(map(_STAYS.get(language, _STAYS_OTHER).fullmatch, call.args)):
        call.judge.readers.add(call.name)
    for arg, next_ in call.walk("-o +o -O --rcfile --init-file" if shell else "-W -X -r --require -I -M"):
        module = _MODULE.fullmatch(arg) if python else None
        if shell and arg in ("--rcfile", "--init-file"):
            if call.after(next_):
                _script_file(call, call.after(next_))
            continue
        if names.TAKES_CODE[language].fullmatch(arg):
            if shell:
                _run_text(call, call.after(next_), call.args[next_ + 1 :])
            else:
                inline = arg[2:] if python and arg.startswith("-c") else ""
                judge_code(call, to_plain(inline or call.after(next_)))
        elif module:
            _run_module(call, [*filter(None, [module[1]]), *call.args[next_:]])
        elif arg == "-" or (shell and arg == "-s"):
            _run_feed(call)
        elif not arg.startswith(("-", "+") if shell else "-"):
            _script_file(call, arg, call.args[next_:])
        else:
            continue
        return True
    quiet = ("--version", "--help", "-n") if shell else ("--version", "-V", "-v", "--help", "-h")
    if not any(arg in quiet for arg in call.args):
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
        if shell or call.name in names.SHELLS:
            call.judge.read(feed.text)
        else:
            judge_code(call, feed.text)
    else:
        call.find(_RUNS.get(feed.source, "run.unknown"))


def _script_file(call: ShellCall, path: str, args: Sequence[str] = ()) -> None:
    if _OWN_SCRIPT.fullmatch(to_plain(path)):
        call.judge.run(["hermes", *args], call.feed)
    if path.rpartition("/")[2] in ("manage.py", "artisan"):
        effects.find_effects(replace(call, name=path.rpartition("/")[2], args=list(args)))
    if path.startswith("/dev/fd/"):
        source = re.search("download|decoder", path)
        call.find(_RUNS[source[0]] if source else "run.unknown")
    elif path in ("/dev/stdin", "/proc/self/fd/0"):
        _run_feed(call)
    elif UNKNOWN in path:
        call.find("run.unknown")
    elif call.judge.is_written(path) or call.judge.is_written(f"./{path}"):
        call.find("run.fresh")
    else:
        scripts.look(call, path, "bash" if call.name in ("source", ".") else call.name)


def _load(call: ShellCall) -> None:
    """Programs in a form that is not looked into: who wrote them, and where they lie, counts."""
    options = names.LOADERS[call.name].split()
    loaded = call.values_of(*options)
    if not options:
        loaded = [arg for arg in call.args if not arg.startswith("-")][:1]
    for path in (path for place in loaded for path in place.split(":") if path):
        _script_file(call, path)


def _run_module(call: ShellCall, words: list[str]) -> None:
    """`python -m`: this program's own module is found behind those that run others, too."""
    at = next((i for i, word in enumerate(words) if _OWN_MODULE.fullmatch(to_plain(word))), None)
    if at is not None:
        call.judge.run(["hermes", *words[at + 1 :]], call.feed)
    elif words:
        module = to_plain(words[0])
        if module == "timeit":
            for statement in words[1:]:
                if not re.fullmatch(r"-[a-z]|--[a-z]+|\d+", statement):
                    judge_code(call, to_plain(statement))
        elif module in ("cProfile", "profile", "trace", "coverage"):
            rest = _behind_options(words[1:], "-o -s --outfile --sort")
            call.judge.run(["python3", *rest] if rest[:1] != ["run"] else ["coverage", *rest], call.feed)
        elif inline.is_own_library(module) and module not in pure.PYTHON_RUNS:
            call.find("run.code")
        call.judge.run(["pip" if module == "pip" else f"python-{module}", *words[1:]], call.feed)


def judge_code(call: ShellCall, text: str) -> None:
    """Judge a text as code of the language that the call is named after."""
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
        if _PYTHON.fullmatch(call.name):
            harmless = inline.is_harmless_python(text, call)
        else:
            harmless = inline.is_harmless_code(text, call.name)
        if not harmless:
            call.find("run.code")
            code.check_orders(call, text)


def _awk(call: ShellCall) -> bool:
    if call.name not in ("awk", "gawk", "mawk", "nawk"):
        return False
    valued = "-F -v -l --assign --field-separator --load"
    programs = [call.after(next_) for word, next_ in call.walk("") if word in ("-e", "--source")]
    programs += [word.partition("=")[2] for word in call.args if word.startswith("--source=")]
    files = [
        call.after(next_) for word, next_ in call.walk("") if word in ("-f", "--file", "-i", "--include")
    ]
    if "inplace" in files:
        files.remove("inplace")
        for path in call.args:
            call.judge.check_write(path)
    for path in files:
        _script_file(call, path)
    if not programs and not files:
        programs = [word for word, _ in call.walk(valued) if not word.startswith("-")][:1]
    for program in programs:
        is_whole = UNKNOWN not in program or "'" in call.shown
        if is_whole and not code.is_harmless_awk(to_plain(program)):
            call.find("run.code")
            code.check_orders(call, to_plain(program))
        for target in _AWK_OUTPUT.findall(to_plain(program)):
            call.judge.check_write(target, fresh=False)
        code.check_strings(call, to_plain(program))
    return True


_AWK_OUTPUT = re.compile(r'>\s{0,9}"([^"\\\s]{1,4096})"')


# --- what runs other programs ---


Commands = Iterable[str | list[str]]
"""As texts for a shell, or as words."""


def _runner(call: ShellCall) -> bool:
    commands = _COMMANDS.get(call.name)
    if commands is None:
        return False
    for command in commands(call) or ():
        if isinstance(command, str):
            call.read([command])
        elif command:
            call.judge.run(command, call.feed)
    return True


def _wrapped(call: ShellCall) -> Commands:
    """What stands behind the options of a wrapper, and behind a word that has to precede it."""
    name, args = call.name, call.args
    if name in names.RUNNERS:
        if args[:1] != ["run"]:
            return
        args = args[1:]
    if name == "command" and args[:1] in (["-v"], ["-V"]):
        return
    if name == "npx" and "-c" in args:
        yield args[args.index("-c") + 1] if args[-1] != "-c" else ""
        return
    if name in names.FETCHES:
        rest = _behind_options(args, names.WRAPPERS[name])
        before, tool = args[: len(args) - len(rest)], to_plain(rest[0]) if rest else ""
        named = {"--from", "--with", "-p", "--package"} & set(before)
        if tool and (named or re.sub(r"(?<=.)@.*|\[.*", "", tool) not in tables.FETCHED_TOOLS):
            call.find("run.download")
    if name == "ld.so" and any(arg.startswith(("--preload", "--audit", "--library-path")) for arg in args):
        call.find("run.environment")
    rest = _behind_options(args, names.WRAPPERS[name])
    if name in names.PRECEDED and rest and re.fullmatch(names.PRECEDED[name], to_plain(rest[0]), re.DOTALL):
        rest = _behind_options(rest[1:], names.WRAPPERS[name])
    yield rest


def _behind_options(args: Sequence[str], valued: str) -> list[str]:
    """The words behind the options; those named here have a value."""
    at, options = 0, valued.split()
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        option = args[at]
        at += 2 if option in options else 1
        if option == "--":
            break
    return list(args[at:])


_SPLIT = re.compile(r"-[iv0]*S(.*)|--s[a-z-]*(?:=(.*))?", re.DOTALL)


def _env(call: ShellCall) -> Commands:
    before = call.judge.cwd
    for arg, next_ in call.walk("-u --unset -C --chdir -a --argv0"):
        split = _SPLIT.fullmatch(arg)
        folder = re.fullmatch(r"(?:-C|--ch?d?i?r?=?)(.*)", arg, re.DOTALL)
        if split:
            words = [split[1] or split[2] or "", *call.args[next_:]]
            call.judge.read(" ".join(map(to_plain, words)).strip(), call.feed)
            break
        if folder:
            named = folder[1] or call.after(next_)
            call.judge.cwd = call.judge.path(named) if named else None
        elif re.match(r"[A-Za-z_]\w*=", arg):
            name, _, value = arg.partition("=")
            call.judge.assign(name, (value,), lasting=False)
        elif not arg.startswith("-"):
            yield [arg, *call.args[next_:]]
            break
    call.judge.cwd = before


def _xargs(call: ShellCall) -> Commands:
    """What comes on its input becomes words nobody knows yet."""
    mark = ""
    before_lists = list(takewhile(lambda arg: arg and not arg.startswith(":::"), call.args))
    if call.name == "parallel" and all(arg[0] in "-:" for arg in before_lists):
        # No command among them: the lists hold commands.
        _run_feed(call, shell=True)
        return [arg.strip(":") for arg in call.plain_args[len(before_lists) :]]
    for arg, next_ in call.walk("-I -n -P -L -d -a -s -E -j"):
        if not arg.startswith("-"):
            _run_listed(call, [arg, *call.args[next_:]], mark)
            break
        if arg.startswith(("-I", "-i", "--replace")):
            glued = arg[2:] if arg[1] != "-" else arg.partition("=")[2]
            mark = glued or (arg == "-I" and call.after(next_)) or "{}"
    return ()


def _run_listed(call: ShellCall, command: list[str], mark: str) -> None:
    """A command with words from a list: instead of `mark`, or behind its own."""
    words, source = (call.fed or "").split() or [UNKNOWN], call.feed.source if call.feed else ""
    name = names.program_name(to_plain(command[0]))
    if name not in names.SILENT:
        call.judge.take(*call.judge.listing)
    if "home" in source and name not in names.SILENT:
        call.find("read.home")
    if source == "endless" and any(
        map(_UNBOUNDED.fullmatch, [*call.args, *map("".join, pairwise(call.args))])
    ):
        call.find("fork.bomb")
    if source.startswith("root"):
        words.append("/")
        if name in _DELETERS:
            call.find("delete.root")
    if not mark:
        call.judge.run([*command, *words])
        return
    for word in (words[0], *words[1:][-1:]) if source.startswith("root") else words[:1]:
        call.judge.run([field.replace(mark, word) for field in command])


_UNBOUNDED = re.compile(r"-\w*P0|--max-procs=?0|-j0|--jobs=?0")
_DELETERS = names.listed("rm unlink shred rmdir srm wipe")
_JUNK = re.compile(
    r"(\*?\.(pyc|pyo|tmp|log|bak|swp|swo|o|obj|orig|rej|class|DS_Store)|\*~|__pycache__|\.DS_Store"
    r"|\.(pytest|mypy|ruff)_cache|\*/__pycache__/?\*?|Thumbs\.db)"
)


def _find(call: ShellCall) -> None:
    args = call.args
    starts = list(takewhile(lambda arg: not arg.startswith(("-", "(", "!")), args))
    sought = [to_plain(args[i + 1]) for i, arg in enumerate(args[:-1]) if arg in ("-name", "-iname", "-path")]
    junk = "-empty" in args or (bool(sought) and all(map(_JUNK.fullmatch, sought)))
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
        fault = call.judge.delete_fault(start)
        call.find(fault or "delete.everything", call.shown)


def _run_found(call: ShellCall, inner: list[str], starts: list[str], junk: bool) -> None:
    if not inner:
        return
    name = to_plain(inner[0]).rpartition("/")[2]
    if name in _DELETERS:
        if not junk:
            _delete_found(call, starts)
        named = [word for word in inner[1:] if "{}" not in word]
        if any(not word.startswith("-") for word in named):
            call.judge.run([inner[0], *named])
        return
    call.judge.take(*starts or ["."])
    if call.judge.holds_home(*starts or ["."]):
        call.find("read.home")
    reading = name in names.READERS
    folder = starts[0] if starts else "."
    found = f"{folder.rstrip('/')}/found" if reading or name not in names.CHANGERS else UNKNOWN
    call.judge.run([field.replace("{}", found) for field in inner])


def _flock(call: ShellCall) -> Commands:
    command = _behind_options(call.args, "-w --wait --timeout -E --conflict-exit-code")[1:]
    return command[1:2] if command[:1] in (["-c"], ["--command"]) else [command]


_SAYS_HELLO = re.compile(r"(-[Tv]+ )+git@(github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)")


def _ssh(call: ShellCall) -> Commands:
    if set(call.args) & {"-V", "-G", "-Q"} or _SAYS_HELLO.fullmatch(" ".join(call.plain_args)):
        return
    call.find("run.remote")
    for arg, next_ in call.walk("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"):
        if not arg.startswith("-"):
            yield " ".join(call.args[next_:])
            return


def _as_root(call: ShellCall) -> Commands:
    call.find("root")
    args = call.args
    if call.name in ("su", "runuser", "chroot"):
        yield from call.values_of("-c", "--command")
        args = args[1:] if call.name == "chroot" else []
    command = list(dropwhile(re.compile(r"[A-Za-z_]\w*=").match, args))
    behind = _behind_options(command, names.ROOT_OPTIONS.get(call.name, names.ROOT_OPTIONS["sudo"]))
    if call.name == "sudo":
        call.judge.sudo[" ".join(call.args[: len(call.args) - len(behind)])] = None
    yield behind


def _in_capabilities(call: ShellCall) -> Commands:
    """`capsh … -- …`: bash takes what is behind."""
    return [["bash", *rest[1:]] for rest in [list(dropwhile(lambda arg: arg != "--", call.args))] if rest]


def _trap(call: ShellCall) -> Commands:
    rest = call.args[1:] if call.args[:1] == ["--"] else call.args
    return rest[:1] if len(rest) > 1 and rest[0] not in ("-p", "-l", "-") else ()


_COMMANDS: dict[str, Callable[[ShellCall], Commands | None]] = names.by_name(
    {
        " ".join(names.WRAPPERS): _wrapped,
        "sudo su doas pkexec runuser sudoedit gosu su-exec setpriv run0 chroot unshare nsenter": _as_root,
        "env": _env,
        "timeout": lambda call: [_behind_options(call.args, "-k -s --kill-after --signal")[1:]],
        "xargs parallel": _xargs,
        "find fd": _find,
        "flock": _flock,
        "cmd": lambda call: [" ".join(arg for arg in call.plain_args if not re.fullmatch(r"/\w", arg))],
        "watch": lambda call: [" ".join(_behind_options(call.args, "-n --interval"))],
        "script": lambda call: [
            value for option, value in pairwise(call.args) if re.fullmatch(r"-\w*c|--command", option)
        ],
        "ssh": _ssh,
        # `sg group -c command`, as one text or as words.
        "sg": lambda call: [" ".join(arg for arg in call.args if arg not in ("-", "-c")).partition(" ")[2]],
        "capsh": _in_capabilities,
        "hyperfine": lambda call: [arg for arg in call.args if " " in arg or not arg.startswith("-")],
        "eval": lambda call: _run_text(call, " ".join(call.args), []),
        "trap": _trap,
        "history": lambda call: [" ".join(call.args[1:])] if call.args[:1] == ["-s"] else (),
        "compgen complete": lambda call: [
            value if option == "-C" else f": {value}"
            for option, value in pairwise(call.args)
            if option in ("-C", "-W")
        ],
    }
)
"""The commands that programs run, by how they are told to."""


def _builtin(call: ShellCall) -> bool:
    name, args = call.name, call.args
    if name in ("source", "."):
        if args:
            _script_file(call, args[0])
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
    elif name == "set":
        given = _behind_options([re.sub(r"^\+", "-", arg) for arg in args], "-o")
        if given or "--" in args:
            call.judge.put_arguments(given)
    elif name == "shift":
        count = int(args[0]) if args and args[0].isdecimal() and len(args[0]) < 4 else 1
        call.judge.put_arguments(call.judge.variables.get("@")[count:])
    elif name in names.DECLARES:
        refers = name != "export" and any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*", arg) for arg in args)
        for arg in args:
            if re.match(r"[A-Za-z_]\w*\+?=", arg):
                key, _, value = arg.partition("=")
                value = UNKNOWN * 2 if refers else to_plain(value)
                call.judge.assign(("+" if key.endswith("+") else "") + key.rstrip("+"), (value,))
    elif name in ("read", "mapfile", "readarray", "getopts", "unset"):
        paths = "/" in (call.fed or "") and name != "unset"
        for arg in (*args, "REPLY", "MAPFILE"):
            call.judge.variables.values.pop(arg, None)
            if paths:
                call.judge.variables.values[arg] = (UNKNOWN * 2,)
        for command in call.values_of("-C")[:1] if name in ("mapfile", "readarray") else ():
            call.read([command])
        fed = call.fed if name == "read" and len(args) == 1 + ("-r" in args) else None
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


def passed_on(fields: list[str], source: str) -> str:
    """Where the output of a filter comes from, by where its input does. What chooses among names of files may
    leave out those of the system."""
    whole = bool(fields) and fields[0].rpartition("/")[2] in names.KEEPS_ALL
    return source if whole else source.removeprefix("root").lstrip("-").replace("endless", "")


def source_of(fields: list[str]) -> str:
    """Where the output of a command comes from, if that matters to who runs it."""
    if not fields:
        return ""
    name = fields[0].rpartition("/")[2]
    while name in ("sudo", "command", "env", "timeout", "nohup") and len(fields) > 1:
        fields = fields[1:]
        name = fields[0].rpartition("/")[2]
    if name in names.DOWNLOADS:
        return "download"
    return "decoder" if name in names.DECODERS else ""
