"""Decides whether a command needs approval: walks what it would run and collects what a person should know.

Order is followed: `cd`, assignments, functions and files written on the way count for what comes after. What
each program is asked about is in `programs`; this module finds out which programs run, with which words,
and what they are fed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field

from hermes.agent.danger import names, paths, programs, scripts
from hermes.agent.danger.rules import RULES, DangerFinding, DangerVerdict
from hermes.agent.danger.scope import CommandScope, is_root
from hermes.agent.danger.shell import syntax
from hermes.agent.danger.shell.expand import UNKNOWN, Expander, Variables, has_glob, to_plain
from hermes.agent.danger.shell.reader import read_shell
from hermes.domain.word import replace

_DEEPEST = 12
_LONGEST_SHOWN = 120
_SOURCES = ("download", "decoder", "root-home", "root", "home", "endless")
"""Where words come from that matter to who uses them; the gravest first."""
_FULL_WIDTH = range(0xFF01, 0xFF5F)
_OF_A_PROCESS = re.compile(r"/(environ|mem|maps|root|cwd|fd)\b")
_LIKE_A_PATH = re.compile(r"[./*?\[]")
_SOURCE = re.compile(f"(download|decoder){UNKNOWN}")
_MOST_PATHS = 50
_SUBSCRIPT = re.compile(r"\w\[[^\]$`]{0,80}(\$\(|`)")
_ARGUMENTS = frozenset("123456789@*")
_OPEN_FOLDER = re.compile(r"(^|:)(/tmp|/var/tmp|/dev/shm)(/|:|$)")
"""Where anybody may put programs."""
_SHELLS_OWN = re.compile(r"\d{3,}")
"""Descriptors by which the shell tells the gateway where it stands: nothing else is written there."""


class ShellInput(Struct, frozen=True):
    """What a command reads on its standard input: `text` if known; `source` says where it comes from."""

    text: str | None = None
    source: str = ""


class ShellCall(Struct):
    """One program with its words, as it would be run."""

    judge: CommandJudge
    name: str
    args: list[str]
    feed: ShellInput | None = None
    shown: str = ""

    def find(self, rule: str, what: str = "") -> None:
        self.judge.find(rule, what or self.shown)

    @property
    def plain_args(self) -> list[str]:
        return [to_plain(arg) for arg in self.args]

    @property
    def fed(self) -> str | None:
        """What comes on its input, if that is known."""
        return self.feed.text if self.feed is not None else None

    def values_of(self, *options: str) -> list[str]:
        """The words that follow one of these options."""
        return [value for option, value in pairwise(self.args) if option in options]

    def read(self, words: Iterable[str]) -> None:
        """Judge these words as a command line that this program runs."""
        self.judge.read(" ".join(map(to_plain, words)))

    def judge_code(self, text: str, language: str) -> None:
        """Judge a text as code of a language that this program runs."""
        programs.judge_code(replace(self, name=language, args=[]), text)

    def walk(self, valued: str) -> Iterator[tuple[str, int]]:
        """Each word with the place of the one behind it; the values of these options are passed over."""
        options = frozenset(valued.split())
        at = 0
        while at < len(self.args):
            word, at = self.args[at], at + 1
            yield word, at
            if word in options:
                at += 1

    def after(self, place: int) -> str:
        """The word at this place, if there is one."""
        return self.args[place] if place < len(self.args) else ""


class CommandJudge(Struct):
    """The state of one walk."""

    place: CommandScope
    cwd: str | None
    variables: Variables
    depth: int = 0
    findings: dict[DangerFinding, None] = field(default_factory=dict)
    functions: dict[str, bool] = field(default_factory=dict)
    """Whether a function goes to another folder."""
    bodies: dict[str, syntax.ShellNode] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    """Each program that would run, with its words and with what it would be fed."""
    readers: set[str] = field(default_factory=set)
    """Shells and interpreters that run what will come on their standard input."""
    certain: bool = True
    steps: int = 0
    scripts: dict[str, None] = field(default_factory=dict)
    """Files that would be run and whose texts matter if the agent wrote them."""
    sudo: dict[str, None] = field(default_factory=dict)
    """The options of each sudo."""
    taken: dict[str, None] = field(default_factory=dict)
    """Folders that would be read whole, where `.agentignore` may keep files in them."""
    listing: tuple[str, ...] = ()
    """The folders below which the last `find` looked for names."""
    followed: set[str] = field(default_factory=set)
    outputs: dict[int, tuple[syntax.Substitution, str]] = field(default_factory=dict)

    def find(self, rule: str, what: str) -> None:
        shown = what.replace(UNKNOWN, "…")
        short = shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
        self.findings[DangerFinding(rule=rule, what=short)] = None

    def check_read(self, text: str) -> None:
        """A program is about to read there."""
        fault = self.read_fault(text)
        if fault:
            self.find(fault, to_plain(text))

    def take(self, *folders: str) -> None:
        """A program is about to read these folders with all that is in them."""
        if self.place.ignored:
            self.taken.update((path, None) for path in map(self.path, folders) if path is not None)

    # --- walking ---

    def read(self, text: str, feed: ShellInput | None = None) -> None:
        """Judge a text as shell commands."""
        if self.depth >= _DEEPEST:
            self.find("text.unreadable", "too many shells inside shells")
            return
        if UNKNOWN in text:
            self.find("run.unknown", text)
        self.depth += 1
        try:
            self._script(read_shell(text.replace(UNKNOWN, "${UNKNOWN}")), feed)
        except syntax.UnreadableCommand as error:
            self.find("text.unreadable", str(error))
        except RecursionError:
            self.find("text.unreadable", "too deep")
        self.depth -= 1

    def _script(self, nodes: tuple[syntax.ShellNode, ...], feed: ShellInput | None = None) -> None:
        if replaces_itself(nodes):
            self.find("fork.bomb", "")
        for node in nodes:
            self._node(node, feed)

    def apart(self) -> CommandJudge:
        """A judge for what code would run from here: what it finds, and what it sets, is its own."""
        variables = Variables(home=self.variables.home, values=dict(self.variables.values))
        return replace(self, findings={}, variables=variables, aliases={}, depth=self.depth + 1)

    def _node(self, node: syntax.ShellNode, feed: ShellInput | None = None) -> None:
        self._step()
        match node:
            case syntax.SimpleCommand():
                self._simple(node, feed)
            case syntax.Pipeline(nodes=nodes):
                self._pipeline(nodes, feed)
            case syntax.ConditionalCommand(node=inner):
                certain, self.certain = self.certain, False
                self._node(inner, feed)
                self.certain = certain
            case syntax.CompoundCommand():
                self._group(node, feed)
            case syntax.ShellFunction(name=name, body=body):
                self._function(name, body)

    def _step(self, words: int = 1) -> None:
        self.steps += words
        if self.steps > syntax.MOST_WORDS:
            raise syntax.UnreadableCommand("too much to follow")

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """A shell of its own: its `cd` and its assignments do not last."""
        cwd, values = self.cwd, dict(self.variables.values)
        yield
        self.cwd, self.variables.values = cwd, values

    def _pipeline(self, nodes: list[syntax.ShellNode], feed: ShellInput | None) -> None:
        for node in nodes:
            with self._aside():
                self._node(node, feed)
            feed = self._output(node, feed)

    def _group(self, group: syntax.CompoundCommand, feed: ShellInput | None) -> None:
        fed = self._redirects(group.redirects) or feed
        if group.name:
            values = (UNKNOWN,) if group.values is None else tuple(self._fields(group.values))
            self.variables.values[group.name] = values or ("",)
            self.check_subscripts(values)
        starting = group.loop and any(starts_aside(node) for body in group.bodies for node in body)
        if starting and not group.name and is_endless(group.bodies[0]):
            self.find("loop.processes", "")
        certain, self.certain = self.certain, self.certain and group.certain
        cwd, values_before = self.cwd, dict(self.variables.values)
        for body in group.bodies:
            self._script(body, fed)
        if group.subshell:
            self.cwd, self.variables.values = cwd, values_before
        elif not group.certain and self.cwd != cwd:
            self.enter(None)
        self.certain = certain

    def _function(self, name: str, body: syntax.ShellNode) -> None:
        if calls_itself(name, body):
            self.find("fork.bomb", f"{name}()")
        cwd, folders = self.cwd, {key: self.variables.get(key) for key in ("PWD", "OLDPWD")}
        certain, self.certain = self.certain, False
        arguments = {key: self.variables.values.pop(key) for key in _ARGUMENTS & self.variables.values.keys()}
        self._node(body)
        self.functions[name] = self.cwd != cwd
        self.bodies[name] = body
        self.cwd, self.certain = cwd, certain
        self.variables.values |= folders | arguments

    def _call_function(self, name: str, args: list[str], feed: ShellInput | None) -> None:
        """A function with its words: what it does was judged before they were known."""
        body = self.bodies.pop(name, None)
        if body is None:
            return
        certain, self.certain = self.certain, True
        arguments = {key: self.variables.values.pop(key) for key in _ARGUMENTS & self.variables.values.keys()}
        self.put_arguments(args)
        self.certain = False
        self._node(body, feed)
        self.certain = certain
        for key in _ARGUMENTS:
            self.variables.values.pop(key, None)
        self.variables.values |= arguments
        self.bodies[name] = body

    def put_arguments(self, args: Sequence[str]) -> None:
        """The words that a shell or a function has from here on: `$1`, `$@` …"""
        plain = tuple(map(to_plain, args))
        for at in range(1, 10):
            self.variables.put(str(at), plain[at - 1 : at] or ("",), certain=self.certain)
        for key in ("@", "*"):
            self.variables.put(key, plain or ("",), certain=self.certain)

    # --- one command ---

    @property
    def _expander(self) -> Expander:
        return Expander(self.variables, self._output_of, self.find)

    def _fields(self, words: list[syntax.Word]) -> list[str]:
        return [field for word in words for field in self._expander.fields(word)]

    def _simple(self, simple: syntax.SimpleCommand, feed: ShellInput | None) -> None:
        for name, value in simple.assigns:
            self.assign(name, self._expander.value(value), lasting=not simple.words)
        fed = self._redirects(simple.redirects) or feed
        fields = self._fields(simple.words)
        if not fields:
            return
        first = (part for part in simple.words[0] if isinstance(part, syntax.Var))
        if any(len(self.variables.get(part.name)) > 1 for part in first):
            self.find("run.unknown", "the command is a variable with several values")
        self.run(fields, fed)

    def assign(self, name: str, values: tuple[str, ...], *, lasting: bool = True) -> None:
        # Before a single command (`IFS= read …`) the separator harms nobody.
        bare = name.lstrip("+")
        if bare in names.PRELOADS and (lasting or name != "IFS"):
            if not all(map(names.CALM_VALUES.fullmatch, values)):
                self.find("run.environment", bare)
        elif bare in names.SEARCH_PATHS and any(map(_OPEN_FOLDER.search, values)):
            self.find("run.environment", bare)
        if lasting and any(self.read_fault(value) == "read.home" for value in values):
            # A later command may use the variable, and then nobody knows any more what is in it.
            self.find("read.home", f"{name}={values[0]}")
        if name.lstrip("+") in names.COMMAND_VARIABLES:
            for value in (value for value in values if UNKNOWN not in value):
                self.read(value)
        if lasting:
            self.variables.put(name, values, certain=self.certain)
            self.check_subscripts(self.variables.get(name.lstrip("+")))

    def enter(self, folder: str | None) -> None:
        """The shell stands in another folder from here on; None = nobody knows which."""
        before = self.variables.get("PWD")
        self.cwd = folder
        self.variables.values |= {"PWD": (folder or UNKNOWN * 2,), "OLDPWD": before}

    def check_subscripts(self, texts: Iterable[str]) -> None:
        """The shell runs what stands in the brackets wherever it takes such a text for a number or a name."""
        for text in filter(_SUBSCRIPT.search, texts):
            self.find("run.unknown", text)

    def run(self, fields: list[str], feed: ShellInput | None = None) -> None:
        """Judge one program with its words."""
        self._step(len(fields))
        name, args = fields[0], fields[1:]
        words = [to_plain(field) for field in fields]
        shown = " ".join(words)
        if self.depth >= _DEEPEST:
            self.find("text.unreadable", "too many commands inside commands")
            return
        if any(map(self.place.denies, (shown, " ".join([os.path.basename(words[0]), *words[1:]])))):
            self.find("denied", shown)
        if any(map(self.place.locks, (shown, " ".join([os.path.basename(words[0]), *words[1:]])))):
            self.find("locked", shown)
        name = to_plain(name) if name == syntax.BRACKET else name
        meant = self.aliases.pop(name, None)
        if meant is not None:
            self.read(" ".join([meant, *map(shlex.quote, map(to_plain, args))]), feed)
            self.aliases[name] = meant
            return
        if UNKNOWN in name or has_glob(name):
            self.find("run.unknown", shown)
        elif not name.isascii():
            self.find("text.hidden", shown)
        call = ShellCall(judge=self, name=names.program_name(name), args=args, feed=feed, shown=shown)
        self.ran.add(call.name)
        self.calls.append((call.name, *words[1:], *filter(None, [call.fed])))
        if call.name in names.TERMINALS:
            self.readers.add(call.name)
        if call.name in names.EVALUATORS:
            self.check_subscripts(args)
        self._call_function(name, args, feed)
        if self.functions.get(name):
            self.enter(None)
        self._reads(call)
        if self.is_written(name):
            self.find("run.fresh", shown)
        elif "/" in name:
            scripts.look(call, name)
        self.depth += 1
        programs.look(call)
        self.depth -= 1

    def path(self, text: str) -> str | None:
        return paths.resolve(text, self.cwd)

    def check_write(self, text: str, *, fresh: bool = True) -> None:
        """A program is about to write there; `fresh` = what it writes was not there before."""
        known, unknown, _ = text.partition(UNKNOWN)
        if unknown and (not text.startswith(("/tmp/", "./", "build/")) or self.may_hold_home(known)):
            self.find("write.unknown", text)
            return
        path = self.path(text)
        if path is None:
            if not unknown:
                self.find("write.unknown", text)
            return
        if fresh:
            self.written.add(path)
        fault = paths.write_fault(path, self.place)
        if fault:
            self.find(fault, to_plain(path))

    def is_written(self, name: str) -> bool:
        path = self.path(name) if "/" in name else None
        return path is not None and path in self.written

    def is_own(self, name: str) -> bool:
        """Whether a name is a function or alias of the command itself, or a way to a file."""
        return name in self.functions or "/" in name

    def _reads(self, call: ShellCall) -> None:
        """What the words of a program name, and where it runs: programs read the folder they stand in."""
        silent = call.name in names.SILENT
        if self.cwd is not None and not silent and paths.read_fault(self.cwd, self.place) == "read.home":
            self.find("read.home", f"{call.shown} in {self.cwd}")
        for text in (text for arg in call.args for text in paths.named_in(arg) if text):
            fault = self.read_fault(text)
            if fault == "read.secret" or (fault and (not silent or has_glob(text))):
                self.find(fault, to_plain(text))

    def read_fault(self, text: str) -> str:
        """The rule that reading what is named so breaks, as far as that can be told."""
        path = self.path(self.place.home + text[1:] if text.startswith("~/") else text)
        if path is not None:
            return paths.read_fault(path, self.place)
        if _OF_A_PROCESS.search(text.partition("/proc/")[2]):
            return "read.secret"
        if f"home{UNKNOWN}" in text:
            return "read.home"
        return "read.unknown" if self._may_be_anywhere(text) else ""

    def _may_be_anywhere(self, text: str) -> bool:
        """Whether a path that is not known may lead into a home: one variable alone is taken for a name."""
        known, unknown, rest = text.partition(UNKNOWN)
        if " " in text or not unknown:
            return " " not in text and not text.startswith("-") and bool(_LIKE_A_PATH.search(to_plain(text)))
        if not known:
            return "/" in rest or (UNKNOWN in rest and not _SOURCE.match(rest))
        return self.may_hold_home(known)

    def may_hold_home(self, beginning: str) -> bool:
        """Whether what begins like this may lead into a home."""
        folder, slash, _ = beginning.rpartition("/")
        return self.holds_home((folder or "/") if slash else ".")

    def holds_home(self, *folders: str) -> bool:
        """Whether a home is in one of these folders."""
        return any(paths.holds_home(self.path(folder), self.place) for folder in folders)

    def delete_fault(self, text: str, *, recursive: bool = True) -> str:
        if text.startswith(f"{UNKNOWN}root"):
            return "delete.root"
        return paths.delete_fault(self.path(text), self.place, recursive=recursive)

    # --- words that come from elsewhere ---

    def _redirects(self, redirects: list[syntax.Redirect]) -> ShellInput | None:
        feed: ShellInput | None = None
        for redirect in redirects:
            if redirect.body is not None:
                feed = ShellInput(self._expander.text(redirect.body), "words")
                continue
            if redirect.op in ("<<", "<<-"):
                continue
            for target in self._expander.fields(redirect.target):
                feed = self._redirect(redirect.op, target) or feed
        return feed

    def _redirect(self, op: str, target: str) -> ShellInput | None:
        if op in (">&", "<&") and _SHELLS_OWN.match(target):
            self.find("write.agent", op + target)
        if op in (">&", "<&") and (target.isdigit() or target == "-"):
            return None
        path = self.path(target)
        if path is not None and path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.find("net.socket", target)
        if op in ("<", "<>", "<&"):
            self.check_read(target)
            return ShellInput(None, "file")
        self.check_write(target)
        return None

    def _output_of(self, sub: syntax.Substitution) -> str:
        """What a substitution prints. Each is followed once, however often its word is looked at."""
        if id(sub) not in self.outputs:
            self.outputs[id(sub)] = (sub, self._follow(sub))
        return self.outputs[id(sub)][1]

    def _follow(self, sub: syntax.Substitution) -> str:
        """Judge a substitution; its output is known if its one command is as plain as `echo`."""
        with self._aside():
            self._script(sub.script)
        if sub.as_file:
            source = self._source(sub.script[-1]) if sub.script else ""
            self.take(*self.listing)
            return f"/dev/fd/{source}{UNKNOWN}" if source in ("download", "decoder") else "/dev/fd/63"
        if len(sub.script) == 1 and isinstance(sub.script[0], syntax.SimpleCommand | syntax.Pipeline):
            output = self._output(sub.script[0], None)
            self.take(*self.listing)
            if output.text is not None:
                return output.text.rstrip("\n")
            if output.source in _SOURCES:
                return f"{UNKNOWN}{output.source}{UNKNOWN}"
        return UNKNOWN

    def _output(self, node: syntax.ShellNode, feed: ShellInput | None) -> ShellInput:
        if isinstance(node, syntax.Pipeline):
            for inner in node.nodes:
                feed = self._output(inner, feed)
            return feed or ShellInput()
        if not isinstance(node, syntax.SimpleCommand):
            return ShellInput(None, self._source(node))
        fields = self._fields(node.words)
        bodies = [redirect.body for redirect in node.redirects if redirect.body is not None]
        fed = ShellInput(self._expander.text(bodies[-1])) if bodies else feed or ShellInput()
        text = programs.printed(fields, fed.text, self.cwd)
        if text is not None and UNKNOWN not in text:
            return ShellInput(text, "words")
        source = programs.source_of(fields) or self._listed(fields)
        if not source and fed.text is not None:
            paths_in_it = (word for word in fed.text.split()[:_MOST_PATHS] if "/" in word)
            source = "home" if any(self.read_fault(path) == "read.home" for path in paths_in_it) else ""
        if not source and fed.source in _SOURCES:
            source = programs.passed_on(fields, fed.source)
        return ShellInput(None, source or "command")

    def _listed(self, fields: list[str]) -> str:
        """Whose files it is whose names a program prints: those of a home, of the system."""
        name = os.path.basename(fields[0]) if fields else ""
        if name not in names.LISTERS:
            return "endless" if name == "yes" else ""
        listed = [path for path in map(self.path, fields[1:]) if path is not None]
        home = any(
            paths.holds_home(path, self.place) or paths.read_fault(path, self.place) for path in listed
        )
        # `ls /` prints names without their folder, `ls -d /*` prints them with it.
        whole = [os.path.dirname(path) for path in listed if path.endswith("/" + syntax.STAR)]
        folders = [*whole, *listed] if name in ("find", "fd", "fdfind") else whole
        self.listing = tuple(folders) if folders or name == "ls" else (".",)
        root = names.NARROWS.isdisjoint(fields) and any(map(is_root, folders))
        return "-".join(filter(None, ["root" if root else "", "home" if home else ""]))

    def _source(self, node: syntax.ShellNode) -> str:
        if isinstance(node, syntax.SimpleCommand):
            return self._output(node, None).source
        sources = {self._source(inner) for inner in syntax.children(node)}
        return next((source for source in _SOURCES if source in sources), "command")


@lru_cache(maxsize=32)
def judge_command(command: str, place: CommandScope) -> DangerVerdict:
    """Whether this command needs a person's approval there, and what they should know."""
    return _verdict(follow(command, place, place.cwd), command)


def _verdict(judge: CommandJudge, command: str) -> DangerVerdict:
    findings = [finding for finding in judge.findings if leaves(finding.rule, judge.place)]
    if judge.place.allow and is_allowed(command, judge.place.allow):
        findings = [finding for finding in findings if RULES[finding.rule].never or finding.rule in _KEPT]
    return DangerVerdict(
        findings=tuple(findings),
        scripts=tuple(judge.scripts),
        written=tuple(sorted(judge.written)),
        sudo=tuple(judge.sudo),
        taken=tuple(judge.taken),
    )


_KEPT = frozenset(
    ["locked", "ignored", "read.home", "write.agent", "agent.self", "text.hidden", "text.unreadable"]
)
"""What no list of allowed commands covers."""
_STAYS_INSIDE = re.compile(
    r"delete\.(outside|unknown)|disk\.change|kill\.many|loop\..*|rights\..*|package\.(change|foreign)|service\..*"
    r"|system\..*|root|sql\..*|git\.(discard|rewrite|code)|write\.(ssh|startup|schedule|secret|system|unknown)"
    r"|read\.unknown|run\.(?!remote).*|history\..*|process\..*|text\.hidden|net\.listen|container"
)
_NEEDS_NETWORK = re.compile(r"net\..*|run\.remote|git\.(push|force)|cluster")


def leaves(rule: str, place: CommandScope) -> bool:
    """Whether what breaks this rule matters there: in a sandbox, only what gets out of it does."""
    if not place.contained or RULES[rule].never:
        return True
    return not (_STAYS_INSIDE.fullmatch(rule) or (not place.network_open and _NEEDS_NETWORK.fullmatch(rule)))


def is_allowed(command: str, prefixes: tuple[str, ...]) -> bool:
    """Whether it is one plain command that begins with the words of an entry, of which each may be a pattern.
    With a pipe, a redirection, an assignment, a variable or a substitution it never is."""
    try:
        nodes = read_shell(command)
    except (syntax.UnreadableCommand, RecursionError):
        return False
    if len(nodes) != 1 or not isinstance(nodes[0], syntax.SimpleCommand):
        return False
    simple = nodes[0]
    if simple.assigns or simple.redirects or not all(map(syntax.plain, simple.words)):
        return False
    words = [to_plain(syntax.plain(word)) for word in simple.words]
    for prefix in prefixes:
        wanted = prefix.split()
        if wanted and len(wanted) <= len(words) and all(map(fnmatchcase, words, wanted)):
            return True
    return False


def follow(command: str, place: CommandScope, cwd: str | None) -> CommandJudge:
    """A judge that has read a command in this folder, None = nobody knows which."""
    folders = dict.fromkeys(("PWD", "OLDPWD", "DIRSTACK", "_"), (UNKNOWN * 2,))
    folders |= {"PWD": (cwd,)} if cwd is not None else {}
    variables = Variables(home=place.home, values={**folders, "TMPDIR": ("/tmp",)})
    judge = CommandJudge(place=place, cwd=cwd, variables=variables)
    hidden = hidden_characters(command)
    if hidden:
        judge.find("text.hidden", hidden)
    if place.denies(command):
        judge.find("denied", command)
    if place.locks(command):
        judge.find("locked", command)
    judge.read(command)
    return judge


def hidden_characters(text: str) -> str:
    """Names of characters that cannot be seen, turn the text around, or stand for another."""
    hidden: dict[str, None] = {}
    for char in text:
        if char in "\n\t\r" or " " <= char <= "~":
            continue
        kind = unicodedata.category(char)
        strange = kind in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") or (kind == "Zs" and char != " ")
        if strange or ord(char) in _FULL_WIDTH:
            hidden[unicodedata.name(char, f"U+{ord(char):04X}")] = None
    return ", ".join(list(hidden)[:3])


def digest(command: str, cwd: str, scripts: Iterable[tuple[str, str | None]] = ()) -> str:
    """Of the exact command in its folder, with the scripts that were read: what a person's word is for."""
    exact = json.dumps([command, cwd, *sorted(scripts, key=str)], ensure_ascii=True)
    return "command:" + hashlib.sha256(exact.encode()).hexdigest()


def starts_aside(node: syntax.ShellNode) -> bool:
    """Whether something is left running beside the shell."""
    if isinstance(node, syntax.Pipeline):
        return False
    return (isinstance(node, syntax.CompoundCommand) and node.background) or any(
        map(starts_aside, syntax.children(node))
    )


def is_endless(condition: tuple[syntax.ShellNode, ...]) -> bool:
    if len(condition) != 1 or not isinstance(condition[0], syntax.SimpleCommand) or not condition[0].words:
        return False
    return syntax.plain(condition[0].words[0]) in ("true", ":", "1", "sleep")


def calls_itself(name: str, node: syntax.ShellNode, *, aside: bool = False) -> bool:
    """Whether a function runs itself more than once at a time."""
    if isinstance(node, syntax.SimpleCommand):
        return aside and bool(node.words) and syntax.plain(node.words[0]) == name
    aside = (
        aside
        or isinstance(node, syntax.Pipeline)
        or (isinstance(node, syntax.CompoundCommand) and node.background)
    )
    return any(calls_itself(name, inner, aside=aside) for inner in syntax.children(node))


def replaces_itself(nodes: Sequence[syntax.ShellNode]) -> bool:
    """Whether a script starts a program aside and then becomes it: that may be the script itself."""
    aside: list[list[syntax.Word]] = []
    for node in nodes:
        inner = node.bodies[0] if isinstance(node, syntax.CompoundCommand) and node.background else ()
        if len(inner) == 1 and isinstance(inner[0], syntax.SimpleCommand) and inner[0].words:
            first = inner[0].words[0]
            own = any(isinstance(part, syntax.Var) and part.name in ("0", "BASH_SOURCE") for part in first)
            if own or "/" in syntax.plain(first):
                aside.append(inner[0].words)
        elif aside and isinstance(node, syntax.SimpleCommand) and node.words:
            words = node.words[1:] if syntax.plain(node.words[0]) == "exec" else []
            if words in aside[:1] + aside[-1:]:
                return True
    return False


_LASTING = names.listed("cd pushd popd alias exec hash enable set shopt history fc bind complete trap")
_BESIDES = (
    names.SHELLS
    | names.SILENT
    | names.listed("env exec nice nohup setsid stdbuf timeout command ulimit umask set")
)
"""What may run beside a shell in a command: none of it takes the lines that are meant for the shell."""
_UNFINISHED = re.compile(r"\\\Z|<<|(^|[\s;&|(])![^\s=(]|^\^")
"""What goes on in the next line, or brings back an earlier one."""
_HALF_A_COMMAND = re.compile(r"[$`(\[]")
_KEYS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_ANSWER = re.compile(r"|y|n|yes|no|ok|q|quit|exit|\?|help|\d{1,4}", re.IGNORECASE)


def judge_input(text: str, command: str, place: CommandScope) -> DangerVerdict:
    """Whether a line needs approval before it is sent to what the command has started there."""
    if _KEYS.search(text):
        return DangerVerdict(findings=(DangerFinding(rule="text.keys", what=""),))
    line = follow(text, place, None)
    for finding in follow(text, place, place.cwd).findings:
        line.find(finding.rule, finding.what)
    program = follow(command, place, place.cwd)
    if program.readers and program.readers <= names.SHELLS and program.ran <= _BESIDES:
        if _lasts(line) or _UNFINISHED.search(text.rstrip("\n")):
            line.find("run.later", "")
        return _verdict(line, text)
    never = [finding for finding in line.findings if RULES[finding.rule].never]
    asked = [] if _ANSWER.fullmatch(text.strip()) else [DangerFinding(rule="run.input", what="")]
    return DangerVerdict(findings=(*never, *asked), written=tuple(sorted(line.written)))


def _lasts(line: CommandJudge) -> bool:
    """Whether later lines mean something else: another program takes them, or they find half a command."""
    stored = (value for values in line.variables.values.values() for value in values)
    return bool(line.readers or line.ran & _LASTING) or any(map(_HALF_A_COMMAND.search, stored))
