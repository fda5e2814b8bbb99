"""YAML as a tree in which every node knows its line. Values stay text; their type is the reader's matter.

A file that is broken in one place is read again block by block, so that the other blocks still count.
Depth and the size of expanded aliases are bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.domain.text import one_line, storable
from hermes.state.home.textfile import UNREADABLE, TextFile
from hermes.state.settings.findings import SettingsFindings

if TYPE_CHECKING:
    import yaml

MOST_DEPTH = 32
MOST_NODES = 50_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BLOCK_START = re.compile(r"""(?:[^\s#\-\[\]{}"'%&*!|>@`,?:][^#\n]*?|"[^"\n]*"|'[^'\n]*')\s*:(?:\s|$)""")
_PLAIN_TAGS = frozenset({"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool"))})
_TREE_TAGS = frozenset({"!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})


@dataclass(slots=True)
class YamlScalar:
    """One value as it is written; an unreadable one was reported already and must fall to its default."""

    text: str
    line: int
    plain: bool = True
    unreadable: bool = False

    @property
    def empty(self) -> bool:
        return self.plain and self.text in _NULLS and not self.unreadable


@dataclass(slots=True)
class YamlList:
    items: list[YamlNode]
    line: int
    height: int = 1


@dataclass(slots=True)
class YamlMapping:
    pairs: dict[str, tuple[int, YamlNode]]
    line: int
    height: int = 1

    def get(self, name: str) -> YamlNode | None:
        pair = self.pairs.get(name)
        return pair[1] if pair else None


YamlNode = YamlScalar | YamlList | YamlMapping


def _height(node: YamlNode) -> int:
    return 0 if isinstance(node, YamlScalar) else node.height


class _BrokenYaml(Exception):
    """The text is not YAML from here on."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.hint = hint


def read_yaml(file: TextFile, found: SettingsFindings) -> YamlMapping:
    """The file's top level; everything wrong with its form becomes a problem."""
    known = len(found.problems)
    try:
        return _top(_Composer(found, file.damaged).compose(file.text, 0), found)
    except _BrokenYaml as whole:
        del found.problems[known:]
        root = _read_blocks(file, found)
        if len(found.problems) == known:
            found.problem(whole.line, whole.message, whole.hint)
        return root


def _top(node: YamlNode | None, found: SettingsFindings) -> YamlMapping:
    if isinstance(node, YamlMapping):
        return node
    if node is not None and not (isinstance(node, YamlScalar) and (node.empty or node.unreadable)):
        found.problem(node.line, "Here must stand settings.", "Write them as `name: value`, one per line.")
    return YamlMapping(pairs={}, line=1)


def _read_blocks(file: TextFile, found: SettingsFindings) -> YamlMapping:
    root = YamlMapping(pairs={}, line=1)
    composer = _Composer(found, file.damaged)
    for offset, block in _blocks(file.text):
        try:
            part = _top(composer.compose(block, offset), found)
        except _BrokenYaml as broken:
            found.problem(broken.line, broken.message, broken.hint)
            if found.full:
                break
            continue
        for name, (line, node) in part.pairs.items():
            _put(root.pairs, name, line, node, found)
    return root


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """The text cut before each top-level key, each piece with the number of lines before it."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _BLOCK_START.match(line)]
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start, "\n".join(lines[start:end]) + "\n"


def _put(
    pairs: dict[str, tuple[int, YamlNode]], name: str, line: int, node: YamlNode, found: SettingsFindings
) -> None:
    if name in pairs:
        found.problem(
            line,
            f"“{one_line(name)}” stands twice, here and in line {pairs[name][0]}.",
            "Keep one of the two.",
        )
    pairs[name] = (line, node)


@dataclass(slots=True)
class _Composer:
    """Turns the parser's events into nodes. PyYAML's own composer recurses without bounds."""

    found: SettingsFindings
    damaged: frozenset[int]
    offset: int = 0
    nodes: int = 0
    anchors: dict[str, tuple[YamlNode, int]] = field(default_factory=dict)
    loader: Any = None

    def compose(self, text: str, offset: int) -> YamlNode | None:
        import yaml

        self.offset = offset
        root: YamlNode | None = None
        try:
            self.loader = yaml.SafeLoader(text)
            self._next()
            event = self._next()
            if isinstance(event, yaml.DocumentStartEvent):
                root = self._node(self._next(), 0)
                self._next()
                event = self._next()
                if isinstance(event, yaml.DocumentStartEvent):
                    self._problem(
                        event, "A second document begins here and is not read.", "Remove the line “---”."
                    )
        except yaml.MarkedYAMLError as error:
            raise self._explained(error) from error
        # PyYAML lets some escapes and directives with absurd numbers through to `int` and `chr`.
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line = self.offset + getattr(self.loader, "line", 0) + 1
            raise _BrokenYaml(line, "This is not valid YAML.", "Put the value in quotes.") from error
        return root

    def _next(self) -> yaml.Event:
        event: yaml.Event = self.loader.get_event()
        return event

    def _line(self, event: yaml.Event) -> int:
        return self.offset + (event.start_mark.line if event.start_mark else 0) + 1

    def _problem(self, event: yaml.Event, message: str, hint: str) -> YamlScalar:
        line = self._line(event)
        self.found.problem(line, message, hint)
        return YamlScalar(text="", line=line, unreadable=True)

    def _node(self, event: yaml.Event, depth: int) -> YamlNode:
        import yaml

        self.nodes += 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if isinstance(event, yaml.ScalarEvent):
            node: YamlNode = self._scalar(event)
            self._remember(event, node, 1)
            return node
        if depth >= MOST_DEPTH:
            # PyYAML's scanner takes quadratic time in the depth, so not even skipping may go on here.
            raise _BrokenYaml(
                self._line(event), f"This is nested deeper than {MOST_DEPTH} levels.", "Write it flatter."
            )
        before = self.nodes
        if isinstance(event, yaml.SequenceStartEvent):
            node = self._listing(event, depth)
        else:
            node = self._mapping(event, depth)
        self._remember(event, node, self.nodes - before + 1)
        tag = getattr(event, "tag", None)
        return node if tag is None or tag in _TREE_TAGS else self._foreign_tag(event)

    def _remember(self, event: yaml.Event, node: YamlNode, size: int) -> None:
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = (node, size)

    def _alias(self, event: yaml.Event, depth: int) -> YamlNode:
        anchor = str(getattr(event, "anchor", ""))
        known = self.anchors.get(anchor)
        if known is None:
            return self._problem(
                event, f"“*{one_line(anchor)}” refers to nothing above.", "Define it before."
            )
        node, size = known
        if depth + _height(node) > MOST_DEPTH:
            return self._problem(
                event, f"This alias nests deeper than {MOST_DEPTH} levels.", "Write it flatter."
            )
        self.nodes += size
        if self.nodes > MOST_NODES:
            # Each further alias would say the same; one line of an alias bomb is enough.
            silent = self.nodes - size > MOST_NODES
            self.nodes = MOST_NODES + 1
            if silent:
                return YamlScalar(text="", line=self._line(event), unreadable=True)
            return self._problem(
                event, "The aliases expand to more than this file may hold.", "Write the values out."
            )
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> YamlScalar:
        text = str(event.value)
        line = self._line(event)
        if UNREADABLE in text and self._touches_damage(event):
            return YamlScalar(text="", line=line, unreadable=True)
        if storable(text) != text:
            return self._problem(event, "This value holds a character that no text can hold.", "Remove it.")
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            return self._foreign_tag(event)
        return YamlScalar(text=text, line=line, plain=event.style is None and event.tag is None)

    def _touches_damage(self, event: yaml.Event) -> bool:
        last = self.offset + (event.end_mark.line if event.end_mark else 0) + 1
        return any(number in self.damaged for number in range(self._line(event), last + 1))

    def _foreign_tag(self, event: yaml.Event) -> YamlScalar:
        tag = one_line(str(getattr(event, "tag", "")).replace("tag:yaml.org,2002:", "!!"))
        return self._problem(event, f"The tag “{tag}” has no meaning here.", "Write the value without it.")

    def _listing(self, event: yaml.Event, depth: int) -> YamlList:
        import yaml

        items: list[YamlNode] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(item, depth + 1))
        height = 1 + max(map(_height, items), default=0)
        return YamlList(items=items, line=self._line(event), height=height)

    def _mapping(self, event: yaml.Event, depth: int) -> YamlMapping:
        import yaml

        own: dict[str, tuple[int, YamlNode]] = {}
        merged: list[YamlNode] = []
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            name = self._node(key, depth + 1)
            value = self._node(self._next(), depth + 1)
            if not isinstance(name, YamlScalar):
                self._problem(key, "A name must be a plain text.", "Write `name: value`.")
            elif name.empty or not (name.text or name.unreadable):
                self._problem(key, "A name is missing before the colon.", "Write `name: value`.")
            elif name.plain and name.text == "<<":
                merged.extend(value.items if isinstance(value, YamlList) else [value])
            elif not name.unreadable:
                _put(own, name.text, name.line, value, self.found)
        for node in merged:
            if isinstance(node, YamlMapping):
                own = {**node.pairs, **own}
            elif not (isinstance(node, YamlScalar) and node.unreadable):
                self.found.problem(node.line, "“<<” can only take in a mapping.", "Name one with “*”.")
        height = 1 + max((_height(node) for _, node in own.values()), default=0)
        return YamlMapping(pairs=own, line=self._line(event), height=height)

    def _explained(self, error: yaml.MarkedYAMLError) -> _BrokenYaml:
        said = f"{error.context or ''} {error.problem or ''}"
        mark = error.problem_mark or error.context_mark
        message, hint = "This is not valid YAML.", "Check the indentation, the colons and the quotes."
        if "flow node" in said and "<stream end>" in said and self.loader.marks:
            # It says where the text ends; where the bracket was opened, only the parser's own stack says.
            mark, message = self.loader.marks[-1], "A bracket is opened here and never closed."
            hint = "Close it with “]” or “}”."
        for words, at_start, meaning, remedy in _EXPLANATIONS:
            if words in said:
                message, hint = meaning, remedy
                mark = (error.context_mark if at_start else None) or mark
                break
        return _BrokenYaml(self.offset + (int(mark.line) if mark else 0) + 1, message, hint)


# What PyYAML says · whether the place where the thing began is the useful one · our sentence and remedy.
_EXPLANATIONS = (
    (r"character '\t'", False, "A tab is used for indentation.", "Indent with spaces."),
    ("quoted scalar", True, "A quote is opened here and never closed.", "Close it."),
    ("flow sequence", True, "A list is opened here and not closed properly.", "Close it with “]”."),
    (
        "flow mapping",
        True,
        "A mapping is opened here and not closed properly.",
        "Close it with “}”; a value with braces needs quotes.",
    ),
    (
        "mapping values are not allowed",
        False,
        "A colon is not expected here.",
        "Put the value in quotes, or correct the indentation.",
    ),
    ("could not find expected ':'", True, "A colon is missing.", "Write `name: value`."),
    (
        "but found '<block",
        False,
        "The indentation does not fit the lines above.",
        "Indent it like its neighbours.",
    ),
    (
        "expected <block end>",
        False,
        "Something stands here that belongs to no value.",
        "Put the whole value in one pair of quotes.",
    ),
    (
        "cannot start any token",
        False,
        "A value cannot begin with this character.",
        "Put the value in quotes.",
    ),
    ("block scalar", False, "The text block is not written correctly.", "Indent every line of it."),
)
