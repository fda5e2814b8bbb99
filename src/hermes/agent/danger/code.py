"""The small languages inside a command: those of sed, awk, SQL shells, debuggers and editors. Which files do
they open, which commands do they run? What cannot be told is a reason to ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from hermes.agent.danger import pure
from hermes.agent.danger.names import by_name
from hermes.agent.danger.shell.expand import to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_AWK = re.compile(
    r"system\s*\(|\|\s*getline|\|&|getline\s*<|/inet/|@(load|include)|ARGV\s*\[[^]]{0,40}\]\s*=(?!=)"
)


_AWK_TEXT = re.compile(r'"(?:\\.?|[^"\\])*+"?')
_AWK_REGEX = re.compile(r"(?<!\\)/(?:\\.|[^/\\\n])++/")
_AWK_FUNCTION = re.compile(r"\bfunc(?:tion)?\s{1,9}(\w{1,80})")
_AWK_CALL = re.compile(r"\b([A-Za-z_]\w{0,80})\(")
_STATEMENTS = re.compile(r"[;}\n]")


def is_harmless_awk(code: str) -> bool:
    """awk computes and prints; what opens files or runs programs has few spellings."""
    bare = _AWK_TEXT.sub('""', _AWK_REGEX.sub("//", code))
    own = set(_AWK_FUNCTION.findall(bare))
    if any(name not in pure.AWK_CALLS and name not in own for name in _AWK_CALL.findall(bare)):
        return False
    return "/inet" not in code and not _AWK.search(bare) and not any(map(_redirects, _STATEMENTS.split(bare)))


def _redirects(statement: str) -> bool:
    """`print > file`, `print | command` and `getline < file`; elsewhere `$3 > 10` is a comparison."""
    printing, getting = statement.partition("print")[2], statement.partition("getline")[2]
    return re.search("[>|]", printing) is not None or "<" in getting


_SQL = re.compile(
    r"\b(drop\s+(table|database|schema|index|view|user|role|column|collection|keyspace|type|function)|truncate\b|alter\s+table\s+\S+\s+drop"
    r"|delete\s+from\s+[^;]*?(;|$)|update\s+\S+\s+set\s+[^;]*?(;|$)|flushall|flushdb|dropdatabase|\.drop\s*\("
    r"|deletemany\s*\(\s*\{\s*\}|grant\s|revoke\s|into\s+outfile|load_extension"
    r"|xp_cmdshell|pg_read_file|attach\s|(readfile|writefile|edit)\s?\(|vacuum\s+into)"
    r"|\\(!|(i|ir|o|w|e|cd|copy|include|out)\s|g\s?\|)|\.shell|\.system"
    r"|(\A|[;\n])[ \t]{0,40}(system|source|tee|pager)\s",
    re.IGNORECASE | re.DOTALL,
)


def drops_data(sql: str) -> bool:
    """Statements that destroy, or that reach beyond the database; with a WHERE they are aimed and pass."""
    # What stands in /*! … */ is run by some databases; a comment without an end goes on to the end.
    bare = re.sub(r"--[^\n]*|/\*(?!!).*?(?:\*/|\Z)", " ", sql, flags=re.DOTALL)
    if re.search(r"\bcopy\s", bare, re.IGNORECASE) and re.search(r"\bprogram\b", bare, re.IGNORECASE):
        return True
    for match in _SQL.finditer(bare):
        statement = match[0].lower()
        if statement.startswith(("delete", "update")) and re.search(
            r"\bwhere\b(?!\s+(1\s*=\s*1|true))", statement
        ):
            continue
        return True
    return False


_STRING = re.compile(r"""["']([^"'\n]{1,300})["']""")


def check_strings(call: ShellCall, text: str) -> None:
    """Code that names a home: whole, or in a string by the way that leads there from here."""
    strings = (match[1] for match in _STRING.finditer(text))
    if call.judge.place.mentions_home(text):
        call.find("read.home")
    for fault in {call.judge.read_fault(string) for string in strings if "/" in string or string[:1] == "."}:
        if fault in ("read.home", "read.secret"):
            call.find(fault)


# --- what code has others do ---

_TEXT = r"""[rbu]{0,2}(?:"(?:\\.|[^"\\\n]){0,2000}+"|'(?:\\.|[^'\\\n]){0,2000}+')"""
_ORDER = re.compile(
    r"\b(?:system|popen\d?|Popen|exec[A-Za-z]{0,12}|spawn\w{0,8}|run|call|check_call|check_output|getoutput"
    r"|getstatusoutput|shell_exec|passthru|proc_open|create_subprocess_\w{4,5}|capture\w{0,4}|qx)\b"
    rf"[\s(\[{{]{{0,9}}({_TEXT}(?:[\s,\[\]()]{{1,9}}{_TEXT}){{0,20}})"
    rf"|(?<!\\)({_TEXT})\s{{0,9}}\|&?\s{{0,9}}getline|\bprintf?\b[^|\n]{{0,400}}\|\s{{0,9}}({_TEXT})"
    r"|(`[^`\n]{1,2000}`)|(?:%x|\bqx)[({\[]([^)}\]\n]{1,2000})"
)
_TREE = re.compile(
    r"\b(?:rmtree|rm_rf?|rmSync|rmdirSync|rm|remove_tree|remove_dir_all|rimraf|removeSync|emptyDirSync|deltree"
    rf"|remove_entry_secure)\b[\s(]{{0,9}}({_TEXT})"
)
_STARVES = {
    "fork.bomb": re.compile(r"\bfork\b[\s()]{0,9}while\b|\bwhile\b[^\n;]{0,30}[:{][\s\w.]{0,20}\bfork\b"),
    "kill.all": re.compile(r"\bkill(?:pg)?\b[\s(]{0,9}(?:-1\b|['\"]?\w{1,9}['\"]?\s{0,9},\s{0,9}-1\b)"),
}
_MOST_ORDERS = 100
_NOT_TOLD = frozenset({"text.unreadable", "run.unknown"})


def check_orders(call: ShellCall, text: str) -> None:
    """Commands that stand whole in code, and folders that it deletes, are judged as those of a shell."""
    inner = call.judge.apart()
    for order in islice(_ORDER.finditer(text), _MOST_ORDERS):
        found = next(filter(None, order.groups()))
        words = [_unquoted(one) for one in re.findall(_TEXT, found)] or [found.strip("`")]
        if len(words) == 1:
            inner.read(words[0])
        else:
            inner.run(words)
    for fault in (inner.delete_fault(_unquoted(tree[1])) for tree in _TREE.finditer(text)):
        if fault == "delete.root":
            call.find(fault)
    for rule, pattern in _STARVES.items():
        if pattern.search(text):
            call.find(rule)
    call.judge.steps = inner.steps
    for finding in inner.findings:
        if finding.rule not in _NOT_TOLD:
            call.judge.find(finding.rule, finding.what)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.lstrip("rbu")[1:-1])


# --- sed ---

_ADDRESS = re.compile(r"[\s;{}]*+(\d+|\$|[+~]\d+|[,!]|(?<=/)[IM])")
_BLANKS = re.compile(r"[\s;{}]*")
_FLAGS = re.compile(r"[gpiImM0-9e]*")
_LINE = re.compile(r"[^\n]*")
_PASSED = {
    **dict.fromkeys("aic", re.compile(r"([^\n]*\\\n)*[^\n]*")),
    **dict.fromkeys("btT:", re.compile(r"[^\n;}]*")),
    "#": _LINE,
}
"""What belongs to a command that opens and runs nothing: a text goes on behind a backslash."""


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
            at = _end(_FLAGS, script, end)
            if command == "s" and "e" in script[end:at]:
                yield "e", ""
            if command == "s" and script[at : at + 1] == "w":
                line = _end(_LINE, script, at)
                yield "w", script[at + 1 : line].strip()
                at = line
        elif command and command in "rRwWe":
            line = _end(_LINE, script, at)
            yield command, script[at:line].strip()
            at = line
        elif command in _PASSED:
            at = _end(_PASSED[command], script, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _closing(script: str, at: int, mark: str) -> int:
    """The place behind the next `mark` that is neither escaped nor in brackets, if these have an end."""
    own = re.escape(mark)
    bracket = rf"\[(?:\^?\])?+(?:(?!{own})[^]]|(?!\]){own}(?=[^]]{{0,78}}\]))*+"
    passed = rf"(?:\\.?|{bracket}\]|(?!{own})[^\\[])*+(?:{bracket})?(?:{own})?"
    return _end(re.compile(passed, re.DOTALL), script, at)


# --- SQL ---

_DOT_COMMANDS = by_name(
    {
        "shell system": "run",
        "load cd edit excel www": "run.unknown",
        "read": "sql.unknown",
        "open": "read and write",
        "import restore": "read",
        "output once backup save clone log trace": "write",
    }
)
"""What commands of sqlite3 do with their words, or the rule they break; the first that begins so counts."""
_MOST_LINES = 200
_VALUED = "-cmd -init -separator -nullvalue -newline -c -f -h -p -U -d -e -u -P -D"


def sql(call: ShellCall) -> None:
    inline = "\n;\n".join(to_plain(arg) for arg in call.args)
    fed = call.fed
    check_strings(call, f"{inline}\n{fed or ''}")
    if drops_data(inline) or drops_data(fed or "") or call.name in ("dropdb", "dropuser"):
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
        action = next((does for name, does in _DOT_COMMANDS.items() if name.startswith(verb)), "")
        if action == "run" or any(word.startswith("|") for word in named):
            call.find("run.code")
            call.judge.read(" ".join(words[1:]).strip("'\"").lstrip("|"))
        elif "." in action:
            call.find(action)
        elif action.startswith("read"):
            for path in named if action == "read and write" else named[:1]:
                call.judge.check_read(path)
                if action == "read and write":
                    call.judge.check_write(path, fresh=False)
        elif action == "write":
            for path in (path for path in named if path not in ("stdout", "stderr", "off", "main")):
                call.judge.check_write(path)


# --- debuggers and editors ---

_ESCAPE = re.compile(r"\s*+(?::?\s*+(?:r\s*+)?!|(?:platform )?sh(?:ell?)?\b|make\b|pipe\b)\s*(.*)", re.DOTALL)
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
