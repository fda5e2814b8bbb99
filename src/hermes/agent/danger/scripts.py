"""Programs with a small language of their own (sed, SQL shells, debuggers, editors): the files it opens, the
commands it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hermes.agent.danger import code
from hermes.agent.danger.shell.expand import to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_STRING = re.compile(r"""["']([^"'\n]{1,300})["']""")


def check_strings(call: ShellCall, text: str) -> None:
    """Code that names a home: whole, or in a string by the way that leads there from here."""
    strings = (match[1] for match in _STRING.finditer(text))
    if call.judge.place.mentions_home(text) or any(
        "/" in string and call.judge.read_fault(string) == "read.home" for string in strings
    ):
        call.find("read.home")


# --- sed ---

_ADDRESS = re.compile(r"[\s;{}]*(\d+|\$|[+~]\d+|[,!]|(?<=/)[IM])")
_BLANKS = re.compile(r"[\s;{}]*")
_LINE = re.compile(r"[^\n]*")
_LABEL = re.compile(r"[^\n;}]*")


def sed(call: ShellCall) -> None:
    words = [word for word, _ in call.walk("-l --line-length -f --file -e --expression")]
    operands = [word for word in words if not word.startswith("-")]
    scripts = [
        call.after(next_) if not (glued := word.partition("=")[2] if word.startswith("--") else "") else glued
        for word, next_ in call.walk("")
        if re.fullmatch(r"-[a-zA-Z]*e|--e[a-z]*(=.*)?", word, re.DOTALL)
    ]
    filed = any(re.fullmatch(r"-\w*f.*|--f.*", word, re.DOTALL) for word in words)
    if not scripts and not filed:
        scripts, operands = operands[:1], operands[1:]
    if any(re.fullmatch(r"-\w*i.*|--in-place.*", word, re.DOTALL) for word in words):
        for target in operands:
            call.judge.check_write(target)
    for script in map(to_plain, scripts):
        if call.judge.place.mentions_home(script):
            call.find("read.home")
        for command, argument in _sed_commands(script):
            if command in "rR":
                call.judge.check_read(argument)
            elif command in "wW":
                call.judge.check_write(argument)
            else:
                call.find("run.code")
                call.judge.read(argument)


def _sed_commands(script: str) -> Iterator[tuple[str, str]]:
    """The commands of a sed script that open files (`r`, `w`) or run programs (`e`), with their arguments."""
    at = 0
    while at < len(script):
        address = _ADDRESS.match(script, at)
        if address:
            at = address.end()
            continue
        at = _end(_BLANKS, script, at)
        command, at = script[at : at + 1], at + 1
        if command in ("/", "\\"):
            at = _closing(script, at + (command == "\\"), script[at : at + 1] if command == "\\" else "/")
        elif command in ("s", "y") and at < len(script):
            end = _closing(script, _closing(script, at + 1, script[at]), script[at])
            flags = re.compile(r"[gpiImM0-9e]*").match(script, end)
            at = flags.end() if flags else end
            if command == "s" and flags and "e" in flags[0]:
                yield "e", ""
            if command == "s" and script[at : at + 1] == "w":
                line = _end(_LINE, script, at)
                yield "w", script[at + 1 : line].strip()
                at = line
        elif command and command in "rRwWe":
            line = _end(_LINE, script, at)
            yield command, script[at:line].strip()
            at = line
        elif command and command in "aic#":
            at = _text(script, at) if command != "#" else _end(_LINE, script, at)
        elif command and command in "btT:":
            at = _end(_LABEL, script, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _closing(script: str, at: int, mark: str) -> int:
    """The place behind the next `mark` that is neither escaped nor in brackets."""
    bracket = False
    while at < len(script):
        char = script[at]
        if char == "\\" and not bracket:
            at += 1
        elif char == "[" and not bracket:
            bracket, at = (
                True,
                at + (2 if script[at + 1 : at + 3] == "^]" else script[at + 1 : at + 2] == "]"),
            )
        elif char == "]" and bracket:
            bracket = False
        elif char == mark and (not bracket or "]" not in script[at : at + 80]):
            return at + 1
        at += 1
    return at


def _text(script: str, at: int) -> int:
    """The end of the text behind `a`, `i` or `c`, which goes on behind a backslash."""
    while True:
        at = _end(_LINE, script, at)
        if at >= len(script) or script[at - 1] != "\\":
            return at
        at += 1


# --- SQL ---

_RUNS = ("shell", "system")
_READS = ("import", "restore")
_WRITES = ("output", "once", "backup", "save", "clone", "log", "trace")
_MOST_LINES = 200
_VALUED = "-cmd -init -separator -nullvalue -newline -c -f -h -p -U -d -e -u -P -D"


def sql(call: ShellCall) -> None:
    inline = "\n;\n".join(to_plain(arg) for arg in call.args)
    fed = call.feed.text if call.feed is not None else None
    check_strings(call, f"{inline}\n{fed or ''}")
    if code.drops_data(inline) or (fed is not None and code.drops_data(fed)):
        call.find("sql.drop")
    elif call.name in ("dropdb", "dropuser"):
        call.find("sql.drop")
    elif call.feed is not None and fed is None:
        call.find("sql.unknown")
    elif call.name == "mysqladmin" and {"drop", "shutdown"} & set(call.args):
        call.find("sql.drop")
    if call.name in ("sqlite3", "duckdb"):
        _dot_commands(call, f"{inline}\n{fed or ''}")
        operands = [word for word, _ in call.walk(_VALUED) if not word.startswith("-")]
        if call.feed is None and len(operands) < 2 and "-version" not in call.args:
            call.judge.readers.add(call.name)


def _dot_commands(call: ShellCall, text: str) -> None:
    """`.open`, `.shell` … of sqlite3, which takes them cut short too."""
    lines = [line.strip()[1:].split() for line in text.split("\n") if re.match(r"\s*\.[A-Za-z]", line)]
    if len(lines) > _MOST_LINES:
        call.find("sql.unknown", "too much to follow")
    for words in lines[:_MOST_LINES]:
        verb, rest = words[0], [word.strip("'\"") for word in words[1:]]
        named = [word for word in rest if not word.startswith("-")]
        if any(one.startswith(verb) for one in _RUNS) or any(word.startswith("|") for word in named):
            call.find("run.code")
            call.judge.read(" ".join(words[1:]).strip("'\"").lstrip("|"))
        elif any(one.startswith(verb) for one in ("load", "cd", "edit", "excel", "www")):
            call.find("run.unknown")
        elif "read".startswith(verb):
            call.find("sql.unknown")
        elif "open".startswith(verb):
            for path in named:
                call.judge.check_read(path)
                call.judge.check_write(path, fresh=False)
        elif any(one.startswith(verb) for one in _READS):
            for path in named[:1]:
                call.judge.check_read(path)
        elif any(one.startswith(verb) for one in _WRITES):
            for path in (path for path in named if path not in ("stdout", "stderr", "off", "main")):
                call.judge.check_write(path)


# --- debuggers and editors ---

_ESCAPE = re.compile(r"\s*(?::?\s*(?:r\s*)?!|(?:platform )?sh(?:ell?)?\b|make\b|pipe\b)\s*(.*)", re.DOTALL)
_CALM_DEBUGGING = re.compile(
    r"(r|run|start|bt|backtrace|where|info|b|break|tbreak|c|continue|n|next|s|step|finish|f|frame|up|down|q|quit"
    r"|thread|list|l|disassemble|x|kill|set (pagination|confirm|height|width|print|args)|process launch)"
    r"\b[^|!$()]*",
)
_CALM_EDITING = re.compile(r":?(|\d+|\$|w?q?a?!?|x|wqa?!?|set \w+|syntax \w+|[/?].*)")
_ORDERS = re.compile(
    r"--?(ex|iex|eval-command|init-eval-command|o|O|k|K|one-line|one-line-before-file)(=.*)?"
)


def _escape(call: ShellCall, text: str) -> None:
    """A line that makes the program start another one, as far as that can be seen."""
    escape = _ESCAPE.match(text)
    if escape:
        call.judge.read(escape[1])


def debugger(call: ShellCall) -> None:
    operands: list[str] = []
    for word, next_ in call.walk("-ex -iex --eval-command -x -s -c -d -o -O -k -K"):
        if re.fullmatch(r"-p\d*|--?pid.*|-n|--attach.*|-w|--waitfor", word):
            call.find("process.control")
        order = _ORDERS.fullmatch(to_plain(word))
        if order:
            text = order[2][1:] if order[2] else to_plain(call.after(next_))
            _escape(call, text)
            if re.match(r"\s*(attach|process attach|detach)\b", text):
                call.find("process.control")
            elif not _CALM_DEBUGGING.fullmatch(text.strip()):
                call.find("run.code")
        elif re.fullmatch(r"-x|-s|--command.*|--source.*|-P|--python", word):
            call.find("run.unknown")
        elif word in ("--args", "-args", "--"):
            call.judge.run(call.args[next_:] or ["true"], call.feed)
            return
        elif not word.startswith("-"):
            operands.append(word)
    if any(word.isdecimal() for word in operands):
        call.find("process.control")


def editor(call: ShellCall) -> None:
    for word, next_ in call.walk(""):
        text = to_plain(word)
        if text in ("-c", "--cmd", "-S", "--eval", "-eval", "-f", "--funcall", "-l", "--load", "--script"):
            text = to_plain(call.after(next_))
        elif text.startswith(("+", "--eval=")):
            text = text.lstrip("+").removeprefix("--eval=")
        else:
            continue
        _escape(call, text)
        if not _CALM_EDITING.fullmatch(text):
            call.find("run.code")


def fed_commands(call: ShellCall) -> None:
    """What such a program reads may start others."""
    feed = call.feed
    if feed is None:
        call.judge.readers.add(call.name)
    elif feed.text is None:
        call.find("run.unknown")
    else:
        for line in feed.text.splitlines():
            _escape(call, line)
        call.find("run.code")


# --- limits ---


def limits(call: ShellCall) -> None:
    """An agent's processes are known by a limit of theirs (`-m`, RSS)."""
    words = call.plain_args
    if call.name == "ulimit":
        marked = len(words) > 1 and any(re.fullmatch(r"-[a-zA-Z]*m\w*", word) for word in words)
    else:
        foreign = any(re.match(r"-p|--p", word) for word in words)
        limit = r"-[^po-].+|--(?!pid|out)\w+=.+" if foreign else r"-m.+|--rs?s?=.+"
        marked = any(re.fullmatch(limit, word) for word in words)
    if marked:
        call.find("process.control")
