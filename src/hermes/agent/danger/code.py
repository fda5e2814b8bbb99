"""Code handed to an interpreter on its command line: does it only compute and print?

Python is read as Python. Of other languages only the words are looked at: a word that can touch files,
programs or the network is a reason to ask, so this errs towards asking."""

from __future__ import annotations

import ast
import re

from hermes.agent.danger.names import names

_SAFE_MODULES = names(
    """
    abc argparse array ast base64 binascii bisect calendar cmath collections colorsys copy csv dataclasses
    datetime decimal difflib enum errno fractions functools hashlib heapq hmac html inspect io itertools json
    keyword locale math numbers operator pathlib platform pprint random re secrets statistics string struct
    sys sysconfig textwrap time timeit tokenize traceback types typing unicodedata uuid zlib tomllib os numpy
    pandas yaml toml packaging importlib
    """
)
_BAD_NAMES = names("exec eval compile __import__ getattr setattr globals locals vars breakpoint __builtins__")
_BAD_ATTRIBUTES = names(
    """
    system popen remove unlink rmdir removedirs rmtree rename renames chmod chown lchown kill killpg fork
    forkpty execv execve execl execlp execvp execvpe spawnl spawnv spawnvp posix_spawn startfile symlink link
    truncate putenv write write_text write_bytes touch mkdir makedirs import_module environ environb getenv
    symlink_to hardlink_to urlopen urlretrieve Popen check_output check_call __subclasses__ __globals__
    __builtins__ __class__ __dict__ b64decode fromhex decompress unhexlify modules
    """
)
_READING_MODES = re.compile(r"[rbtU]*")
_WORDS = re.compile(
    r"""
    \b(system|exec\w*|spawn\w*|popen|fork|unlink\w*|rmdir\w*|rmtree|rm_rf?|rmSync|remove_entry\w*|delete|truncate
    |child_process|FileUtils|File|Dir|IO|Kernel|Open3|\w*[sS]ocket\w*|Net|net|http|https|fetch|require
    |import|eval|writeFile\w*|appendFile\w*|fs|open|opendir|chmod|chown|kill|syscall|qx|glob|passthru|shell_exec|proc_open
    |file_put_contents|base64_decode|atob|Function|process\.binding|os\.\w+|io\.\w+|load\w*|dofile|ENV|env|getline)\b
    | `
    """,
    re.VERBOSE,
)
_HARMLESS_WORDS = re.compile(
    r"require\(['\"](path|util|os|crypto|url|assert|\./package\.json)['\"]\)"
    r"|require ['\"](json|date|time|set)['\"]"
    r"|process\.(version|argv|platform)"
)


def is_harmless_python(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_harmless(node) for node in ast.walk(tree))


def _is_harmless(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(name.name.split(".")[0] in _SAFE_MODULES for name in names)
        case ast.ImportFrom(module=module, names=names):
            safe = (module or "").split(".")[0] in _SAFE_MODULES
            return safe and not any(name.name in _BAD_ATTRIBUTES or name.name == "*" for name in names)
        case ast.Name(id=name):
            return name not in _BAD_NAMES
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr="write"
        ):
            return True
        case ast.Attribute(attr=name):
            return name not in _BAD_ATTRIBUTES
        case ast.Call(func=ast.Name(id="open"), args=args, keywords=keywords):
            modes = [*args[1:2], *(word.value for word in keywords if word.arg == "mode")]
            return all(_is_reading(mode) for mode in modes) and _is_open_path(args[:1])
        case ast.Call(func=ast.Attribute(attr="open"), args=args, keywords=keywords):
            return all(
                _is_reading(mode)
                for mode in (*args, *(word.value for word in keywords if word.arg == "mode"))
            )
    return True


def _is_reading(mode: ast.expr) -> bool:
    return isinstance(mode, ast.Constant) and _READING_MODES.fullmatch(str(mode.value)) is not None


def _is_open_path(args: list[ast.expr]) -> bool:
    """A name that is written out and leads to nothing private; `sys.argv` is as open as the command line."""
    for arg in args:
        if isinstance(arg, ast.Constant) and re.search(
            r"(^|/)\.(ssh|aws|env|netrc|gnupg)|shadow|/proc/", str(arg.value)
        ):
            return False
    return True


def is_harmless_code(code: str) -> bool:
    """For languages that are not read here."""
    return _WORDS.search(_HARMLESS_WORDS.sub("", code)) is None


_AWK = re.compile(
    r"system\s*\(|\|\s*getline|\|&|getline\s*<|/inet/|@(load|include)|ARGV\s*\[[^]]{0,40}\]\s*=(?!=)"
)


_STATEMENTS = re.compile(r"[;}\n]")


def is_harmless_awk(code: str) -> bool:
    """awk computes and prints; what opens files or runs programs has few spellings."""
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', re.sub(r"/(\\.|[^/\\\n])+/", "//", code))
    return "/inet" not in code and not _AWK.search(bare) and not any(map(_redirects, _STATEMENTS.split(bare)))


def _redirects(statement: str) -> bool:
    """`print > file`, `print | command` and `getline < file`; elsewhere `$3 > 10` is a comparison."""
    printing, getting = statement.partition("print")[2], statement.partition("getline")[2]
    return re.search("[>|]", printing) is not None or "<" in getting


_SQL = re.compile(
    r"\b(drop\s+(table|database|schema|index|view|user|role|column|collection)|truncate\b|alter\s+table\s+\S+\s+drop"
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
