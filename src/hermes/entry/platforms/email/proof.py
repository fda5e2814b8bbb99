"""Who wrote a mail, as far as the server that received it proved it (Authentication-Results, RFC 8601).

Whoever sends a mail can put such lines into it, too, under any name. A server puts its own above everything
that came with the mail, so the topmost line that tells of the sender is the server's, if it wrote one. Where
its part of the mail ends decides what is believed when it wrote none: see `SenderPolicy.below`."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from email.message import Message

from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext, Finding
from hermes.domain.errors import UserError
from hermes.domain.text import one_line

NAMELESS = "-"
"""Stands for a server that does not say its name (Microsoft's)."""
_PRESETS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("imap.gmail.com", "imap.googlemail.com"), "mx.google.com"),
    (("imap.mail.me.com",), "*.icloud.com"),
    (("imap.mail.yahoo.com", "imap.aol.com", "export.imap.aol.com"), "*.yahoo.com"),
    (("imap.fastmail.com",), "*.messagingengine.com"),
    (("outlook.office365.com", "outlook.office.com", "imap-mail.outlook.com"), NAMELESS),
)
"""IMAP hosts, and the names by which their servers sign what they found out about senders: Gmail has one,
iCloud one for each method, Yahoo and Fastmail one for each machine."""
NO_PROOF = (
    "nothing proves who wrote it. Set EMAIL_AUTHSERV to the name by which your server signs what it found out"
    " about senders, or EMAIL_TRUST_FROM=true to believe every From line (docs/platforms/email.md)"
)
UNPROVED_HINT = "`hermes platforms test email` says what the settings make of the newest mails"
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)
_TRACE = re.compile(
    r"(?:x-.*|arc-.*|bimi-.*|(?:authentication-results|received|dkim-filter)(?:-.*)?|return-path|delivered-to"
    r"|envelope-to|delivery-date|original-recipient)",
    re.IGNORECASE,
)
"""Headers that servers write on the way of a mail; every other one came with it."""
_COMMENT = re.compile(r"\([^()]*\)")
_COMMENTS_FIRST = re.compile(r"\A(?:\s*\((?:[^()\\]|\([^()\\]*\))*\))*")
_QUOTED = re.compile(r'"[^"]*"')
_JUDGES = ("dmarc", "dkim", "spf")
_LONGEST = 10_000
_MOST_HEADERS = 200
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


class AuthenticationResult(Struct, frozen=True):
    """What came of a method, and of whom that is said."""

    method: str
    result: str
    about: dict[str, str]


class SenderPolicy(Struct, frozen=True, kw_only=True):
    """What it takes for a sender to count as proved; by default nothing does."""

    names: tuple[str, ...] = ()
    """By which the receiving server signs its findings; `*.example.org` for any below it."""
    below: bool = False
    """Whether lines below the server's own Received line count. A sender can write there, too: it is safe
    only with a server that checks every mail (then its line comes first), or that removes foreign lines with
    its name, as RFC 8601 §5 wants it to."""
    trust_from: bool = False
    """Whether the From line is believed as it stands."""

    @property
    def possible(self) -> bool:
        return self.trust_from or bool(self.names)

    def doubt(self, mail: Message[str, str], sender: str) -> str:
        """Why the sender's address may be forged; empty if it is proved, or is to be believed anyway."""
        if self.trust_from:
            return ""
        if not self.names:
            return "nothing proves its sender (EMAIL_AUTHSERV is not set)"
        written = written_by_server(mail, below=self.below)
        trusted = [text for name, text in written if any(_fits(name, pattern) for pattern in self.names)]
        lines = [_results(text) for text in trusted]
        if not lines:
            return f"{self.told} says nothing about its sender"
        results: list[AuthenticationResult] = []
        verdict: list[AuthenticationResult] = []
        for line in lines:
            if line is None:
                return "what the server says about its sender can be read in more than one way"
            results += line
            # A line below the verdict may have come with the mail: it can take a proof away, never give one.
            verdict = verdict or [result for result in line if result.method in _JUDGES]
        if _proved(verdict, {result.method for result in results if result.result == "fail"}, sender):
            return ""
        judged = ", ".join(f"{result.method}={result.result}" for result in verdict or results)
        return f"its sender is not proved ({one_line(judged, 100) or 'nothing was checked'})"

    def found(self, mails: Sequence[tuple[Message[str, str], str]]) -> Finding:
        """What a check says: how this judges the newest mails, each with its sender."""
        if self.trust_from:
            risk = "The From line is believed (EMAIL_TRUST_FROM): whoever forges an allowed address is heard."
            return Finding(good=True, text=risk)
        if not self.names:
            return Finding(good=False, text=f"No mail is read: {NO_PROOF}.", hint=self._advice(mails))
        if not mails:
            text = f"Only senders that {self.told} has proved are heard; there is no mail yet to try that on."
            return Finding(good=True, text=text, hint="Write one to the mailbox, and test again.")
        doubts = [(sender, why) for mail, sender in mails if (why := self.doubt(mail, sender))]
        count = len(mails) - len(doubts)
        text = f"Of the newest {len(mails)} mails {count} prove their sender by {self.told}."
        if doubts:
            text += f" Left out would be one of {one_line(doubts[-1][0], 60)}: {doubts[-1][1]}."
        return Finding(good=count > 0, text=text, hint="" if count else self._advice(mails))

    def _advice(self, mails: Sequence[tuple[Message[str, str], str]]) -> str:
        """What may help where nobody is proved, by the names that stand in the mails."""
        for below in (False, True):
            names = [name for mail, _ in mails for name, _ in written_by_server(mail, below=below)]
            if not names:
                continue
            name = max(dict.fromkeys(names), key=names.count)
            shown, trusted = one_line(name, 60), any(_fits(name, pattern) for pattern in self.names)
            if below and not self.below:
                first = "" if trusted else f"hermes config set EMAIL_AUTHSERV {shown}, and "
                return (
                    f"{shown} writes below its Received line, where a sender can write, too. If it checks"
                    f" every mail or removes foreign lines with its name: {first}hermes config set"
                    " EMAIL_AUTHSERV_PLACE below"
                )
            if not trusted:
                return f"If {shown} is your server: hermes config set EMAIL_AUTHSERV {shown}"
        return "Have your server check senders (DMARC) and write down what it found (RFC 8601)."

    @property
    def told(self) -> str:
        return " or ".join("the server" if name == NAMELESS else name for name in self.names)


def _fits(name: str, pattern: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


def read_proof(context: AdapterContext, imap_host: str) -> SenderPolicy:
    """As the operator said; what is not said is known of the larger providers."""
    trusted = context.setting("EMAIL_TRUST_FROM").lower()
    if trusted not in (*_YES, *_NO):
        raise UserError(f"EMAIL_TRUST_FROM is {one_line(trusted, 20)}: true or false is wanted.")
    place = context.setting("EMAIL_AUTHSERV_PLACE").lower()
    if place not in ("", "above", "below"):
        raise UserError(f"EMAIL_AUTHSERV_PLACE is {one_line(place, 20)}: above or below is wanted.")
    names = tuple(word for word in re.split(r"[\s,;]+", context.setting("EMAIL_AUTHSERV").lower()) if word)
    for name in names:
        if name != NAMELESS and (not _NAME.fullmatch(name) or (name.startswith("*") and name.count(".") < 2)):
            raise UserError(
                f"EMAIL_AUTHSERV has {one_line(name, 40)}: names of servers are wanted.",
                hint="Like mx.example.org or *.example.org, several with commas; - if the server says none.",
            )
    if trusted in _YES:
        if names:
            raise UserError(
                "EMAIL_TRUST_FROM and EMAIL_AUTHSERV contradict each other.", hint="Take one of them out."
            )
        return SenderPolicy(trust_from=True)
    host = imap_host.lower().rstrip(".")
    names = names or tuple(name for hosts, name in _PRESETS if host in hosts)
    # Known providers check every mail, and write below the line that says from where it came.
    presets = [name for hosts, name in _PRESETS if name != NAMELESS or host in hosts]
    checks_all = bool(names) and all(
        any(name == preset or _fits(name, preset) for preset in presets) for name in names
    )
    return SenderPolicy(names=names, below=place == "below" if place else checks_all)


def written_by_server(mail: Message[str, str], *, below: bool) -> list[tuple[str, str]]:
    """The lines with results that the receiving server wrote, with the name that each is signed with.

    A Received line is put on top by each server that gets the mail, so what stands above the topmost one was
    written here; a delivery by LMTP is a step within the own house. Only if such a line follows is it certain
    where the own part ends. With `below` it ends at the first header that no server on the way writes."""
    written: list[tuple[str, str]] = []
    for header, raw in list(mail.raw_items())[:_MOST_HEADERS]:
        value, kind = str(raw)[:_LONGEST], header.lower()
        if kind == "received" and not below and not _is_local_delivery(value):
            return written
        if not _TRACE.fullmatch(kind):
            break
        if kind == "authentication-results":
            written.append((_signed_by(value), value))
    return written if below else []


def _signed_by(value: str) -> str:
    """The name of the server that wrote a line of results. A comment may stand before it and behind it."""
    words = _COMMENTS_FIRST.sub("", value, count=1).partition(";")[0].partition("(")[0].split()
    return "" if not words else NAMELESS if "=" in words[0] else words[0].lower()


def _is_local_delivery(received: str) -> bool:
    """Whether a Received line was written when the mail was handed on within the house (LMTP). The sender of
    a mail chose some words of the first such line: what has more of them than a local one has is none."""
    text = _without_comments(received)
    if '"' in received or "\\" in received or text is None:
        return False
    words = text.lower().split()
    if not words.count("by") == words.count("with") == 1:
        return False
    return any("lmtp" in word for word in words[words.index("with") + 1 :][:1])


def _without_comments(text: str) -> str | None:
    """None if it cannot be told what is a comment."""
    for _ in range(5):
        text = _COMMENT.sub(" ", text)
    return None if "(" in text or ")" in text else text


def _results(text: str) -> list[AuthenticationResult] | None:
    """What a line says; None if it can be read in more than one way. A sender's address stands in it as the
    sender wrote it, so quotes may hold anything, and encoded words stay encoded."""
    quotes = _QUOTED.findall(text)
    if "\\" in text or text.count('"') % 2 or any(mark in quote for quote in quotes for mark in ";()"):
        return None
    plain = _without_comments(_QUOTED.sub(lambda quote: re.sub(r"\s", "_", quote[0].strip('"')), text))
    if plain is None:
        return None
    results: list[AuthenticationResult] = []
    for part in plain.split(";"):
        pairs = [word.partition("=") for word in part.lower().split() if "=" in word]
        # Some of Microsoft's separate a result from what it is about.
        if pairs and "." not in pairs[0][0]:
            results.append(AuthenticationResult(pairs[0][0].partition("/")[0], pairs[0][2], {}))
            del pairs[0]
        for key, _, value in pairs if results else ():
            results[-1].about.setdefault(key, value)
    return results


def _proved(verdict: Sequence[AuthenticationResult], failed: Set[str], sender: str) -> bool:
    """DMARC's own finding counts first: a forwarded mail fails SPF, and passes. Where there is none, what
    DMARC would ask for is looked up, and no method may have failed."""
    domain = sender.rpartition("@")[2]
    dmarc = [result for result in verdict if result.method == "dmarc"]
    if "dmarc" in failed or len(dmarc) > 1:
        return False
    if dmarc and dmarc[0].result == "pass":
        return _aligned(dmarc[0].about.get("header.from", domain), domain)
    return not failed & {*_JUDGES, "compauth"} and any(_shows(result, domain) for result in verdict)


def _shows(judged: AuthenticationResult, domain: str) -> bool:
    """By strict alignment (RFC 7489 §3.1): below many a domain (github.io) anybody may have a name of their
    own, and only whoever judged by DMARC has the list of them."""
    if judged.result != "pass" or judged.method not in ("dkim", "spf"):
        return False
    if judged.method == "dkim":
        proved = judged.about.get("header.d") or judged.about.get("header.i", "")
    else:
        proved = judged.about.get("smtp.mailfrom", "")
    return "." in domain and proved.rpartition("@")[2].strip() == domain


def _aligned(proved: str, domain: str) -> bool:
    proved = proved.rpartition("@")[2].strip()
    if "." not in proved:
        return False
    return proved == domain or domain.endswith(f".{proved}") or proved.endswith(f".{domain}")
