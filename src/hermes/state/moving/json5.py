"""JSON5, the JSON that people write by hand: comments, names without quotes, single quotes, commas at the
end. It is brought into plain JSON word by word. Source: spec.json5.org."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skipped>//[^\n\r\u2028\u2029]*|/\*.*?\*/|[\s\ufeff]+)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)(?![\w$]))
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<mark>[{}\[\]:,])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_LINE_ENDS = ("\r\n", "\n", "\r", "\u2028", "\u2029")


def parse_json5(text: str) -> Any:
    """A `ValueError` if it is none."""
    out: list[str] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            line = text.count("\n", 0, place) + 1
            raise ValueError(f"line {line} is not JSON5")
        place = token.end()
        match token.lastgroup:
            case "text":
                out.append(json.dumps(_ESCAPE.sub(_plain, token[0][1:-1])))
            case "number":
                out.append(_number(token[0]))
            case "name":
                known = token[0] in ("true", "false", "null")
                out.append(token[0] if known else json.dumps(token[0]))
            case "mark":
                if token[0] in "]}" and out[-1:] == [","] and out[-2] not in ("{", "[", ","):
                    out.pop()
                out.append(token[0])
    return json.loads(" ".join(out))


def _plain(escape: re.Match[str]) -> str:
    word = escape[1]
    if word in _LINE_ENDS:
        return ""
    if len(word) > 1:
        return chr(int(word[1:], 16))
    return _CONTROL.get(word, word)


def _number(word: str) -> str:
    sign, digits = ("-" if word[0] == "-" else ""), word.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return f"{sign}{int(digits, 16)}"
    if digits in ("Infinity", "NaN"):
        return f"{sign}{digits}"
    return f"{sign}{'0' * digits.startswith('.')}{digits}{'0' * digits.endswith('.')}".replace(".e", ".0e")
