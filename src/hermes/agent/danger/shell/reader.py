"""A reader of shell command lines: what is run, with which words and redirections. It runs nothing.

Covers what bash reads: pipelines, groups, functions, here-documents and the compound commands. What it
cannot read is `UnreadableCommand`, which a judge takes as a reason to ask."""

from __future__ import annotations

import re

from hermes.agent.danger.shell.syntax import (
    Background,
    CompoundCommand,
    ConditionalCommand,
    LiteralText,
    Pipeline,
    Redirect,
    ShellFunction,
    ShellNode,
    SimpleCommand,
    UnreadableCommand,
    Word,
    WordPart,
    plain,
)
from hermes.agent.danger.shell.words import META, WordReader

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]=]*\])?(\+?=)")
_REDIRECT = re.compile(r"(\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|>>|>\||>&|<&|&>>|&>|<(?!\()|>(?!\())")
_KEYWORD = re.compile(r"[a-z]+(?=[\s;&|()<>]|$)|!(?=\s)|[{}](?=[\s;&|)]|$)|\[\[(?=\s)|\]\]|-p(?=\s)")
_LONGEST = 50_000
_DECLARES = frozenset({"declare", "local", "export", "typeset", "readonly"})


def read_shell(text: str) -> tuple[ShellNode, ...]:
    """The commands of a command line, in order."""
    if len(text) > _LONGEST:
        raise UnreadableCommand("too long")
    reader = _Reader(text)
    script = reader.script(())
    if reader.at < len(text):
        raise UnreadableCommand(f"unexpected “{text[reader.at]}”")
    return script


class _Reader(WordReader):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text.replace("\r\n", "\n"), depth)
        self._heredocs: list[tuple[Redirect, bool]] = []

    # --- grammar ---

    def script(self, ends: tuple[str, ...]) -> tuple[ShellNode, ...]:
        nodes: list[ShellNode] = []
        while True:
            self._blanks(lines=True)
            if self._peek() == ";" and not self.text.startswith(";;", self.at):
                self.at += 1
                continue
            if self.at >= len(self.text) or self._peek() == ")" or self._keyword() in ends:
                return tuple(nodes)
            if self.text.startswith(";;", self.at) or (self._peek() == ";" and ends):
                return tuple(nodes)
            before = self.at
            nodes += self._and_or()
            if self.at == before:
                raise UnreadableCommand(f"unexpected “{self._peek()}”")

    def _and_or(self) -> list[ShellNode]:
        nodes: list[ShellNode] = [self._pipeline()]
        while True:
            self._blanks()
            two = self.text[self.at : self.at + 2]
            if two in ("&&", "||"):
                self.at += 2
                self._blanks(lines=True)
                nodes.append(ConditionalCommand(self._pipeline()))
            elif self._peek() == "&" and two != "&>":
                self.at += 1
                nodes[-1] = Background(nodes[-1])
                return nodes
            else:
                return nodes

    def _pipeline(self) -> ShellNode:
        self._blanks()
        while self._keyword() in ("!", "time"):
            self.at += len(self._keyword())
            self._blanks()
            if self._keyword() == "-p":
                self.at += 2
                self._blanks()
        nodes = [self._command()]
        while True:
            self._blanks()
            if self._peek() != "|" or self.text.startswith("||", self.at):
                return nodes[0] if len(nodes) == 1 else Pipeline(nodes)
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._blanks(lines=True)
            nodes.append(self._command())

    def _command(self) -> ShellNode:
        if self.text.startswith("((", self.at):
            return self._arithmetic()
        if self._peek() == "(":
            self.at += 1
            body = self.script(())
            self._expect(")")
            return self._redirected(CompoundCommand([body], subshell=True))
        match self._keyword():
            case "{":
                self.at += 1
                return self._redirected(CompoundCommand([self._until("}")]))
            case "if":
                return self._if()
            case "while" | "until" as word:
                self.at += len(word)
                condition = self._until("do")
                return self._redirected(
                    CompoundCommand([condition, self._until("done")], loop=True, certain=False)
                )
            case "for" | "select":
                return self._for()
            case "case":
                return self._case()
            case "[[":
                return self._test()
            case "function":
                self.at += len("function")
                self._blanks()
                return self._function(self._plain_word())
            case "coproc":
                self.at += len("coproc")
                self._blanks()
                return Background(self._command())
        return self._simple()

    def _if(self) -> ShellNode:
        self.at += 2
        bodies = [self._until("then")]
        while True:
            bodies.append(self.script(("elif", "else", "fi")))
            word = self._keyword()
            self.at += len(word)
            if word == "elif":
                bodies.append(self._until("then"))
            elif word == "fi":
                return self._redirected(CompoundCommand(bodies, certain=False))
            elif word != "else":
                raise UnreadableCommand("an if without its fi")

    def _for(self) -> ShellNode:
        self.at += len(self._keyword())
        self._blanks()
        if self.text.startswith("((", self.at):
            self._arithmetic()
            name, values = "", None
        else:
            name, values = self._plain_word(), None
            self._blanks(lines=True)
            if self._keyword() == "in":
                self.at += 2
                values = self._words()
        self._blanks(lines=True)
        while self._peek() == ";":
            self.at += 1
            self._blanks(lines=True)
        opening = self._keyword()
        if opening not in ("do", "{"):
            raise UnreadableCommand("a for without its do")
        self.at += len(opening)
        body = self._until("done" if opening == "do" else "}")
        return self._redirected(CompoundCommand([body], loop=True, certain=False, name=name, values=values))

    def _case(self) -> ShellNode:
        self.at += 4
        self._blanks()
        bodies: list[tuple[ShellNode, ...]] = [(SimpleCommand(words=[(LiteralText(":"),), self._word()]),)]
        self._blanks(lines=True)
        if self._keyword() != "in":
            raise UnreadableCommand("a case without its in")
        self.at += 2
        while True:
            self._blanks(lines=True)
            if self._keyword() == "esac":
                self.at += 4
                return self._redirected(CompoundCommand(bodies, certain=False))
            if self._peek() == "(":
                self.at += 1
            while self._peek() != ")":
                self._blanks()
                if self._peek() == "|":
                    self.at += 1
                elif self._peek() != ")":
                    self._word()
            self.at += 1
            bodies.append(self.script(("esac",)))
            for mark in (";;&", ";;", ";&"):
                if self.text.startswith(mark, self.at):
                    self.at += len(mark)
                    break

    def _test(self) -> ShellNode:
        self.at += 2
        words: list[Word] = [(LiteralText(":"),)]
        while True:
            self._blanks(lines=True)
            if self._keyword() == "]]":
                self.at += 2
                return self._redirected(CompoundCommand([(SimpleCommand(words=words),)]))
            if self.at >= len(self.text):
                raise UnreadableCommand("a [[ without its ]]")
            if self._peek() in "()<>&|;":
                self.at += 1
            else:
                words.append(self._word())

    def _arithmetic(self) -> ShellNode:
        inner = self._balanced("((", "))")
        return SimpleCommand(words=[(LiteralText(":"), *self.inside(inner))])

    def _simple(self) -> ShellNode:
        simple = SimpleCommand()
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
                simple.assigns.append((plus + assign[1], self._value()))
            elif self._peek() == "(" and len(simple.words) == 1 and not simple.assigns:
                return self._function(plain(simple.words[0]))
            elif self._peek() in META and self.text[self.at : self.at + 2] not in ("<(", ">("):
                break
            else:
                simple.words.append(self._word())
                if plain(simple.words[0]) in _DECLARES:
                    self._declared(simple)
        if not (simple.words or simple.assigns or simple.redirects):
            raise UnreadableCommand(f"unexpected “{self._peek()}”" if self._peek() else "it breaks off")
        return simple

    def _declared(self, simple: SimpleCommand) -> None:
        """`export x=(a b)`: an array may stand where only words may elsewhere."""
        self._blanks()
        assign = _ASSIGN.match(self.text, self.at)
        if assign and self.text.startswith("(", assign.end()):
            self.at = assign.end()
            simple.words.append((LiteralText(f"{assign[1]}="), *self._value()))

    def _function(self, name: str) -> ShellNode:
        self._blanks()
        if self._peek() == "(":
            self._balanced("(", ")")
        self._blanks(lines=True)
        return ShellFunction(name, self._command())

    def _value(self) -> Word:
        if self._peek() == "(":
            self.at += 1
            words = self._words(closing=True)
            parts: list[WordPart] = []
            for word in words:
                parts += [*word, LiteralText(" ")]
            return tuple(parts[:-1])
        if self.at >= len(self.text) or self._peek() in META:
            return ()
        return self._word()

    def _words(self, *, closing: bool = False) -> list[Word]:
        words: list[Word] = []
        while True:
            self._blanks(lines=closing)
            if closing and self._peek() == ")":
                self.at += 1
                return words
            if self.at >= len(self.text) or (not closing and self._peek() in ";\n&|"):
                if closing:
                    raise UnreadableCommand("an array without its end")
                return words
            words.append(self._word())

    def _redirected(self, group: CompoundCommand) -> ShellNode:
        self._blanks()
        while self._redirect(group.redirects):
            self._blanks()
        return group

    def _redirect(self, into: list[Redirect]) -> bool:
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return False
        self.at = match.end()
        self._blanks()
        op = match[2]
        before = self.at
        redirect = Redirect(op, self._word())
        if op in ("<<", "<<-"):
            quoted = any(mark in self.text[before : self.at] for mark in "'\"\\")
            self._heredocs.append((redirect, quoted))
        elif op == "<<<":
            redirect.body = redirect.target
        into.append(redirect)
        return True

    def _until(self, end: str) -> tuple[ShellNode, ...]:
        body = self.script((end,))
        if self._keyword() != end:
            raise UnreadableCommand(f"“{end}” is missing")
        self.at += len(end)
        return body

    # --- between words ---

    def _blanks(self, *, lines: bool = False) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t" or (char == "\n" and lines):
                self.at += 1
                if char == "\n":
                    self._read_heredocs()
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#" and (self.at == 0 or self.text[self.at - 1] in " \t\n;&|()"):
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            else:
                return

    def _read_heredocs(self) -> None:
        for redirect, quoted in self._heredocs:
            end = plain(redirect.target)
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
            redirect.body = (LiteralText(body),) if quoted else self.inside(body)
        self._heredocs.clear()

    def _keyword(self) -> str:
        """The bare word that starts here, if it could be a reserved one."""
        match = _KEYWORD.match(self.text, self.at)
        return match[0] if match else ""

    def _plain_word(self) -> str:
        return plain(self._word())
