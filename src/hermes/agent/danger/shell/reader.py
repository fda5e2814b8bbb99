"""A reader of shell command lines: what is run, with which words and redirections. It runs nothing.

Covers what bash reads: pipelines, groups, functions, here-documents and the compound commands. What it
cannot read is `UnreadableCommand`, which a judge takes as a reason to ask."""

from __future__ import annotations

import re

from hermes.agent.danger.shell import syntax

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]=]*\])?(\+?=)")
_REDIRECT = re.compile(r"(\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|>>|>\||>&|<&|&>>|&>|<(?!\()|>(?!\())")
_KEYWORD = re.compile(r"[a-z]+(?=[\s;&|()<>]|$)|!(?=\s)|[{}](?=[\s;&|)]|$)|\[\[(?=\s)|\]\]|-p(?=\s)")
_BLANKS = re.compile(r"(?:[ \t]|\\\n|(?:\A|(?<=[ \t\n;&|()]))#[^\n]*)*")
_COPROCESS = re.compile(r"[A-Za-z_]\w*[ \t]+(?=[{(]|(?:while|until|for|if|case|select)\s|\[\[)")
"""The name of one, which only a compound command may have."""
_NEXT = re.compile(r";(?!;)")
_AND_OR = re.compile(r"&&|\|\|")
_BESIDE = re.compile(r"&(?!>)")
_PIPE = re.compile(r"\|(?!\|)&?")
_CASE_END = re.compile(r";;&?|;&")
_LITERAL = re.compile(r"'([^']*)'|([A-Za-z0-9_./:=@%+-]+)|\\\n()|\\(.?)", re.DOTALL)
_QUOTED_LITERAL = re.compile(r'\\([$`"\\])|\\\n()|[^\\$`"]+|[\\"]')
_BEFORE_HOME = re.compile(r"(:|[\w+\]]=)\Z")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|[0-9@*])|[#?$!-])")
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_]\w*|[0-9@*#?$!-])")
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ESCAPES = dict(zip("\\'\"?ntrabefv", "\\'\"?\n\t\r\a\b\x1b\f\v", strict=True))
_META = frozenset(" \t\n;&|()<>")
_DECLARES = frozenset({"declare", "local", "export", "typeset", "readonly"})
_LONGEST = 50_000
_DEEPEST = 30


def read_shell(text: str) -> tuple[syntax.ShellNode, ...]:
    """The commands of a command line, in order."""
    if len(text) > _LONGEST:
        raise syntax.UnreadableCommand("too long")
    reader = _Reader(text)
    script = reader.script(())
    if reader.at < len(text):
        raise syntax.UnreadableCommand(f"unexpected “{text[reader.at]}”")
    return script


def unescaped(text: str) -> str:
    """The text with its escapes, as `$'…'`, `echo -e` and `printf` know them, made what they stand for."""

    def meant(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return chr(min(int(code[1:], 16), 0x10FFFF))
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        return _ESCAPES.get(code, match[0])

    return _ESCAPE.sub(meant, text)


def _expanded(word: syntax.Word) -> syntax.ShellNode:
    """A word that only has to be expanded."""
    return syntax.SimpleCommand(words=[(syntax.LiteralText(":"),), word])


def _beside(node: syntax.ShellNode) -> syntax.ShellNode:
    return syntax.CompoundCommand([(node,)], subshell=True, background=True)


class _Reader:
    """A place in a text, and how commands and their words are read from there."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise syntax.UnreadableCommand("too deep")
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.depth = depth
        self.words = 0
        self._heredocs: list[tuple[syntax.Redirect, bool]] = []

    # --- grammar ---

    def script(self, ends: tuple[str, ...]) -> tuple[syntax.ShellNode, ...]:
        nodes: list[syntax.ShellNode] = []
        while True:
            self._blanks(lines=True)
            if self._take(_NEXT):
                continue
            if self.at >= len(self.text) or self._peek() == ")" or self._keyword() in ends:
                return tuple(nodes)
            if self.text.startswith(";;", self.at):
                return tuple(nodes)
            nodes += self._and_or()

    def _and_or(self) -> list[syntax.ShellNode]:
        nodes: list[syntax.ShellNode] = [self._pipeline()]
        while True:
            self._blanks()
            if self._take(_AND_OR):
                self._blanks(lines=True)
                nodes.append(syntax.ConditionalCommand(self._pipeline()))
            elif self._take(_BESIDE):
                nodes[-1] = _beside(nodes[-1])
                return nodes
            else:
                return nodes

    def _pipeline(self) -> syntax.ShellNode:
        self._blanks()
        while self._accept("!", "time"):
            self._blanks()
            if self._accept("-p"):
                self._blanks()
        nodes = [self._command()]
        self._blanks()
        while self._take(_PIPE):
            self._blanks(lines=True)
            nodes.append(self._command())
            self._blanks()
        return nodes[0] if len(nodes) == 1 else syntax.Pipeline(nodes)

    def _command(self) -> syntax.ShellNode:
        if self.text.startswith("((", self.at):
            return self._arithmetic()
        if self._peek() == "(":
            self.at += 1
            body = self.script(())
            self._expect(")")
            return self._redirected(syntax.CompoundCommand([body], subshell=True))
        match self._accept("{", "if", "while", "until", "for", "select", "case", "[[", "function", "coproc"):
            case "{":
                return self._redirected(syntax.CompoundCommand([self._until("}")]))
            case "if":
                return self._if()
            case "while" | "until":
                bodies = [self._until("do"), self._until("done")]
                return self._redirected(syntax.CompoundCommand(bodies, loop=True, certain=False))
            case "for" | "select":
                return self._for()
            case "case":
                return self._case()
            case "[[":
                return self._test()
            case "function":
                self._blanks()
                return self._function(syntax.plain(self._word()))
            case "coproc":
                self._blanks()
                self._take(_COPROCESS)
                return _beside(self._command())
        return self._simple()

    def _if(self) -> syntax.ShellNode:
        bodies = [self._until("then")]
        while True:
            bodies.append(self.script(("elif", "else", "fi")))
            match self._accept("elif", "else", "fi"):
                case "elif":
                    bodies.append(self._until("then"))
                case "fi":
                    return self._redirected(syntax.CompoundCommand(bodies, certain=False))
                case "":
                    raise syntax.UnreadableCommand("an if without its fi")

    def _for(self) -> syntax.ShellNode:
        self._blanks()
        name, values = "", None
        bodies: list[tuple[syntax.ShellNode, ...]] = []
        if self.text.startswith("((", self.at):
            bodies.append((self._arithmetic(),))
        else:
            name = syntax.plain(self._word())
            self._blanks(lines=True)
            if self._accept("in"):
                values = self._words()
        self._blanks(lines=True)
        while self._peek() == ";":
            self.at += 1
            self._blanks(lines=True)
        opening = self._accept("do", "{")
        if not opening:
            raise syntax.UnreadableCommand("a for without its do")
        bodies.append(self._until("done" if opening == "do" else "}"))
        return self._redirected(
            syntax.CompoundCommand(bodies, loop=True, certain=False, name=name, values=values)
        )

    def _case(self) -> syntax.ShellNode:
        self._blanks()
        bodies: list[tuple[syntax.ShellNode, ...]] = [(_expanded(self._word()),)]
        self._blanks(lines=True)
        if not self._accept("in"):
            raise syntax.UnreadableCommand("a case without its in")
        while True:
            self._blanks(lines=True)
            if self._accept("esac"):
                return self._redirected(syntax.CompoundCommand(bodies, certain=False))
            if self._peek() == "(":
                self.at += 1
            while self._peek() != ")":
                self._blanks()
                if self._peek() == "|":
                    self.at += 1
                elif self._peek() != ")":
                    bodies.append((_expanded(self._word()),))
            self.at += 1
            bodies.append(self.script(("esac",)))
            self._take(_CASE_END)

    def _test(self) -> syntax.ShellNode:
        words: list[syntax.Word] = [(syntax.LiteralText(":"),)]
        while True:
            self._blanks(lines=True)
            if self._accept("]]"):
                return self._redirected(syntax.CompoundCommand([(syntax.SimpleCommand(words=words),)]))
            if self.at >= len(self.text):
                raise syntax.UnreadableCommand("a [[ without its ]]")
            if self._peek() in "()<>&|;":
                self.at += 1
            else:
                words.append(self._word())

    def _arithmetic(self) -> syntax.ShellNode:
        inner = self._balanced("((", "))")
        return syntax.SimpleCommand(words=[(syntax.LiteralText(":"), *self.inside(inner))])

    def _simple(self) -> syntax.ShellNode:
        simple = syntax.SimpleCommand()
        while True:
            self._blanks()
            if self.at >= len(self.text):
                break
            if self._redirect(simple.redirects):
                continue
            assign = _ASSIGN.match(self.text, self.at) if not simple.words else None
            if assign:
                self.at = assign.end()
                plus = "+" if assign[3] == "+=" else ""
                if assign[2]:  # what a subscript runs is run whatever comes of the value
                    simple.assigns.append(("_", self.inside(assign[2][1:-1])))
                simple.assigns.append((plus + assign[1], self._value()))
            elif self._peek() == "(" and len(simple.words) == 1 and not simple.assigns:
                return self._function(syntax.plain(simple.words[0]))
            elif self._peek() in _META and self.text[self.at : self.at + 2] not in ("<(", ">("):
                break
            else:
                simple.words.append(self._word())
                if syntax.plain(simple.words[0]) in _DECLARES:
                    self._declared(simple)
        if not (simple.words or simple.assigns or simple.redirects):
            raise self._unexpected()
        return simple

    def _declared(self, simple: syntax.SimpleCommand) -> None:
        """`export x=(a b)`: an array may stand where only words may elsewhere."""
        self._blanks()
        assign = _ASSIGN.match(self.text, self.at)
        if assign and self.text.startswith("(", assign.end()):
            self.at = assign.end()
            simple.words.append((syntax.LiteralText(f"{assign[1]}="), *self._value()))

    def _function(self, name: str) -> syntax.ShellNode:
        self._blanks()
        if self._peek() == "(":
            self._balanced("(", ")")
        self._blanks(lines=True)
        return syntax.ShellFunction(name, self._command())

    def _value(self) -> syntax.Word:
        if self._peek() == "(":
            self.at += 1
            words = self._words(closing=True)
            parts: list[syntax.WordPart] = []
            for word in words:
                parts += [*word, syntax.LiteralText(" ")]
            return tuple(parts[:-1])
        if self.at >= len(self.text) or self._peek() in _META:
            return ()
        return self._word()

    def _words(self, *, closing: bool = False) -> list[syntax.Word]:
        words: list[syntax.Word] = []
        while True:
            self._blanks(lines=closing)
            if closing and self._peek() == ")":
                self.at += 1
                return words
            if self.at >= len(self.text) or (not closing and self._peek() in ";\n&|"):
                if closing:
                    raise syntax.UnreadableCommand("an array without its end")
                return words
            words.append(self._word())

    def _redirected(self, group: syntax.CompoundCommand) -> syntax.ShellNode:
        self._blanks()
        while self._redirect(group.redirects):
            self._blanks()
        return group

    def _redirect(self, into: list[syntax.Redirect]) -> bool:
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        self._blanks()
        op = match[2]
        before = self.at
        redirect = syntax.Redirect(op, self._word())
        if op in ("<<", "<<-"):
            quoted = any(mark in self.text[before : self.at] for mark in "'\"\\")
            self._heredocs.append((redirect, quoted))
        elif op == "<<<":
            redirect.body = redirect.target
        into.append(redirect)
        return True

    def _until(self, end: str) -> tuple[syntax.ShellNode, ...]:
        body = self.script((end,))
        if not self._accept(end):
            raise syntax.UnreadableCommand(f"“{end}” is missing")
        return body

    # --- between words ---

    def _blanks(self, *, lines: bool = False) -> None:
        self._take(_BLANKS)
        while lines and self._peek() == "\n":
            self.at += 1
            self._read_heredocs()
            self._take(_BLANKS)

    def _read_heredocs(self) -> None:
        for redirect, quoted in self._heredocs:
            end = syntax.plain(redirect.target)
            lines: list[str] = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = stop if stop >= 0 else len(self.text)
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                if (line.lstrip("\t") if redirect.op == "<<-" else line) == end:
                    break
                lines.append(line)
            body = "\n".join(lines)
            redirect.body = (syntax.LiteralText(body),) if quoted else self.inside(body)
        self._heredocs.clear()

    def _keyword(self) -> str:
        """The bare word that starts here, if it could be a reserved one."""
        match = _KEYWORD.match(self.text, self.at)
        return match[0] if match else ""

    def _accept(self, *words: str) -> str:
        """The reserved word that starts here, if it is one of these; then it is passed."""
        word = self._keyword()
        if word not in words:
            return ""
        self.at += len(word)
        return word

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _expect(self, char: str) -> None:
        if self._peek() != char:
            raise syntax.UnreadableCommand(f"“{char}” is missing")
        self.at += 1

    def _unexpected(self) -> syntax.UnreadableCommand:
        return syntax.UnreadableCommand(f"unexpected “{self._peek()}”" if self._peek() else "it breaks off")

    # --- words ---

    def _word(self) -> syntax.Word:
        self.words += 1
        if self.words > syntax.MOST_WORDS:
            raise syntax.UnreadableCommand("too much to follow")
        parts: list[syntax.WordPart] = []
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text[self.at : self.at + 2] in ("<(", ">("):
                self.at += 2
                parts.append(syntax.Substitution(self._nested(), quoted=True, as_file=True))
            elif char == "(" and parts and self.at > start and self.text[self.at - 1] in "?*+@!":
                inner = self.inside(self._balanced("(", ")"))
                parts.append(syntax.LiteralText(syntax.STAR))
                parts += (part for part in inner if isinstance(part, syntax.Substitution))
            elif char in _META:
                break
            else:
                parts += self._piece(char, first=self.at == start)
        if self.at == start:
            raise self._unexpected()
        return tuple(parts)

    def _piece(self, char: str, *, first: bool) -> list[syntax.WordPart]:
        literal = self._literal(_LITERAL)
        if literal:
            return literal
        if char == "$":
            return self._dollar(quoted=False)
        if char == "`":
            return self._backticks(quoted=False)
        self.at += 1
        if char == "'":
            raise syntax.UnreadableCommand("an open quote")
        if char == '"':
            return self._double_quoted()
        if char == "~" and (first or _BEFORE_HOME.search(self.text, max(self.at - 3, 0), self.at - 1)):
            return [syntax.LiteralText(syntax.TILDE)]
        return [syntax.LiteralText(syntax.MARKS.get(char, char))]

    def _literal(self, pattern: re.Pattern[str]) -> list[syntax.WordPart]:
        match = self._take(pattern)
        return [syntax.LiteralText(match[match.lastindex or 0])] if match else []

    def _double_quoted(self, end: str = '"') -> list[syntax.WordPart]:
        """Up to the closing quote, or to the end of the text for a here-document."""
        parts: list[syntax.WordPart] = [syntax.LiteralText("")]
        while self.at < len(self.text) and not (end and self.text[self.at] == end):
            char = self.text[self.at]
            if char == "$":
                parts += self._dollar(quoted=True)
            else:
                parts += self._backticks(quoted=True) if char == "`" else self._literal(_QUOTED_LITERAL)
        if end:
            if self.at >= len(self.text):
                raise syntax.UnreadableCommand("an open quote")
            self.at += 1
        return parts

    def _dollar(self, *, quoted: bool) -> list[syntax.WordPart]:
        opening = self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            inner = self.inside(self._balanced("$((", "))"))
            return [
                syntax.LiteralText("0"),
                *(part for part in inner if isinstance(part, syntax.Substitution)),
            ]
        if opening == "(":
            self.at += 2
            return [syntax.Substitution(self._nested(), quoted)]
        if opening == "{":
            return [self._braced(quoted)]
        if opening == "'" and not quoted:
            text = self._take(_ANSI_QUOTED)
            if text is None:
                raise syntax.UnreadableCommand("an open quote")
            return [syntax.LiteralText(unescaped(text[1]))]
        if opening == '"' and not quoted:
            self.at += 2
            return self._double_quoted()
        variable = self._take(_VARIABLE)
        if variable:
            return [syntax.Var(variable[1], quoted) if variable[1] else syntax.LiteralText("0")]
        self.at += 1
        return [syntax.LiteralText("$")]

    def _braced(self, quoted: bool) -> syntax.WordPart:
        inner = self._balanced("${", "}")
        match = _PARAMETER.match(inner)
        if match is None:
            raise syntax.UnreadableCommand("a strange variable")
        if match[1] == "#":
            return syntax.LiteralText("0")
        rest = self.inside(inner[match.end() :]) if match.end() < len(inner) else ()
        return syntax.Var(match[1] + match[2], quoted, rest)

    def _backticks(self, *, quoted: bool) -> list[syntax.WordPart]:
        match = self._take(_BACKTICKS)
        if match is None:
            raise syntax.UnreadableCommand("an open backtick")
        inner = re.sub(r"\\([`\\$])", r"\1", match[1])
        return [syntax.Substitution(_Reader(inner, self.depth + 1).script(()), quoted)]

    def _nested(self) -> tuple[syntax.ShellNode, ...]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise syntax.UnreadableCommand("too deep")
        script = self.script(())
        self._expect(")")
        self.depth -= 1
        return script

    def _balanced(self, opening: str, closing: str) -> str:
        """What stands between, brackets of the same kind inside being matched."""
        self.at += len(opening)
        start, level = self.at, len(closing)
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char == "'" and closing != "))":
                self.at = max(self.text.find("'", self.at + 1), self.at)
            elif char == opening[-1]:
                level += 1
            elif char == closing[0]:
                level -= 1
                if level == 0:
                    self.at += 1
                    return self.text[start : self.at - len(closing)]
            self.at += 1
        raise syntax.UnreadableCommand("an open bracket")

    def inside(self, text: str) -> syntax.Word:
        """Text in which only `$` and backticks mean something."""
        return tuple(_Reader(text, self.depth + 1)._double_quoted(end=""))
