"""YAML as a tree in which every node knows its line. Values stay text; their type is the reader's matter.

A file that is broken in one place is read again block by block, so that the other blocks still count.
Depth and the size of expanded aliases are bounded."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from hermes.domain.text import one_line, storable
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import UNREADABLE, TextFile

MOST_DEPTH = 32
MOST_NODES = 50_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BLOCK_START = re.compile(r"""(?:[^\s#\-\[\]{}"'%&*!|>@`,?:][^#\n]*?|"[^"\n]*"|'[^'\n]*')\s*:(?:\s|$)""")
_PLAIN_TAGS = frozenset({"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool"))})
_TREE_TAGS = frozenset({"!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})


class YamlScalar(Struct):
    """One value as it is written; an unreadable one was reported already and must fall to its default."""

    text: str
    line: int
    plain: bool = True
    unreadable: bool = False

    @property
    def empty(self) -> bool:
        return self.plain and self.text in _NULLS and not self.unreadable


class YamlList(Struct):
    items: list[YamlNode]
    line: int

    def children(self) -> list[YamlNode]:
        return self.items


class YamlMapping(Struct):
    pairs: dict[str, tuple[int, YamlNode]]
    line: int

    def get(self, name: str) -> YamlNode | None:
        pair = self.pairs.get(name)
        return pair[1] if pair else None

    def children(self) -> list[YamlNode]:
        return [child for _, child in self.pairs.values()]


YamlNode = YamlScalar | YamlList | YamlMapping


def _height(node: YamlNode) -> int:
    return 0 if isinstance(node, YamlScalar) else 1 + max(map(_height, node.children()), default=0)


class _BrokenYaml(Exception):
    """The text is not YAML from this line on. Its arguments are those of `SettingsFindings.problem`."""


def read_yaml(file: TextFile, findings: SettingsFindings) -> YamlMapping:
    """The file's top level; everything wrong with its form becomes a problem."""
    before = len(findings.problems)
    root = YamlMapping(pairs={}, line=1)
    try:
        _Composer(findings, file.damaged).add_to(root, file.text, 0)
    except _BrokenYaml as broken:
        del findings.problems[before:]
        root.pairs.clear()
        _read_blocks(file, root, findings)
        if len(findings.problems) == before:
            findings.problem(*broken.args)
    return root


def _read_blocks(file: TextFile, root: YamlMapping, findings: SettingsFindings) -> None:
    """Read each top-level key by itself, so that one broken place does not spoil the others."""
    composer = _Composer(findings, file.damaged)
    lines = file.text.split("\n")
    starts = [number for number, line in enumerate(lines) if number == 0 or _BLOCK_START.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        try:
            composer.add_to(root, "\n".join(lines[start:end]) + "\n", start)
        except _BrokenYaml as broken:
            findings.problem(*broken.args)
            if findings.full:
                break


class _Composer(Struct):
    """Turns the parser's events into nodes. PyYAML's own composer recurses without bounds."""

    findings: SettingsFindings
    damaged: frozenset[int]
    offset: int = 0
    nodes: int = 0
    anchors: dict[str, tuple[YamlNode, int]] = field(default_factory=dict)
    loader: Any = None

    def add_to(self, root: YamlMapping, text: str, offset: int) -> None:
        """Put the pairs of a text into `root`; `offset` is the number of lines before it in the file."""
        node = self._compose(text, offset)
        if isinstance(node, YamlMapping):
            for name, (line, child) in node.pairs.items():
                self._put(root.pairs, name, line, child)
        elif node is not None and not (isinstance(node, YamlScalar) and (node.empty or node.unreadable)):
            hint = "Write them as `name: value`, one per line."
            self.findings.problem(node.line, "Here must stand settings.", hint)

    def _compose(self, text: str, offset: int) -> YamlNode | None:
        import yaml

        self.offset = offset
        root: YamlNode | None = None
        try:
            self.loader = yaml.SafeLoader(text)
            self.loader.get_event()
            event = self.loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                root = self._node(self.loader.get_event(), 0)
                self.loader.get_event()
                event = self.loader.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    message = "A second document begins here and is not read."
                    self._unreadable(event, message, "Remove the line “---”.")
        except yaml.MarkedYAMLError as error:
            raise self._explained(error) from error
        # PyYAML lets some escapes and directives with absurd numbers through to `int` and `chr`.
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line = self.offset + getattr(self.loader, "line", 0) + 1
            raise _BrokenYaml(line, "This is not valid YAML.", "Put the value in quotes.") from error
        return root

    def _line(self, event: Any) -> int:
        return self.offset + (event.start_mark.line if event.start_mark else 0) + 1

    def _unreadable(self, event: Any, message: str, hint: str) -> YamlScalar:
        self.findings.problem(self._line(event), message, hint)
        return YamlScalar(text="", line=self._line(event), unreadable=True)

    def _node(self, event: Any, depth: int) -> YamlNode:
        import yaml

        self.nodes += 1
        before = self.nodes
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            node: YamlNode = self._scalar(event)
        elif depth >= MOST_DEPTH:
            # PyYAML's scanner takes quadratic time in the depth, so not even skipping may go on here.
            message = f"This is nested deeper than {MOST_DEPTH} levels."
            raise _BrokenYaml(self._line(event), message, "Write it flatter.")
        elif isinstance(event, yaml.SequenceStartEvent):
            node = YamlList(items=[], line=self._line(event))
            while not isinstance(item := self.loader.get_event(), yaml.SequenceEndEvent):
                node.items.append(self._node(item, depth + 1))
        else:
            node = self._mapping(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.nodes - before + 1)
        known = _PLAIN_TAGS if isinstance(event, yaml.ScalarEvent) else _TREE_TAGS
        if event.tag is None or event.tag in known or (isinstance(node, YamlScalar) and node.unreadable):
            return node
        tag = one_line(event.tag.replace("tag:yaml.org,2002:", "!!"))
        return self._unreadable(event, f"The tag “{tag}” has no meaning here.", "Write the value without it.")

    def _alias(self, event: Any, depth: int) -> YamlNode:
        anchor = str(event.anchor)
        if anchor not in self.anchors:
            message = f"“*{one_line(anchor)}” refers to nothing above."
            return self._unreadable(event, message, "Define it before.")
        node, size = self.anchors[anchor]
        if self.nodes + size > MOST_NODES:
            # Each further alias would say the same; one line of an alias bomb is enough.
            silent, self.nodes = self.nodes > MOST_NODES, MOST_NODES + 1
            if silent:
                return YamlScalar(text="", line=self._line(event), unreadable=True)
            message = "The aliases expand to more than this file may hold."
            return self._unreadable(event, message, "Write the values out.")
        self.nodes += size
        if depth + _height(node) > MOST_DEPTH:
            message = f"This alias nests deeper than {MOST_DEPTH} levels."
            return self._unreadable(event, message, "Write it flatter.")
        return node

    def _scalar(self, event: Any) -> YamlScalar:
        text, first = str(event.value), self._line(event)
        last = self.offset + (event.end_mark.line if event.end_mark else 0) + 1
        if UNREADABLE in text and not self.damaged.isdisjoint(range(first, last + 1)):
            return YamlScalar(text="", line=first, unreadable=True)
        if storable(text) != text:
            message = "This value holds a character that no text can hold."
            return self._unreadable(event, message, "Remove it.")
        return YamlScalar(text=text, line=first, plain=event.style is None and event.tag is None)

    def _mapping(self, event: Any, depth: int) -> YamlMapping:
        import yaml

        own: dict[str, tuple[int, YamlNode]] = {}
        merged: list[YamlNode] = []
        while not isinstance(key := self.loader.get_event(), yaml.MappingEndEvent):
            name = self._node(key, depth + 1)
            value = self._node(self.loader.get_event(), depth + 1)
            if not isinstance(name, YamlScalar):
                self._unreadable(key, "A name must be a plain text.", "Write `name: value`.")
            elif name.empty or not (name.text or name.unreadable):
                self._unreadable(key, "A name is missing before the colon.", "Write `name: value`.")
            elif name.plain and name.text == "<<":
                merged.extend(value.items if isinstance(value, YamlList) else [value])
            elif not name.unreadable:
                self._put(own, name.text, name.line, value)
        for node in merged:
            if isinstance(node, YamlMapping):
                own = {**node.pairs, **own}
            elif not (isinstance(node, YamlScalar) and node.unreadable):
                self.findings.problem(node.line, "“<<” can only take in a mapping.", "Name one with “*”.")
        return YamlMapping(pairs=own, line=self._line(event))

    def _put(self, pairs: dict[str, tuple[int, YamlNode]], name: str, line: int, node: YamlNode) -> None:
        if name in pairs:
            message = f"“{one_line(name)}” stands twice, here and in line {pairs[name][0]}."
            self.findings.problem(line, message, "Keep one of the two.")
        pairs[name] = (line, node)

    def _explained(self, error: Any) -> _BrokenYaml:
        complaint = f"{error.context or ''} {error.problem or ''}"
        mark = error.problem_mark or error.context_mark
        message, hint = "This is not valid YAML.", "Check the indentation, the colons and the quotes."
        if "flow node" in complaint and "<stream end>" in complaint and self.loader.marks:
            # It says where the text ends; where the bracket was opened, only the parser's own stack says.
            mark, message = self.loader.marks[-1], "A bracket is opened here and never closed."
            hint = "Close it with “]” or “}”."
        for words, explanation in _EXPLANATIONS.items():
            if words in complaint:
                message, hint = explanation
                mark = (error.context_mark if words in _TOLD_AT_THE_START else None) or mark
                break
        return _BrokenYaml(self.offset + (int(mark.line) if mark else 0) + 1, message, hint)


# What PyYAML says · our sentence and remedy.
_EXPLANATIONS = {
    r"character '\t'": ("A tab is used for indentation.", "Indent with spaces."),
    "quoted scalar": ("A quote is opened here and never closed.", "Close it."),
    "flow sequence": ("A list is opened here and not closed properly.", "Close it with “]”."),
    "flow mapping": (
        "A mapping is opened here and not closed properly.",
        "Close it with “}”; a value with braces needs quotes.",
    ),
    "mapping values are not allowed": (
        "A colon is not expected here.",
        "Put the value in quotes, or correct the indentation.",
    ),
    "could not find expected ':'": ("A colon is missing.", "Write `name: value`."),
    "but found '<block": ("The indentation does not fit the lines above.", "Indent it like its neighbours."),
    "expected <block end>": (
        "Something stands here that belongs to no value.",
        "Put the whole value in one pair of quotes.",
    ),
    "cannot start any token": ("A value cannot begin with this character.", "Put the value in quotes."),
    "block scalar": ("The text block is not written correctly.", "Indent every line of it."),
}
_TOLD_AT_THE_START = ("quoted scalar", "flow sequence", "flow mapping", "could not find expected ':'")
"""Where the place at which the thing began is the useful one."""
