"""What looks like a credential although nobody loaded it: keys with the shapes that their vendors document,
tokens, private keys, passwords in addresses, headers, and values of names like `api_key`.

A text is first searched for cheap signs (a long word, a name, `://`); only around these are patterns tried.
Each tells the part that is the secret, so `Authorization: Bearer` and `password=` stay readable. Hashes, ids
and code that only names a token stay: a value needs a secret's name beside it and a secret's look."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator

from hermes.domain.safety.late_pattern import late_pattern
from hermes.state.redaction.runs import Span, runs

LONGEST = 20_000
"""No credential is longer, private keys included."""
UNSPACED = "\u0e00-\U0010ffff"
"""Scripts that are written without spaces, and signs between words: no credential has them."""
_LEAST_WORD = 16
_WORD_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_AS_WORDS = bytes(97 if sign in _WORD_SIGNS else 32 for sign in range(256))
_LOWER = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")

# --- shapes of vendors ---------------------------------------------------------------------------

_VENDORS = r"""
gh[oprsu]_ [A-Za-z0-9]{36}
github_pat_ \w{60}
gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)- [\w-]{20}
sk-ant- [\w-]{24}
sk-(?:proj|svcacct|admin|or-v1|lf|None)- [\w-]{24}
sk- [A-Za-z0-9]{20}
csk- [A-Za-z0-9]{20}
xai- [A-Za-z0-9]{40}
gsk_ [A-Za-z0-9]{40}
AIza [\w-]{35}
ya29\. [\w-]{20}
GOCSPX- [\w-]{24}
AKIA [A-Z2-7]{16}(?![A-Za-z0-9])
ASIA [A-Z2-7]{16}(?![A-Za-z0-9])
ABIA [A-Z2-7]{16}(?![A-Za-z0-9])
ACCA [A-Z2-7]{16}(?![A-Za-z0-9])
hf_ [A-Za-z0-9]{30}
api_org_ [A-Za-z0-9]{30}
r8_ [A-Za-z0-9]{30}
npm_ [A-Za-z0-9]{36}
pypi- Ag[\w-]{40}
do[opr]_v1_ [0-9a-f]{64}
shp(?:at|ca|pa|ss|tka)_ [0-9a-fA-F]{32}
sk_(?:live|test|prod)_ [A-Za-z0-9]{16}
rk_(?:live|test|prod)_ [A-Za-z0-9]{16}
sk_ [0-9a-f]{48}
whsec_ [A-Za-z0-9+/=]{24}
xox[abceoprs]- [\w-]{20}
xoxe\.xox[bp]- [\w-]{20}
xapp- \d-[\w-]{24}
SG\. [\w-]{16,32}\.[\w-]{32}
key- [0-9a-f]{32}
SK [0-9a-f]{32}(?![A-Za-z0-9])
sq0(?:atp|csp|idp)- [\w-]{22}
EAA [A-Za-z0-9_-]{57}
lin_(?:api|oauth)_ [A-Za-z0-9]{32}
ntn_ [A-Za-z0-9]{40}
secret_ [A-Za-z0-9]{40}
fig[dou]_ [\w-]{30}
dapi [0-9a-f]{32}
PMAK- [0-9a-f]{24}-[0-9a-f]{34}
NR(?:AK|II|AA)- [\w-]{24}
glsa_ [A-Za-z0-9]{32}_[0-9a-f]{8}
glc_ [A-Za-z0-9+/=]{32}
hv[sbr]\. [\w-]{24}
tskey- [a-z]{3,9}-[\w-]{16}
dckr_(?:pat|oat)_ [\w-]{24}
AT(?:ATT|CTT|BB)3?x? [\w-]{24,400}={0,2}[0-9A-F]{0,8}
pscale_(?:tkn|pw|oauth)_ [\w-]{30}
rubygems_ [0-9a-f]{48}
oy2 [a-z0-9]{43}
tgp_v1_ [\w-]{40}
pplx- [A-Za-z0-9]{40}
nvapi- [\w-]{56}
lsv2_(?:pt|sk)_ [0-9a-f]{32}_[0-9a-f]{10}
sntry[su]_ [A-Za-z0-9+/=_-]{40}
ph[xc]_ [A-Za-z0-9]{40}
rnd_ [A-Za-z0-9]{28}
sbp_ [0-9a-f]{40}
sb_secret_ [\w-]{24}
pat [A-Za-z0-9]{14}\.[0-9a-f]{64}
dp\.(?:pt|st|ct|sa|scim|audit)\. [\w.-]{40}
ops_ eyJ[\w-]{100}
fm[12][ar]?_ [A-Za-z0-9+/=,_-]{40}
pul- [0-9a-f]{40}
HRKU- [\w-]{30}
nf[pcou]_ [A-Za-z0-9]{36}
xkeysib- [0-9a-f]{64}
tvly- [\w-]{28}
fc- [0-9a-f]{32}
jina_ [A-Za-z0-9]{40}
e2b_ [0-9a-f]{40}
BSA [\w-]{28}
AGE-SECRET-KEY-1 [A-Z0-9]{50}
access-(?:production|development|sandbox)- [0-9a-f-]{36}
CFPAT- [\w-]{40}
v1\.0- [0-9a-f]{24}-[0-9a-f]{140}
vc[pkia]_ [A-Za-z0-9]{40}
eyJ [\w-]{8,4000}\.[\w-]{8,8000}(?:\.[\w-]{0,4000}){0,3}
AA (?<=\d:AA)[\w-]{33}
M [\w-]{23,27}\.[\w-]{6}\.[\w-]{27}
N [\w-]{23,27}\.[\w-]{6}\.[\w-]{27}
O [\w-]{23,27}\.[\w-]{6}\.[\w-]{27}
"""
"""Prefix and the least of what follows. A key goes on to the end of its word."""


def _shapes() -> dict[str, str]:
    """The shapes by the first two letters of their prefix, or by the only one."""
    spelled: dict[str, list[str]] = {}
    for line in _VENDORS.split("\n")[1:-1]:
        prefix, rest = line.split(" ", 1)
        spelled.setdefault(prefix[:2], []).append(f"{prefix}({rest})")
    for start in spelled:
        spelled[start] += spelled.get(start[0], ()) if len(start) > 1 else ()
    return {start: "|".join(shapes) for start, shapes in spelled.items()}


_SHAPES = _shapes()


@functools.cache
def _shape(start: str) -> re.Pattern[str]:
    """Few texts have a word that begins like any of them: most are never needed."""
    return re.compile(_SHAPES[start])


_LEAD = late_pattern(r"(?<=\\)(?:[nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|(?<=[\[;])[0-9]{0,3}m")
"""What a word begins with that is no part of it: the letter of an escape in JSON, or of a colour."""
_REST = late_pattern(r"[\w+/=-]{0,2000}")


def _vendor_spans(text: str, data: bytes) -> Iterator[Span]:
    for start, _ in runs(data.translate(_AS_WORDS), _LEAST_WORD):
        if start and text[start - 1] in "\\[;":
            lead = _LEAD.match(text, start)
            start = lead.end() if lead else start
        begins = next((name for name in (text[start : start + 2], text[start]) if name in _SHAPES), "")
        match = _shape(begins).match(text, start) if begins else None
        if match is not None and match.lastindex is not None and _is_mixed(match[match.lastindex]):
            rest = _REST.match(text, match.end())
            yield match.start(match.lastindex), rest.end() if rest else match.end()


def _is_mixed(body: str) -> bool:
    """No words: `sk-something-that-was-named` is no key."""
    return any(map(str.isdigit, body)) or not (body.islower() or body.isupper())


# --- names and their values ----------------------------------------------------------------------

_MAY_HOLD = (
    rb"""(?=[a-z0-9_.-]{0,30}(?:\\{0,3}["'])?\]?"""
    rb"""(?:[ \t]{0,4}(?::=|=>|=(?!=)|:(?!:))[ \t]{0,4}|>|[ \t](?:is[ \t])?)"""
    rb"""(?:\\{0,3}["'][^"'\\\n]{6}|[^\s"'`\\,;&<>(){}\[\]|]{6}))"""
)
"""What follows a name that may have a secret, roughly: most names in a text are not looked at."""
_NAMES = (
    b"secret",
    b"token",
    b"pass(?:word|wd|phrase|code)?",
    b"pwd",
    b"key(?<=[a-z0-9_.-]key)",
    b"credential",
)
"""In small letters. A key that has no other name before it may be any."""
_NAME_SIGNS = _WORD_SIGNS.decode()
_ASSIGNED = late_pattern(
    r"""(?P<tail>[A-Za-z0-9_.-]{0,30})(?:\\{0,3}["'])?\]?"""
    r"""(?P<sign>[ \t]{0,4}(?::=|=>|=(?!=)|:(?!:))[ \t]{0,4}|>|[ \t](?:is[ \t])?)"""
)
_VALUE = late_pattern(
    r"""\\{0,3}["'](?P<quoted>[^"'\\\n)\],;.][^"'\\\n]{5,511})"""
    rf"""|(?P<bare>[^\s"'`\\,;&<>(){{}}\[\]|*${UNSPACED}][^\s"'`\\,;&<>(){{}}\[\]|{UNSPACED}]{{5,511}})"""
)
_MOST_INSIDE = 8
"""So many names are tried inside what was the value of one before: `key=key=key=…` is read once."""
_PLAIN_PASS = late_pattern(
    r"""(?i)(?:^|[_.]|^--?|(?:db|user|auth|smtp|imap|ftp|http|proxy|admin|root|mysql|pg|redis|sudo|key|store)-)$"""
)
_KEY_NAMES = late_pattern(
    r"""(?i)(?:api|access|secret|private|sign|signing|encrypt|encryption|master|auth|service|account|client|app
    |application|deploy|ssh|storage|shared|subscription|admin|server|webhook|license|project|team|user)[_.-]?$""",
    re.VERBOSE,
)
_HARMLESS = late_pattern(
    r"""(?i)(?:public|primary|foreign|sort|cache|partition|page|next|continuation|sync|unique|group|idempotency
    |session|max|min|num|total|input|output|prompt|completion|hot|short|host|row|dedupe|map|search|object)
    [_.-]?(?:key|token)s?$""",
    re.VERBOSE,
)
_TAIL = late_pattern(
    r"""(?i)s?(?:[_.-]?(?:\d{1,3}|value|string|b64|base64|hex|prod|production|dev|test|staging|live|main|default
    |old|new|primary|secondary|backup|raw))?""",
    re.VERBOSE,
)
_NO_SECRET = late_pattern(
    r"""(?i)(?:id|name|path|file|url|uri|count|limit|ttl|type|size|len|length|expir\w{0,8}|env|dir|at|algorithm
    |arn|hash|format|version|prefix|policy|field|header|used|usage|budget|per\w{0,8})s?$""",
    re.VERBOSE,
)
_WORDLIKE = late_pattern(r"[A-Z]?[a-z]{0,40}(?:[A-Z][a-z]{1,40}){0,12}\d{0,2}|[A-Z]{1,40}\d{0,2}")
_PATHLIKE = late_pattern(
    r"(?:[~.]{0,2}|[A-Za-z]:|[\w.@-]{1,40})(?:[/\\][\w.@%: -]{1,80}){1,40}[/\\]?|https?://.*|[\w-]{1,80}\.[a-z]{1,5}"
)
_RANDOM_PART = late_pattern(r"(?=[^/]{0,80}\d)(?=[^/]{0,80}[A-Z])(?=[^/]{0,80}[a-z])[^/]{10,}")
_CODE = late_pattern(
    r"[a-z_]\w{0,60}(?:\.\w{1,60}){1,8}|[a-z]\w{0,60}_\w{1,60}|[a-z]{2,40}(?:[A-Z][a-z]{1,40}){1,8}\d{0,2}"
)
_JOINTS, _ALL_JOINTS = late_pattern("[_.-]"), late_pattern("[_.%:/-]")
_JOINT_OF_PATHS = late_pattern(r"[/\\.]")
_VERSION = late_pattern(r"v?\d{1,6}(?:\.\w{1,8}){1,4}(?:[-+][\w.]{1,20})?")
_SMALL_NUMBER = late_pattern(r"v?\d{1,4}")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """string password passwd required optional secret hidden integer username token none null true false
        undefined redacted boolean default unknown missing invalid example""",
    )
)


def _named_spans(text: str, lower: bytes) -> Iterator[Span]:
    for name in map(_name_pattern, _NAMES):
        named, covered, inside = name.search(lower), 0, 0
        while named is not None:
            at, end = named.span()
            assigned = _ASSIGNED.match(text, end)
            match = None
            if assigned is not None and _names_secret(text, at, end, assigned):
                match = _VALUE.match(text, assigned.end())
            if match is not None and assigned is not None:
                inside = inside + 1 if at < covered else 0
                covered = max(covered, match.end())
                if _is_secret(text, at, end, assigned, match):
                    yield match.span("quoted" if match["quoted"] else "bare")
            named = name.search(lower, covered if inside > _MOST_INSIDE and covered > end else end)


@functools.cache
def _name_pattern(name: bytes) -> re.Pattern[bytes]:
    return re.compile(name + _MAY_HOLD)


def _names_secret(text: str, at: int, end: int, match: re.Match[str]) -> bool:
    """Whether what stands before the sign is the name of a secret."""
    before = text[max(0, at - 40) : at]
    left, sign = before[len(before.rstrip(_NAME_SIGNS)) :], match["sign"].strip()
    outer = text[at - len(left) - 1 : at - len(left)] if at > len(left) else ""
    if (not sign and left[:1] != "-") or outer in ("/", "$") or before.endswith("${"):
        return False
    return _is_secret_name(left, text[at:end], match["tail"])


@functools.lru_cache(maxsize=4096)
def _is_secret_name(left: str, word: str, tail: str) -> bool:
    """The same of a name by itself; a text has few of them, many times."""
    name = f"{left}{word}"
    if word.lower() == "key" and not (_KEY_NAMES.search(left) or (name.isupper() and "_" in left)):
        return False
    if word.lower() in ("pass", "pwd") and not (
        _PLAIN_PASS.search(left) or (word[0].isupper() and left[-1:].islower())
    ):
        return False  # bypass, compass, --low-pass
    if _HARMLESS.search(name) or _NO_SECRET.search(tail):
        return False
    return _TAIL.fullmatch(tail) is not None or (name.isupper() and tail.startswith("_"))


def _is_secret(text: str, at: int, end: int, name: re.Match[str], match: re.Match[str]) -> bool:
    """Whether a value has the look of a secret, and not of code, a path or an example."""
    quoted, after = match["quoted"], text[match.end() : match.end() + 1]
    value = (quoted or match["bare"]).rstrip(".:!?")
    if _is_example(value) or (not quoted and after in tuple("([{")) or "{" in value or _is_path(value):
        return False
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if not quoted and (_VERSION.fullmatch(value) or (_CODE.fullmatch(value) and is_words(value))):
        return False
    if text[at].lower() == "p":  # what people choose is short, and may be a word
        if text[at:end].lower() in ("pass", "pwd") and not (has_digit and has_letter):
            return False
        strong = has_digit or (has_letter and " " not in value and bool(quoted or not _is_wordlike(value)))
        return strong and not (name["sign"].strip() == "is" and not has_digit)
    if len(value) < 8 or not has_letter or " " in value or _is_wordlike(value):
        return False
    if has_digit:
        return _least_entropy(len(value), len(set(value))) >= 2.5 or entropy(value) >= 2.5
    return len(value) >= 16 and not (value.islower() or value.isupper()) and entropy(value) >= 3.5


def _is_wordlike(value: str) -> bool:
    return all(map(_WORDLIKE.fullmatch, _JOINTS.split(value)))


def _is_path(value: str) -> bool:
    return (
        _JOINT_OF_PATHS.search(value) is not None
        and _PATHLIKE.fullmatch(value) is not None
        and not any(map(_RANDOM_PART.fullmatch, re.split(r"[/\\]", value)))
    )


def is_words(value: str) -> bool:
    """Whether something is made of words and small numbers alone, as names in code are."""
    return all(
        _WORDLIKE.fullmatch(part) or _SMALL_NUMBER.fullmatch(part) for part in _ALL_JOINTS.split(value)
    )


def _is_example(value: str) -> bool:
    if not value or value[0] in "<$%*[{‹" or value.lower() in _COMMON:
        return True
    return value == "!vault" or "***" in value or "..." in value


def entropy(text: str) -> float:
    """Bits per character, by how often each stands in the text."""
    return math.log2(len(text)) - sum(map(_weight, Counter(text).values())) / len(text)


@functools.cache
def _least_entropy(length: int, distinct: int) -> float:
    """Of any text with so many different characters: one of them stands wherever the others do not."""
    return math.log2(length) - _weight(length - distinct + 1) / length


@functools.cache
def _weight(count: int) -> float:
    return count * math.log2(count)


# --- headers, addresses, private keys ------------------------------------------------------------

_HEADER = late_pattern(
    r"""(?i)authorization(?:\\{0,3}["'])?[ \t]{0,3}[:=][ \t]{0,3}(?:\\{0,3}["'])?"""
    r"""(?:[A-Za-z][A-Za-z0-9-]{1,20}[ \t]{1,3})?([^\s"'\\<>{}$*()&]{8,4096})"""
)
_BEARER = late_pattern(r"(?i)(?:bearer|basic)[ \t]{1,3}([A-Za-z0-9_.+/=~-]{16,4096})")
_ENCODED = late_pattern(r"[0-9=+/_-]")
_COOKIE = late_pattern(r"""(?i)cookie(?:\\{0,3}["'])?[ \t]{0,3}:[^\n]{0,4096}""")
_COOKIE_VALUE = late_pattern(r"""=([A-Za-z0-9_.+/%~-]{16,2048})""")
_ADDRESS = late_pattern(
    r"""://(?:[^\s/@:"'<>]{0,128}:([^\s/@"'<>]{1,512})@"""
    r"""|hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,200})"""
    r"""|(?:[a-z]{2,8}\.)?discord(?:app)?\.com/api/webhooks/[0-9]{10,25}/([\w-]{40,120}))"""
)
_PORT = late_pattern(r"\d{1,5}[?#]")
"""No password: what follows the host is its port, and then a question."""
_SIGNED = late_pattern(r"(?i)sig(?:nature)?=([A-Za-z0-9%+/=_-]{20,512})")
_PEM = late_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"((?:[\sA-Za-z0-9+/=\\:,.]|-(?!----))"
    r"{1,20000})"
)
_ATLAS = late_pattern(r"\.atlasv1\.([\w-]{40,200})")
_AROUND = (
    (b"authorization", _HEADER),
    (b"bearer ", _BEARER),
    (b"basic ", _BEARER),
    (b"://", _ADDRESS),
    (b"sig=", _SIGNED),
    (b"signature=", _SIGNED),
    (b"-----begin ", _PEM),
    (b".atlasv1.", _ATLAS),
)


def _other_spans(text: str, lower: bytes) -> Iterator[Span]:
    for sign, pattern in _AROUND:
        at = lower.find(sign)
        while at >= 0:
            match, end = pattern.match(text, at), at + len(sign)
            if match is not None and match.lastindex and not _is_example(match[match.lastindex]):
                if _is_credential(text, pattern, match):
                    yield match.span(match.lastindex)
                end = match.end()  # what is no secret as a whole has none in it either
            at = lower.find(sign, end)
    at = lower.find(b"cookie")
    while at >= 0:
        line = _COOKIE.match(text, at)
        for value in _COOKIE_VALUE.finditer(text, at, line.end()) if line else ():
            if not is_words(value[1]):
                yield value.span(1)
        at = lower.find(b"cookie", line.end() if line else at + 6)


def _is_credential(text: str, pattern: re.Pattern[str], match: re.Match[str]) -> bool:
    value = match[match.lastindex or 0]
    if pattern is _HEADER or pattern is _BEARER:
        return _ENCODED.search(value) is not None and not (pattern is _BEARER and is_words(value))
    if pattern is _SIGNED:
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        return before in tuple("?&;-") and after != "(" and not is_words(value)
    if pattern is _ADDRESS and match.lastindex == 1:
        return _PORT.match(value) is None and not text.startswith("@sha256", match.end(1))
    return True


# --- all of it -----------------------------------------------------------------------------------


def pattern_spans(text: str) -> list[Span]:
    """Where credentials seem to stand in a text, in any order."""
    data = text.encode("ascii", "replace")  # one byte for each character, so places are the same
    lower = data.translate(_LOWER)
    return [*_vendor_spans(text, data), *_named_spans(text, lower), *_other_spans(text, lower)]


_GOES_ON = late_pattern(
    rf"""(?:(?i:secret|token|pass(?:word|wd|phrase|code)?|pwd|key|credential)[\w.-]{{0,30}}["'\\\]]{{0,5}}
    [ \t]{{0,4}}(?::=|=>|=|:|>|is[ ])[ \t]{{0,4}}
    (?:["'\\]{{0,4}}(?P<a>[^\s"'{UNSPACED}]{{1,512}})|["'](?P<b>[^"'\n{UNSPACED}]{{1,512}}))
    |(?i:authorization|bearer|basic)["'\\]{{0,4}}[ \t]{{0,3}}[:=]?[ \t]{{0,3}}["'\\]{{0,4}}
    (?:[A-Za-z0-9-]{{1,20}}[ ])?(?P<c>[^\s"'{UNSPACED}]{{1,4096}})
    |://(?P<d>[^\s/@"'{UNSPACED}]{{1,640}}))\Z""",
    re.VERBOSE,
)
_LAST_BREAK = late_pattern(r"""[^!#-&*+./0-9:=?@A-Z\\^_a-z|~-]""")


def may_go_on(text: str) -> int:
    """Where something begins that may be a credential once there is more of the text; else its length."""
    tail = max(0, len(text) - 8192)
    end = len(text)
    start = tail
    for last in _LAST_BREAK.finditer(text, max(tail, end - 64)):
        start = last.end()
    if start == tail:
        for last in _LAST_BREAK.finditer(text, tail):
            start = last.end()
    word = text[start:]
    if len(word) >= 8 and (len(word) >= 24 or not word.isalpha() or not word[1:].islower()):
        end = start
    match = _GOES_ON.search(text, max(tail, len(text) - 700))
    if match is not None:
        end = min(end, next(match.start(name) for name in "abcd" if match[name] is not None))
    return end
