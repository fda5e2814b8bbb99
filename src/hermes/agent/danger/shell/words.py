"""Reading the words of a command line: quotes of every kind, escapes, variables, substitutions.

What a substitution runs is a script again; reading scripts is `shell`'s, which this class leaves open."""

from __future__ import annotations

import re

from hermes.agent.danger.shell.syntax import (
    MARKS,
    MOST_WORDS,
    STAR,
    TILDE,
    LiteralText,
    ShellNode,
    Substitution,
    UnreadableCommand,
    Var,
    Word,
    WordPart,
    joined,
)

META = frozenset(" \t\n;&|()<>")
_PLAIN_RUN = re.compile(r"[A-Za-z0-9_./:=@%+-]+")
_BEFORE_HOME = re.compile(r"(:|[\w+\]]=)\Z")
_QUOTED_RUN = re.compile(r"[^\\$`\"]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|[0-9@*#?$!-])")
_ANSI_QUOTED = re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ESCAPES = dict(zip("\\'\"?ntrabefv", "\\'\"?\n\t\r\a\b\x1b\f\v", strict=True))
_DEEPEST = 30


def unescaped(text: str) -> str:
    """The text with its escapes, as `$'…'`, `echo -e` and `printf` know them, made what they stand for."""

    def meant(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return chr(min(int(code[1:], 16), 0x10FFFF))
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return _ESCAPES.get(code, match[0])

    return _ANSI.sub(meant, text)


class WordReader:
    """A place in a text, and how words are read from there."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise UnreadableCommand("too deep")
        self.text = text
        self.at = 0
        self.depth = depth
        self.words = 0

    def script(self, ends: tuple[str, ...]) -> tuple[ShellNode, ...]:
        raise NotImplementedError

    def _word(self) -> Word:
        self.words += 1
        if self.words > MOST_WORDS:
            raise UnreadableCommand("too much to follow")
        parts: list[WordPart] = []
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text[self.at : self.at + 2] in ("<(", ">("):
                self.at += 2
                parts.append(Substitution(self._nested(), quoted=True, as_file=True))
            elif char == "(" and parts and self.at > start and self.text[self.at - 1] in "?*+@!":
                self._balanced("(", ")")
                parts.append(LiteralText(STAR))
            elif char in META:
                break
            else:
                parts += self._piece(char, first=self.at == start)
        if self.at == start:
            raise UnreadableCommand(
                f"unexpected “{self._peek()}”" if self.at < len(self.text) else "it breaks off"
            )
        return joined(parts)

    def _piece(self, char: str, *, first: bool) -> list[WordPart]:
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise UnreadableCommand("an open quote")
            text, self.at = self.text[self.at + 1 : end], end + 1
            return [LiteralText(text)]
        if char == '"':
            self.at += 1
            return self._double_quoted()
        if char == "$":
            return self._dollar(quoted=False)
        if char == "`":
            return [self._backtick(quoted=False)]
        run = _PLAIN_RUN.match(self.text, self.at)
        if run:
            self.at = run.end()
            return [LiteralText(run[0])]
        self.at += 1
        if char == "\\":
            self.at += 1
            escaped = self.text[self.at - 1 : self.at]
            return [] if escaped == "\n" else [LiteralText(escaped)]
        if char == "~" and (first or _BEFORE_HOME.search(self.text, max(self.at - 3, 0), self.at - 1)):
            return [LiteralText(TILDE)]
        return [LiteralText(MARKS.get(char, char))]

    def _double_quoted(self, end: str = '"') -> list[WordPart]:
        """Up to the closing quote, or to the end of the text for a here-document."""
        parts: list[WordPart] = [LiteralText("")]
        while self.at < len(self.text) and not (end and self.text[self.at] == end):
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                parts.append(LiteralText(self.text[self.at + 1].replace("\n", "")))
                self.at += 2
            elif char == "$":
                parts += self._dollar(quoted=True)
            elif char == "`":
                parts.append(self._backtick(quoted=True))
            else:
                run = _QUOTED_RUN.match(self.text, self.at)
                parts.append(LiteralText(run[0] if run else char))
                self.at += len(run[0]) if run else 1
        if end:
            if self.at >= len(self.text):
                raise UnreadableCommand("an open quote")
            self.at += 1
        return parts

    def _dollar(self, *, quoted: bool) -> list[WordPart]:
        rest = self.text[self.at + 1 : self.at + 3]
        if rest == "((":
            inner = self._balanced("$((", "))")
            return [
                LiteralText("0"),
                *(part for part in self.inside(inner) if isinstance(part, Substitution)),
            ]
        if rest[:1] == "(":
            self.at += 2
            return [Substitution(self._nested(), quoted)]
        if rest[:1] == "{":
            return [self._braced(quoted)]
        if rest[:1] == "'" and not quoted:
            self.at += 2
            return [LiteralText(self._ansi())]
        if rest[:1] == '"' and not quoted:
            self.at += 2
            return self._double_quoted()
        name = _NAME.match(self.text, self.at + 1)
        if name:
            self.at = name.end()
            return [Var(name[0], quoted)]
        if rest[:1] and rest[0] in "0123456789@*#?-$!":
            self.at += 2
            return [LiteralText("0") if rest[0] in "#?$!-" else Var(rest[0], quoted)]
        self.at += 1
        return [LiteralText("$")]

    def _braced(self, quoted: bool) -> WordPart:
        inner = self._balanced("${", "}")
        match = _PARAMETER.match(inner)
        if match is None:
            raise UnreadableCommand("a strange variable")
        if match[1] == "#":
            return LiteralText("0")
        rest = self.inside(inner[match.end() :]) if match.end() < len(inner) else ()
        return Var(match[1] + match[2], quoted, rest)

    def _ansi(self) -> str:
        inner = _ANSI_QUOTED.match(self.text, self.at)
        if inner is None:
            raise UnreadableCommand("an open quote")
        self.at = inner.end()
        return unescaped(inner[1])

    def _backtick(self, *, quoted: bool) -> WordPart:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnreadableCommand("an open backtick")
        inner = re.sub(r"\\([`\\$])", r"\1", self.text[self.at + 1 : end])
        self.at = end + 1
        reader = type(self)(inner, self.depth + 1)
        return Substitution(reader.script(()), quoted)

    def _nested(self) -> tuple[ShellNode, ...]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnreadableCommand("too deep")
        script = self.script(())
        self._expect(")")
        self.depth -= 1
        return script

    def _balanced(self, opening: str, closing: str) -> str:
        """What stands between, brackets of the same kind inside being matched."""
        self.at += len(opening)
        start, level = self.at, 1
        one, other = opening[-1], closing[0]
        level = len(closing)
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char == "'" and closing != "))":
                self.at = max(self.text.find("'", self.at + 1), self.at)
            elif char == one:
                level += 1
            elif char == other:
                level -= 1
                if level == 0:
                    self.at += 1
                    return self.text[start : self.at - len(closing)]
            self.at += 1
        raise UnreadableCommand("an open bracket")

    def inside(self, text: str) -> Word:
        """Text in which only `$` and backticks mean something."""
        return joined(type(self)(text, self.depth + 1)._double_quoted(end=""))

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _expect(self, char: str) -> None:
        if self._peek() != char:
            raise UnreadableCommand(f"“{char}” is missing")
        self.at += 1
