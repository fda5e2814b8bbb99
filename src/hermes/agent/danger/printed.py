"""What commands print, for the few whose output follows from their words."""

from __future__ import annotations

import re

from hermes.agent.danger.names import DECODERS, DOWNLOADS
from hermes.agent.danger.shell.expand import to_plain
from hermes.agent.danger.shell.words import unescaped


def printed(fields: list[str], fed: str | None, cwd: str | None) -> str | None:
    """What a command prints, for the few whose output follows from their words."""
    if not fields:
        return None
    name, args = fields[0].rpartition("/")[2], [to_plain(field) for field in fields[1:]]
    if name == "echo":
        escaped = any(re.fullmatch(r"-\w*e\w*", arg) for arg in args[:1])
        while args and re.fullmatch(r"-[neE]+", args[0]):
            args = args[1:]
        text = " ".join(args)
        return unescaped(text) if escaped else text
    if name == "printf" and args:
        return _formatted(args[0], args[1:])
    if name == "cat" and (not args or args == ["-"]):
        return fed
    if name == "pwd" and cwd is not None:
        return cwd
    if name in ("which", "command", "basename") and args and not args[-1].startswith("-"):
        return args[-1].rpartition("/")[2]
    return None


def _formatted(pattern: str, args: list[str]) -> str | None:
    text = unescaped(pattern)
    if "%" not in text:
        return text
    words = iter(args)
    return re.sub(r"%[-0-9.]*([sbdcxq%])", lambda match: "%" if match[1] == "%" else next(words, ""), text)


def source_of(fields: list[str]) -> str:
    """Where the output of a command comes from, if that matters to who runs it."""
    if not fields:
        return ""
    name = fields[0].rpartition("/")[2]
    while name in ("sudo", "command", "env", "timeout", "nohup") and len(fields) > 1:
        fields = fields[1:]
        name = fields[0].rpartition("/")[2]
    if name in DOWNLOADS:
        return "download"
    return "decoder" if name in DECODERS else ""
