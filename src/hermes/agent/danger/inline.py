"""Code in a command or in a script: does it only compute, print, and open files that it names?

An allow-list decides (`pure`): Python is read as Python, of other languages every word must be known. Files
that code names are judged like those of a command."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from hermes.agent.danger import pure
from hermes.agent.danger.names import listed

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

LONGEST = 50_000
_MOST_NODES = 20_000
_FAILURE = re.compile(r"\w*(Error|Exception|Warning|Exit|Interrupt)")
_READING = re.compile(r"[rbtU]*")
_PATHS = frozenset({"Path", "PurePath", "PurePosixPath", "PosixPath"})
_FILE_METHODS = {"read_text": "r", "read_bytes": "r", "write_text": "w", "write_bytes": "w", "open": ""}
_HANDED_ON = frozenset({*_FILE_METHODS, "replace", "rename"})
"""Methods that may do something: called they are judged, handed on to be called elsewhere they are not."""
_NOT_READ = ("/etc/", "/proc/", "/dev/", "/root", "/var/")
_TABLES = frozenset({"read_csv", "read_json", "read_excel", "read_parquet"})


# --- Python ---


def is_harmless_python(code: str, call: ShellCall | None = None) -> bool:
    """Whether Python code does nothing but what is listed. The files it opens are put to the call's judge;
    without one, opening a file is not harmless."""
    if len(code) > LONGEST:
        return False
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    return len(nodes) <= _MOST_NODES and _PythonCode(nodes, call).is_harmless()


def is_own_library(module: str) -> bool:
    """Whether a module is Python's own, or known to reach out. Any other is the project's, or one that it
    uses: it may be called, as the project's own programs may be run."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in _REACHING


def _is_calm_of_others(module: str, name: str) -> bool:
    listed_here = module.partition(".")[0] in pure.PYTHON_MODULES
    never = name.startswith("_") or name in pure.PYTHON_NEVER or name in pure.FOREIGN_NEVER
    return not (listed_here or never or is_own_library(module))


def _offers(module: str, name: str) -> bool:
    """Whether this is listed of a module. A module that another one has imported is not."""
    allowed = pure.PYTHON_MODULES.get(module, frozenset())
    if name in allowed:
        return True
    inner = name in sys.stdlib_module_names and name != module and f"{module}.{name}" != "datetime.time"
    return "*" in allowed and not inner and not name.startswith("_") and name not in pure.PYTHON_NEVER


class _PythonCode:
    """The names that code binds, and what it does with them."""

    def __init__(self, nodes: list[ast.AST], call: ShellCall | None) -> None:
        self._nodes = nodes
        self._call = call
        self._modules: dict[str, str] = {}
        self._functions: set[str] = set()
        self._bound: set[str] = set()
        self._texts: dict[str, str | None] = {}
        self._called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}

    def is_harmless(self) -> bool:
        return all(map(self._bind, self._nodes)) and all(map(self._is_harmless, self._nodes))

    def _bind(self, node: ast.AST) -> bool:
        match node:
            case ast.Import(names=names):
                return all(self._import(one.name, one.asname) for one in names)
            case ast.ImportFrom(module=module, names=names):
                return all(self._import_from(module or "", one) for one in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._functions.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self._bound.add(name)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                self._bound.add(name)
            case ast.Global() | ast.Nonlocal():
                return True
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            self._texts[name] = None if name in self._texts else self._path(node.value)
            if isinstance(node.value, ast.Lambda):
                self._functions.add(name)
        return True

    def _import(self, name: str, alias: str | None) -> bool:
        top = name.partition(".")[0]
        if name not in pure.PYTHON_MODULES and is_own_library(name):
            return False
        self._modules[alias or top] = name if alias else top
        return True

    def _import_from(self, module: str, name: ast.alias) -> bool:
        if f"{module}.{name.name}" in pure.PYTHON_MODULES:
            self._modules[name.asname or name.name] = f"{module}.{name.name}"
            return True
        if name.name == "*" or not (_offers(module, name.name) or _is_calm_of_others(module, name.name)):
            return False
        self._functions.add(name.asname or name.name)
        return True

    def _is_harmless(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return self._is_known(name, node)
            case ast.Attribute(attr=name, value=value):
                return self._may_take(value, name, node)
            case ast.Call(func=func):
                return self._may_call(func, node)
            case ast.Subscript(value=ast.Attribute(attr="environ"), ctx=ast.Store() | ast.Del()):
                return False
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                return not name.startswith("__") or name in _OWN_DUNDERS
        return True

    def _is_known(self, name: str, node: ast.AST) -> bool:
        if name in self._bound or name in self._functions or name in self._modules:
            return True
        if name == "open":
            return id(node) in self._called
        return name in pure.PYTHON_BUILTINS or _FAILURE.fullmatch(name) is not None

    def _module(self, node: ast.expr) -> str:
        """The module that an expression stands for, if it is one."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id, "") if node.id not in self._bound else ""
        if isinstance(node, ast.Attribute):
            above = self._module(node.value)
            name = f"{above}.{node.attr}" if above else ""
            return name if name in pure.PYTHON_MODULES or above not in pure.PYTHON_MODULES else ""
        return ""

    def _may_take(self, value: ast.expr, name: str, node: ast.AST) -> bool:
        module = self._module(value)
        if module and name not in pure.PYTHON_NEVER:
            if f"{module}.{name}" in pure.PYTHON_MODULES or _offers(module, name):
                return True
            if module == "pandas" and name.startswith("read_"):
                return id(node) in self._called
            if name in pure.OWN_FACTS and id(node) not in self._called:
                return True
            return _is_calm_of_others(module, name)
        if name in pure.PYTHON_NEVER or (name in _HANDED_ON and id(node) not in self._called):
            return False
        if name in sys.stdlib_module_names and self._root(value) in self._modules:
            return False
        return not name.startswith("__") or name in pure.OWN_FACTS or name in _OWN_DUNDERS

    def _root(self, node: ast.expr) -> str:
        while isinstance(node, ast.Attribute):
            node = node.value
        return node.id if isinstance(node, ast.Name) and node.id not in self._bound else ""

    def _may_call(self, func: ast.expr, node: ast.Call) -> bool:
        match func:
            case ast.Name(id="open"):
                return self._may_open(self._path(node.args[0]) if node.args else None, node, node.args[1:2])
            case ast.Name(id=name):
                if name in self._functions or _FAILURE.fullmatch(name):
                    return True
                return name in pure.PYTHON_BUILTINS and name not in self._bound
            case ast.Attribute(value=value, attr=name):
                if self._module(value) == "pandas" and name.startswith("read_"):
                    table = self._path(node.args[0]) if node.args and name in _TABLES else None
                    return table is not None and "://" not in table and self._may_open(table, node, [])
                if self._module(value):
                    return True  # judged as an attribute
                if name == "replace" and len(node.args) == 1:
                    return False  # of a text it has two; of a path it overwrites a file
                if name in _FILE_METHODS:
                    return self._may_open(
                        self._path(value), node, node.args[:1] if name == "open" else [], name
                    )
                return name in pure.PYTHON_METHODS or name in self._functions
            case ast.Lambda():
                return True
        return False

    def _may_open(
        self, path: str | None, node: ast.Call, modes: list[ast.expr], method: str = "open"
    ) -> bool:
        modes = [*modes, *(word.value for word in node.keywords if word.arg == "mode")]
        mode = _FILE_METHODS.get(method) or "r"
        if modes:
            mode = str(modes[0].value) if isinstance(modes[0], ast.Constant) else "w"
        if path is None or self._call is None:
            return False
        if not path:  # a word of the command line, which is judged there
            return _READING.fullmatch(mode) is not None
        judge = self._call.judge
        if _READING.fullmatch(mode):
            judge.check_read(path)
            return not path.startswith(_NOT_READ)
        judge.check_write(path)
        return True

    def _path(self, node: ast.expr) -> str | None:
        """The path that an expression stands for: empty for a word of the command line, None if unknown."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._texts.get(name)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="sys"), attr="argv")):
                return ""
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[one]) if name in _PATHS:
                return self._path(one)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                above, below = self._path(left), self._path(right)
                return f"{above}/{below}" if above and below else None
        return None


_OWN_DUNDERS = listed(
    """
    __init__ __repr__ __str__ __len__ __eq__ __lt__ __hash__ __iter__ __next__ __getitem__ __setitem__
    __contains__ __call__ __enter__ __exit__ __post_init__ __add__ __sub__ __mul__ __bool__ __main__
    """
)
_REACHING = listed(
    """
    requests httpx aiohttp urllib3 websockets websocket paramiko fabric invoke boto3 botocore psutil sh
    plumbum pexpect pip setuptools pkg_resources dill cloudpickle joblib scapy impacket pwn docker
    kubernetes git dulwich pycurl keyring pyautogui pynput httplib2 grequests treq telethon slack_sdk
    twilio sendgrid google azure openstack psycopg2 psycopg pymysql MySQLdb pymongo redis sqlalchemy
    peewee selenium playwright nmap mechanize scrapy ansible salt minio dropbox tweepy telegram discord
    pyftpdlib http_server
    """
)


# --- other languages ---

_PATTERNS = {
    "perl": r"(?<![\w$@%&\\])(?:(?:s|tr|y)(?P<a>[/|#!,])(?:\\.|(?!(?P=a))[^\\]){0,4000}(?P=a)"
    r"(?:\\.|(?!(?P=a))[^\\]){0,4000}(?P=a)(?P<flags>[a-z]*)"
    r"|(?:m|qr|q|qq)(?P<b>[/|#!,])(?:\\.|(?!(?P=b))[^\\]){0,4000}(?P=b)[a-z]*|/(?:\\.|[^/\\\n]){1,2000}/[a-z]*)",
    "ruby": r"(?<=[(,=~\s])/(?:\\.|[^/\\\n]){1,2000}/[a-z]*",
    "node": r"(?<=[(,=:\s])/(?:\\.|[^/\\\n ]){1,2000}/[a-z]*|`[^`]{0,4000}`",
}
_QUOTED = r"(?P<quote>['\"])(?:\\.?|(?!(?P=quote))[^\\])*+(?:(?P=quote)|(?P<open>\Z))"
_LITERALS = {
    family: re.compile("|".join(filter(None, (_QUOTED, own))), re.DOTALL)
    for family, own in {"": "", **_PATTERNS}.items()
}
_INTERPOLATES = re.compile(r"#\{|@\{|\$\{|\(\?\??\{|\{\$")
_INTERPOLATED = re.compile(r"[#$]\{([^{}]{0,2000})\}")
_REQUIRED = re.compile(
    r"require\(\s?['\"](?:node:)?(?:path|util|os|crypto|url|assert|querystring|\.{1,2}/[\w./-]{1,200}\.json)['\"]\s?\)"
)
_GIVEN = re.compile(
    r"\b(?:let|const|var|my|our|local|for|foreach|set|val|in)\b[\s(]{0,9}([A-Za-z_]\w*)|[$@%]\{?([A-Za-z_]\w*)"
    r"|\b([A-Za-z_]\w*+)\s{0,9}(?:=(?![=~])|=>|[:+*/.-]=|:(?!:))"
)
_FUNCTION = re.compile(
    r"\b(?:def|defn|function|func|fn|sub|class)\s{1,9}([A-Za-z_]\w*)"
    r"|\b([A-Za-z_]\w*+)\s{0,9}=\s{0,9}(?:async\s)?(?:function\b|\(?[\w\s,]{0,200}\)?\s{0,9}=>)"
)
_PARAMETERS = re.compile(
    r"\(([\w\s,]{1,200})\)\s{0,9}=>|\b(?:function|def|fn)\b[\s\w]{0,80}\(([\w\s,$]{1,200})\)|\|([\w\s,]{1,200})\|"
)
_WORD = re.compile(r"(\.?)\s{0,9}([A-Za-z_]\w*)(\s{0,9}\()?")
_CALLED_VALUE = re.compile(
    r"[\])]\s{0,9}\(|\$\w{1,60}\s{0,9}\(|\$\{|&\s?\$|&\{|%x|<<|`|[\w)\]]\s{0,9}\[\s{0,9}\"\""
)
_NUMBER = re.compile(r"\b\d[\w.]*")


def is_harmless_code(code: str, language: str) -> bool:
    """Whether every word of the code is known for its language, or is a name that the code itself gives."""
    words = pure.SCRIPT_WORDS.get(language)
    if words is None or len(code) > LONGEST:
        return False
    family = next((name for name in _PATTERNS if pure.SCRIPT_WORDS[name] is words), "")
    bare = _without_literals(_REQUIRED.sub("JSON", code), family)
    if bare is None or _CALLED_VALUE.search(bare):
        return False
    bare = _NUMBER.sub("0", bare)
    functions = {name for found in _FUNCTION.finditer(bare) for name in found.groups() if name}
    given = {name for found in _GIVEN.finditer(bare) for name in found.groups() if name}
    given |= {word for found in _PARAMETERS.finditer(bare) for word in re.findall(r"\w+", found[0])}
    for dot, word, called in _WORD.findall(bare):
        own = word in functions or (not called and (word in given or (dot and family == "node")))
        if word not in words and (not own or word in pure.SCRIPT_NEVER):
            return False
    return True


def _without_literals(code: str, family: str) -> str | None:
    """The code without texts and patterns; None if one of them may hold code that cannot be looked at."""
    parts: list[str] = []
    at = 0
    for found in _LITERALS[family].finditer(code):
        text = found[0]
        parts.append(code[at : found.start()])
        at = found.end()
        if "e" in (found.groupdict().get("flags") or "") or found["open"] is not None:
            return None
        if _INTERPOLATES.search(text) and not text.startswith("'"):
            inner = _INTERPOLATED.findall(text)
            if family not in ("node", "ruby") or text.count("{") != len(inner):
                return None
            parts += (f" ({expression}) " for expression in inner)
        parts.append('""')
    parts.append(code[at:])
    return "".join(parts)
