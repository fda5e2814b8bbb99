"""The words of a mail: bytes as text, whatever charset they claim; HTML as text; soft line ends; what was
quoted and what is new."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from itertools import count, repeat

_MEANT = {
    # What programs say, and what they mean by it (as browsers have it).
    "iso8859-1": "windows-1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso8859-9": "windows-1254",
    "tis-620": "windows-874",
}
_NO_CHARSETS = frozenset(
    ("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "ascii", "utf-7")
)
"""What Python knows and no mail should use, or takes far too long; ASCII is tried as UTF-8."""
_META = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_SPACED = frozenset((
    "p", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "table", "ul", "ol", "dl",
))  # fmt: skip
_BLOCKS = _SPACED | {
    "address", "article", "aside", "body", "center", "div", "dt", "dd", "fieldset", "figure", "footer",
    "form", "header", "hr", "li", "main", "nav", "section", "tr",
}  # fmt: skip
_SILENT = frozenset((
    "head", "script", "style", "title", "template", "noscript", "svg", "math", "object",
))  # fmt: skip
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)
_ENDS_ITSELF = {
    **{tag: frozenset((tag,)) for tag in ("p", "li")},
    **dict.fromkeys(("td", "th"), frozenset(("td", "th"))),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    "tr": frozenset(("tr", "td", "th")),
}
"""Tags that need no end, and what else they end when they begin; any block ends a paragraph."""
_KEEPS_OPEN = frozenset(("table", "ul", "ol", "dl"))
_TOO_SMALL, _INVISIBLE, _GONE = 1, 2, 4
"""How a style hides words. What is in an element can undo the first two for itself."""
_ZERO = re.compile(r"0+(?:\.0+)?(?:[a-z]+|%)?")
_DEEPEST = 60
_TAG = re.compile(r"<[A-Za-z/!?]")
_COMMENT = re.compile(r"<(style|script)\b.*?(?:</\1\b|\Z)|<!(?=--).*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
"""A comment, or an element in which there are none."""
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_MANY_LINES = re.compile(r"\n{3,}")
_PHONE = (
    r"(?:(?:apple |samsung |galaxy |huawei |xiaomi |google |pixel |oneplus |android |windows |mobile )*"
    r"(?:iphone|ipad|ipod|galaxy|samsung|huawei|xiaomi|redmi|pixel|oneplus|android|blackberry|phone|smartphone"
    r"|handy|mobile|tablet|device|telefon|téléphone|teléfono|telefone|telefoon|dispositivo))"
)
_MAIL_APP = r"(?:outlook|yahoo mail|gmail|proton ?mail|samsung mobile|aol|gmx|web\.de|mail for windows)"
_DEVICE = re.compile(
    rf"(?:sent (?:from|via) (?:my )?{_PHONE}|von meinem {_PHONE} gesendet|gesendet von (?:meinem )?{_PHONE}"
    rf"|envoyé (?:de|depuis) (?:mon )?{_PHONE}|enviado (?:desde mi|do meu) {_PHONE}"
    rf"|inviato da(?:l mio)? {_PHONE}|verzonden vanaf mijn {_PHONE}|отправлено с (?:моего )?{_PHONE}"
    rf"|发自我的\s?{_PHONE}|{_PHONE}\s?から送信"
    rf"|(?:(?:sent (?:from|with)|gesendet (?:von|mit)) (?:der )?{_MAIL_APP}|get outlook)"
    r"(?: mail)?(?: app| secure email)?(?: (?:for|on|für) (?:ios|android|iphone|ipad|mac|windows|mobile))?"
    r"(?: 1[01])?)\.?(?: ?[(<]https?://[^\s()<>]+[)>])?",
    re.IGNORECASE,
)
"""What telephones and mail programs write under a mail: the whole line, and nothing like it."""
_GOODBYE = re.compile(
    r"(?:(?:with )?(?:best|kind|warm|many)?\s?(?:regards|wishes|thanks)|best|cheers|thank you|sincerely|br"
    r"|yours(?: sincerely| truly| faithfully)?|mit (?:freundlichen|besten|lieben|herzlichen) grü(?:ß|ss)en"
    r"|mfg|lg|vg|(?:viele|liebe|beste|herzliche|schöne) grü(?:ß|ss)e|gru(?:ß|ss)|danke|cordialement|merci"
    r"|bien à (?:vous|toi)|(?:un )?saludos?(?: cordiales)?|gracias|atentamente|cordiali saluti|grazie"
    r"|(?:met )?vriendelijke groet(?:en)?|atenciosamente|obrigad[oa]|с уважением|спасибо|此致|谢谢"
    r"|よろしくお願い(?:いたし|致し|し)ます)\s*[,.!，。]?",
    re.IGNORECASE,
)
_SHORT_LINE, _CLOSING_LINES = 60, 4
_ORIGINAL = re.compile(
    r"^\s*(?:-{2,}\s*(?:original message|original-nachricht|ursprüngliche nachricht|message d'origine"
    r"|mensaje original|messaggio originale|oorspronkelijk bericht|исходное сообщение|原始邮件"
    r"|元のメッセージ)\s*-{2,}|_{20,})\s*$",
    re.IGNORECASE,
)
_HEADER_LINE = re.compile(r"^\s*\*?(?:from|von|de|da|van|от|发件人|差出人)\s?[:：]\*?\s?\S", re.IGNORECASE)
_OTHER_HEADER = re.compile(
    r"^\s*\*?(?:sent|date|to|cc|subject|gesendet|datum|an|betreff|envoyé|à|objet|enviado|enviado el|para"
    r"|asunto|assunto|inviato|data|a|oggetto|verzonden|aan|onderwerp|отправлено|кому|тема|发送时间|收件人|主题"
    r"|送信日時|宛先|件名)\s?[:：]\*?\s",
    re.IGNORECASE,
)


def decode(data: bytes, charset: str | None) -> str:
    """Bytes in the charset they claim; in a likely one, if that is unknown or not true."""
    for name in (_known(charset), "utf-8"):
        if not name:
            continue
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("windows-1252", "replace")


def charset_in_page(data: bytes) -> str | None:
    """What a page says of itself, for mails that do not say it."""
    match = _META.search(data[:4096])
    return match[1].decode("ascii") if match else None


def _known(charset: str | None) -> str:
    try:
        name = codecs.lookup((charset or "").strip("\"' ")).name if charset else ""
    except (LookupError, ValueError):
        return ""
    return "" if name in _NO_CHARSETS else _MEANT.get(name, name)


def html_to_text(html: str) -> str:
    """What a person reads of it; all words in it, if they would see none. Never raises; nothing in it is
    loaded or run."""
    html = _closed(html)
    return _read(_Reader(), html) or _read(_Reader(hides=False), html)


def _closed(html: str) -> str:
    """Without a comment or a tag that never ends, as browsers have it: the parser would look for the end of
    each that begins in it, all the way."""
    html = _COMMENT.sub(lambda match: match[0] if match[1] else "", html)
    open_tag = _TAG.search(html, html.rfind(">") + 1)
    return html[: open_tag.start()] if open_tag else html


def _read(reader: _Reader, html: str) -> str:
    try:
        reader.feed(html)
        reader.close()
    except (AssertionError, ValueError, RecursionError):
        # The parser gives up on some broken declarations; what was read so far is what there is.
        pass
    return reader.text()


def _hidden_by(attributes: dict[str, str | None], outer: int) -> int:
    """How an element is hidden, within one that is hidden like this."""
    rules = (rule.partition(":") for rule in (attributes.get("style") or "").lower().split(";"))
    style = {name.strip(): value.partition("!")[0].strip() for name, _, value in rules}
    if "hidden" in attributes or style.get("display") == "none" or style.get("mso-hide") == "all":
        return outer | _GONE
    if _ZERO.fullmatch(style.get("opacity", "")):
        return outer | _GONE
    if style.get("overflow") == "hidden" and _ZERO.fullmatch(style.get("max-height", "")):
        return outer | _GONE
    if _ZERO.fullmatch(style.get("font-size", "")):
        outer |= _TOO_SMALL
    elif style.keys() & {"font-size", "font"} or attributes.keys() & {"class", "id", "size"}:
        # A class may have its size from a stylesheet, which is not read.
        outer &= ~_TOO_SMALL
    if style.get("visibility") == "hidden":
        return outer | _INVISIBLE
    return outer & ~_INVISIBLE if style.get("visibility") == "visible" else outer


class _Reader(HTMLParser):
    def __init__(self, *, hides: bool = True) -> None:
        super().__init__()
        self._out: list[str] = []
        self._silent = 0
        self._hides = hides
        self._veiled: list[tuple[str, int]] = []
        """The open elements from the first that is hidden on, and how each of them is."""
        self._outside: Counter[str] = Counter()
        """How many of each kind are open around them."""
        self._pre = 0
        self._quotes = 0
        self._markers: list[Iterator[str]] = []
        """What stands before the items of the lists that we are in."""
        self._links: list[tuple[str, int]] = []
        self._gap = 0
        """Line ends to be written before what comes next."""
        self._fresh = True
        """Whether what comes next begins a line."""

    @property
    def _hidden(self) -> int:
        return self._veiled[-1][1] if self._veiled else 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        hidden = self._enter(tag, attributes) if self._hides else 0
        if hidden & _GONE:
            return
        if tag in _SILENT:
            self._silent += 1
        if self._silent:
            return
        if tag in _BLOCKS:
            self._end_line(2 if tag in _SPACED and not self._markers else 1)
        match tag:
            case "br":
                self._write("\n")
            case "hr" if not hidden:
                self._write("---")
                self._end_line(1)
            case "img" if attributes.get("alt") and not hidden & _INVISIBLE:
                self._write(f"[{attributes['alt']}]")
            case "pre":
                self._pre += 1
            case "blockquote":
                self._quotes = min(self._quotes + 1, _DEEPEST)
            case "ul":
                self._markers = [*self._markers[-_DEEPEST:], repeat("-")]
            case "ol":
                start = attributes.get("start") or ""
                first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
                self._markers = [*self._markers[-_DEEPEST:], (f"{number}." for number in count(first))]
            case "li":
                marker = next(self._markers[-1]) if self._markers else "-"
                if not hidden:
                    self._write(f"{'  ' * max(0, len(self._markers) - 1)}{marker} ")
                self._fresh = True
            case "td" | "th" if not self._fresh and not hidden & _INVISIBLE:
                self._write(" | ")
            case "a":
                self._links.append((attributes.get("href") or "", len(self._out)))

    def _enter(self, tag: str, attributes: dict[str, str | None]) -> int:
        """How the element that begins is hidden."""
        ends = _ENDS_ITSELF.get(tag, frozenset()) | ({"p"} if tag in _BLOCKS else frozenset())
        for place in range(len(self._veiled) - 1, max(-1, len(self._veiled) - _DEEPEST), -1):
            if not ends or self._veiled[place][0] in _KEEPS_OPEN:
                break
            if self._veiled[place][0] in ends:
                del self._veiled[place:]
        before = self._hidden
        hidden = _hidden_by(attributes, before)
        if hidden & _GONE and not before & _GONE and tag in _BLOCKS:
            self._end_line(1)
        if tag in _VOID:
            return hidden
        if hidden or self._veiled:
            self._veiled.append((tag, hidden))
        else:
            self._outside[tag] += 1
        return hidden

    def _leave(self, tag: str) -> int:
        """How the element that ends was hidden."""
        for place in range(len(self._veiled) - 1, max(-1, len(self._veiled) - _DEEPEST), -1):
            if self._veiled[place][0] == tag:
                hidden = self._veiled[place][1]
                del self._veiled[place:]
                return hidden
        if not self._veiled or self._outside[tag]:
            # It ends what is around them, and so them as well.
            self._outside[tag] = max(0, self._outside[tag] - 1)
            self._veiled.clear()
        return self._hidden

    def handle_endtag(self, tag: str) -> None:
        hidden = self._leave(tag)
        if hidden & _GONE:
            return
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
            return
        if self._silent or tag == "hr":
            return
        if tag == "a" and self._links:
            self._end_link(*self._links.pop(), hidden=bool(hidden))
        if tag in _BLOCKS:
            self._end_line(2 if tag in _SPACED and len(self._markers) < 2 else 1)
        match tag:
            case "pre":
                self._pre = max(0, self._pre - 1)
            case "blockquote":
                self._quotes = max(0, self._quotes - 1)
            case "ul" | "ol" if self._markers:
                self._markers.pop()

    def handle_data(self, data: str) -> None:
        if self._silent or self._hidden:
            return
        if self._pre:
            self._write(data)
            return
        words = _BLANKS.sub(" ", data)
        if self._fresh:
            words = words.lstrip(" ")
        if words:
            self._write(words)

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._gap and self._out:
            self._out.append("\n" * self._gap)
        self._gap = 0
        if text == "\n":
            self._out.append(text)
            self._fresh = True
            return
        mark = "> " * self._quotes
        begin = mark if self._fresh else ""
        self._out.append(begin + text.replace("\n", f"\n{mark}"))
        self._fresh = False

    def _end_link(self, url: str, since: int, *, hidden: bool) -> None:
        label = "".join(self._out[since:]).strip()
        if hidden and not label:
            return
        if url.startswith(("http://", "https://", "mailto:")) and url.removeprefix("mailto:") not in label:
            self._write(f" ({url})" if label else url)

    def _end_line(self, count: int) -> None:
        self._gap = max(self._gap, count)
        self._fresh = True

    def text(self) -> str:
        lines = "".join(self._out).split("\n")
        tidy = "\n".join(line.rstrip() for line in lines)
        return _MANY_LINES.sub("\n\n", tidy.replace("\xa0", " ")).strip("\n")


def unflowed(text: str, *, delete_space: bool = False) -> str:
    """Text in `format=flowed` with its soft line ends taken out (RFC 3676)."""
    lines: list[str] = []
    soft = False
    for line in text.split("\n"):
        line = line.removeprefix(" ") if line.startswith((" ", " >")) else line
        if soft and not line.startswith(">"):
            lines[-1] += line
        else:
            lines.append(line)
        soft = line.endswith(" ") and line != "-- " and not line.startswith(">")
        if soft and delete_space:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)


def without_signature(text: str) -> str:
    """Without what stands under the last “-- ”, if that is short enough to be a signature."""
    lines = text.split("\n")
    for place in range(len(lines) - 1, max(len(lines) - 16, 0), -1):
        if lines[place] == "-- ":
            return "\n".join(lines[:place]).rstrip()
    return text


def is_short(text: str) -> bool:
    """Whether it is one short line, as one answers a question."""
    return 0 < len(text.strip()) <= _SHORT_LINE and "\n" not in text.strip()


def without_closing(text: str, sender: Collection[str]) -> str:
    """Without what a telephone wrote under it; and if it is one short line above “Best regards, Ann”, that
    line, where Ann is the name of who sent it. Anything else stays: it may change what the line says."""
    lines = text.rstrip().split("\n")
    while len(lines) > 1 and (not lines[-1].strip() or _DEVICE.fullmatch(lines[-1].strip())):
        lines.pop()
    closing = [line.strip() for line in lines[1:] if line.strip()]
    closes = 0 < len(closing) <= _CLOSING_LINES and _GOODBYE.fullmatch(closing[0])
    names = {word for name in sender for word in _name_words(name)}
    if closes and is_short(lines[0]) and all(_name_words(line) <= names for line in closing[1:]):
        return lines[0].strip()
    return "\n".join(lines)


def _name_words(text: str) -> set[str]:
    return {word.strip(".,") for word in text.casefold().split()}


def split_quote(text: str) -> tuple[str, str]:
    """New words, and the older mail that a program put under them. A mail that is nothing but a quote, or
    that answers between the lines, is left as it is."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        following = next((later for later in lines[place + 1 :] if later.strip()), "")
        if _ORIGINAL.match(line) and (line.strip("_ ") or _HEADER_LINE.match(following)):
            return _parted(text, lines, place, place + 1)
        more_headers = filter(_OTHER_HEADER.match, lines[place + 1 : place + 5])
        if _HEADER_LINE.match(line) and len(list(more_headers)) >= 2:
            # Outlook draws a line above it, or only a border that is not seen here.
            above = place - 1 if place and set(lines[place - 1].strip()) == {"-"} else place
            return _parted(text, lines, above, place)
    end = len(lines)
    while end > 0 and (not lines[end - 1].strip() or lines[end - 1].startswith(">")):
        end -= 1
    if not any(line.startswith(">") for line in lines[end:]):
        return text, ""
    begin = end
    # “On Monday, Ann <ann@example.org> wrote:”, which may be broken over lines.
    if end and lines[end - 1].rstrip().endswith((":", "：")):
        while begin > max(0, end - 3) and lines[begin - 1].strip():
            begin -= 1
            if re.search(r"\d|@", lines[begin]) and re.match(r"\S+[ ,]", lines[begin]):
                break
        if not re.search(r"\d|@", " ".join(lines[begin:end])):
            begin = end
    return _parted(text, lines, begin, end)


def _parted(text: str, lines: list[str], begin: int, quote: int) -> tuple[str, str]:
    words = "\n".join(lines[:begin]).rstrip()
    if not words.strip():
        return text, ""
    quoted = "\n".join(re.sub(r"^> ?", "", line) for line in lines[quote:]).strip()
    return words, quoted
