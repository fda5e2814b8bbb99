"""An advisory scan for text that tries to give a model orders: pure functions over data tables.

A hit is a hint, never a boundary: whoever words it otherwise passes. `Scan.CONTEXT` is for files that an
owner writes, where “you are …” is ordinary; `Scan.STRICT` is for what others may have written."""

from __future__ import annotations

import functools
import re
import unicodedata
from enum import IntEnum

from hermes.domain.safety.late_pattern import late_pattern

MOST_SCANNED = 65_536
_OVERLAP = 2_000
_SPACES = late_pattern(r"[^\S\n]+")
_WORDS = r"[\w ,'’\n]{0,40}"
_SECRETS = r"(?:\.env\b|id_rsa|id_ed25519|credentials|\.netrc|\.pgpass|/etc/(?:passwd|shadow)|auth\.json)"
_KEYS = r"\$\{?\w{0,40}(?:key|token|secret|passw|credential)"

# Characters that nobody sees, or that turn text around. Joiners are apart: scripts and emoji need them.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe0f"
_HIDDEN = late_pattern(f"[{_UNSEEN}{_JOINERS}]+")
_JOINING = late_pattern("[\u200c\u200d]|\ufe0f\u200d?")
_FEW = 3


class Scan(IntEnum):
    CONTEXT = 0
    STRICT = 1


# (what a person is told, from which scope on, the pattern); patterns see lower case and single spaces
_TABLE: tuple[tuple[str, Scan, str], ...] = (
    (
        "sets earlier instructions aside",
        Scan.CONTEXT,
        rf"\b(?:ignore|disregard|forget|override|bypass|neglect)\b{_WORDS}\b(?:previous|prior|above|earlier|"
        rf"preceding|former|all|any|your|the|system)\b{_WORDS}\b(?:instruction|rule|prompt|guideline|direction|"
        r"command|message|polic|safeguard|restriction)",
    ),
    (
        "sets earlier instructions aside",
        Scan.CONTEXT,
        r"\b(?:ignoriere|missachte|vergiss)\b[\w ,]{0,40}\b(?:anweisung|regel|vorgabe)|"
        r"\b(?:ignora|olvida)\b[\w ,]{0,40}\b(?:instrucc|reglas|istruzioni|instruç)|"
        r"\b(?:ignorez?|oubliez?)\b[\w ,]{0,40}\b(?:instructions|consignes|règles)|"
        r"игнорируй[\w ,]{0,40}инструкц|忽略[^\n]{0,20}(?:指令|指示|说明)|以前の指示[^\n]{0,12}無視",
    ),
    (
        "wants to be kept from people",
        Scan.CONTEXT,
        r"\b(?:do not|don't|never) (?:tell|inform|notify|alert|mention|reveal|show|ask)\b[\w ,']{0,30}"
        r"\b(?:user|human|anyone|anybody|owner|person|operator)\b|\bwithout (?:telling|informing|asking)\b",
    ),
    (
        "asks for the prompt",
        Scan.CONTEXT,
        r"\b(?:reveal|print|output|repeat|show|leak|dump)\b[\w ,']{0,30}"
        r"\b(?:system prompt|hidden instructions|initial instructions|your instructions)",
    ),
    (
        "sends secrets away",
        Scan.CONTEXT,
        rf"\b(?:curl|wget|nc|ncat|httpie|scp|rsync|nslookup|dig)\b[^\n]{{0,200}}(?:{_SECRETS}|{_KEYS})|"
        rf"\b(?:cat|base64|xxd)\b[^\n]{{0,80}}{_SECRETS}[^\n]{{0,80}}\|",
    ),
    (
        "hides words in markup",
        Scan.CONTEXT,
        r"<!--[^>]{0,300}\b(?:ignore|override|system|assistant|secret|instruction)|"
        r"style ?= ?[\"'][^\"'>]{0,120}(?:display ?: ?none|font-size ?: ?0|visibility ?: ?hidden)",
    ),
    (
        "gives the model another role",
        Scan.STRICT,
        r"\byou are (?:now|no longer)\b|\bfrom now on,? you\b|\b(?:pretend|act as if) you\b|"
        r"\b(?:developer|dan|god|jailbreak|unrestricted) mode\b|"
        r"\bnew (?:system )?(?:instructions?|prompt|rules) ?:|"
        r"\b(?:end|begin|start) of (?:system )?(?:prompt|instructions)\b|"
        r"(?:^|\n) ?#{0,4} ?(?:system|assistant|developer)(?: message| prompt)? ?:",
    ),
    (
        "wants a report or code from elsewhere",
        Scan.STRICT,
        r"\b(?:report|beacon|check in|phone home|register)\b[\w ]{0,20}\b(?:to|at|with) https?://|"
        r"\b(?:fetch|download|curl|get|read)\b[^\n]{0,120}\band (?:then )?(?:execute|run|follow|obey)\b|"
        r"\b(?:curl|wget)\b[^\n|]{0,200}\| ?(?:ba|z|da)?sh\b",
    ),
    (
        "wants to stay",
        Scan.STRICT,
        r"\bauthorized_keys\b|\bcrontab -|(?:~|\$home)/\.(?:ssh|hermes|bashrc|profile)\b|"
        r"\b(?:save|write|add|store)\b[\w ]{0,30}\b(?:to|in) (?:your )?(?:memory|soul\.md|agents\.md)",
    ),
)


@functools.cache
def _patterns() -> tuple[tuple[str, Scan, re.Pattern[str]], ...]:
    return tuple((told, scan, re.compile(pattern)) for told, scan, pattern in _TABLE)


def findings(text: str, scan: Scan = Scan.STRICT) -> tuple[str, ...]:
    """What a text seems to be up to, each once; nothing is said of what stands behind the cap."""
    text = text[:MOST_SCANNED]
    hidden = shown_hidden(text) != text
    plain = unicodedata.normalize("NFKC", _HIDDEN.sub("", text)).lower()
    plain = _SPACES.sub(" ", plain)
    hits = [told for told, scope, pattern in _patterns() if scope <= scan and pattern.search(plain)]
    return tuple(dict.fromkeys([*hits, *(["has characters that nobody sees"] if hidden else [])]))


def all_findings(text: str, scan: Scan = Scan.STRICT) -> tuple[str, ...]:
    """As `findings`, in a text of any length."""
    places = range(0, max(len(text) - _OVERLAP, 1), MOST_SCANNED - _OVERLAP)
    hits = (hit for place in places for hit in findings(text[place : place + MOST_SCANNED], scan))
    return tuple(dict.fromkeys(hits))


def shown_hidden(text: str) -> str:
    """The text with characters that nobody sees, or that turn it around, as codes; many of them as a count.
    A joiner between letters of a script, or in an emoji, stays."""
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    return _HIDDEN.sub(_shown, text.replace("\r\n", "\n"))


def _shown(run: re.Match[str]) -> str:
    chars, text = run[0], run.string
    around = text[run.start() - 1 : run.start()], text[run.end() : run.end() + 1]
    needed = around[0] > "\u2000" if chars == "\ufe0f" else min(around) > "\x7f"
    if needed and _JOINING.fullmatch(chars):
        return chars
    if len(chars) > _FEW:
        return f"⟨{len(chars)} hidden characters⟩"
    return "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}" for char in chars)
