"""What a verdict costs: work that grows as the command does, and an end to it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hermes.agent.danger import code, effects, inline, judge
from hermes.agent.danger.judge import judge_command
from hermes.agent.danger.scope import CommandScope
from hermes.agent.danger.shell.reader import _LONGEST
from hermes.domain.ports.world import FolderRules
from tests.effort import effort, grows_evenly
from tests.regex_steps import regex_steps

HOMES = FolderRules(
    closed=("/home/ann/.hermes", "/home/ann/bots/bee"), readable=("/home/ann/.hermes/cache/output",)
)
PLACE = CommandScope(cwd="/home/ann/shop", workspace="/home/ann/shop", home="/home/ann", homes=HOMES)

FORMS: dict[str, Callable[[int], str]] = {
    "words": lambda n: "cat " + "a/b.txt " * n,
    "commands": lambda n: "ls; " * n,
    "deletes": lambda n: "; ".join(f"rm -rf /srv/{i}" for i in range(n)),
    "writes": lambda n: "ls " + " ".join(f"> /etc/{i}" for i in range(n)),
    "pipes": lambda n: "cat" + " | cat" * n,
    "wrappers": lambda n: "env " + "A=1 " * n + "ls",
    "options": lambda n: "nice " + "-n 5 " * n + "ls",
    "finds": lambda n: "find . " + "-exec ls {} \\; " * n,
    "substitutions": lambda n: "echo " + "$(ls) " * n,
    "assignments": lambda n: "; ".join(f"A{i}=1" for i in range(n)),
    "globs": lambda n: "rm " + "*a* " * n,
    "folders": lambda n: "cat ~/" + ".h*/" * n,
    "braces": lambda n: "echo " + "{a,b} " * n,
    "awk": lambda n: "awk '" + "print " * n + "'",
    "sql": lambda n: "psql -c '" + "copy x /* " * n + "'",
    "python": lambda n: "python3 -c '" + "a=1\n" * n + "'",
    "sed": lambda n: "sed '" + "s/a/b/;/[x/]y/{p;}" * n + "' x",
    "open brackets": lambda n: "sed 's/" + "[a/" * n + "' x",
    "sqlite": lambda n: "sqlite3 x '" + ".open y\n" * n + "'",
    "strings": lambda n: "python3 -c '" + 'x="../a"\n' * n + "'",
    "tildes": lambda n: "A=" + "~+/a:" * n,
    "changes": lambda n: "x=a; echo " + "${x%b}${x/a/b} " * n,
    "processes": lambda n: "cat /proc/self" + "/cwd/.." * n,
    "subscripts": lambda n: "x='" + "a[" * n + "'",
    "functions": lambda n: "f() { ls $1; }; " + "f a; " * n,
    "arguments": lambda n: "set -- " + "a " * n + "; ls $1",
    "orders": lambda n: "python3 -c 'import os\n" + 'os.system("ls")\n' * n + "'",
    "open orders": lambda n: "python3 -c 'import os\n" + 'run("\\"' * n + "'",
    "here-document": lambda n: "cat <<EOF\n" + "line $x\n" * n + "EOF",
}


def verdict(command: str) -> object:
    return judge_command.__wrapped__(command, PLACE)


@pytest.mark.parametrize("form", FORMS)
def test_the_work_grows_as_the_command_does(form: str) -> None:
    verdict(FORMS[form](3))
    assert grows_evenly(verdict, FORMS[form](60), FORMS[form](300))


@pytest.mark.parametrize("form", FORMS)
def test_there_is_an_end_to_it(form: str) -> None:
    """However long a command is, it costs no more than the longest that is followed."""
    command = FORMS[form](_LONGEST // len(FORMS[form](1)))
    assert effort(lambda: verdict(command)) < 400_000
    assert judge_command(FORMS[form](_LONGEST), PLACE).needs_approval


def test_much_to_say_costs_no_more_than_little() -> None:
    assert grows_evenly(verdict, FORMS["deletes"](30), FORMS["deletes"](450))


def test_what_is_too_much_is_asked_for() -> None:
    within = "sh -c 'cat " + "a " * 500 + "'; "
    assert not judge_command(within * 3, PLACE).needs_approval
    for command in (within * 5, "ls; " * 3000, "cat " + "a " * 3000, "echo '" + "a" * _LONGEST + "'"):
        assert {finding.rule for finding in judge_command(command, PLACE).findings} == {"text.unreadable"}


def test_a_command_is_judged_once() -> None:
    judge_command.cache_clear()
    dear = effort(lambda: judge_command("git status && npm test", PLACE))
    assert effort(lambda: judge_command("git status && npm test", PLACE)) < dear / 10


@pytest.mark.parametrize("pattern", [code._AWK, inline._CALLED_VALUE, judge._OF_A_PROCESS, effects._METADATA])
def test_what_is_looked_for_everywhere_has_no_open_end(pattern: re.Pattern[str]) -> None:
    """`print.*>` looked for in a text of prints walks to its end from each of them."""
    assert not re.search(r"(\.|\[\^[^]]*\])[*+]", pattern.pattern)


PATTERNS = {
    "literals of perl": inline._LITERALS["perl"],
    "literals of ruby": inline._LITERALS["ruby"],
    "literals of node": inline._LITERALS["node"],
    "literals of others": inline._LITERALS[""],
    "names given": inline._GIVEN,
    "functions": inline._FUNCTION,
    "orders": code._ORDER,
    "texts of awk": code._AWK_TEXT,
    "patterns of awk": code._AWK_REGEX,
}
REPEATED = (
    "a",
    "0",
    " ",
    "a ",
    '\\"',
    "\\'",
    "$a",
    "a=",
    "(",
    "/a",
    "a.b",
    "x=1;",
    '"',
    "'",
    "|a",
    "def a",
    "\\/",
    "\n",
)


@pytest.mark.parametrize("repeated", REPEATED)
def test_looking_through_a_text_takes_steps_as_it_grows(repeated: str) -> None:
    """Not one step for each character and each character after it."""
    for name, pattern in PATTERNS.items():
        short, long = (
            regex_steps(pattern.pattern, pattern.flags, "x" + repeated * (length // len(repeated))) / length
            for length in (60, 240)
        )
        assert long < 1.8 * short + 1, (name, short, long)


@pytest.mark.parametrize("pattern", [code._ESCAPE, code._ADDRESS])
def test_blanks_before_an_order_are_passed_once(pattern: re.Pattern[str]) -> None:
    assert regex_steps(pattern.pattern, pattern.flags, " " * 300, search=False) < 4 * 300


def test_a_text_that_does_not_end_may_be_anything() -> None:
    assert inline.is_harmless_code("print 'a'; print 'b'", "perl")
    assert not inline.is_harmless_code("print 'a'; print 'b", "perl")


@pytest.mark.parametrize(
    ("program", "harmless"),
    [
        ("{print $1}", True),
        ("$3 > 10", True),
        ("$3 > 10 {print}", True),
        ("{a = $1 > 2; print a}", True),
        ('{print "a > b"}', True),
        ('{print > "x"}', False),
        ('{printf "%s", $1 >> "x"}', False),
        ("{print | cmd}", False),
        ('{"date" | getline d}', False),
        ('BEGIN{system("id")}', False),
        ('@load "filefuncs"', False),
        ("{print |& cmd}", False),
    ],
)
def test_what_awk_may_do(program: str, harmless: bool) -> None:
    assert code.is_harmless_awk(program) is harmless


@pytest.mark.parametrize(
    ("sql", "dropping"),
    [
        ("select 1 -- drop table x", False),
        ("select 1 /* drop table x */", False),
        ("select 1 /* drop table x", False),
        ("select 1 /*! drop table x */", True),
        ("copy t from program 'id'", True),
        ("copy t from '/tmp/x'", False),
        ("delete from t where id = 1", False),
        ("delete from t", True),
    ],
)
def test_what_destroys_data(sql: str, dropping: bool) -> None:
    assert code.drops_data(sql) is dropping
